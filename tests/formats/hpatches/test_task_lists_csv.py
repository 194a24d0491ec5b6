# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.file_io import write_bytes
from tiepoint.formats.hpatches.task_lists import (
    RefPatches,
    VerificationPairs,
    pairs_csv_chunks,
    patches_csv_chunks,
    read_pairs_csv,
    read_patches_csv,
)

SEQUENCES = ("i_a", "v_long_name", "v_b")


def random_pairs(n: int) -> VerificationPairs:
    rng = np.random.default_rng(0)
    column = [rng.integers(0, top, n).astype(np.int32) for top in (3, 6, 2000, 3, 6, 2000)]
    return VerificationPairs(SEQUENCES, *column)


def test_pairs_are_written_as_a_plain_loop_would(tmp_path):
    pairs = random_pairs(70_000)
    write_bytes(tmp_path / "p.csv", pairs_csv_chunks(pairs))
    rows = zip(pairs.seq1, pairs.image1, pairs.index1, pairs.seq2, pairs.image2, pairs.index2, strict=True)
    lines = [f"{SEQUENCES[a]},{b},{c},{SEQUENCES[d]},{e},{f}\n" for a, b, c, d, e, f in rows]
    assert (tmp_path / "p.csv").read_text() == "s1,t1,idx1,s2,t2,idx2\n" + "".join(lines)


def test_round_trips(tmp_path):
    pairs = random_pairs(500)
    write_bytes(tmp_path / "p.csv", pairs_csv_chunks(pairs))
    again = read_pairs_csv(tmp_path / "p.csv", dict.fromkeys(SEQUENCES, 2000))
    for side in "12":
        names = [again.sequences[c] for c in getattr(again, f"seq{side}")]
        assert names == [SEQUENCES[c] for c in getattr(pairs, f"seq{side}")]
        for column in ("image", "index"):
            assert np.array_equal(getattr(again, column + side), getattr(pairs, column + side))
    patches = RefPatches(SEQUENCES, np.array([2, 0], np.int32), np.array([0, 1999], np.int32))
    write_bytes(tmp_path / "r.csv", patches_csv_chunks(patches))
    assert (tmp_path / "r.csv").read_text() == "s,idx\nv_b,0\ni_a,1999\n"
    assert read_patches_csv(tmp_path / "r.csv").sequences == ("v_b", "i_a")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "header"),
        ("s,idx\n", None, "no rows"),
        ("x,idx\na,1\n", 1, "expected the header 's,idx'"),
        ("s,idx\ni_a,1\ni_a\n", 3, "expected 2"),
        ("s,idx\ni_a,x\n", 2, "non-negative integer"),
        ("s,idx\ni_a,99999999999\n", 2, "not a patch index"),
        ("s,idx\ni_a,0\ni_q,0\n", 3, "no sequence 'i_q'"),
        ("s,idx\ni_a,10\n", 2, "the sequence has 10 patches"),
    ],
)
def test_bad_lists(tmp_path, text, line, words):
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(FormatError) as e:
        read_patches_csv(tmp_path / "r.csv", {"i_a": 10})
    assert e.value.line == line
    assert words in str(e.value)


def test_bad_pairs(tmp_path):
    (tmp_path / "p.csv").write_text("s1,t1,idx1,s2,t2,idx2\ni_a,0,1,i_a,6,1\n")
    with pytest.raises(FormatError, match="image number 6"):
        read_pairs_csv(tmp_path / "p.csv")
    (tmp_path / "p.csv").write_text("s1,t1,idx1,s2,t2,idx2\ni_a,0,1,i_a,5,12\n")
    with pytest.raises(FormatError, match="may belong to another dataset"):
        read_pairs_csv(tmp_path / "p.csv", {"i_a": 10})
