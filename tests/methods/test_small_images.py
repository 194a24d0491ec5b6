"""Images too small for a method, and transforms of what is no descriptor: a sentence, or a result."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

SIZES = [(1, 1), (1, 64), (64, 1), (2, 50), (7, 7)]


def image(height: int, width: int) -> np.ndarray:
    """Noise."""
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.mark.parametrize(
    ("family", "spec"),
    [
        *(
            ("keypoints", f"brief@{d}")
            for d in ("akaze", "brisk", "harris", "mser", "sift", "fast", "gftt", "surf")
        ),
        *(("keypoints", s) for s in ("orb", "sift", "kaze", "daisy@grid", "vgg@grid")),
        *(("dense", s) for s in ("dis", "farneback", "pcaflow", "homography", "sparse-to-dense", "rlof")),
        *(("pairs", s) for s in ("klt", "orb?ratio=0.9")),
    ],
)
def test_small_images_give_a_result_or_a_sentence(family: str, spec: str) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    method = resolve(spec, family=family)
    for height, width in SIZES:
        given = image(height, width)
        said = ""
        try:
            method.extract(Item("a/1", "x"), given if family == "keypoints" else (given, given))
        except InputError as e:
            said = str(e)
        assert "\n" not in said
        assert "modules" not in said  # a path in a library's source


def test_orb_says_which_image_is_too_small() -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    with pytest.raises(InputError, match="orb failed on a/1: an image of 64 x 1 pixels is too small"):
        resolve("orb", family="keypoints").extract(Item("a/1", "x"), image(1, 64))


@pytest.mark.parametrize(
    ("family", "spec"), [("dense", "pcaflow+l2"), ("dense", "zero+rootsift"), ("pairs", "klt+l2")]
)
def test_transforms_of_what_is_no_descriptor_are_refused(family: str, spec: str) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    with pytest.raises(InputError, match=r"remove the image|transform"):
        resolve(spec, family=family)
