# SPDX-License-Identifier: BSD-3-Clause
"""Scores of imported pose errors, averaged over the sets of the ZEB benchmark.

The poses themselves are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.formatting import count_text, first_few
from ...core.records import Records
from ...core.scores import SceneValues, Score, group_name
from ...metrics.error_curves import auc_shares, auc_trapezoid
from ..scene_means import SceneSums, micro_score, with_protocol
from ..unit_values import TRAPEZOID, UnitFacts, UnitWeights, unit_weights
from .protocols import THRESHOLDS_DEG

Floats = NDArray[np.float64]
FORM = "errors"
PROTOCOL = "zeb"
SETS = (
    "GL3D", "BlendedMVS", "ETH3DI", "ETH3DO", "KITTI", "RobotcarWeather",
    "RobotcarSeason", "RobotcarNight", "Multi-FoV", "SceneNetRGBD", "ICL-NUIM", "GTA-SfM",
)  # fmt: skip
"""Sets (datasets) of the ZEB benchmark, in the order of its table."""
SET_DEG = 5
"""Threshold of the published score in degrees."""
RIGHT_MATCHES, RIGHT_SHARE = 100, 0.9
"""Minimum number and share of correct matches for which a pair without a pose is counted separately."""
EXACT_NOTE = "intervals and tests use the exact area, which is a mean over pairs"


def is_imported(records: Iterable[Records]) -> bool:
    """Return whether the records contain imported pose errors."""
    return any(r.meta.get("form") == FORM for r in records)


def error_records(
    rows: Mapping[str, Sequence[str]], columns: Mapping[str, Mapping[str, Floats]], version: str
) -> Records:
    """Return the records of all pairs: identifiers and error columns, given by set."""
    names = sorted(rows, key=_place)
    counts = [len(rows[name]) for name in names]
    found = {c: np.concatenate([columns[name][c] for name in names]) for c in columns[names[0]]}
    found["set"] = np.repeat(np.arange(len(names), dtype=np.int16), counts)
    meta = {
        "form": FORM,
        "protocol": PROTOCOL,
        "version": version,
        "sets": names,
        "identifiers": [key for name in names for key in rows[name]],
        "scene": "",
        "pair": "",
        "dataset": PROTOCOL,
    }
    return Records("pair", found, meta)


def _place(name: str) -> tuple[int, str]:
    return (SETS.index(name) if name in SETS else len(SETS), name)


def unit_keys(record: Records) -> list[str]:
    """Return the keys of all pairs: ``SET/SCENE#IMAGE0#IMAGE1``."""
    sets = record.meta["sets"]
    of = np.asarray(record["set"]).tolist()
    return [f"{sets[k]}/{key}" for k, key in zip(of, record.meta["identifiers"], strict=True)]


def only_pairs(record: Records, keys: set[str]) -> Records:
    """Return the records of some pairs, given by their keys."""
    rows = [i for i, key in enumerate(unit_keys(record)) if key in keys]
    identifiers = record.meta["identifiers"]
    meta = {**record.meta, "identifiers": [identifiers[i] for i in rows]}
    return Records("pair", {name: column[rows] for name, column in record.columns.items()}, meta)


def imported_facts(record: Records) -> dict[str, UnitFacts]:
    """Return the scene and the set of every pair."""
    sets = record.meta["sets"]
    groups = [{"set": name} for name in sets]
    of = np.asarray(record["set"]).tolist()
    return {
        f"{sets[k]}/{key}": UnitFacts(f"{sets[k]}/{key.partition('#')[0]}", sets[k], 1.0, None, groups[k])
        for k, key in zip(of, record.meta["identifiers"], strict=True)
    }


def has_imported_facts(units: Mapping[str, UnitFacts]) -> bool:
    """Return whether `units` are imported pairs, which belong to the sets of a benchmark."""
    return any("set" in (facts.groups or {}) for facts in units.values())


