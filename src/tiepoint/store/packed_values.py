# SPDX-License-Identifier: BSD-3-Clause
"""Tables of scene values as slices of a few flat arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.hashing import hash_array, hash_json
from ..core.scores import PooledBins, SceneValues

Table = SceneValues | PooledBins
"""What the interval of a score, and its tests, are made from."""

FORMAT = 1


@dataclass
class Packer:
    """Tables on their way into a file: names and arrays that were seen before are only referred to."""

    names: list[Sequence[str]] = field(default_factory=list)
    arrays: list[list[Any]] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    _seen: dict[Any, int] = field(default_factory=dict)
    _parts: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    def table(self, table: Table) -> int:
        """The place of a table among the tables of the file."""
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
            # Column by column: neighbours in a column are alike, which is what the compression lives on.
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
        """Where everything is."""
        return {"names": self.names, "arrays": self.arrays, "tables": self.tables}

    def flat(self) -> dict[str, NDArray[Any]]:
        """All numbers by the type they are written in."""
        return {kind: np.concatenate(found) for kind, found in sorted(self._parts.items())}


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """The array in the smallest unsigned integers that give back its very bits, or as it is.

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
    """The tables of a file; their arrays cannot be written to, since tables share them."""
    if header["format"] != FORMAT:
        raise ValueError(f"it has format {header['format']}, and this tiepoint knows {FORMAT}")
    arrays = []
    for name, shape, kind, offset in header["arrays"]:
        size = int(np.prod(shape, dtype=np.int64))
        found = flat[kind][offset : offset + size].reshape(shape, order="F")
        arrays.append(np.ascontiguousarray(found, np.dtype(name)))
        arrays[-1].flags.writeable = False
    names = [tuple(found) for found in header["names"]]
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
                raise ValueError("a pooled table refers to one that is not")
            also.append(other)
        positives, negatives = arrays[entry["positives"]], arrays[entry["negatives"]]
        tables.append(PooledBins(scenes, kinds, positives, negatives, entry["statistic"], tuple(also)))
    return tables
