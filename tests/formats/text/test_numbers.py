# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tiepoint.core.errors import FormatError
from tiepoint.formats.text.numbers import find_delimiter, parse_table

any_double = st.integers(0, 2**64 - 1).map(lambda b: struct.unpack("<d", struct.pack("<Q", b))[0])
forms = st.sampled_from(["{!r}", "{:.18e}", "{:.6f}", "{:.9g}", "{:.3E}", "{:.25f}", "{:+.17g}"])


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b))


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(any_double, forms), min_size=1, max_size=30))
@example([(5e-324, "{!r}"), (1.7976931348623157e308, "{!r}"), (-0.0, "{!r}")])
def test_float64_equals_python_float(values):
    texts = [form.format(v) for v, form in values]
    table = parse_table("\n".join(texts).encode(), path="x", dtype=np.float64, delimiter=",")
    expected = np.array([float(t) for t in texts])
    assert same_bits(table[:, 0], np.where(np.isnan(expected), np.nan, expected)) or np.isnan(expected).any()
    finite = ~np.isnan(expected)
    assert same_bits(table[finite, 0], expected[finite])


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.one_of(any_double, st.floats(-1e3, 1e3)), forms), min_size=1, max_size=30))
def test_float32_equals_cast_of_python_float(values):
    texts = [form.format(v) for v, form in values]
    table = parse_table("\n".join(texts).encode(), path="x")
    with np.errstate(over="ignore"):
        expected = np.array([float(t) for t in texts]).astype(np.float32)
    finite = ~np.isnan(expected)
    assert same_bits(table[finite, 0], expected[finite])
    assert np.isnan(table[~finite, 0]).all()


def test_float32_near_the_middle_of_two_floats():
    rng = np.random.default_rng(0)
    base = rng.normal(size=2000).astype(np.float32).astype(np.float64)
    middle = (base + np.nextafter(base.astype(np.float32), np.float32(9)).astype(np.float64)) / 2
    texts = [f"{m:.{d}e}" for m, d in zip(middle, rng.integers(12, 30, 2000), strict=True)]
    table = parse_table(",".join(texts).encode(), path="x")
    assert same_bits(table[0], np.array([float(t) for t in texts]).astype(np.float32))


@pytest.mark.parametrize("sep", [",", ";", "\t", " ", " , ", ";  ", "   "])
def test_delimiters_are_found(sep):
    text = f" 1{sep}-2.5{sep}3e2 \r\n4{sep}5{sep}.5"
    assert parse_table(text.encode(), path="x").tolist() == [[1, -2.5, 300], [4, 5, 0.5]]


def test_one_column_and_delimiter_names():
    assert parse_table(b"1\n2\n", path="x").shape == (2, 1)
    assert [find_delimiter(t) for t in ("1,2", "1;2", "1\t2", "1 2")] == [",", ";", "\t", " "]


def test_special_values():
    table = parse_table(b"nan,Inf,-inf,NaN,INFINITY,-0\n", path="x", dtype=np.float64)
    assert np.isnan(table[0, [0, 3]]).all()
    assert table[0, [1, 2, 4]].tolist() == [np.inf, -np.inf, np.inf]
    assert np.signbit(table[0, 5])


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b"", None, "empty"),
        (b" \n\n", None, "empty"),
        (b"1,2\n1,2,3\n", 2, "found more than 2"),
        (b"1,2\n1\n", 2, "found 1"),
        (b"1,2\n\n1,2\n", 2, "empty line"),
        (b"1,2\n1,\n", 2, "column 2"),
        (b"1,2\n1,x\n", 2, "found 'x'"),
        (b"1,2\n1,2 3\n", 2, "found '2 3'"),
        (b"0.1|0.2\n", 1, "found '0.1|0.2'"),
        (b"1e,2\n", 1, "column 1"),
        (b"1.2.3\n", 1, "column 1"),
        (b"name,2\n", 1, "found 'name'"),
    ],
)
def test_errors_name_line_and_reason(text, line, words):
    with pytest.raises(FormatError) as e:
        parse_table(text, path="d.csv")
    assert e.value.line == line
    assert words in str(e.value)


def test_more_hard_values_than_the_list_holds():
    texts = [repr(x) for x in np.random.default_rng(1).random(10_000).tolist()]
    table = parse_table("\n".join(texts).encode(), path="x", dtype=np.float64)
    assert same_bits(table[:, 0], np.array([float(t) for t in texts]))


def test_the_mark_of_utf_8_is_no_number():
    assert parse_table(b"\xef\xbb\xbf1,2\n3,4\n", path="x").tolist() == [[1, 2], [3, 4]]
