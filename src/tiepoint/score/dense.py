# SPDX-License-Identifier: BSD-3-Clause
"""Score flows in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.scores import scene_kind
from ..datasets.dense_pairs import DensePair
from ..geometry.flow.resize import UNKNOWN, is_known_flow
from ..methods.pairs.adapter import flow_parts
from ..tasks.dense.flow.task import TASK, FlowOptions, compare
from .inputs import check_lengths, check_protocol, scene_labels, size_table, split_arrays
from .result import Result, score_records

Size = tuple[int, int]


@dataclass(frozen=True)
class _ArrayPair(DensePair):
    """Image pair of a flow that was passed as an array. It has image sizes but no images."""

    source: Size = (0, 0)
    target: Size = (0, 0)

    def sizes(self) -> tuple[Size, Size]:
        """Return (height, width) of source and target."""
        return self.source, self.target


def flow(
    flow: Any,
    truth: Any,
    mask: Any = None,
    *,
    target_size: Any = None,
    scenes: Any = None,
    protocol: str = "exact",
    **options: Any,
) -> Result:
    """Score a flow against the true flow, as `dense/flow` does.

    A flow vector that is NaN or at least 1e9 is unknown. Pixels with unknown truth do not count. An unknown
    estimate counts as wrong in `fl` and `flow_accuracy` and is skipped by `aepe`.

    Args:
        flow: Flow (h, w, 2), x first; or a list of flows.
        truth: True flow of the same shape; or a list.
        mask: (h, w), nonzero for pixels to score; or a list. The default is all pixels with known truth.
        target_size: (width, height) of the image that the flow points into, to which the thresholds `alphas`
            are relative; or a list. The default is the size of the flow.
        scenes: Scene label of each flow. Six or more scenes give an interval.
        protocol: Name of the protocol.
        **options: Options of the task: ``thresholds_px``, ``alphas``.

    Returns:
        A `Result` with the metric `aepe` in pixels. `fl` and `flow_accuracy` are in ``values``.

    >>> truth = np.zeros((4, 4, 2), np.float32)
    >>> print(flow(truth + np.float32([3, 4]), truth).value)
    5.0
    """
    check_protocol("flow", protocol, TASK.protocols)
    flows, truths = split_arrays(flow, 3), split_arrays(truth, 3)
    given = {"flow": flows, "truth": truths}
    if mask is not None:
        given["mask"] = split_arrays(mask, 2)
    count = check_lengths("flow", given, "flow")
    labels = scene_labels("flow", scenes, count, "flow")
    sizes = None
    if target_size is not None:
        sizes = size_table("score.flow: target_size", target_size, (2,), count, "(width, height)")
    chosen = FlowOptions.parse(TASK.name, options)
    records = []
    for i, (estimate, true) in enumerate(zip(flows, truths, strict=True)):
        where = "score.flow" if count == 1 else f"score.flow, flow {i}"
        found = flow_parts((estimate,), where)["flow"]
        known = _masked(true, given["mask"][i] if "mask" in given else None, found.shape, where)
        size: Size = (int(found.shape[0]), int(found.shape[1]))
        target = size if sizes is None else (int(sizes[i, 1]), int(sizes[i, 0]))
        nowhere = Path()
        pair = _ArrayPair(
            str(i), 1, labels[i], scene_kind(labels[i]), nowhere, nowhere, "", partial(np.asarray, known),
            source=size, target=target,
        )  # fmt: skip
        records.append(compare(pair, found, chosen))
    return score_records(TASK, records, protocol)


def _masked(truth: Any, mask: Any, shape: tuple[int, ...], where: str) -> NDArray[np.float32]:
    """Return the true flow, unknown outside the mask."""
    parts = flow_parts((truth, mask), f"{where}: truth")
    known = parts["flow"]
    if known.shape != shape:
        raise InputError(f"{where}: flow has shape {shape} and truth {known.shape}; resize the flow first")
    if "mask" in parts:
        if parts["mask"].shape != shape[:2]:
            raise InputError(
                f"{where}: mask has shape {parts['mask'].shape} and flow {shape}; expected {shape[:2]}"
            )
        known[parts["mask"] == 0] = UNKNOWN
    if not is_known_flow(known).any():
        raise InputError(f"{where}: no pixel has a known true flow; check truth and mask")
    return known
