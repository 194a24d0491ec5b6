# SPDX-License-Identifier: BSD-3-Clause
"""Records as Parquet files, named by their cache key.

The metadata of a file contains the checksum of the entire file: sixteen digits under `_SUM`. The checksum is
computed with these digits set to zero.
"""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import DamagedError, StoreError
from ..core.file_stamps import FileStamp, file_stamp
from ..core.hashing import checksum
from ..core.records import Records
from ..core.regular_files import read_content
from .atomic_files import atomic_file

_HEADER = b"tiepoint"
_SUM = b"tiepoint:sum"
_BLANK = b"0" * 16
_LARGE = 1 << 20
"""Minimum file size, in bytes, at which several threads read faster than one thread."""
_HELD = 256 << 20
"""Maximum size, in bytes, of new records that stay in memory until scoring reads them."""
_NUMBERS = {
    "double": "f8", "float": "f4", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
    "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8",
}  # fmt: skip
"""Arrow types with the memory layout of NumPy types. Arrow's own conversion would import pandas."""


@dataclass(frozen=True)
class RecordStore:
    """Record files by cache key. Files are immutable: each key is written once.

    With `hold`, new records also stay in memory until their first read, up to a size limit.
    """

    root: Path
    hold: bool = False
    _held: dict[str, tuple[FileStamp, Records]] = field(default_factory=dict, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def path(self, key: str) -> Path:
        """Return the path of the record file of a key."""
        return self.root / key[:2] / f"{key}.parquet"

    def __contains__(self, key: str) -> bool:
        return self.path(key).is_file()

    def put(self, key: str, records: Records) -> None:
        """Write records under a key."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        names, columns = [], []
        for name, values in records.columns.items():
            array = np.ascontiguousarray(values)
            flat = _to_arrow(array.reshape(-1))
            if array.ndim == 2:
                flat = pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
            names.append(name)
            columns.append(flat)
        header = json.dumps({"kind": records.kind, "meta": dict(records.meta), "summed": True})
        marks = {_HEADER: header, _SUM: _BLANK}
        table = pa.Table.from_arrays(columns, names=names).replace_schema_metadata(marks)
        with atomic_file(self.path(key)) as temporary:
            # Doubles hardly repeat: Parquet would build a dictionary and drop it again.
            repeating = [
                f"{n}.list.element" if pa.types.is_fixed_size_list(c.type) else n
                for n, c in zip(names, columns, strict=True)
                if not pa.types.is_float64(c.type)
                and not (pa.types.is_fixed_size_list(c.type) and pa.types.is_float64(c.type.value_type))
            ]
            pq.write_table(
                table,
                temporary.absolute(),  # pyarrow takes a relative path such as a:b for a URL
                compression="zstd",
                use_dictionary=repeating or False,
                write_page_checksum=True,
            )
            _mark(temporary)
        if self.hold:
            self._hold(key, Records(records.kind, records.columns, json.loads(header)["meta"]))

    def _hold(self, key: str, records: Records) -> None:
        """Store numeric records in memory until they are read, if the size limit allows it."""
        if any(np.asarray(c).dtype.kind not in "biuf" for c in records.columns.values()):
            return
        with self._lock:
            if sum(r.size_bytes for _, r in self._held.values()) + records.size_bytes <= _HELD:
                self._held[key] = (self._stamp(key), records)

    def _stamp(self, key: str) -> FileStamp:
        return file_stamp(self.path(key).stat())

    def get(self, key: str) -> Records:
        """Read the records of a key. Raise `DamagedError` if the file is missing or corrupt."""
        with self._lock:
            held = self._held.pop(key, None)
        if held is not None:
            with contextlib.suppress(OSError):
                if held[0] == self._stamp(key):
                    return held[1]
        return self._read(key)

    def verify(self, key: str) -> None:
        """Read the records of a key and verify the checksum of their file.

        Raises:
            DamagedError: The file is missing or unreadable, or its checksum is wrong.
        """
        self._read(key)

    def _read(self, key: str) -> Records:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.path(key)
        try:
            content = bytearray(read_content(path))
            _verify_sum(content)
            # `read_table` would look for a dataset first, which takes longer than reading.
            source = pa.BufferReader(pa.py_buffer(content))
            with pq.ParquetFile(source) as file:
                table = file.read(use_threads=len(content) > _LARGE)
            header = json.loads(table.schema.metadata[_HEADER])
            return Records(header["kind"], _columns(table), header["meta"])
        except OSError as e:
            reason = e.strerror or str(e)
        except (pa.ArrowException, ValueError, KeyError, TypeError, AttributeError, MemoryError) as e:
            reason = str(e) or "it needs too much memory"
        raise DamagedError(path, "records", reason.partition("\n")[0])


def _sum_at(content: bytes | bytearray) -> int | None:
    """Return the byte position of the checksum in the footer. None if the checksum is missing."""
    footer = int.from_bytes(content[-8:-4], "little")
    at = content.find(_SUM, max(0, len(content) - 8 - footer)) + len(_SUM)
    # Two bytes follow the key: type and length of the value.
    found = at >= len(_SUM) and content[at : at + 2] == b"\x18\x10" and at + 18 <= len(content)
    return at + 2 if found else None


def _mark(path: Path) -> None:
    """Write the checksum of a file into its metadata."""
    content = bytearray(path.read_bytes())
    at = _sum_at(content)
    if at is None or content[at : at + 16] != _BLANK:
        raise StoreError("the installed pyarrow writes metadata in an unknown form; install another version")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(checksum(content).encode())


def _verify_sum(content: bytearray) -> None:
    """Verify the checksum in a file's content and set it to zeros. Raise ValueError if it does not match."""
    at = _sum_at(content)
    if at is None:
        raise ValueError("it has no checksum")
    stated = bytes(content[at : at + 16])
    content[at : at + 16] = _BLANK
    if checksum(content).encode() != stated:
        raise ValueError("checksum mismatch")


def _columns(table: Any) -> dict[str, Any]:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for known, column in zip(table.schema, table.columns, strict=True):
        combined = column.combine_chunks()
        if isinstance(combined, pa.ChunkedArray):
            combined = pa.concat_arrays(combined.chunks) if combined.num_chunks else combined
        if pa.types.is_fixed_size_list(known.type):
            width = known.type.list_size
            flat = _to_numpy(combined.flatten())
            columns[known.name] = flat.reshape(len(combined), width)
        else:
            columns[known.name] = _to_numpy(combined)
    return columns


def _to_arrow(array: np.ndarray[Any, Any]) -> Any:
    """Return a flat array as an Arrow array, without copying numbers."""
    import pyarrow as pa

    if array.dtype == bool:
        bits = pa.py_buffer(np.packbits(array, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(array), [None, bits])
    name = next((n for n, code in _NUMBERS.items() if array.dtype == np.dtype(code)), None)
    if name is None:
        return pa.array(array)
    kind = getattr(pa, {"double": "float64", "float": "float32"}.get(name, name))()
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(array)])


def _to_numpy(array: Any) -> np.ndarray[Any, Any]:
    """Return an Arrow array as a NumPy array, without copying numbers."""
    code = _NUMBERS.get(str(array.type))
    if str(array.type) == "bool" and len(array) and not array.null_count:
        bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
        return bits[array.offset : array.offset + len(array)].view(bool)
    if code is None or array.null_count:
        return np.asarray(array.to_numpy(zero_copy_only=False))
    if not len(array):
        return np.empty(0, code)
    size = np.dtype(code).itemsize
    return np.frombuffer(array.buffers()[1], code, len(array), array.offset * size)
