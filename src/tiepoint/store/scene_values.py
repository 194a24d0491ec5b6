# SPDX-License-Identifier: BSD-3-Clause
"""Storage of the per-scene values of scores: one immutable NumPy file per run and protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import DamagedError, FormatError
from ..core.hashing import hash_array, hash_json
from ..core.scores import PooledBins, SceneValues, Score
from ..formats.npy import read_npz
from .atomic_files import atomic_file

Table = SceneValues | PooledBins
"""Data from which the interval and the tests of a score are computed."""

FORMAT = 1


@dataclass
class Packer:
    """Builder of a scene-value file. Equal names and equal arrays are stored once."""

    names: list[Sequence[str]] = field(default_factory=list)
    arrays: list[list[Any]] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    _seen: dict[Any, int] = field(default_factory=dict)
    _parts: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    def table(self, table: Table) -> int:
        """Add a table and return its index in the file."""
        entry: dict[str, Any] = {"scenes": self._names(table.scenes), "kinds": self._names(table.kinds)}
        if isinstance(table, SceneValues):
            entry["cells"] = self._array(table.cells)
            entry["weights"] = None if table.weights is None else self._array(table.weights)
        else:
            entry["positives"], entry["negatives"] = (
                self._array(table.positives),
                self._array(table.negatives),
            )
            entry["statistic"] = table.statistic
            entry["also"] = [self.table(other) for other in table.also]
        return self._once(hash_json(entry), self.tables, entry)

    def _names(self, names: Sequence[str]) -> int:
        return self._once(("names", *names), self.names, list(names))

    def _array(self, array: NDArray[Any]) -> int:
        key = hash_array(array)
        if key not in self._seen:
            small = _narrowed(array)
            kind = small.dtype.name
            offset = self._sizes.get(kind, 0)
            # Column by column: neighbours in a column are similar, which improves compression.
            self._parts.setdefault(kind, []).append(small.ravel(order="F"))
            self._sizes[kind] = offset + small.size
            self._once(key, self.arrays, [array.dtype.name, list(array.shape), kind, offset])
        return self._seen[key]

    def _once(self, key: Any, where: list[Any], what: Any) -> int:
        if key not in self._seen:
            self._seen[key] = len(where)
            where.append(what)
        return self._seen[key]

    def header(self) -> dict[str, Any]:
        """Return the header of the file: names, array slices and tables."""
        return {"names": self.names, "arrays": self.arrays, "tables": self.tables}

    def flat(self) -> dict[str, NDArray[Any]]:
        """Return one flat array of all numbers for each stored dtype."""
        return {kind: np.concatenate(found) for kind, found in sorted(self._parts.items())}


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Convert an array to the smallest lossless unsigned integer dtype, or return it unchanged.

    >>> _narrowed(np.array([3.0, 255.0])).dtype, _narrowed(np.array([0.5])).dtype
    (dtype('uint8'), dtype('float64'))
    """
    if array.size and np.isfinite(array).all() and array.min() >= 0 and array.max() < 2**32:
        for small in (np.uint8, np.uint16, np.uint32):
            if array.max() <= np.iinfo(small).max:
                found = array.astype(small)
                same = found.astype(array.dtype).tobytes() == np.ascontiguousarray(array).tobytes()
                return found if same else array
    return array


