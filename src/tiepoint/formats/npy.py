# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of ``.npy`` files without the cost of `numpy.load`, which parses equal headers again and again."""

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
from ..core.regular_files import regular_file_size
from .file_io import check_unpacked_size, format_errors
from .sniff import HEAD_BYTES, sniff


class FileMap(mmap.mmap):
    """A mapped file that knows which one it is: device, number, time of change and length."""

    file: tuple[int, ...] = ()
    address: int = 0


def file_of(array: NDArray[Any]) -> tuple[FileMap, int] | None:
    """The mapped file an array of `map_npy` lies in, and the byte it begins at; None for any other array.

    Equal `FileMap.file` mean equal bytes, as long as nobody writes into a file and turns its clock back.

    >>> file_of(np.zeros(3)) is None
    True
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    if not isinstance(owner, FileMap) or not owner.file:
        return None
    return owner, array.__array_interface__["data"][0] - owner.address


def map_npy(path: str | Path) -> NDArray[Any]:
    """The array of a ``.npy`` file, memory-mapped and read-only.

    The same as ``numpy.load(path, mmap_mode="r")`` in a sixth of the time, since thousands of files of one
    dataset have few different headers: each is parsed once. Objects are refused, as are files whose length is
    not what their header says.

    Raises:
        FormatError: for a file that is no such array; a missing file is a FileNotFoundError.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(name, np.arange(6).reshape(2, 3))
    >>> map_npy(name)[1].tolist()
    [3, 4, 5]
    """
    return array_in(path, map_file(path))


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def map_file(path: str | Path) -> FileMap:
    """A file, mapped to be read; an empty one is a `FormatError`, a missing one a FileNotFoundError.

    A pipe, which is not waited for, and a device are errors as well.
    """
    with open(path, "rb", opener=_at_once) as f:
        try:
            content = FileMap(f.fileno(), 0, access=mmap.ACCESS_READ)
            facts = os.fstat(f.fileno())
            content.file = (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size)
            content.address = np.frombuffer(content, np.uint8, 1).__array_interface__["data"][0]
        except ValueError as e:
            raise FormatError(Path(path), "not a .npy file: it is empty") from e
    return content


def array_in(path: str | Path, content: bytes | bytearray | mmap.mmap) -> NDArray[Any]:
    """The array that the content of a ``.npy`` file holds, without a copy; `path` is for errors."""
    try:
        offset = _header_bytes(content[:12])
        shape, fortran, dtype = _header(bytes(content[:offset]))
    except ValueError as e:
        words = f"not a readable .npy file: {e}"
        raise FormatError(path, sniff(bytes(content[:HEAD_BYTES])) or words) from e
    if dtype.hasobject:
        raise FormatError(path, "holds pickled objects, which could run code and are not read")
    count = math.prod(shape)
    expected = offset + count * dtype.itemsize
    if len(content) != expected:
        wanted = f"{expected} bytes" if expected < 1 << 63 else "more bytes than any file has"
        raise FormatError(
            path, f"its header asks for {wanted}, the file has {len(content)}; it may be damaged"
        )
    try:
        if not count:
            empty = np.empty(shape, dtype)
            empty.flags.writeable = isinstance(content, bytearray)
            return empty
        values = np.frombuffer(content, dtype, count, offset).reshape(shape, order="F" if fortran else "C")
    except ValueError as e:  # more elements than an array can count beside a side of none
        raise FormatError(path, f"its header has the shape {shape}, which no array has") from e
    return values if values.flags.aligned else values.copy()


def _header_bytes(start: bytes | bytearray) -> int:
    """Where the data begins."""
    if len(start) < 10 or not start.startswith(npy.MAGIC_PREFIX) or start[6] not in (1, 2, 3):
        raise ValueError("its first bytes are not those of one")
    if start[6] == 1:
        return 10 + int.from_bytes(start[8:10], "little")
    return 12 + int.from_bytes(start[8:12], "little")


_MAX_HEADER_BYTES = 1 << 16
_MAX_DIMENSIONS = 32
_WORD = re.compile(r"'[^'\\\n]*'|\"[^\"\\\n]*\"|True|False|[0-9]{1,20}L?|[{}():,\[\]]|[ \t\n]+")
_MAX_BRACKETS = 64


@lru_cache(maxsize=4096)
def _header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """What a header says. Only what one can need reaches the parser: it is Python's, and can be exhausted."""
    if len(head) > _MAX_HEADER_BYTES:
        raise ValueError(f"its header would have {len(head)} bytes")
    text = head[10 if head[6] == 1 else 12 :].decode("latin1")
    at = brackets = 0
    while at < len(text):
        word = _WORD.match(text, at)
        brackets += text[at] in "([{"
        if word is None or brackets > _MAX_BRACKETS:
            raise ValueError("its header cannot be read")
        at = word.end()
    stream = BytesIO(head)
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, fortran, dtype = read(stream)
    except Exception as e:  # the parser of the header raises what Python's tokenizer and evaluator raise
        raise ValueError(f"its header cannot be read ({' '.join(str(e).split())[:200]})") from e
    if any(side < 0 for side in shape) or len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"its header has the shape {shape}")
    if dtype.subdtype is not None or not dtype.itemsize:
        raise ValueError(f"its header has the type {dtype}")
    return shape, fortran, dtype


_STEP = 1 << 18
_MAGIC = b"\x93NUMPY"


_WRONG = "is not a readable .npz of arrays"


def read_npz(
    path: str | Path, names: Container[str] | Callable[[list[str]], str] | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` by name: those called `names`, the one that `names` chooses of all, or all.

    Files in it that are no ``.npy`` are left out. Arrays of Python objects are refused, as are archives that
    would unpack to more than `check_unpacked_size` allows.

    Raises:
        FormatError: for anything that is not such a file, a missing one included.

    >>> import tempfile
    >>> import numpy as np
    >>> name = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez_compressed(name, a=np.arange(3), b=np.eye(2))
    >>> read_npz(name, ["a"])
    {'a': array([0, 1, 2])}
    """
    size = regular_file_size(path)
    with format_errors(path, _WRONG), _opened(path) as archive:
        entries = _entries(archive)
        if names is not None:
            wanted = (names(list(entries)),) if callable(names) else names
            entries = {n: i for n, i in entries.items() if n in wanted}
        check_unpacked_size(path, size, sum(i.file_size for i in entries.values()))
        return {name: array_in(path, _content(archive, info)) for name, info in entries.items()}


def _opened(path: str | Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as e:
        with open(path, "rb") as file:
            if file.read(len(_MAGIC)) == _MAGIC:
                raise FormatError(path, "is one array, not an .npz of named arrays") from e
        raise


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"it has {name} twice")
            found[name] = info
    return found


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytearray:
    """The bytes of an entry, in memory that can be written to; as many as it announces."""
    out = bytearray(info.file_size)
    view, at = memoryview(out), 0
    with archive.open(info) as file:
        while piece := file.read(_STEP):
            if at + len(piece) > len(out):
                raise ValueError(f"{info.filename} is longer than the {len(out)} bytes it announces")
            view[at : at + len(piece)] = piece
            at += len(piece)
    if at < len(out):
        raise EOFError(f"{info.filename} ends after {at} of {len(out)} bytes")
    return out
