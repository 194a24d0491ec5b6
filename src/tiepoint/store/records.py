# SPDX-License-Identifier: BSD-3-Clause
"""Records as Parquet files, addressed by the hash of what they were made from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..model.errors import StoreError
from ..model.records import Records
from .atomic import atomic_file

_HEADER = b"tiepoint"
_LARGE = 1 << 20
"""Bytes from which several threads read a file faster than one."""


@dataclass(frozen=True)
class RecordStore:
    """Parquet files by key under a folder. Files are immutable; a key is written once."""

    root: Path

    def path(self, key: str) -> Path:
        """File of a key."""
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
            flat = pa.array(array.reshape(-1))
            if array.ndim == 2:
                flat = pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
            names.append(name)
            columns.append(flat)
        header = json.dumps({"kind": records.kind, "meta": dict(records.meta)})
        table = pa.Table.from_arrays(columns, names=names).replace_schema_metadata({_HEADER: header})
        with atomic_file(self.path(key)) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    def get(self, key: str) -> Records:
        """Records of a key; a missing or damaged file is a `StoreError`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.path(key)
        try:
            # `read_table` would look for a dataset first, which takes longer than reading one file.
            with pq.ParquetFile(path) as file:
                table = file.read(use_threads=path.stat().st_size > _LARGE)
        except (OSError, pa.ArrowException) as e:
            raise StoreError(
                f"cannot read records {path}: {e}; remove the file and run again to make it anew"
            ) from e
        header = json.loads(table.schema.metadata[_HEADER])
        columns: dict[str, Any] = {}
        for field, column in zip(table.schema, table.columns, strict=True):
            combined = column.combine_chunks()
            if isinstance(combined, pa.ChunkedArray):
                combined = pa.concat_arrays(combined.chunks) if combined.num_chunks else combined
            if pa.types.is_fixed_size_list(field.type):
                width = field.type.list_size
                flat = np.asarray(combined.flatten().to_numpy(zero_copy_only=False))
                columns[field.name] = flat.reshape(len(combined), width)
            else:
                columns[field.name] = combined.to_numpy(zero_copy_only=False)
        return Records(header["kind"], columns, header["meta"])
