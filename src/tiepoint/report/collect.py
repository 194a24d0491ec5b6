# SPDX-License-Identifier: BSD-3-Clause
"""What a report shows, gathered from runs: tasks, their headline score, methods in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..run.result import Run

HEADLINES: dict[str, tuple[str, str]] = {
    "hpatches-v1/classification": ("ap", "balance=imbalanced"),
    "hpatches-v1/matching": ("ap", "all"),
    "hpatches-v1/retrieval": ("map_patch", "all"),
    "hpatches/verification": ("ap", "all"),
    "hpatches/matching": ("map", "all"),
    "hpatches/retrieval": ("map", "all"),
    "keypoints/ranking": ("true_map_macro_by_scene", "all"),
    "keypoints/geometry": ("mma", "tau_px=3"),
    "tss": ("flow_accuracy", "threshold=5"),
    "dense/flow": ("aepe", "all"),
    "dense/pck": ("pck", "alpha=0.1"),
}
"""The score a task is sorted by; where it is absent, the first score of group `all`."""

LOWER_IS_BETTER = frozenset({"aepe", "fl", "fpr95", "localisation_error_px", "processing_time_ms"})


CANARIES = frozenset({"constant", "random", "oracle"})
"""Methods that are there to show chance and the ceiling."""


@dataclass(frozen=True)
class Section:
    """The runs of one task under one protocol, best first by the headline score."""

    task: str
    protocol: str
    metric: str
    group: str
    runs: tuple[Run, ...]

    def score(
        self, run: Run, metric: str | None = None, group: str | None = None
    ) -> Mapping[str, Any] | None:
        """A score of a run in this section, None where there is none."""
        wanted = (self.protocol, metric or self.metric, self.group if group is None else group)
        return index(run).get(wanted)

    def columns(self) -> list[tuple[str, str]]:
        """(metric, group) of every score that is neither of one scene nor of a single pair."""
        seen: dict[tuple[str, str], None] = {}
        for run in self.runs:
            for s in run.stored.scores:
                if s["protocol"] == self.protocol and not _single(str(s["group"])):
                    seen[(str(s["metric"]), str(s["group"]))] = None
        return list(seen)


def _single(group: str) -> bool:
    return any(part.startswith(("scene=", "pair=")) for part in group.split(","))


def index(run: Run) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """Scores of a run by protocol, metric and group."""
    return {(str(s["protocol"]), str(s["metric"]), str(s["group"])): s for s in run.stored.scores}


def headline(task: str, columns: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The score a task is sorted by, among those it has."""
    wanted = HEADLINES.get(task)
    if wanted in columns:
        return wanted
    for column in columns:
        if column[1] == "all":
            return column
    return columns[0] if columns else None


def sections(runs: Sequence[Run], protocol: str = "exact") -> list[Section]:
    """One section a task, in alphabetical order; runs without the protocol take their first one."""
    found = []
    for task in sorted({r.task for r in runs}):
        mine = [r for r in runs if r.task == task]
        have = sorted({str(s["protocol"]) for r in mine for s in r.stored.scores})
        if not have:
            continue
        chosen = protocol if protocol in have else have[0]
        mine = [r for r in mine if any(s["protocol"] == chosen for s in r.stored.scores)]
        draft = Section(task, chosen, "", "all", tuple(mine))
        best = headline(task, draft.columns())
        if best is None:
            continue
        metric, group = best
        section = Section(task, chosen, metric, group, tuple(mine))
        sign = 1.0 if metric in LOWER_IS_BETTER else -1.0

        def order(run: Run, section: Section = section, sign: float = sign) -> tuple[bool, float, str, str]:
            s = section.score(run)
            value = None if s is None else s["value"]
            return (value is None, sign * (value or 0.0), run.method, run.id)

        found.append(Section(task, chosen, metric, group, tuple(sorted(mine, key=order))))
    return found
