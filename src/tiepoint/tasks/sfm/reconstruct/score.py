# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `sfm/reconstruct`: those of `sfm/poses`, averaged over seeds, and counts, times and memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import SceneValues, Score, group_name
from ...scene_means import score_from_scenes, with_protocol
from ..compare import INVALID, REGISTERED
from ..score import score as score_poses

STAGES = ("matching", "verification", "mapping")
BY_SEED = ("auc", "maa", "maa_clusterness", "absolute_auc")
"""Metrics whose variation over seeds is reported: the first one that a protocol has."""


def score(records: Sequence[Records], protocol: str) -> list[Score]:
    """Return all scores under a protocol. Scenes without truth have only counts."""
    if not records:
        return []
    known = [r for r in records if r.meta["has_truth"]]
    made = _mean_over_seeds([score_poses(own, protocol) for own in by_seed(known)])
    own = {(s.metric, s.group) for s in made}
    made += [s for s in _counts(records) if (s.metric, s.group) not in own]
    return with_protocol(made, protocol)


def by_seed(records: Sequence[Records]) -> list[list[Records]]:
    """Return the records of each seed, in the order of seeds."""
    found: dict[int, list[Records]] = defaultdict(list)
    for record in records:
        found[int(record.meta["seed"])].append(record)
    return [found[seed] for seed in sorted(found)]


def _mean_over_seeds(runs: Sequence[Sequence[Score]]) -> list[Score]:
    """Return the mean of each score over seeds. A scene value is the mean over the seeds that have it."""
    grouped: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for run in runs:
        for one in run:
            grouped[one.metric, one.group].append(one)
    made = [_mean(own) for own in grouped.values()]
    lead = next((m for m in BY_SEED if (m, "all") in grouped), None)
    spread = [] if lead is None or len(runs) < 2 else _spread(lead, grouped)
    return [*made[:1], *spread, *made[1:]]


def _mean(scores: Sequence[Score]) -> Score:
    first = scores[0]
    if first.scenes is None:
        return replace(first, value=float(np.mean([s.value for s in scores])))
    cells = _nan_mean([s.scenes.cells for s in scores if s.scenes is not None])
    table = SceneValues(first.scenes.scenes, first.scenes.kinds, cells, first.scenes.weights)
    more = {"low": first.low, "high": first.high} if first.low is not None and len(scores) == 1 else {}
    return score_from_scenes(
        first.metric, first.group, first.n, table, chance=first.chance, note=first.note, **more
    )


def _nan_mean(tables: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the elementwise mean of tables without NaN entries; NaN where all entries are NaN."""
    stack = np.array(tables)
    known = np.isfinite(stack)
    count = known.sum(axis=0)
    total = np.where(known, stack, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


def _spread(metric: str, grouped: Mapping[tuple[str, str], Sequence[Score]]) -> list[Score]:
    """Return the standard deviation, minimum and maximum of a metric over seeds. They are not an interval."""
    made = []
    for (name, group), scores in grouped.items():
        values = np.array([s.value for s in scores])
        if name != metric or not (group == "all" or "threshold" in group) or not np.isfinite(values).all():
            continue
        found = {"sd": values.std(ddof=1), "min": values.min(), "max": values.max()}
        made += [Score(f"{metric}_seed_{k}", group, float(v), len(values)) for k, v in found.items()]
    return made


def _counts(records: Sequence[Records]) -> list[Score]:
    """Return counts, times and memory as scores: means over the seeds of each scene, then over scenes."""
    names = list(dict.fromkeys(str(r.meta["scene"]) for r in records))

    def mean(metric: str, value: Callable[[Records], float], group: str = "all") -> Score:
        cells = [
            _nan_mean([np.array([value(r)]) for r in records if r.meta["scene"] == name]) for name in names
        ]
        table = SceneValues(tuple(names), ("other",) * len(names), np.array(cells).reshape(1, -1))
        return score_from_scenes(metric, group, len(records), table)

    made = [
        mean("registered_images", _registered),
        mean("models", lambda r: float(len(r.meta["points"]))),
        mean("points", lambda r: _points(r, "points")),
        mean("track_length", _track_length),
        mean("observations_per_image", lambda r: _ratio(_points(r, "observations"), _registered(r))),
        mean("reprojection_error_px", lambda r: _weighted(r, "error_median", "observations")),
        mean("reprojection_error_px", lambda r: _weighted(r, "error_mean", "points"), "over=points"),
        mean("matches", lambda r: float(sum(p[2] for p in r.meta["pairs"]))),
        mean("inliers", lambda r: float(sum(p[3] for p in r.meta["pairs"]))),
        mean("failed_seeds", lambda r: float(bool(r.meta["failure"]))),
    ]
    for stage in STAGES:
        made.append(mean(f"{stage}_s", lambda r, s=stage: _time(r, s, 0)))  # type: ignore[misc]
        made.append(mean(f"{stage}_s", lambda r, s=stage: _time(r, s, 1), group_name(clock="cpu")))  # type: ignore[misc]
    made.append(mean("peak_mib", lambda r: float(r.meta["peak_mib"])))
    return [s for s in made if np.isfinite(s.value)]


def _registered(record: Records) -> float:
    own = (record["model"] >= 0) & (record["state"] == REGISTERED)
    return float(len(np.unique(record["image"][own & (record["state"] != INVALID)])))


def _points(record: Records, key: str) -> float:
    return float(sum(p[key] for p in record.meta["points"] if p is not None))


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def _track_length(record: Records) -> float:
    return _ratio(_points(record, "observations"), _points(record, "points"))


def _weighted(record: Records, key: str, weight: str) -> float:
    known = [p for p in record.meta["points"] if p is not None and p[key] is not None and p[weight]]
    if not known:
        return float("nan")
    return float(np.average([p[key] for p in known], weights=[p[weight] for p in known]))


def _time(record: Records, stage: str, clock: int) -> float:
    two = record.meta["seconds"].get(stage)
    return float("nan") if two is None else float(two[clock])
