# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of a stored run with the matches that its method found, from cached features."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import InputError, UnknownNameError
from ...datasets.image_pairs.pair import file_name
from ...run.recompare import ReopenedRun, reopen
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.matched import MatchedPair
from ..leaderboard import value_text
from ..runs.lazy_records import scored_records


class RunPairs:
    """The pairs of a run; opening it checks that its dataset and method are there. Nothing is written.

    Raises:
        InputError: The run has no pairs of images, or its dataset or method is gone.
    """

    def __init__(self, run: Run) -> None:
        if run.root is None:
            raise InputError(f"run {run.id} is of no store, so that its features cannot be found")
        self.run = run
        self._again: ReopenedRun = reopen(run.stored, run.root)
        self.names: Sequence[str] = self._again.context.opened.drawable_pairs()
        if not self.names:
            raise InputError(
                f"run {run.id} is on {run.task}, which has no matches of image pairs to draw; tasks on image "
                "pairs have, and keypoints/geometry"
            )

    def named(self, name: str) -> str:
        """The name of a pair; slashes may be written as `-`. An unknown one is an error with near names."""
        if name in self.names:
            return name
        by_file = {file_name(n): n for n in self.names}
        if file_name(name) not in by_file:
            raise UnknownNameError(f"pair of run {self.run.id}", name, self.names)
        return by_file[file_name(name)]

    def matched(self, name: str) -> MatchedPair:
        """Images, matches and errors of a pair."""
        return self._again.context.opened.matched(self.named(name), self._again.features)

    def caption(self, name: str) -> list[str]:
        """What stands above the picture of a pair: pair, method, and the scores of both."""
        run, pair = self.run, self.named(name)
        task = stored_task(run.task)
        records = scored_records(run, task, "exact")
        shares = [value for item, value in task.pair_accuracy(records) if item == pair]
        parts = [task.pair_caption(records, pair)] if records else []
        if shares:
            parts.append(f"score of this pair {100 * sum(shares) / len(shares):.1f} %")
        return [
            pair,
            f"{run.method} on {run.task}, run {run.id}",
            "; ".join(p for p in [*parts, self._headline()] if p),
        ]

    def _headline(self) -> str:
        """The headline score of the whole run, under `exact` where it has it."""
        run, task = self.run, stored_task(self.run.task)
        protocols = list(dict.fromkeys(s["protocol"] for s in run.stored.scores))
        if not protocols:
            return ""
        protocol = "exact" if "exact" in protocols else protocols[0]
        rows = [s for s in run.stored.scores if s["protocol"] == protocol]
        column = task.headline([(s["metric"], s["group"]) for s in rows])
        if column is None:
            return ""
        value = next(s["value"] for s in rows if (s["metric"], s["group"]) == column)
        info = task.metric(column[0])
        shown = f"{value_text(info, value)} {info.scale[1]}".strip()
        return f"{task.metric_label(*column)} of the run under {protocol} {shown}"