def unpack_tables(header: Mapping[str, Any], flat: Mapping[str, NDArray[Any]]) -> list[Table]:
    """Return the tables of a file. Their arrays are read-only and may be shared between tables."""
    if header["format"] != FORMAT:
        raise ValueError(f"it has format {header['format']}; this version of tiepoint reads format {FORMAT}")
    arrays = []
    for name, shape, kind, offset in header["arrays"]:
        size = int(np.prod(shape, dtype=np.int64))
        found = flat[kind][offset : offset + size].reshape(shape, order="F")
        arrays.append(np.ascontiguousarray(found, np.dtype(name)))
        arrays[-1].flags.writeable = False
    names = [_shared_names(tuple(found)) for found in header["names"]]
    tables: list[Table] = []
    for entry in header["tables"]:
        scenes, kinds = names[entry["scenes"]], names[entry["kinds"]]
        if "cells" in entry:
            weights = None if entry["weights"] is None else arrays[entry["weights"]]
            tables.append(SceneValues(scenes, kinds, arrays[entry["cells"]], weights))
            continue
        also: list[PooledBins] = []
        for at in entry["also"]:
            other = tables[at]
            if not isinstance(other, PooledBins):
                raise ValueError(
                    "the table of a pooled score refers to a table that is not of a pooled score"
                )
            also.append(other)
        positives, negatives = arrays[entry["positives"]], arrays[entry["negatives"]]
        tables.append(PooledBins(scenes, kinds, positives, negatives, entry["statistic"], tuple(also)))
    return tables


@lru_cache(maxsize=256)
def _shared_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first equal tuple that was passed, to save memory: files of one dataset have equal names."""
    return names


@dataclass(frozen=True)
class ValueStore:
    """Tables of scene values by key. Files are immutable: equal content is written once.

    A file is an ``.npz`` archive. It contains one flat array per dtype, and a JSON ``header`` that gives the
    array slices of each table and the table of each score.

    >>> import tempfile
    >>> from tiepoint.core.scores import SceneValues, Score
    >>> values = ValueStore(Path(tempfile.mkdtemp()))
    >>> table = SceneValues(("a", "b"), ("i", "v"), np.array([[0.25, 0.75]]))
    >>> key = values.put([Score("ap", "all", 0.5, 2, scenes=table), Score("n", "all", 2.0, 2)])
    >>> {name: t.cells.tolist() for name, t in values.get(key).items()}
    {('ap', 'all'): [[0.25, 0.75]]}
    """

    root: Path

    def path(self, key: str) -> Path:
        """Return the path of the scene-value file of a key."""
        return self.root / key[:2] / f"{key}.npz"

    def __contains__(self, key: str) -> bool:
        return self.path(key).is_file()

    def put(self, scores: Sequence[Score]) -> str:
        """Write the tables of the scores of one protocol and return their key, a hash of the content.

        Scores without scene values are skipped. If two scores have the same metric and group, the last one is
        stored.
        """
        packer = Packer()
        named = {}
        for score in scores:
            table = score.scenes if score.scenes is not None else score.pooled
            if table is not None:
                named[score.metric, score.group] = packer.table(table)
        header = {"format": FORMAT, "scores": [[*name, at] for name, at in named.items()], **packer.header()}
        flat = packer.flat()
        key = _key(header, flat)
        if key not in self:
            text = np.frombuffer(json.dumps(header).encode(), np.uint8)
            with atomic_file(self.path(key)) as temporary, temporary.open("wb") as f:
                np.savez_compressed(f, allow_pickle=False, header=text, **flat)
        return key

    def get(self, key: str) -> Mapping[tuple[str, str], Table]:
        """Return tables by (metric, group). Raise `DamagedError` if the file is missing or corrupt."""
        path = self.path(key)
        try:
            flat = read_npz(path)
            header = json.loads(flat.pop("header").tobytes())
            if _key(header, flat) != key:
                raise ValueError("hash mismatch")
            tables = unpack_tables(header, flat)
            return {(metric, group): tables[at] for metric, group, at in header["scores"]}
        except OSError as e:
            raise DamagedError(path, "the scene values", e.strerror or str(e)) from e
        except FormatError as e:
            raise DamagedError(path, "the scene values", e.reason) from e
        except Exception as e:  # the reader of a corrupt archive may raise anything
            raise DamagedError(path, "the scene values", str(e)) from e


def _key(header: Mapping[str, Any], flat: Mapping[str, NDArray[Any]]) -> str:
    return hash_json([header, {name: hash_array(array) for name, array in flat.items()}])
