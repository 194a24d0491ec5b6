# SPDX-License-Identifier: BSD-3-Clause
"""From the pixel counts of TSS pairs to values: accuracy, IoU, pixel accuracy, endpoint error of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.records import Records
from .tss_compare import THRESHOLDS

KIT = ("tss-cpp", "tss-matlab")
Values = NDArray[np.float64]


@dataclass(frozen=True)
class PairTable:
    """Values of p pairs in both directions (axis 1: 1 to 2, 2 to 1); NaN where a value does not exist.

    `counted_flow`, `counted_mask` (p,) tell which pairs enter the means: a pair left out because something is
    missing is not counted, while an undefined value of a counted pair makes the kit's means NaN.
    """

    keys: tuple[str, ...]
    subsets: tuple[str, ...]
    flips: NDArray[np.int64]
    names: tuple[tuple[str, str], ...]
    accuracy: Values
    iou: Values
    pixel_accuracy: Values
    aepe_px: Values
    counted_flow: NDArray[np.bool_]
    counted_mask: NDArray[np.bool_]
    listed: NDArray[np.bool_]


def pair_table(records: Sequence[Records], protocol: str) -> PairTable:
    """The values of all pairs, in the order of subset and name.

    Missing flows or masks count 0 where the records were made with ``missing=zero``, else they are left out.
    A pair whose ground truth could not be read is left out always.
    A pair without any results folder is never looked at by the kit, so under its protocols it is left out,
    under `exact` it counts 0 with ``missing=zero``.
    """
    ordered = sorted(records, key=lambda r: (r.meta["subset"], r.meta["pair"]))
    rows = [_pair(r, protocol) for r in ordered]
    return PairTable(
        tuple(f"{r.meta['subset']}/{r.meta['pair']}" for r in ordered),
        tuple(str(r.meta["subset"]) for r in ordered),
        np.array([int(r.meta["flip"]) for r in ordered], np.int64),
        tuple((str(r.meta["src"]), str(r.meta["ref"])) for r in ordered),
        np.stack([r[0] for r in rows]),
        np.stack([r[1] for r in rows]),
        np.stack([r[2] for r in rows]),
        np.stack([r[3] for r in rows]),
        np.array([r[4] for r in rows], bool),
        np.array([r[5] for r in rows], bool),
        np.array([_listed(r, protocol) for r in ordered], bool),
    )


def _listed(r: Records, protocol: str) -> bool:
    """Whether a pair has rows at all: not without ground truth, nor where the kit never looks at it."""
    return "no_truth" not in r.meta and not (r.meta["absent"] and protocol in KIT)


def _pair(r: Records, protocol: str) -> tuple[Values, Values, Values, Values, bool, bool]:
    zero = r.meta["missing"] == "zero" and _listed(r, protocol)
    has_flow, has_mask = bool(r["has_flow"].all()), bool(r["has_mask"].all())
    empty = 0.0 if zero else np.nan
    accuracy, aepe_px = np.full((2, len(THRESHOLDS)), empty), np.full(2, np.nan)
    iou, pixel_accuracy = np.full(2, empty), np.full(2, empty)
    with np.errstate(invalid="ignore", divide="ignore"):
        if has_flow:
            # The kit's own expression: 1 - wrong/n and right/n may differ in the last bit.
            wrong = r["valid"][:, None] - r["correct"]
            accuracy = 1.0 - wrong / r["valid"][:, None]
            aepe_px = r["error_sum_px"] / r["known"]
        if has_mask:
            iou = r["intersection"] / r["union"]
            pixel_accuracy = 1.0 - r["differing"] / r["pixels"]
    return accuracy, iou, pixel_accuracy, aepe_px, has_flow or zero, has_mask or zero
