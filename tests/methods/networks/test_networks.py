# SPDX-License-Identifier: BSD-3-Clause
"""Networks made on the spot: ONNX, TorchScript and kornia, against the same sums in NumPy."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))


def values(spec, patches, **more):
    method = resolve(spec, family="patches", **more)
    return method.extract(Item("v_x/ref", "c", len(patches)), patches)["values"]


def area_mean(patch, size):
    """Mean over the cells of a size x size grid, pixel shares by overlap."""
    side = len(patch)
    out = np.zeros((size, size))
    share = np.zeros((size, side))
    for i in range(size):
        for p in range(side):
            share[i, p] = max(0.0, min((i + 1) * side / size, p + 1) - max(i * side / size, p)) * size / side
    for i in range(size):
        for j in range(size):
            out[i, j] = share[i] @ patch.astype(float) @ share[j]
    return out


def write_onnx(path, shape, *, side=8, dims=5, channels=1):
    """A model that flattens its input and multiplies by a fixed matrix; returns the matrix."""
    onnx = pytest.importorskip("onnx")
    h = onnx.helper
    weights = np.random.default_rng(0).normal(size=(side * side * channels, dims)).astype(np.float32)
    graph = h.make_graph(
        [h.make_node("Flatten", ["x"], ["f"], axis=1), h.make_node("MatMul", ["f", "w"], ["d"])],
        "g",
        [h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [h.make_tensor_value_info("d", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return weights


@pytest.mark.parametrize(
    "shape", [["n", 1, 8, 8], ["n", 8, 8, 1], ["n", 8, 8], [7, 1, 8, 8], [1, 1, 8, 8], ["n", 3, 8, 8]]
)
def test_onnx_layouts(tmp_path, patches, shape):
    pytest.importorskip("onnxruntime")
    channels = 3 if 3 in shape else 1
    weights = write_onnx(tmp_path / "m.onnx", shape, channels=channels)
    small = np.stack([area_mean(p, 8) for p in patches[:10]]).reshape(10, -1) / 255
    expected = np.tile(small, (1, channels)) @ weights
    np.testing.assert_allclose(values(f"onnx:{tmp_path}/m.onnx", patches[:10]), expected, atol=1e-4)


def test_onnx_parameters_have_an_effect(tmp_path, patches):
    pytest.importorskip("onnxruntime")
    write_onnx(tmp_path / "m.onnx", ["n", 1, "h", "w"])
    spec = f"onnx:{tmp_path}/m.onnx?size=8"
    unit, raw = values(spec, patches), values(f"{spec}&input=raw", patches)
    np.testing.assert_allclose(raw, unit * 255, rtol=1e-3, atol=1e-3)
    assert not np.allclose(values(f"{spec}&input=zscore", patches), unit)
    item = Item("v_x/ref", "c", 1)
    keys = {
        resolve(f"{spec}{more}", family="patches").key(item) for more in ("", "&input=raw", "&distance=l1")
    }
    assert len(keys) == 3
    assert resolve(f"{spec}&distance=l1", family="patches").distance == "l1"
    np.testing.assert_array_equal(values(f"{spec}&threads=2", patches), unit)


def test_onnx_weights_kept_beside_the_model_are_in_the_key(tmp_path, patches):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    write_onnx(tmp_path / "whole.onnx", ["n", 1, 8, 8])
    model = onnx.load(tmp_path / "whole.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert b"w.bin" in (tmp_path / "m.onnx").read_bytes()
    spec, item = f"onnx:{tmp_path}/m.onnx", Item("v_x/ref", "c", 1)
    first = resolve(spec, family="patches")
    assert sorted(first.config["weights"]) == ["m.onnx", "w.bin"]
    np.testing.assert_array_equal(values(spec, patches), values(f"onnx:{tmp_path}/whole.onnx", patches))
    kept = np.fromfile(tmp_path / "w.bin", np.float32)
    (-kept).tofile(tmp_path / "w.bin")
    second = resolve(spec, family="patches")
    assert second.key(item) != first.key(item)
    np.testing.assert_array_equal(values(spec, patches), -values(f"onnx:{tmp_path}/whole.onnx", patches))


def test_external_data_is_found_in_subgraphs_and_other_bytes_are_harmless():
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from tiepoint.methods.networks.onnx import external_locations

    h, tensors = onnx.helper, []
    for name in ("a.bin", "deep/b.bin"):
        tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=1)
        tensor.external_data.add(key="offset", value="64")
        tensor.external_data.add(key="location", value=name)
        tensors.append(tensor)
    inner = h.make_graph([h.make_node("Constant", [], ["c"], value=tensors[1])], "inner", [], [])
    node = h.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    raw = onnx.TensorProto(name="r", data_type=2, dims=[8], raw_data=b"location")
    model = h.make_model(h.make_graph([node], "g", [], [], [tensors[0], raw]))
    assert set(external_locations(model.SerializeToString())) == {"a.bin", "deep/b.bin"}
    rng = np.random.default_rng(0)
    for _ in range(50):
        list(external_locations(rng.bytes(40) + b"location" + rng.bytes(40)))


def test_onnx_mistakes(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    write_onnx(tmp_path / "m.onnx", ["n", 1, 8, 8])
    for spec, message in [
        ("bad.onnx", "not an ONNX model"),
        ("none.onnx", "ONNX file not found"),
        ("m.onnx?size=9", "input of the model is 8 x 8"),
        ("m.onnx?output=e", "unknown output"),
        ("m.onnx?input=zscores", "unknown input"),
        ("m.onnx?distance=l7", "unknown distance"),
    ]:
        with pytest.raises(InputError, match=message):
            resolve(f"onnx:{tmp_path}/{spec}", family="patches")


def test_torchscript(tmp_path, patches):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 6))
    traced = torch.jit.trace(net, torch.zeros(2, 1, 8, 8))
    traced.save(str(tmp_path / "net.pt"))
    small = np.stack([area_mean(p, 8) for p in patches]).reshape(len(patches), -1) / 255
    expected = small @ net[1].weight.detach().numpy().T + net[1].bias.detach().numpy()
    found = values(f"torchscript:{tmp_path}/net.pt?size=8", patches)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    (tmp_path / "bad.pt").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot load this file as TorchScript"):
        resolve(f"torchscript:{tmp_path}/bad.pt", family="patches")
    with pytest.raises(InputError, match="device 'cuda:9' is not available"):
        resolve(f"torchscript:{tmp_path}/net.pt", family="patches", device="cuda:9")


def tfeat_slowly(state, patches, *, hard):
    """TFeat by unfolded sums: conv 7 x 7, tanh, maximum 2 x 2, conv 6 x 6, tanh, linear, tanh."""
    out = []
    for patch in patches:
        x = area_mean(patch, 32)
        spread = x.std(ddof=1) if hard else np.sqrt(x.var() + 1e-5)
        x = ((x - x.mean()) / spread)[None]
        for name in ("features.1", "features.4"):
            w, b = state[f"{name}.weight"].numpy().astype(float), state[f"{name}.bias"].numpy()
            k = w.shape[-1]
            windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(1, 2))
            x = np.tanh(np.einsum("cyxij,ocij->oyx", windows, w) + b[:, None, None])
            if name == "features.1":
                n = x.shape[1] // 2
                x = x.reshape(len(x), n, 2, n, 2).max(axis=(2, 4))
        y = np.tanh(state["descr.0.weight"].numpy().astype(float) @ x.ravel() + state["descr.0.bias"].numpy())
        out.append(y / np.linalg.norm(y) if hard else y)
    return np.array(out)


def test_kornia_tfeat_and_hard_tfeat(tmp_path, patches):
    torch = pytest.importorskip("torch")
    feature = pytest.importorskip("kornia.feature")
    torch.manual_seed(1)
    state = feature.TFeat(pretrained=False).state_dict()
    torch.save(state, tmp_path / "tfeat.params")
    found = values(f"kornia:tfeat?weights={tmp_path}/tfeat.params", patches)
    np.testing.assert_allclose(found[:3], tfeat_slowly(state, patches[:3], hard=False), atol=1e-5)

    names = {"features.1": "features.0", "features.4": "features.3", "descr.0": "classifier.1"}
    hard = {}
    for key, value in state.items():
        layer, _, part = key.rpartition(".")
        hard[f"{names[layer]}.{part}"] = value.reshape(128, 64, 8, 8) if key == "descr.0.weight" else value
    hard["SIFT.gx.0.weight"] = torch.zeros(1, 1, 1, 3)
    torch.save({"epoch": 1, "state_dict": hard}, tmp_path / "hard.pth")
    found = values(f"kornia:TFeat?weights={tmp_path}/hard.pth", patches)
    np.testing.assert_allclose(found[:3], tfeat_slowly(state, patches[:3], hard=True), atol=1e-5)


@pytest.mark.parametrize("name", ["HardNet", "SOSNet", "HyNet"])
def test_kornia_networks_with_a_local_file(tmp_path, patches, name):
    torch = pytest.importorskip("torch")
    feature = pytest.importorskip("kornia.feature")
    torch.manual_seed(2)
    net = getattr(feature, name)(pretrained=False).eval()
    torch.save({"state_dict": {f"module.{k}": v for k, v in net.state_dict().items()}}, tmp_path / "w.pth")
    found = values(f"kornia:{name}?weights={tmp_path}/w.pth", patches)
    small = np.stack([area_mean(p, 32) for p in patches[:3]]).astype(np.float32)
    with torch.inference_mode():
        expected = net(torch.from_numpy(small[:, None])).numpy()
    assert found.shape == (len(patches), 128)
    np.testing.assert_allclose(found[:3], expected, atol=1e-5)
    np.testing.assert_array_equal(found, values(f"kornia:{name}?weights={tmp_path}/w.pth", patches))


def test_kornia_mistakes(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("kornia")
    torch.save({"a": torch.zeros(2)}, tmp_path / "other.pth")
    torch.save({"a": "text"}, tmp_path / "text.pth")
    (tmp_path / "bad.pth").write_bytes(b"x" * 50)
    for spec, message in [
        (f"kornia:TFet?weights={tmp_path}/other.pth", "did you mean 'TFeat'"),
        ("kornia:TFeat", "needs weights"),
        (f"kornia:TFeat?weights={tmp_path}/none.pth", "nothing is downloaded"),
        (f"kornia:TFeat?weights={tmp_path}/other.pth", "does not fit kornia's TFeat"),
        (f"kornia:TFeat?weights={tmp_path}/text.pth", "no state dict"),
        (f"kornia:TFeat?weights={tmp_path}/bad.pth", "cannot safely load this file as weights"),
    ]:
        with pytest.raises(InputError, match=message):
            resolve(spec, family="patches")


def test_a_weight_file_that_wants_to_run_code_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("kornia")

    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "owned"),))

    torch.save({"a": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(InputError, match="safely"):
        resolve(f"kornia:TFeat?weights={tmp_path}/evil.pth", family="patches")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("file", ["tfeat/tfeat-liberty.params", "hardtfeat/HardTFeat.pth"])
def test_published_weights_find_the_same_place(file, patches, seen_again):
    pytest.importorskip("kornia")
    weights = DATA / "weights" / file
    if not weights.is_file():
        pytest.skip(f"{weights} is not here (TIEPOINT_TEST_DATA)")
    spec = f"kornia:TFeat?weights={weights}"
    a, b = values(spec, patches), values(spec, seen_again)
    table = np.linalg.norm(a[:, None] - b[None], axis=2)
    assert (table.argmin(axis=1) == np.arange(len(table))).mean() > 0.85
