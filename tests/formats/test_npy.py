# SPDX-License-Identifier: BSD-3-Clause
"""Mapped arrays are those of `numpy.load`, and nothing but the documented error comes out of bad files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.core.errors import FormatError
from tiepoint.formats.npy import map_file, map_npy


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.asfortranarray(np.arange(12).reshape(3, 4)),
        np.array(3.5),
        np.zeros((0, 128), np.float32),
        np.arange(5, dtype=">i2"),
        np.array([True, False]),
        np.zeros(2, [("a", "<f4"), ("b", "<i8")]),
    ],
    ids=["plain", "fortran", "scalar", "empty", "big-endian", "bool", "fields"],
)
def test_equals_numpy_load(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    expected, found = np.load(tmp_path / "a.npy"), map_npy(tmp_path / "a.npy")
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()
    assert not found.flags.writeable


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_all_header_versions(tmp_path: Path, version: tuple[int, int]) -> None:
    with (tmp_path / "a.npy").open("wb") as f:
        np.lib.format.write_array(f, np.arange(4.0), version=version)
    assert map_npy(tmp_path / "a.npy").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b"", "empty"),
        (lambda b: b"PK\x03\x04" + b, "first bytes"),
        (lambda b: b[:-1], "may be truncated or corrupt"),
        (lambda b: b + b"\0", "may be truncated or corrupt"),
        (lambda b: b[:40], "not a readable .npy file"),
        (lambda b: b.replace(b"(2, 3)", b"(9, 9)"), "may be truncated or corrupt"),
        (lambda b: b.replace(b"(2, 3)", b"(-1,3"), "not a readable .npy file"),
    ],
)
def test_bad_files_are_a_sentence(tmp_path: Path, change: object, words: str) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    (tmp_path / "a.npy").write_bytes(change((tmp_path / "a.npy").read_bytes()))  # type: ignore[operator]
    with pytest.raises(FormatError, match=words):
        map_npy(tmp_path / "a.npy")


def test_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match="objects"):
        map_npy(tmp_path / "a.npy")


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_changed_byte_gives_an_array_or_the_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, value: int
) -> None:
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    np.save(path, np.arange(12.0).reshape(3, 4))
    content = bytearray(path.read_bytes())
    content[at] = value
    path.write_bytes(content)
    with contextlib.suppress(FormatError):
        assert map_npy(path).size <= 12 * 8


def headed(text: bytes, content: bytes = b"") -> bytes:
    """A file with any header."""
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text + content


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': " + b"(" * 9000,
        b"-" * 9000,
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-~-1,)}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9223372036854775807)}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (%s)}" % (b"99999999999999999999, " * 30),
        b"{'descr': '<U0', 'fortran_order': False, 'shape': (4000000000,)}",
        b"{'descr': ('<f4', (2, 3)), 'fortran_order': False, 'shape': (1,)}",
        b"{'descr': '\xe9', 'fortran_order': False, 'shape': (1,)}",
        b"\xff\xfe\xed\xa0\x80",
        b"",
    ],
)
def test_headers_that_exhaust_or_mislead_are_a_sentence(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(headed(header))
    with pytest.raises(FormatError, match=r"a\.npy: ") as caught:
        map_npy(tmp_path / "a.npy")
    assert len(str(caught.value)) < 2000
    assert not isinstance(caught.value.__cause__, MemoryError)


def test_numbers_that_do_not_lie_even_are_copied(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}"
    (tmp_path / "a.npy").write_bytes(headed(header, np.array([1.5, 2.5]).tobytes()))
    found = map_npy(tmp_path / "a.npy")
    assert found.tolist() == [1.5, 2.5]
    assert found.flags.aligned


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of POSIX")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npy")
    with pytest.raises((OSError, FormatError)):
        map_file(tmp_path / "a.npy")
    with pytest.raises((OSError, FormatError)):
        map_file("/dev/zero")