def imported_weights(units: Mapping[str, UnitFacts], metric: str, parts: Mapping[str, str]) -> UnitWeights:
    """Return the weights of the pairs in a score: equal within a set, with the same total for every set."""
    have = {facts.kind for facts in units.values()}
    wanted = [parts["set"]] if "set" in parts else [name for name in SETS if name in have]
    if not have.intersection(wanted):
        listed = first_few(sorted(have))
        raise InputError(
            f"these results have no set {parts.get('set', 'of the benchmark')!r}; choose one of {listed}"
        )
    sizes = {key: 1.0 for key, facts in units.items() if facts.kind in wanted}
    note = ""
    if metric == "auc":
        counts = dict.fromkeys(wanted, 0)
        for key in sizes:
            counts[units[key].kind] += 1
        points = 50 * math.fsum(1 / n for n in counts.values()) / len(counts)
        note = TRAPEZOID.replace("50/n points", f"{points:.2g} points")
    return unit_weights(units, sizes, by_kind=True, note=note, stratum="set")


def imported_values(record: Records, metric: str, parts: Mapping[str, str]) -> dict[str, float]:
    """Return the value of every pair: its part of the AUC, or whether its error is below the threshold."""
    errors, degrees = pose_errors(record), int(parts.get("threshold_deg", SET_DEG))
    values = auc_shares(errors, degrees) if metric == "auc" else (errors < degrees).astype(np.float64)
    return dict(zip(unit_keys(record), values.tolist(), strict=True))


def pose_errors(record: Records) -> Floats:
    """Return the larger of both angles in degrees. An angle that is not finite counts as 180."""
    angles = [np.asarray(record[name], np.float64) for name in ("R_errs", "t_errs")]
    return np.maximum(*(np.where(np.isfinite(a), a, 180.0) for a in angles))


def imported_scores(records: Sequence[Records], protocol: str) -> list[Score]:
    """Return all scores of imported pose errors."""
    if protocol != PROTOCOL:
        raise InputError(
            f"these results were imported as pose errors under {PROTOCOL}; they cannot be scored under "
            f'{protocol}, only under `protocol="{PROTOCOL}"`'
        )
    (record,) = records
    e = pose_errors(record)
    of = np.asarray(record["set"])
    names = record.meta["sets"]
    found = {name: np.flatnonzero(of == k) for k, name in enumerate(names)}
    by_set = {name: rows for name, rows in found.items() if len(rows)}
    counted = [name for name in by_set if name in SETS]
    scenes = _scenes(record)
    made: list[Score] = []
    for t in THRESHOLDS_DEG:
        made += _areas(e, by_set, counted, scenes, t)
    made += _means("accuracy", by_set, counted, {t: (e < t) for t in THRESHOLDS_DEG})
    made += _means("precision", by_set, counted, {None: np.nan_to_num(record["Bef.Prec"])})
    made += _counts(record, by_set)
    return with_protocol(made, PROTOCOL)


def mean_note(sets: Sequence[str]) -> str:
    """Return a text on what a mean over sets averages: ``mean of 12 sets``, or ``mean of 3 of 12 sets``."""
    return (
        f"mean of {len(SETS)} sets" if len(sets) == len(SETS) else f"mean of {len(sets)} of {len(SETS)} sets"
    )


def _scenes(record: Records) -> NDArray[Any]:
    sets = record.meta["sets"]
    of = np.asarray(record["set"]).tolist()
    pairs = zip(of, record.meta["identifiers"], strict=True)
    return np.array([f"{sets[k]}/{key.partition('#')[0]}" for k, key in pairs])


def _areas(
    e: Floats, by_set: Mapping[str, NDArray[Any]], counted: Sequence[str], scenes: NDArray[Any], t: int
) -> Iterator[Score]:
    """Yield the AUC up to a threshold in degrees: by set, and the mean with every kind of interval."""
    shares = auc_shares(e, t)
    printed, exact = {}, {}
    for name, rows in by_set.items():
        printed[name], exact[name] = auc_trapezoid(e[rows], t), float(shares[rows].mean())
        group = group_name(set=name, threshold_deg=t)
        yield micro_score(
            "auc", _sums(scenes[rows], shares[rows], name), group=group, value=printed[name], note=EXACT_NOTE
        )
        yield Score("auc", group_name(area="exact", set=name, threshold_deg=t), exact[name], len(rows))
    if not counted:
        return
    n, what = sum(len(by_set[name]) for name in counted), mean_note(counted)
    note = _no_interval(what, by_set, scenes)
    yield Score("auc", group_name(threshold_deg=t), _mean(printed, counted), n, note=note)
    value = _mean(exact, counted)
    yield Score("auc", group_name(area="exact", threshold_deg=t), value, n, note=what)
    table = SceneValues(tuple(counted), ("set",) * len(counted), np.array([[exact[k] for k in counted]]))
    group = group_name(cluster="set", threshold_deg=t)
    yield Score(
        "auc", group, value, n, scenes=table, note=f"{what}; interval over sets like these; exact area"
    )
    low, high = pair_interval({k: shares[by_set[k]] for k in counted})
    group = group_name(cluster="pair", threshold_deg=t)
    note = f"{what}; interval over other pairs of these scenes, not over scenes; exact area"
    yield Score("auc", group, value, n, low=low, high=high, note=note)


