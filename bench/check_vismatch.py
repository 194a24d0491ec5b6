# SPDX-License-Identifier: BSD-3-Clause
"""Check that the package vismatch has the API that ``vismatch:NAME`` needs.

It needs other builds of OpenCV and kornia than tiepoint, so install it in a separate environment::

    python -m venv vismatch-env
    vismatch-env/bin/pip install vismatch tiepoint
    vismatch-env/bin/python bench/check_vismatch.py sift-nn xfeat

Each matcher runs on two views of a generated texture, once through vismatch and once through tiepoint, and
the matches must be equal. vismatch downloads the weights of a matcher.
"""

from __future__ import annotations

import inspect
import sys

import numpy as np

KEYS = ("matched_kpts0", "matched_kpts1", "all_kpts0", "all_kpts1", "matched_confidences")
SHIFT = (7, 4)


def views() -> tuple[np.ndarray, np.ndarray]:
    """Return a texture of blocks of many sizes, and its copy shifted by (7, 4) pixels."""
    draw = np.random.Generator(np.random.PCG64(1))
    whole = np.zeros((320, 400, 3))
    for cell in (64, 32, 16, 8, 4):
        coarse = draw.integers(0, 52, (-(-320 // cell), -(-400 // cell), 3))
        whole += coarse.repeat(cell, 0).repeat(cell, 1)[:320, :400]
    image = whole.clip(0, 255).astype(np.uint8)
    dx, dy = SHIFT
    return np.ascontiguousarray(image[20:260, 20:340]), np.ascontiguousarray(
        image[20 - dy : 260 - dy, 20 - dx : 340 - dx]
    )


def check(name: str) -> str:
    """Return one line about a matcher; raise `AssertionError` if the API differs."""
    import torch
    import vismatch

    from tiepoint.core.records import Item
    from tiepoint.methods.resolve import resolve

    first, second = views()
    matcher = vismatch.get_matcher(name, device="cpu", max_num_keypoints=2048)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - as our edge does
    theirs = matcher(*(np.float32(i.transpose(2, 0, 1)) / np.float32(255) for i in (first, second)))
    missing = [key for key in KEYS if key not in theirs]
    assert not missing, f"{name}: the result has no {missing}; it has {sorted(theirs)}"
    ours = resolve(f"vismatch:{name}", family="pairs").extract(Item("a--b", ""), (first, second))
    for side in (0, 1):
        np.testing.assert_array_equal(ours[f"points{side}"], theirs[f"matched_kpts{side}"])
    apart = np.median(ours["points1"] - ours["points0"], axis=0)
    assert np.abs(apart - SHIFT).max() < 1, f"{name}: the median shift is {apart}, expected {SHIFT}"
    return f"{name}: {len(ours['points0'])} matches, median shift ({apart[0]:.2f}, {apart[1]:.2f})"


def main(names: list[str]) -> None:
    """Check the package, then each given matcher."""
    import vismatch

    parameters = inspect.signature(vismatch.get_matcher).parameters
    for wanted in ("matcher_name", "device", "max_num_keypoints"):
        assert wanted in parameters, f"get_matcher has no parameter {wanted}; it has {list(parameters)}"
    print(f"vismatch {vismatch.__version__}: {len(vismatch.available_models)} matchers")
    for name in names or ["sift-nn"]:
        print(check(name))


if __name__ == "__main__":
    main(sys.argv[1:])
