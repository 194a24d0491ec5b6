# SPDX-License-Identifier: BSD-3-Clause
"""Select figures of runs and comparisons by kind, and save them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...core.errors import InputError, UnknownNameError, close_names
from ...core.formatting import first_few
from ...run.result import Run
from ..compare.comparison import Comparison
from ..runs.lazy_records import try_part
from ..runs.names import DisplayNames, parse_names, read_names
from ..runs.sections import TaskSection, sections
from .cameras import camera_figures
from .curves import curve_figures
from .figure import Figure
from .heat_map import heat_map
from .intervals import comparison_scores, differences_figure, intervals_figure
from .pareto import KINDS as COST_KINDS
from .pareto import pareto_figure
from .stress import stress_figure, stress_panels

KINDS: dict[str, Callable[[TaskSection], Figure | None]] = {
    "stress": stress_figure,
    "scores": intervals_figure,
    "scenes": heat_map,
    **{kind: partial(pareto_figure, cost=cost) for cost, kind in COST_KINDS.items()},
}
"""Kinds of figures that occur at most once per section. Curves have their own names."""

COMPARISON_KINDS: dict[str, Callable[[Comparison, DisplayNames], Figure]] = {
    "differences": differences_figure,
    "scores": comparison_scores,
}


def figures_of(section: TaskSection, skipped: list[str] | None = None) -> list[Figure]:
    """Return all figures of a section, in the order of the report.

    With `skipped`, figures whose files are missing or corrupt are omitted, and the list receives a message
    about each of them.
    """
    found: list[Figure | None] = []
    for kind, make in KINDS.items():
        found.append(try_part(f"figure {kind}", partial(make, section), skipped))
    found += try_part("figures of curves", partial(curve_figures, section), skipped) or []
    found += try_part("figures of cameras", partial(camera_figures, section), skipped) or []
    return [f for f in found if f is not None]


def plot(
    kind: str,
    of: Run | Sequence[Run] | Comparison,
    *,
    task: str | None = None,
    protocol: str | None = None,
    group: str | None = None,
    names: DisplayNames | Mapping[str, Any] | str | Path | None = None,
    out: str | Path | None = None,
    columns: int = 1,
    width: float | None = None,
) -> Figure:
    """Return one figure of runs (as in the report) or of a comparison.

    Args:
        kind: ``scores``, ``scenes``, ``time``, ``bytes``, ``memory``, ``stress``, ``cameras`` or the name of
            a curve (``pr``, ``roc``, ``success-at-k`` …). For a comparison: ``differences`` or ``scores``. An
            unknown kind raises an error that lists the available kinds.
        of: A run, runs, or a comparison.
        task: Task of the runs; required if several tasks have the figure.
        protocol: Protocol of the scores; by default `exact` or a protocol of the runs.
        group: Group of a curve with several groups, e.g. ``negatives=inter``.
        names: Display names: a YAML file or its values; see `read_names`.
        out: File to write: .pdf, .svg, .png, or .csv for the data.
        columns: Width of the file: 1 for one column of a paper, 2 for both.
        width: Width in inches, instead of `columns`.

    Returns:
        The figure: ``.save(path)``, ``.svg``, ``.csv``, ``.title``, ``.caption``.
    """
    display = display_names(names)
    if isinstance(of, Comparison):
        if kind not in COMPARISON_KINDS:
            raise UnknownNameError("figure of a comparison", kind, COMPARISON_KINDS)
        found = COMPARISON_KINDS[kind](of, display)
    else:
        runs = [of] if isinstance(of, Run) else list(of)
        found = _choose(kind, chosen_sections(runs, task, protocol, display), group)
    if out is not None:
        found.save(out, columns=columns, width=width)
    return found


def display_names(names: DisplayNames | Mapping[str, Any] | str | Path | None) -> DisplayNames:
    """Convert `names` to display names. None, a YAML path, a mapping and `DisplayNames` are accepted."""
    if names is None or isinstance(names, DisplayNames):
        return names or DisplayNames()
    return parse_names(names) if isinstance(names, Mapping) else read_names(Path(names))


def chosen_sections(
    runs: Sequence[Run], task: str | None, protocol: str | None, display: DisplayNames
) -> list[TaskSection]:
    """Return the report sections of these runs, optionally for one task and protocol."""
    if not runs:
        raise InputError("there are no finished runs to draw; run a method on a task first")
    found = sections(runs, protocol or "exact", display.check_unique(runs))
    if task is not None:
        if task not in {s.task for s in found}:
            raise UnknownNameError("task with runs in the store", task, {s.task for s in found})
        found = [s for s in found if s.task == task]
    if protocol is not None:
        if protocol not in (known := {s.protocol for s in found}):
            raise UnknownNameError("protocol of these runs", protocol, known)
        found = [s for s in found if s.protocol == protocol]
    return found


def _choose(kind: str, found: Sequence[TaskSection], group: str | None) -> Figure:
    by_section = [(s, own) for s in found if (own := _of_kind(s, kind))]
    if not by_section:
        known = {f.kind for s in found for f in figures_of(s)}
        if kind in known or kind in KINDS:
            near, others = close_names(kind, known)
            titles, existing = first_few([s.title for s in found]), first_few(near + others, 20)
            reason = "no method has the values it shows"
            if kind == "stress":
                reason = "it shows runs of the tasks stress/KIND"
            if kind in COST_KINDS.values():
                how = "" if kind == "bytes" else "; rerun the methods with `run --time`"
                reason = f"it needs three methods with a measured cost{how}"
            raise InputError(f"there is no figure {kind!r} of {titles}: {reason}; available: {existing}")
        raise UnknownNameError("kind of figure", kind, known)
    if kind == "stress" and len({s.task for s, _ in by_section}) == len(by_section) > 1:
        return stress_panels([s for s, _ in by_section])
    if len(by_section) > 1:
        titles = ", ".join(s.title for s, _ in by_section)
        several = "task" if len({s.task for s, _ in by_section}) > 1 else "dataset"
        raise InputError(
            f"figure {kind!r} exists for {len(by_section)} {several}s: {titles}; choose one with `{several}`"
        )
    section, own = by_section[0]
    if kind in KINDS and group not in (None, own[0].group):
        raise InputError(
            f"`group` has no effect on {kind!r}, which shows the headline score of {section.title}"
        )
    by_group = {f.group: f for f in own}
    wanted = group or (next(iter(by_group)) if len(by_group) == 1 else "all")
    if wanted not in by_group:
        if group is None:
            raise InputError(
                f"figure {kind!r} exists for several groups; choose one with `group`: {', '.join(by_group)}"
            )
        raise UnknownNameError(f"group of {kind}", group, by_group)
    return by_group[wanted]


def _of_kind(section: TaskSection, kind: str) -> list[Figure]:
    figures = [KINDS[kind](section)] if kind in KINDS else [*curve_figures(section), *camera_figures(section)]
    return [f for f in figures if f is not None and f.kind == kind]
