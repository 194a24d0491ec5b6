# SPDX-License-Identifier: BSD-3-Clause
"""Read ``.npy`` and ``.npz`` files with size limits, without pickle, faster than `numpy.load`."""

from __future__ import annotations

import math
import mmap
import os
import re
import zipfile
from collections.abc import Callable, Container
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..core.errors import FormatError
from ..core.file_stamps import FileStamp, file_stamp
from ..core.regular_files import regular_file_size
from .file_io import check_unpacked_size, format_errors
from .sniff import HEAD_BYTES, sniff


class FileMap(mmap.mmap):
    """Memory map that records the identity of its file."""

    file: FileStamp | None = None
    address: int = 0


def file_of(array: NDArray[Any]) -> tuple[FileMap, int] | None:
    """Return the memory-mapped file that contains an array, and the byte offset of the array in it.

    None for arrays that `map_npy` did not create. Two maps with equal `FileMap.file` have equal bytes, unless
    the file was edited within the resolution of the file system's clock.

    >>> file_of(np.zeros(3)) is None
    True
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    if not isinstance(owner, FileMap) or owner.file is None:
        return None
    return owner, array.__array_interface__["data"][0] - owner.address


def map_npy(path: str | Path) -> NDArray[Any]:
    """Memory-map the array of a ``.npy`` file, read-only.

    The result is that of ``numpy.load(path, mmap_mode="r")`` in a sixth of the time, because equal headers
    are parsed only once. Object arrays and files of the wrong length are refused.

    Raises:
        FormatError: The file does not contain such an array.
        FileNotFoundError: The file is missing.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(name, np.arange(6).reshape(2, 3))
    >>> map_npy(name)[1].tolist()
    [3, 4, 5]
    """
    return array_in(path, map_file(path))


def map_file(path: str | Path) -> FileMap:
    """Memory-map a file, read-only. Pipes and devices are refused without blocking.

    Raises:
        FormatError: The file is empty.
        FileNotFoundError: The file is missing.
    """
    with open(path, "rb", opener=lambda p, flags: os.open(p, flags | getattr(os, "O_NONBLOCK", 0))) as f:
        try:
            content = FileMap(f.fileno(), 0, access=mmap.ACCESS_READ)
            content.file = file_stamp(os.fstat(f.fileno()))
            content.address = np.frombuffer(content, np.uint8, 1).__array_interface__["data"][0]
        except ValueError as e:
            raise FormatError(Path(path), "is empty, expected a .npy file") from e
    return content


def array_in(path: str | Path, content: bytes | bytearray | mmap.mmap) -> NDArray[Any]:
    """Return the array in the content of a ``.npy`` file, without copying it.

    `path` is used in error messages.
    """
    try:
        offset = _header_bytes(content[:12])
        shape, fortran, dtype = _header(bytes(content[:offset]))
    except ValueError as e:
        reason = f"is not a readable .npy file: {e}"
        raise FormatError(path, sniff(bytes(content[:HEAD_BYTES])) or reason) from e
    if dtype.hasobject:
        raise FormatError(path, "contains pickled objects, which could run code and are not read")
    count = math.prod(shape)
    expected = offset + count * dtype.itemsize
    if len(content) != expected:
        size = f"{expected} bytes" if expected < 1 << 63 else "more bytes than a file can have"
        raise FormatError(
            path,
            f"the header requires {size}, but the file has {len(content)}; it may be truncated or corrupt",
        )
    try:
        if not count:
            empty = np.empty(shape, dtype)
            empty.flags.writeable = isinstance(content, bytearray)
            return empty
        values = np.frombuffer(content, dtype, count, offset).reshape(shape, order="F" if fortran else "C")
    except ValueError as e:  # one side is 0 and the product of the others exceeds the index range
        raise FormatError(path, f"the header has the invalid shape {shape}") from e
    return values if values.flags.aligned else values.copy()


def _header_bytes(start: bytes | bytearray) -> int:
    """Return the byte offset of the data in a ``.npy`` file."""
    if len(start) < 10 or not start.startswith(npy.MAGIC_PREFIX) or start[6] not in (1, 2, 3):
        raise ValueError("the first bytes are not those of a .npy file")
    if start[6] == 1:
        return 10 + int.from_bytes(start[8:10], "little")
    return 12 + int.from_bytes(start[8:12], "little")


_MAX_HEADER_BYTES = 1 << 16
_MAX_DIMENSIONS = 32
_WORD = re.compile(r"'[^'\\\n]*'|\"[^\"\\\n]*\"|True|False|[0-9]{1,20}L?|[{}():,\[\]]|[ \t\n]+")
_MAX_BRACKETS = 64


@lru_cache(maxsize=4096)
def _header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Parse a ``.npy`` header into shape, whether the order is Fortran's, and type.

    Tokens are checked first to protect Python's parser from malicious input.
    """
    if len(head) > _MAX_HEADER_BYTES:
        raise ValueError(f"the header of {len(head)} bytes is too long")
    text = head[10 if head[6] == 1 else 12 :].decode("latin1")
    at = brackets = 0
    while at < len(text):
        word = _WORD.match(text, at)
        brackets += text[at] in "([{"
        if word is None or brackets > _MAX_BRACKETS:
            raise ValueError("the header cannot be read")
        at = word.end()
    stream = BytesIO(head)
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, fortran, dtype = read(stream)
    except Exception as e:  # Python's tokenizer and evaluator raise many types
        raise ValueError(f"the header cannot be read ({' '.join(str(e).split())[:200]})") from e
    if any(side < 0 for side in shape) or len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"the header has the invalid shape {shape}")
    if dtype.subdtype is not None or not dtype.itemsize:
        raise ValueError(f"the header has the unsupported type {dtype}")
    return shape, fortran, dtype


