# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.methods.checks import check_descriptors
from tiepoint.model.errors import InputError

GOOD = np.arange(1.0, 13.0).reshape(4, 3)


def check(returned, rows=4, distance="l2", **more):
    return check_descriptors(returned, rows=rows, distance=distance, where="mine on v_x/ref", **more)


def test_good_rows_pass_unchanged():
    out = check(GOOD)
    assert set(out) == {"values"}
    np.testing.assert_array_equal(out["values"], GOOD)


@pytest.mark.parametrize("rows", [3, 5])
def test_row_count_names_both_and_is_never_repaired(rows):
    for on_bad in ("error", "miss"):
        with pytest.raises(InputError, match=f"v_x/ref: 4 descriptors for {rows} patches"):
            check(GOOD, rows=rows, on_bad=on_bad)


@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite"), (0.0, "zeros")]
)
def test_bad_rows_are_named_or_missed(value, word):
    values = GOOD.copy()
    values[[1, 3]] = value
    with pytest.raises(InputError, match=rf"v_x/ref.*{word}.*1, 3.*`on_bad=.miss.`"):
        check(values)
    out = check(values, on_bad="miss")
    assert out["valid"].tolist() == [True, False, True, False]
    assert not out["values"][[1, 3]].any()
    np.testing.assert_array_equal(out["values"][[0, 2]], GOOD[[0, 2]])


def test_all_kinds_are_reported_together():
    values = GOOD.copy()
    values[0, 1], values[1, 2], values[2] = np.nan, np.inf, 0
    with pytest.raises(InputError, match=r"NaN.*0.*infinite.*1.*zeros.*2"):
        check(values)


def test_zero_rows_where_they_are_legal():
    zero = np.zeros((4, 3))
    assert set(check(zero, zero_rows_are_valid=True)) == {"values"}
    assert set(check(zero.astype(np.uint8), distance="hamming")) == {"values"}


def test_zero_rows_can_be_kept_as_vectors():
    values = GOOD.copy()
    values[1], values[2, 0], values[3, 1] = 0, np.nan, np.inf
    out = check(values, on_bad="keep-zeros")
    assert out["valid"].tolist() == [True, True, False, False]
    values[2:] = 1
    assert set(check(values, on_bad="keep-zeros")) == {"values"}
    with pytest.raises(InputError, match=r"`on_bad=.miss.`, or keep zero rows as vectors with `on_bad=.keep"):
        check(values)
    with pytest.raises(InputError, match=r"`on_bad=.miss.`$"):
        check(values, distance="cosine")


def test_rows_the_method_gave_up_are_misses_without_asking():
    values = GOOD.copy()
    values[2] = np.nan
    out = check((values, np.array([True, True, False, True])))
    assert out["valid"].tolist() == [True, True, False, True]
    with pytest.raises(InputError, match="validity mask"):
        check((GOOD, np.ones(3, bool)))
    with pytest.raises(InputError, match="validity mask"):
        check((GOOD, np.ones(4)))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned nothing"),
        (np.ones(4), r"shape \(n, d\), found \(4,\)"),
        (np.ones((4, 3, 1)), "found"),
        (np.array([["a"], ["b"], ["c"], ["d"]]), "must be numbers"),
        ([[1], [1, 2], [1], [1]], "differ in length"),
        (np.ones((4, 0)), "no columns"),
        (np.ones((4, 3), complex), "must be numbers"),
    ],
)
def test_wrong_shapes_and_types(returned, message):
    with pytest.raises(InputError, match=message):
        check(returned)


def test_number_types():
    assert check(GOOD.astype(np.float16))["values"].dtype == np.float32
    assert check(GOOD.astype(np.uint8))["values"].dtype == np.uint8
    assert check(GOOD.astype(np.int64))["values"].dtype == np.float32
    assert check(np.full((4, 2), 2**24 + 1))["values"].dtype == np.float64
    assert check(GOOD.tolist())["values"].dtype == np.float64


def test_bits_are_packed_and_mistakes_noticed():
    bits = np.random.default_rng(0).random((4, 256)) < 0.5
    np.testing.assert_array_equal(check(bits, distance="hamming")["values"], np.packbits(bits, axis=1))
    with pytest.raises(InputError, match="one bit a byte"):
        check(bits.astype(np.uint8), distance="hamming")
    with pytest.raises(InputError, match="packed bits in uint8"):
        check(GOOD, distance="hamming")


def test_masked_l1_needs_a_mask_for_each_value():
    with pytest.raises(InputError, match="masked_l1"):
        check(GOOD, distance="masked_l1")
    values = np.ones((4, 4))
    values[1, 2:] = 0
    assert check(values, distance="masked_l1", on_bad="miss")["valid"].tolist() == [True, False, True, True]
    values[:, 2:], values[:, :2] = 1, 0
    assert set(check(values, distance="masked_l1")) == {"values"}


def test_unknown_distance():
    with pytest.raises(InputError, match="unknown distance 'l3'"):
        check(GOOD, distance="l3")


@given(st.lists(st.sampled_from([0.0, 1.0, np.nan, np.inf]), min_size=1, max_size=30))
def test_miss_marks_exactly_the_bad_rows(first):
    values = np.array(first)[:, None]
    out = check(values, rows=len(first), on_bad="miss")
    valid = out.get("valid", np.ones(len(first), bool))
    assert valid.tolist() == [v == 1.0 for v in first]
    assert np.isfinite(out["values"]).all()
