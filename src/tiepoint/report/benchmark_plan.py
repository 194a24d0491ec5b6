# SPDX-License-Identifier: BSD-3-Clause
"""Plan a benchmark from stored runs: scenes and pairs that separate methods by a given difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.formatting import count_text
from ..core.scores import SceneValues
from ..run.race.units import UnitScore, stored_facts, unit_score
from ..run.result import Run
from ..stats.planning import (
    MAX_SCENES,
    MIN_SCENES,
    MIN_SCENES_INTERVAL,
    Components,
    components,
    detectable,
    exact_power,
    race_length,
    scenes_needed,
    stratified_variance,
    variance_factors,
)
from ..tasks import load_task
from ..tasks.info import metric_info
from ..tasks.unit_values import NotRaceableError

MILLION = "more than a million"


@dataclass(frozen=True)
class PlanSettings:
    """Settings of a plan. `detect` is the difference to detect, in the stored unit of the metric.

    `family` divides `alpha` by the number of pairs of methods. `pairs_a_scene` is the number of image pairs
    in each planned scene; None for the present number.
    """

    detect: float
    power: float = 0.8
    alpha: float = 0.05
    pairs_a_scene: int | None = None
    family: bool = False

    def check(self) -> None:
        """Raise an error for impossible settings."""
        if not (math.isfinite(self.detect) and self.detect > 0):
            raise InputError(f"`detect` is {self.detect:g}; expected a difference above 0")
        for name in ("power", "alpha"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(
                    f"`{name}` is {getattr(self, name):g}; expected a probability between 0 and 1"
                )
        if self.pairs_a_scene is not None and self.pairs_a_scene < 1:
            raise InputError(f"`pairs_per_scene` is {self.pairs_a_scene}; expected at least 1")


@dataclass(frozen=True)
class PlanRow:
    """Plan for one pair of methods. Numbers of scenes are None if they exceed a million.

    `scenes` is the required number of scenes, with the 80 % interval `scenes_low` to `scenes_high`, and
    `pairs` the number of units in them. `floor` is the number of scenes that is required even with unlimited
    pairs per scene. The present benchmark has `now` scenes and `pairs_now` units, and detects the difference
    `detects`. A race on it, which stops once one method is certainly ahead, needs about `race` units. If
    `note` is set, no number is given.
    """

    first: str
    second: str
    now: int
    pairs_now: int
    difference: float
    variance: float
    detects: float
    scenes: int | None
    scenes_low: int | None = None
    scenes_high: int | None = None
    has_interval: bool = False
    pairs: int | None = None
    floor: int | None = None
    design_effect: float | None = None
    power_exact: float | None = None
    race: float | None = None
    kinds: int = 1
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class BenchmarkPlan:
    """Plan of a benchmark: one row per pair of methods."""

    task: str
    protocol: str
    metric: str
    group: str
    dataset: str
    settings: PlanSettings
    rows: tuple[PlanRow, ...]
    unit: str = "pair"

    @property
    def alpha(self) -> float:
        """Error probability of the test of each pair of methods."""
        return self.settings.alpha / (len(self.rows) if self.settings.family else 1)

    @property
    def scale(self) -> tuple[float, str]:
        """Factor and unit of printed differences: percentage points for fractions."""
        info = metric_info(load_task(self.task).info, self.metric)
        return (100.0, "points") if info.unit == "fraction" else (1.0, info.unit)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        plain = {k: getattr(self, k) for k in ("task", "protocol", "metric", "group", "dataset", "unit")}
        return {**plain, **asdict(self.settings), "rows": [row.to_dict() for row in self.rows]}


def plan_benchmark(
    runs: Sequence[Run],
    settings: PlanSettings,
    *,
    protocol: str | None = None,
    metric: str | None = None,
    group: str | None = None,
) -> BenchmarkPlan:
    """Plan a benchmark from runs of one task and dataset, for every pair of methods."""
    settings.check()
    names = [run.method for run in runs]
    if len(runs) < 2:
        raise InputError(f"a plan needs runs of at least two methods, found {len(runs)}; run another method")
    if len(set(names)) < len(names):
        names = [f"{run.method} ({run.id})" for run in runs]
    first = runs[0]
    for what, values in (
        ("task", {r.task for r in runs}),
        ("dataset", {r.manifest.dataset.hash for r in runs}),
        ("pair lists", {r.manifest.lists for r in runs}),
    ):
        if len(values) > 1:
            raise InputError(f"these runs differ in their {what}; name runs with the same {what}")
    task = load_task(first.task)
    shared = set.intersection(*({s.protocol for s in r.score_rows} for r in runs))
    chosen = protocol or next((p for p in task.protocols if p in shared), None)
    if chosen not in shared:
        raise InputError(
            f"not all of these runs have scores under {protocol or 'the same protocol'}; run all "
            "methods under one protocol"
        )
    tables = [_scene_table(run, str(chosen), metric, group) for run in runs]
    about = tables[0]
    rows = []
    count = len(runs) * (len(runs) - 1) // 2
    alpha = settings.alpha / count if settings.family else settings.alpha
    for i, j in combinations(range(len(runs)), 2):
        rows.append(_row((names[i], names[j]), tables[i], tables[j], settings, alpha))
    return BenchmarkPlan(
        task.name, str(chosen), about.metric, about.group, first.manifest.dataset.name, settings, tuple(rows),
        about.unit,
    )  # fmt: skip


@dataclass(frozen=True)
class _SceneTable:
    """Values of a score by (stratum, scene) and unit, with unit weights if they are known.

    Without values of units, each scene counts as one unit.
    """

    metric: str
    group: str
    unit: str
    by_scene: Mapping[tuple[str, str], Mapping[str, float]]
    weights: Mapping[str, float] | None


def _scene_table(run: Run, protocol: str, metric: str | None, group: str | None) -> _SceneTable:
    """Return unit values by scene. For scores that are not means over units, return scene values."""
    task = load_task(run.task)
    comparison = task.comparison(protocol)
    try:
        records = {unit: by[comparison] for unit, by in run.unit_records.items() if comparison in by}
        score = unit_score(task, stored_facts(task, records), protocol, metric, group)
    except NotRaceableError as e:
        return _from_scene_values(run, protocol, metric, group, e)
    return _from_units(score, score.values(records))


def _from_units(score: UnitScore, values: Mapping[str, float]) -> _SceneTable:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for key in score.units.weights:
        if key not in values:
            raise InputError(f"unit {key} has no value; rerun the method first")
        place = (score.units.strata[key], score.units.scenes[key])
        found.setdefault(place, {})[key] = values[key]
    return _SceneTable(score.metric, score.group, score.units.unit, found, score.units.weights)


def _from_scene_values(
    run: Run, protocol: str, metric: str | None, group: str | None, reason: NotRaceableError
) -> _SceneTable:
    info = load_task(run.task).info
    chosen = info.other_names.get(metric, metric) if metric else info.headline[0]
    own = group or (info.headline[1] if chosen == info.headline[0] else "all")
    table = run.values.get(protocol, {}).get((chosen, own))
    if not isinstance(table, SceneValues) or table.weights is not None:
        raise InputError(f"{reason}; a plan needs values of units or scenes with fixed weights") from None
    found = {}
    for scene, kind, column in zip(table.scenes, table.kinds, np.asarray(table.cells).T, strict=True):
        known = column[np.isfinite(column)]
        if len(known):
            found[kind if len(table.cells) > 1 else "", scene] = {scene: float(known.mean())}
    return _SceneTable(chosen, own, "scene", found, None)


def _row(
    names: tuple[str, str], a: _SceneTable, b: _SceneTable, settings: PlanSettings, alpha: float
) -> PlanRow:
    places = sorted(set(a.by_scene) & set(b.by_scene))
    groups: dict[str, list[list[float]]] = {}
    for stratum, scene in places:
        one, two = a.by_scene[stratum, scene], b.by_scene[stratum, scene]
        shared = [k for k in one if k in two]
        if shared:
            groups.setdefault(stratum, []).append([one[k] - two[k] for k in shared])
    scenes = sum(map(len, groups.values()))
    if scenes < MIN_SCENES:
        raise InputError(f"these runs have {count_text(scenes, 'scene')}; a plan needs at least {MIN_SCENES}")
    if small := sorted(k for k, g in groups.items() if len(g) < 2):
        raise InputError(f"stratum {small[0]!r} has one scene, so its spread is unknown; plan another group")
    parts = {k: components(g) for k, g in groups.items()}
    return _planned(names, groups, parts, _unit_variance(a, b), settings, alpha)


def _unit_variance(a: _SceneTable, b: _SceneTable) -> tuple[float, int] | None:
    """Return the weighted variance of the unit differences and the number of units."""
    if a.weights is None:
        return None
    one, two = ({k: v for by in t.by_scene.values() for k, v in by.items()} for t in (a, b))
    keys = [k for k in a.weights if k in two]
    w = np.array([a.weights[k] for k in keys])
    d = np.array([one[k] - two[k] for k in keys])
    w = w / w.sum()
    return float(w @ d**2 - (w @ d) ** 2), len(keys)


def _planned(
    names: tuple[str, str],
    groups: Mapping[str, Sequence[Sequence[float]]],
    parts: Mapping[str, Components],
    units: tuple[float, int] | None,
    settings: PlanSettings,
    alpha: float,
) -> PlanRow:
    n = settings.pairs_a_scene
    how: Any = {"power": settings.power, "alpha": alpha, "kinds": len(parts)}
    scenes = sum(c.scenes for c in parts.values())
    pairs = sum(c.pairs for c in parts.values())
    known = all(c.within is not None for c in parts.values())
    if n is not None and not known:
        raise InputError(
            "`pairs_per_scene`: every scene has one value, so the effect of more pairs is unknown; "
            "omit the option"
        )
    weights = {k: 1 / len(parts) for k in parts}
    shares = {k: c.scenes / scenes for k, c in parts.items()}

    def combined(of: Mapping[str, float]) -> float:
        return stratified_variance(of, weights, shares)

    variance = combined({k: c.variance(n) for k, c in parts.items()})
    now = combined({k: c.scene_variance for k, c in parts.items()})
    difference = sum(weights[k] * c.mean for k, c in parts.items())
    base = PlanRow(*names, scenes, pairs, difference, variance, 0.0, 2, kinds=len(parts))
    if now <= 0:
        return _replace(base, note="these runs do not differ in any scene")
    wanted = scenes_needed(variance, settings.detect, **how)
    per = n or scenes / sum(c.scenes / c.pairs_a_scene for c in parts.values())
    # Residuals of the scene means from the mean of their kind have the kurtosis of the interval.
    residuals = np.concatenate([np.array([np.mean(g) for g in groups[k]]) - parts[k].mean for k in parts])
    enough = scenes >= MIN_SCENES_INTERVAL
    ends = [scenes_needed(variance * f, settings.detect, **how) for f in variance_factors(residuals)]
    floor = combined({k: c.between or 0.0 for k, c in parts.items()}) if known else None
    icc = [c.design_effect(per) for c in parts.values()]
    return _replace(
        base,
        detects=detectable(now, scenes, **how),
        scenes=wanted,
        scenes_low=ends[0] if enough else None,
        scenes_high=ends[1] if enough else None,
        has_interval=enough,
        pairs=None if wanted is None or units is None else math.ceil(wanted * per - 1e-9),
        floor=None if floor is None else scenes_needed(floor, settings.detect, **how),
        design_effect=None if not known else float(np.mean([e for e in icc if e is not None])),
        power_exact=None
        if wanted is None
        else exact_power(variance, settings.detect, wanted, alpha, kinds=len(parts)),
        race=None if units is None else race_length(units[0], settings.detect, units[1], settings.alpha),
    )


def _replace(row: PlanRow, **changes: Any) -> PlanRow:
    from dataclasses import replace

    return replace(row, **changes)


def scenes_text(number: int | None) -> str:
    """Return a number of scenes as text.

    >>> scenes_text(1234), scenes_text(None)
    ('1,234', 'more than a million')
    """
    return MILLION if number is None or number >= MAX_SCENES else f"{number:,}"


def plan_table(plan: BenchmarkPlan) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the printed table."""
    factor, unit = plan.scale
    header = ["methods", "scenes now", f"detects now ({unit})", "scenes", "about (80 %)", f"{plan.unit}s"]
    header += ["at least", "race"]
    rows = []
    for r in plan.rows:
        named = f"{r.first}, {r.second}"
        if r.note:
            rows.append([named, f"{r.now:,}", "", r.note, "", "", "", ""])
            continue
        about = f"{scenes_text(r.scenes_low)}–{scenes_text(r.scenes_high)}" if r.has_interval else "unknown"
        rows.append(
            [
                named,
                f"{r.now:,}",
                f"{factor * r.detects:.2f}",
                scenes_text(r.scenes),
                about,
                "" if r.pairs is None else f"{r.pairs:,}",
                "" if r.design_effect is None else scenes_text(r.floor),
                "" if r.race is None else f"{r.race:,.0f}",
            ]
        )
    return header, rows


