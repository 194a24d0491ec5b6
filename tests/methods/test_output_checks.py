# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.core.errors import InputError, UserCodeError
from tiepoint.core.records import Item
from tiepoint.methods.dense.adapter import bind_dense
from tiepoint.methods.keypoints.adapter import as_keypoints, bind_keypoints
from tiepoint.methods.output_checks import check_descriptors
from tiepoint.methods.pairs.adapter import bind_pairs, match_arrays
from tiepoint.methods.patches.adapter import bind_patches

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
        (None, "returned None"),
        (np.ones(4), r"shape \(n, d\), found float64 \(4,\)"),
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
    with pytest.raises(InputError, match="one bit per byte"):
        check(bits.astype(np.uint8), distance="hamming")
    with pytest.raises(InputError, match=r"packed bits \(uint8\)"):
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


def test_a_masked_array_is_refused_and_not_unmasked():
    """What it hides was taken for descriptors."""
    hidden = np.ma.masked_array(np.ones((2, 3)), mask=[[True] * 3, [False] * 3])
    with pytest.raises(InputError, match=r"here: .* masked array, whose mask would be lost"):
        check_descriptors(hidden, rows=2, distance="l2", where="here")
    with pytest.raises(InputError, match="masked array"):
        match_arrays((hidden[:, :2], hidden[:, :2]), (None, None), "here")
    with pytest.raises(InputError, match="masked array"):
        as_keypoints(hidden[:, :2], "here")
    shown = np.ma.masked_array(np.ones((2, 3)))
    assert check_descriptors(shown, rows=2, distance="l2", where="here")["values"].shape == (2, 3)


def test_the_order_of_bytes_changes_no_number():
    """Big-endian float64 was rounded to float32."""
    values = np.full((2, 3), 1 / 3)
    found = check_descriptors(values.astype(">f8"), rows=2, distance="l2", where="here")["values"]
    assert found.dtype == np.float64
    assert np.array_equal(found, values)


def test_what_raises_when_it_is_asked_for_numbers_is_an_error():
    class Broken:
        def __array__(self, *_: object, **__: object) -> None:
            raise KeyError("numbers")

    with pytest.raises(InputError, match=r"here: the return value is not an array \(KeyError"):
        check_descriptors(Broken(), rows=2, distance="l2", where="here")


def test_bfloat16_becomes_float32():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    made = torch.full((2, 3), 1.5, dtype=torch.bfloat16)
    assert check_descriptors(made, rows=2, distance="l2", where="here")["values"].tolist() == [[1.5] * 3] * 2


@pytest.mark.parametrize(
    ("stated", "count"), [(7, 7), ([7], 7), (np.zeros((4, 2)), 4), (-5, None), ([1.5], None)]
)
def test_numbers_of_keypoints_are_stated_or_counted(stated, count):
    """Keypoints (n, 2) in place of their number gave the first x as the number."""
    points = np.zeros((3, 2))
    thing = type(
        "Mine", (), {"match": lambda *_: {"points0": points, "points1": points, "keypoints0": stated}}
    )
    extract = bind_pairs(thing(), name="mine", distance="l2", on_bad="error")
    image = np.zeros((8, 8, 3), np.uint8)
    if count is None:
        with pytest.raises(InputError, match="expected the number of keypoints"):
            extract(Item("p", "x"), (image, image))
    else:
        assert extract(Item("p", "x"), (image, image))["keypoints0"].tolist() == [count]


def test_a_method_that_ends_the_program_fails_on_its_image():
    def leave(*_: object) -> None:
        raise SystemExit(3)

    image = np.zeros((8, 8, 3), np.uint8)
    binders = [
        (bind_pairs, "match", (image, image)),
        (bind_dense, "match", (image, image)),
        (bind_keypoints, "extract", image),
        (bind_patches, "describe", image[None, :, :, 0]),
    ]
    for bind, edge, payload in binders:
        thing = type("Mine", (), {edge: leave})()
        with pytest.raises(UserCodeError, match="mine failed on p"):
            bind(thing, name="mine", distance="l2", on_bad="error")(Item("p", "x", 1), payload)