_STEP = 1 << 18


def read_npz(
    path: str | Path, names: Container[str] | Callable[[list[str]], str] | None = None
) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` file by name.

    Entries other than ``.npy`` are skipped. Object arrays and archives that exceed `check_unpacked_size` are
    refused.

    Args:
        path: The file.
        names: The names to read, or a function that selects one name from all names. If None, all arrays are
            read.

    Raises:
        FormatError: The file is missing or is not a ``.npz`` archive.

    >>> import tempfile
    >>> import numpy as np
    >>> name = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez_compressed(name, a=np.arange(3), b=np.eye(2))
    >>> read_npz(name, ["a"])
    {'a': array([0, 1, 2])}
    """
    size = regular_file_size(path)
    with format_errors(path, "is not a readable .npz of arrays"), _open_zip(path) as archive:
        entries = _entries(archive)
        if names is not None:
            selected = (names(list(entries)),) if callable(names) else names
            entries = {n: i for n, i in entries.items() if n in selected}
        check_unpacked_size(path, size, sum(i.file_size for i in entries.values()))
        return {name: array_in(path, _content(archive, info)) for name, info in entries.items()}


def _open_zip(path: str | Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as e:
        with open(path, "rb") as file:
            if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
                raise FormatError(path, "is a .npy file, expected a .npz file of named arrays") from e
        raise


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"duplicate entry {name}")
            found[name] = info
    return found


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytearray:
    """Read an archive entry into writable memory. Its length must be that in the zip directory."""
    out = bytearray(info.file_size)
    view, at = memoryview(out), 0
    with archive.open(info) as file:
        while piece := file.read(_STEP):
            if at + len(piece) > len(out):
                raise ValueError(f"{info.filename} is longer than the {len(out)} bytes in the zip directory")
            view[at : at + len(piece)] = piece
            at += len(piece)
    if at < len(out):
        raise EOFError(f"{info.filename} is truncated: it ends after {at} of {len(out)} bytes")
    return out
