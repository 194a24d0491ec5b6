# SPDX-License-Identifier: BSD-3-Clause
"""What a method made: descriptors with the distance that compares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .edges import DISTANCES
from .errors import InputError


@dataclass(frozen=True)
class Descriptors:
    """Descriptors of n items.

    `values` is (n, d): float32 or float64 for l2, l1, cosine, masked_l1; uint8 also for l2 and l1;
    packed bits, uint8 (n, bytes), for hamming. Row i belongs to item i. `valid[i]` is False where the
    method failed; such an item is a miss, never dropped. None means all valid.
    """

    values: NDArray[Any]
    distance: str = "l2"
    valid: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if self.distance not in DISTANCES:
            raise InputError(f"unknown distance {self.distance!r}; one of {', '.join(DISTANCES)}")
        if self.values.ndim != 2:
            raise InputError(f"descriptors must have shape (n, d), found {self.values.shape}")

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def valid_mask(self) -> NDArray[np.bool_]:
        """Boolean (n,), all True where `valid` is None."""
        return np.ones(len(self), bool) if self.valid is None else self.valid
