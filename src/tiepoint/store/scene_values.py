# SPDX-License-Identifier: BSD-3-Clause
"""The scene values behind scores: one immutable NumPy file for all scores of a run under a protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import DamagedError, FormatError
from ..core.hashing import hash_array, hash_json
from ..core.scores import Score
from ..formats.npz import read_npz
from .atomic_files import atomic_file
from .packed_values import FORMAT, Packer, Table, unpack_tables


@dataclass(frozen=True)
class ValueStore:
    """Tables of scene values by key under a folder. Files are immutable; equal tables are written once.

    A file is an ``.npz`` archive of flat arrays, one for each type of number, and a ``header``: JSON that
    says which slices of them make which table, and which table belongs to which score.

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
        """File of a key."""
        return self.root / key[:2] / f"{key}.npz"

    def __contains__(self, key: str) -> bool:
        return self.path(key).is_file()

    def put(self, scores: Sequence[Score]) -> str:
        """Write the tables of the scores of one protocol; returns the key, which is a hash of them.

        Scores without scene values are left out. Of two scores with one metric and group the last counts.
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
        """Tables by metric and group; a missing or damaged file is a `StoreError`."""
        path = self.path(key)
        try:
            flat = read_npz(path)
            header = json.loads(flat.pop("header").tobytes())
            if _key(header, flat) != key:
                raise ValueError("its content does not have its hash")
            tables = unpack_tables(header, flat)
            return {(metric, group): tables[at] for metric, group, at in header["scores"]}
        except OSError as e:
            raise DamagedError(path, "the scene values", e.strerror or str(e)) from e
        except FormatError as e:
            raise DamagedError(path, "the scene values", e.reason) from e
        except Exception as e:  # a damaged archive makes its reader raise whatever it likes
            raise DamagedError(path, "the scene values", str(e)) from e


def _key(header: Mapping[str, Any], flat: Mapping[str, NDArray[Any]]) -> str:
    return hash_json([header, {name: hash_array(array) for name, array in flat.items()}])
