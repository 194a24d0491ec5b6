# SPDX-License-Identifier: BSD-3-Clause
"""Learned detectors and descriptors with the published weights, where they are there."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.keypoints import Keypoints
from tiepoint.methods.keypoints.factory import DETECTORS, plan_part

DEFAULT = Path(__file__).parents[4] / "shared" / "data"
WEIGHTS = Path(os.environ.get("TIEPOINT_TEST_DATA", DEFAULT)) / "weights"
XFEAT = WEIGHTS / "xfeat_onnx" / "xfeat_dense.onnx"
KEYNET = WEIGHTS / "keynet" / "keynet_pytorch.pth"
HARDTFEAT = WEIGHTS / "hardtfeat" / "HardTFeat.pth"


def needs(path, module):
    pytest.importorskip(module)
    if not path.is_file():
        pytest.skip(f"no weights at {path}; set TIEPOINT_TEST_DATA")


@pytest.fixture(scope="module")
def colour():
    data = pytest.importorskip("skimage.data")
    return np.ascontiguousarray(data.astronaut()[40:380, 20:440])


def test_xfeat_gives_the_cells_and_descriptors_of_its_own_outputs(colour):
    needs(XFEAT, "onnxruntime")
    import onnxruntime as ort

    session = ort.InferenceSession(str(XFEAT), providers=["CPUExecutionProvider"])
    fed = colour.transpose(2, 0, 1)[None].astype(np.float32)
    places, rows, scales = session.run(None, {"images": fed})
    found = plan_part(f"xfeat?weights={XFEAT}&max_features=1000", DETECTORS).build("cpu").detect(colour)
    apart = np.linalg.norm(found.xy[:, None] - places[None], axis=2)
    assert len(found) == len(places)
    assert apart.min(axis=0).max() < 1e-3
    describe = plan_part(f"xfeat?weights={XFEAT}", "keypoints").build("cpu").describe
    values = describe(colour, Keypoints.at(places, size_px=8 * scales))
    assert np.abs(values - rows / np.linalg.norm(rows, axis=1, keepdims=True)).max() < 1e-4


def test_a_wrong_model_is_explained(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "x.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not the dense XFeat model"):
        plan_part(f"xfeat?weights={tmp_path}/x.onnx", DETECTORS).build("cpu")
    with pytest.raises(InputError, match="nothing is downloaded"):
        plan_part(f"xfeat?weights={tmp_path}/y.onnx", DETECTORS).build("cpu")


def test_keynet_positions_are_pixel_centres(colour):
    needs(KEYNET, "kornia")
    detector = plan_part(f"keynet?weights={KEYNET}&max_features=none", DETECTORS).build("cpu")
    found = detector.detect(colour)
    assert len(found) > 100
    assert (np.diff(found.response) <= 0).all()
    # at the level of the image itself centres are whole pixels; a frame of 44 px is six sizes
    own = np.isclose(found.size_px, 44 / 6)
    assert own.any()
    assert np.allclose(found.xy[own] % 1, 0, atol=1e-4)


def test_a_patch_network_sees_the_magnified_patch(colour):
    needs(HARDTFEAT, "kornia")
    places = Keypoints.at([[100, 100], [200, 150]], size_px=8.0)
    doubled = Keypoints.at(places.xy, size_px=16.0)
    at = f"kornia:TFeat?weights={HARDTFEAT}"
    one, valid = plan_part(f"{at}&magnification=6", "keypoints").build("cpu").describe(colour, places)
    two, _ = plan_part(f"{at}&magnification=3", "keypoints").build("cpu").describe(colour, doubled)
    assert valid.all()
    assert np.allclose(one, two, atol=1e-6)
    assert np.allclose(np.linalg.norm(one, axis=1), 1, atol=1e-5)
