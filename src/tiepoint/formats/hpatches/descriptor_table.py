# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors of one patch-image, row k for patch k: text, `.npy`, `.npz`, packed bits.

===============  ================================================================================
``IM.csv``       one descriptor a line; commas, semicolons, tabs or blanks, found by itself; no header
``IM.npy``       (n, d) real numbers; or packed bits, uint8 (n, bytes), as `numpy.packbits` makes them;
                 or unpacked bits, bool (n, bits), packed on reading
``IM.npz``       the same under the key ``values`` (numbers) or ``bits`` (packed), optional ``valid`` (n,)
===============  ================================================================================

A uint8 `.npy` is taken for packed bits, since that is how binary descriptors are commonly kept; byte-valued
vectors belong under ``values`` of an `.npz`, or in another number type.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ...core.hashing import hash_json
from ..file_io import map_bytes, write_bytes
from ..npy import map_npy
from ..text.numbers import parse_table
from .descriptors import DescriptorTable, npy_chunks, read_array

SUFFIXES = (".csv", ".npy", ".npz")
_PARSED = 1
"""Version of the parsed copies; a change of the parser makes old copies void."""


def find_descriptor_file(folder: str | Path, sequence: str, image: str) -> Path | None:
    """The descriptor file of an image, ``FOLDER/SEQ/IM`` with one of the known endings, or None.

    Two files for one image (say `.csv` and `.npy`) are an `InputError`: which one counts is not guessed.
    """
    found = [p for s in SUFFIXES if (p := Path(folder) / sequence / f"{image}{s}").is_file()]
    if len(found) > 1:
        raise InputError(f"{found[0]} and {found[1].name} describe the same image; remove one")
    return found[0] if found else None


def read_descriptors(
    path: str | Path, *, delimiter: str | None = None, cache: str | Path | None = None
) -> DescriptorTable:
    """Read a descriptor file; `.npy` numbers in float32 and parsed copies are memory-mapped.

    Args:
        path: A file ending in `.csv`, `.npy` or `.npz` (any other ending is read as text).
        delimiter: Of a text file; None finds it.
        cache: Folder for parsed copies of text files, used again while the file's path, size, time and
            inode stay the same. None keeps no copy. Nothing is ever written beside the file.

    Raises:
        FormatError: Ragged rows, a field that is no number, an array of the wrong shape or type. NaN and
            infinity are read as they are: see `find_bad_rows`.
    """
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        return read_array(p)
    if cache is None:
        return DescriptorTable(parse_table(map_bytes(p), path=p, delimiter=delimiter))
    copy = parsed_copy(p, cache, delimiter=delimiter)
    if not copy.is_file():
        values = parse_table(map_bytes(p), path=p, delimiter=delimiter)
        write_bytes(copy, npy_chunks(values))
    try:
        return DescriptorTable(map_npy(copy))
    except (OSError, FormatError):
        # A damaged copy is not the user's problem: it is made anew.
        copy.unlink(missing_ok=True)
        values = parse_table(map_bytes(p), path=p, delimiter=delimiter)
        write_bytes(copy, npy_chunks(values))
        return DescriptorTable(values)


def parsed_copy(path: Path, cache: str | Path, *, delimiter: str | None = None) -> Path:
    """Where the parsed copy of a text file is kept, by its path, size, time and inode."""
    try:
        stat = path.stat()
    except OSError as e:
        raise FormatError(path, "the file does not exist") from e
    key = hash_json([_PARSED, str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino, delimiter])
    return Path(cache) / key[:2] / f"{key}.npy"


def write_descriptors(path: str | Path, values: NDArray[Any]) -> None:
    """Write a text table: commas, as many digits as bring every float32 back (nine), whole numbers plain."""

    def chunks() -> Iterator[bytes]:
        form = ",".join(["%.9g"] * values.shape[1]) + "\n"
        step = max(1, (1 << 17) // values.shape[1])
        for lo in range(0, len(values), step):
            part = values[lo : lo + step]
            yield ((form * len(part)) % tuple(part.ravel().tolist())).encode()

    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"descriptors must have shape (n, d), found {values.shape}")
    write_bytes(path, chunks())
