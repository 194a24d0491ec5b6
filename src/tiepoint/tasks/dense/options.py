# SPDX-License-Identifier: BSD-3-Clause
"""Options and result files of all dense tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...core.formatting import count_text
from ...core.records import Arrays, Records
from ...core.scores import CAUTION
from ...formats.flow.tss import write_pair_result
from ...geometry.flow.resize import resize_flow_pair
from ...geometry.flow.warp import consistency_masks
from ..base import BaseTask
from ..info import MetricInfo
from ..options import Names, TaskOptions
from ..unit_values import MeansOfUnits, not_raceable
from .protocols import RULES

ALLOW = '`missing="skip"` or `missing="zero"`'
"""Option values that accept missing files, quoted in error messages."""
ENDPOINT_ERROR = MetricInfo(
    "mean distance from the true position over the pixels where both flows are known, mean over flows",
    unit="px",
    better="lower",
)


class DenseOptions(TaskOptions):
    """Options of every dense task."""

    missing: Literal["error", "skip", "zero"] = "zero"
    """Handling of missing results: count them as 0 (`zero`), exclude them (`skip`), or stop (`error`)."""

    @property
    def strict_truth(self) -> bool:
        """Whether unusable ground truth raises an error: True unless the user sets `skip` or `zero`."""
        return self.missing == "error" or "missing" not in self.model_fields_set


class PairOptions(DenseOptions):
    """Options of `dense/flow` and `dense/pck`."""

    kinds: Names = ()
    """Subsets or classes to use. The default is all of them."""


def mean_note(n: int, total: int, what: str, *, reason: str = "") -> str | None:
    """Return a note for a mean over only `n` of `total` values. None if the mean includes all values.

    >>> mean_note(7, 8, "flows"), mean_note(8, 8, "flows"), mean_note(0, 8, "flows")
    ('caution: mean of 7 of 8 flows', None, '8 of 8 flows left out')
    """
    if n == total:
        return None
    return f"{CAUTION}mean of {n} of {total} {what}{reason}" if n else f"{total} of {total} {what} left out"


def excluded_pairs_notes(problems: Sequence[str], *, shown: int = 5) -> list[str]:
    """Return warnings about pairs that were excluded because of their ground truth.

    Only the first `shown` problems are listed; the number of further problems follows.

    >>> excluded_pairs_notes(["a: x is missing", "b: x is missing"], shown=1)
    ['pair left out: a: x is missing', 'and 1 more problem of ground truth']
    """
    rest = len(problems) - shown
    more = [f"and {count_text(rest, 'more problem')} of ground truth"] if rest > 0 else []
    return [*(f"pair left out: {p}" for p in problems[:shown]), *more]


def write_pair(
    root: str | Path,
    key: str,
    arrays: Arrays,
    *,
    sizes: tuple[tuple[int, int], tuple[int, int]] | None = None,
    rule: str = "exact",
) -> Path:
    """Write the results of a method for one pair in the layout of the TSS kit and return the folder.

    If the method did not return both masks, the function writes estimated masks. Masks are estimated from the
    consistency of the two flows, under the conventions of the protocol `rule`. If `sizes` (height, width) are
    given, the flows are first resized to them.
    """
    folder = Path(root) / key
    made = dict(arrays)
    if not {"mask1", "mask2"} <= made.keys() and {"flow1", "flow2"} <= made.keys():
        flows = np.asarray(made["flow1"]), np.asarray(made["flow2"])
        if sizes is not None:
            flows = resize_flow_pair(*flows, *sizes, rule=RULES[rule])
        made["mask1"], made["mask2"] = consistency_masks(*flows, rule=RULES[rule])
    write_pair_result(folder, made)
    return folder


def chosen_protocol(protocols: Sequence[str]) -> str:
    """Return the protocol whose rules result files follow: `tss-cpp` if requested, else the first one.

    >>> chosen_protocol(["exact", "tss-cpp"]), chosen_protocol([])
    ('tss-cpp', 'exact')
    """
    return "tss-cpp" if "tss-cpp" in protocols else next(iter(protocols), "exact")


class DenseTask(MeansOfUnits, BaseTask):
    """Base class of the dense tasks. Results are written in the layout of the TSS kit."""

    family = "dense"

    def refuse_skipping(self, missing: str) -> None:
        """Raise an error if missing flows are skipped, because methods are then scored on different pairs."""
        if missing == "skip":
            raise not_raceable(
                self.name,
                "every score",
                "all",
                "`missing=skip` averages only the pairs that a method returned; choose another value of "
                "`missing`",
            )

    result_forms = ("final",)

    def results_form(self, opened: Any) -> str:
        """Return the name of the only layout, `final`."""
        return "final"

    def write_results(
        self,
        folder: Path,
        opened: Any,
        records: Mapping[str, Mapping[str, Records]],
        arrays: Callable[[str], Arrays],
        protocols: Sequence[str],
        form: str,
    ) -> Iterator[Path]:
        """Write ``SUBSET/PAIR/flow1.flo`` and the other result files of every pair."""
        rule = chosen_protocol(protocols)
        for item in opened.items:
            key = item.key
            yield write_pair(folder, key, arrays(key), sizes=opened.sizes(key), rule=rule)
