# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiepoint.core.errors import FormatError
from tiepoint.formats.text.identifiers import scan_fields, split_first_line

name = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
patch = st.tuples(name, name, st.integers(0, 10**9))
gap = st.sampled_from(["", " ", "\t", "  "])


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(patch, patch, gap, gap), min_size=1, max_size=20), st.sampled_from(["\n", "\r\n"]))
def test_round_trip_with_blanks_and_line_ends(rows, end):
    text = end.join(f"{g}{'.'.join(map(str, a))}{h},{g}{'.'.join(map(str, b))}{h}" for a, b, g, h in rows)
    fields = scan_fields(text.encode(), "pp", path="x")
    flat = [p for a, b, *_ in rows for p in (a, b)]
    assert [fields.table[c] for c in fields.names] == [f"{s}.{m}" for s, m, _ in flat]
    assert fields.numbers.tolist() == [k for *_, k in flat]
    assert fields.offsets.tolist() == list(range(0, 2 * len(rows) + 1, 2))
    assert len(set(fields.table)) == len(fields.table)


def test_many_distinct_names_grow_the_table():
    names = [f"s{i}.im" for i in range(40_000)]
    fields = scan_fields("\n".join(names).encode(), "i", path="x")
    assert fields.table == tuple(names)
    assert np.array_equal(fields.names, np.arange(40_000))


@pytest.mark.parametrize(
    ("text", "pattern", "line", "words"),
    [
        ("a.b.1,a.b.2\na.b.1\n", "pp", 2, "expected 2 comma-separated fields, found 1"),
        ("a.b.1,a.b.2,a.b.3\n", "pp", 1, "found more"),
        ("a.b.1\n\na.b.2\n", "p", 2, "empty line"),
        ("a.b.1\na.b.x\n", "p", 2, "expected a patch SEQ.IM.IDX"),
        ("a.b.-1\n", "p", 1, "found 'a.b.-1'"),
        ("a.b\n", "p", 1, "expected a patch"),
        ("a.b.c.1\n", "p", 1, "expected a patch"),
        ("a..1\n", "p", 1, "expected a patch"),
        (".b.1\n", "p", 1, "expected a patch"),
        ("a. b.1\n", "p", 1, "expected a patch"),
        ("a.b.1\n", "i", 1, "expected an image"),
        ("a.b,\n", "ii", 1, "field 2"),
        ("2\n", "l", 1, "a label, 0 or 1"),
        ("1.5\n", "n", 1, "non-negative integer"),
        ("a.b\n", "w", 1, "without dots"),
        ("99999999999999999999\n", "n", 1, "non-negative integer"),
    ],
)
def test_errors_name_line_and_reason(text, pattern, line, words):
    with pytest.raises(FormatError) as e:
        scan_fields(text.encode(), pattern, path="some.pairs")
    assert e.value.line == line
    assert words in str(e.value)
    assert "some.pairs" in str(e.value)


def test_last_line_feed_is_optional_and_blank_tail_is_ignored():
    for tail in ("", "\n", "\n\n \n"):
        assert scan_fields(f"1\n0{tail}".encode(), "l", path="x").numbers.tolist() == [1, 0]


def test_split_first_line_without_line_feed():
    head, rest = split_first_line(b"only")
    assert (head, bytes(rest)) == ("only", b"")
