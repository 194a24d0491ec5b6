# SPDX-License-Identifier: BSD-3-Clause
"""Pickles that are small and would take all stack, time or memory. In processes: they did crash."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.pickled_arrays import parse_arrays
from tiepoint.formats.safe_pickle import check_key, check_size, parse_plain_pickle

NESTED = b")" + b"\x85" * 300_000
"""An empty tuple in a tuple in a tuple …"""
DOUBLED = b")" + b"2\x86" * 60
"""An empty tuple, then sixty times the pair of what was made before."""
PROTO = b"\x80\x04"
HOSTILE = {
    "nested key": PROTO + b"}" + NESTED + b"K\x01s.",
    "doubled key": PROTO + b"}" + DOUBLED + b"K\x01s.",
    "doubled value": PROTO + b"}K\x01" + DOUBLED + b"s.",
    "nested value": PROTO + NESTED + b".",
    "doubled in a set": PROTO + b"\x8f(" + DOUBLED + b"\x90.",
    "doubled in a frozenset": PROTO + b"(" + DOUBLED + b"\x91.",
    "holds itself": PROTO + b"]\x94h\x00a.",
    "doubled as a name": PROTO + DOUBLED + DOUBLED + b"\x93.",
    "doubled as a type": PROTO + b"cnumpy\ndtype\n(" + DOUBLED + b"tR.",
    "doubled as a shape": PROTO
    + b"cnumpy._core.multiarray\n_reconstruct\n(tR(K\x01"
    + DOUBLED
    + b"cnumpy\ndtype\n("
    b"\x8c\x02f8tR\x89C\x00tb.",
    "copies": PROTO + b"\x8e" + (200_000).to_bytes(8, "little") + bytes(200_000) + b"0"
    b"X"
    + (100_000).to_bytes(4, "little")
    + b"a" * 100_000
    + b"\x940]("
    + b"c_codecs\nencode\nh\x00\x8c\x06latin1\x86R" * 20_000
    + b"e.",
}


def killed_or_said(data: bytes, path: Path) -> str:
    path.write_bytes(data)
    code = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from tiepoint.formats.pickled_arrays import read_arrays
from tiepoint.core.errors import FormatError
try:
    read_arrays({str(path)!r})
except FormatError as e:
    print(type(e).__name__, str(e)[:300])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by means of Linux")
@pytest.mark.parametrize("name", ["nested key", "doubled key", "doubled value", "copies"])
def test_hostile_pickles_neither_crash_nor_hang(tmp_path: Path, name: str) -> None:
    assert killed_or_said(HOSTILE[name], tmp_path / "a.p").startswith("FormatError")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_a_sentence(name: str) -> None:
    with pytest.raises(FormatError, match=r"^x\.p: "):
        parse_arrays(HOSTILE[name], path="x.p")


def test_what_is_shared_stays_shared() -> None:
    row = [1.5, 2.5]
    found = parse_arrays(pickle.dumps({"a": [row] * 100, "b": row}))
    assert found["a"][0] == row
    assert all(r is found["b"] for r in found["a"])


def test_usual_keys_are_read() -> None:
    given = {("v_wall", 3, ("e", 1)): 1, 7: 2, 2.5: 3, None: 4, b"x": 5, True: 6, "s": {1, "a"}}
    assert parse_plain_pickle(pickle.dumps(given)) == given


@pytest.mark.parametrize("key", [(1,) * 9, ((((1,),),),), 1 << 61, -(1 << 60), (1 << 70,)])
def test_odd_keys_are_refused(key: object) -> None:
    with pytest.raises(ValueError, match="a dictionary key or set element is a"):
        check_key(key)


def test_depth_is_counted_to_the_level() -> None:
    deep: list[object] = []
    for _ in range(99):
        deep = [deep]
    check_size(deep, 0)
    with pytest.raises(ValueError, match="more than 100 nested levels"):
        check_size([deep], 0)


def test_arrays_may_not_share_their_bytes_many_times() -> None:
    head, end = (
        b"cnumpy._core.multiarray\n_reconstruct\n(tR(K\x01M\xe8\x03\x85cnumpy\ndtype\n(\x8c\x02u1tR\x89",
        b"tb",
    )
    first = head + b"B" + (1000).to_bytes(4, "little") + bytes(1000) + b"\x94" + end
    few = PROTO + b"](" + first + head + b"h\x00" + end + b"e."
    assert [a.shape for a in parse_arrays(few)] == [(1000,)] * 2
    with pytest.raises(FormatError, match="more bytes in total than the file"):
        parse_arrays(PROTO + b"](" + first + (head + b"h\x00" + end) * 50 + b"e.")