def pair_interval(values: Mapping[str, Floats]) -> tuple[float | None, float | None]:
    """Return the normal 95 % interval of a mean over sets, from the spread of pairs within each set.

    Both limits are None if a set has only one pair.
    """
    if min(map(len, values.values())) < 2:
        return None, None
    center = float(np.mean([v.mean() for v in values.values()]))
    se = math.sqrt(math.fsum(v.var(ddof=1) / len(v) for v in values.values())) / len(values)
    return center - 1.96 * se, center + 1.96 * se


def _sums(scenes: NDArray[Any], values: Floats, name: str) -> SceneSums:
    names, of = np.unique(scenes, return_inverse=True)
    total = np.bincount(of, weights=values, minlength=len(names))
    count = np.bincount(of, minlength=len(names)).astype(np.float64)
    return SceneSums(tuple(map(str, names)), (name,) * len(names), np.asarray(total, np.float64), count)


def _mean(values: Mapping[str, float], names: Sequence[str]) -> float:
    return float(np.mean([values[name] for name in names]))


def _no_interval(what: str, by_set: Mapping[str, NDArray[Any]], scenes: NDArray[Any]) -> str:
    """Return `what`, followed by the reason why the mean over sets has no interval over scenes, if any."""
    alone = [name for name, rows in by_set.items() if len(set(scenes[rows])) == 1]
    if not alone:
        return what
    have = "has" if len(alone) == 1 else "have"
    return f"{what}; no interval over scenes, because {' and '.join(alone)} {have} one scene"


def _means(
    metric: str, by_set: Mapping[str, NDArray[Any]], counted: Sequence[str], values: Mapping[int | None, Any]
) -> Iterator[Score]:
    """Yield means over the pairs of each set, and the means over sets, by threshold."""
    for t, own in values.items():
        parts = {} if t is None else {"threshold_deg": t}
        found = {name: float(np.mean(own[rows])) for name, rows in by_set.items()}
        if counted:
            n = sum(len(by_set[name]) for name in counted)
            yield Score(metric, group_name(**parts), _mean(found, counted), n, note=mean_note(counted))
        for name, value in found.items():
            yield Score(metric, group_name(set=name, **parts), value, len(by_set[name]))


def _counts(record: Records, by_set: Mapping[str, NDArray[Any]]) -> Iterator[Score]:
    """Yield the numbers of pairs without a pose, in total and by set."""
    failed = ~np.isfinite(np.asarray(record["R_errs"], np.float64))
    right = (record["Bef.Num"] >= RIGHT_MATCHES) & (record["Bef.Prec"] >= RIGHT_SHARE)
    for metric, mask in (("failures", failed), ("failures_with_right_matches", failed & right)):
        yield Score(metric, "all", float(mask.sum()), len(mask))
        for name, rows in by_set.items():
            yield Score(metric, group_name(set=name), float(mask[rows].sum()), len(rows))


def import_warnings(record: Records) -> list[str]:
    """Return warnings about sets of the benchmark that are missing, and about unknown sets."""
    names = record.meta["sets"]
    found = []
    if unknown := [name for name in names if name not in SETS]:
        sets = count_text(len(unknown), "set")
        found.append(
            f"{sets} that the benchmark does not have ({first_few(unknown)}): scored alone, not in the mean"
        )
    if missing := [name for name in SETS if name not in names]:
        known = [name for name in names if name in SETS]
        found.append(f"the score is the {mean_note(known)}; missing: {first_few(missing, 12)}")
    return found
