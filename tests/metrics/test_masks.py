# SPDX-License-Identifier: BSD-3-Clause
"""IoU and pixel accuracy, plain and bitwise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tiepoint.metrics.dense import mask_counts

two = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda s: st.tuples(
        *[hnp.arrays(np.uint8, s, elements=st.sampled_from([0, 1, 2, 128, 255])) for _ in range(2)]
    )
)


@given(two)
def test_counts_by_hand(pair) -> None:
    a, b = pair
    plain, bitwise = mask_counts(a, b), mask_counts(a, b, bitwise=True)
    expected = [0] * 6
    for m, g in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
        expected[0] += bool(m and g)
        expected[1] += bool(m or g)
        expected[2] += bool(m) != bool(g)
        expected[3] += (m & g) != 0
        expected[4] += (m | g) != 0
        expected[5] += (m ^ g) != 0
    assert [plain.intersection, plain.union, plain.differing] == expected[:3]
    assert [bitwise.intersection, bitwise.union, bitwise.differing] == expected[3:]
    assert plain.pixels == a.size


@given(two)
def test_symmetric(pair) -> None:
    a, b = pair
    for bitwise in (False, True):
        assert mask_counts(a, b, bitwise=bitwise) == mask_counts(b, a, bitwise=bitwise)


@given(two)
def test_same_mask_is_perfect(pair) -> None:
    mask = pair[0]
    counts = mask_counts(mask, mask)
    assert counts.pixel_accuracy == 1.0
    assert counts.iou == 1.0 if mask.any() else np.isnan(counts.iou)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        mask_counts(np.zeros((2, 2)), np.zeros((2, 3)))