def plan_sentences(plan: BenchmarkPlan) -> list[str]:
    """Return sentences that explain the table of a plan and its limits."""
    s = plan.settings
    factor, unit = plan.scale
    each = f"{100 * plan.alpha:.3g} % error" + (f" for each of {len(plan.rows)} pairs" * s.family)
    size = "" if s.pairs_a_scene is None else f", {s.pairs_a_scene} {plan.unit}s a scene"
    lines = [
        f"Scenes that separate a difference of {factor * s.detect:g} {unit} with {100 * s.power:g} % "
        f"probability ({plan.metric}, {plan.dataset}, {each}{size})."
    ]
    numbers = sorted(r.scenes or MAX_SCENES for r in plan.rows if not r.note)
    if len(numbers) > 1:
        middle = int(np.median(numbers))
        lines.append(
            f"Scenes required, median over {len(numbers)} pairs of methods: {scenes_text(middle)}, range "
            f"{scenes_text(numbers[0])} to {scenes_text(numbers[-1])}."
        )
    effects = [r.design_effect for r in plan.rows if r.design_effect is not None]
    if effects and plan.unit != "scene":
        lines.append(
            f"Design effect {min(effects):.1f} to {max(effects):.1f}: that many {plan.unit}s of one "
            f"scene count as one independent {plan.unit}. More {plan.unit}s per scene cannot lower the "
            "number of scenes below `at least`."
        )
    lines.append(
        "The variance is that of these pairs of methods; similar methods need fewer scenes. The "
        "numbers hold for scenes of this kind, and a benchmark of this size may still fail to separate "
        "the methods."
    )
    if any(r.race is not None for r in plan.rows):
        lines.append(
            f"`race`: expected number of {plan.unit}s of this benchmark until `tiepoint race` decides "
            f"about these {plan.unit}s."
        )
    return lines
