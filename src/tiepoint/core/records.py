# SPDX-License-Identifier: BSD-3-Clause
"""Records: what a comparison leaves behind. Named columns of equal length plus a small header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = ("rank", "pair", "pixel")


@dataclass(frozen=True)
class Records:
    """Columns of one unit.

    `kind` is `rank` (per relevant item or query: reference distance and counts), `pair` (distances in
    the order of the task list) or `pixel` (counts per threshold). A column is (n,) or (n, k). `meta`
    holds plain JSON values: unit keys, scene, group, exclusions with their reasons.
    """

    kind: str
    columns: Mapping[str, NDArray[Any]]
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"records are of kind {KINDS}, not {self.kind!r}")
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")

    def __len__(self) -> int:
        return next((len(c) for c in self.columns.values()), 0)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    @property
    def size_bytes(self) -> int:
        """Memory of the columns."""
        return int(sum(np.asarray(c).nbytes for c in self.columns.values()))
