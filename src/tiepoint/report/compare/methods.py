# SPDX-License-Identifier: BSD-3-Clause
"""Compare methods on the same scenes: differences, intervals, tests and groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import first_few
from ...core.scores import PooledBins, SceneValues
from ...stats.duplicates import duplicate_scenes, identical_methods, merge_scenes
from ...stats.intervals import NO_SPREAD, one_sided
from ...stats.paired import (
    MAX_STEP_DOWN_METHODS,
    SIGN_FLIP,
    TESTS,
    against,
    all_pairs,
    compare_pairs,
    compare_pairs_wide,
)
from ...stats.resampling import RESAMPLES, make_scene_score, seed_of
from ...stats.samples import MethodSample, sample_of_pooled, sample_of_scenes
from ...stats.sign_flip import FLIPS
from .comparability import REMEDY, align_pooled, align_scenes, check_metadata
from .comparison import Comparison
from .margin import add_margin
from .rows import ByKind, PairRows, counted_ranks, letters_and_ranks, method_rows, pooled_kinds, scene_kinds


def compare_methods(
    tables: Mapping[str, SceneValues] | Mapping[str, PooledBins],
    *,
    baseline: str | None = None,
    values: Mapping[str, float] | None = None,
    task: str = "",
    metric: str = "",
    group: str = "all",
    protocol: str = "",
    higher_is_better: bool = True,
    bounded: bool | None = None,
    meta: Mapping[str, Mapping[str, Any]] | None = None,
    allow: Collection[str] = (),
    remedy: str = REMEDY,
    level: float = 0.95,
    flips: int = FLIPS,
    resamples: int = RESAMPLES,
    seed: int | None = None,
    ranks_only: bool = False,
    test: str = SIGN_FLIP,
    margin: float | None = None,
) -> Comparison:
    """Compare methods by their values in the same scenes.

    Scenes with identical values for all methods count once. Methods with identical values in all scenes count
    as one method. All pairs of distinct methods form one family, tested by sign flips with step-down max-T.
    Letters and ranks follow from these tests.

    If `baseline` is given, its p-values come from the smaller family of pairs with the baseline. Otherwise
    the best method is the baseline. In that case the p-values remain those of all pairs, because the data
    chose the baseline.

    More than 300 distinct methods are tested by single-step max-T over all pairs, with fewer sign patterns.
    They have rank ranges but no letters, and `pairs` has only the pairs with the baseline.

    Args:
        tables: scene values, or bins of a pooled score, by method.
        baseline: the reference method; by default the best one.
        values: exact pooled scores by method. Scores computed from bins are approximate.
        task: task named in the title, like `metric`, `group` and `protocol`.
        metric: metric named in the title.
        group: group named in the title.
        protocol: protocol named in the title.
        higher_is_better: False for errors.
        bounded: whether scores lie between 0 and 1; by default, whether all scene values do.
        meta: metadata that must agree, by method (dataset, pair lists …); see `check_metadata`.
        allow: differences to accept. Each is reported in a note.
        remedy: advice for the error about runs that are not comparable.
        level: confidence level of the intervals and of the family.
        flips: number of random sign patterns if there are too many to enumerate.
        resamples: number of bootstrap resamples, used for 40 or more scenes.
        seed: random seed, by default derived from the scene names.
        ranks_only: skip intervals and differences to the baseline.
        test: `sign-flip` or `bootstrap-t`; see docs/inference.md.
        margin: test whether each method loses at most this much against the baseline, in percentage points
            if scores are between 0 and 1, else in the unit of the score.

    Raises:
        ProblemsError: The runs differ in data, pair lists or protocol.
        UnknownNameError: The baseline is not among the methods, or the test is unknown.

    >>> x = np.array([[0.9, 0.8, 0.7, 0.8, 0.6, 0.7]])
    >>> table = lambda cells: SceneValues(tuple("pqrstu"), ("v",) * 6, cells)
    >>> c = compare_methods({"a": table(x), "b": table(x / 2)}); c.rows[0].method, c.pair("a", "b").separated
    ('a', True)
    """
    if not tables:
        raise InputError("nothing to compare; name at least one method")
    if baseline is not None and baseline not in tables:
        raise UnknownNameError("baseline", baseline, tables)
    if test not in TESTS:
        raise UnknownNameError("test", test, TESTS)
    notes = check_metadata(meta, allow, remedy) if meta else []
    if isinstance(next(iter(tables.values())), PooledBins):
        aligned = _from_pooled(cast("Mapping[str, PooledBins]", tables), values, seed, resamples)
    else:
        aligned = _from_scenes(cast("Mapping[str, SceneValues]", tables), allow, remedy, seed, resamples)
    if seed is None:
        seed = seed_of("flips", list(aligned.scenes), list(aligned.kinds))
    bounded = aligned.bounded if bounded is None else bounded
    how = {"level": level, "flips": flips, "seed": seed, "test": test}
    result = _compare(list(tables), aligned, baseline, higher_is_better, bounded, ranks_only, how)
    if margin is not None:
        result = add_margin(result, list(tables), aligned.sample, margin)
    return replace(
        result,
        task=task,
        metric=metric,
        group=group,
        protocol=protocol,
        resamples=resamples if result.interval_kind == "bca" else 0,
        notes=(*notes, *result.notes),
    )


def _compare(
    names: list[str],
    aligned: _Aligned,
    baseline: str | None,
    higher_is_better: bool,
    bounded: bool,
    ranks_only: bool,
    how: dict[str, Any],
) -> Comparison:
    """Compare methods on their common scenes. `how` has `level`, `flips`, `seed` and `test`."""
    sample, level = aligned.sample, how["level"]
    sign = 1.0 if higher_is_better else -1.0
    same_as = _duplicates(aligned.identical, None if baseline is None else names.index(baseline))
    distinct = [m for m in range(len(names)) if m not in same_as]
    distinct.sort(key=lambda m: (-sign * sample.value[m], names[m]))
    base = distinct[0] if baseline is None else names.index(baseline)
    columns = np.array(distinct, dtype=np.int64)
    letters: list[tuple[str, ...]]
    if len(distinct) > MAX_STEP_DOWN_METHODS:
        if how["test"] != SIGN_FLIP:
            most = f"at most {MAX_STEP_DOWN_METHODS} methods"
            raise InputError(f"{how['test']}: {len(distinct)} methods are too many; compare {most}")
        wide = compare_pairs_wide(sample, columns, base, **{k: v for k, v in how.items() if k != "test"})
        every = wide.shown
        letters, ranks = [()] * len(distinct), counted_ranks(wide, sign)
    else:
        every = compare_pairs(sample, columns[all_pairs(len(distinct))], **how)
        letters, ranks = letters_and_ranks(distinct, every, sign=sign)
    with_base = columns[against(distinct.index(base), len(distinct))]
    shown = every if baseline is None else compare_pairs(sample, with_base, **how)
    shape: dict[str, Any] = {"level": level, "bounded": bounded, "sign": sign, "ranks_only": ranks_only}
    rows = method_rows(names, distinct, base, sample, shown, letters, ranks, **shape)
    by_kind = dict(zip(names, aligned.by_kind, strict=True))
    by_name = {r.method: replace(r, by_kind=by_kind[r.method]) for r in rows}
    rows = list(by_name.values())
    for m, first in same_as.items():
        rows.append(replace(by_name[names[first]], method=names[m], identical_to=names[first]))
    duplicates = [f"{names[m]} equals {names[f]} in every scene: one method" for m, f in same_as.items()]
    return Comparison(
        rows=tuple(sorted(rows, key=lambda r: -sign * r.value)),
        pairs=PairRows(names, every, sign),
        task="",
        metric="",
        group="",
        protocol="",
        baseline=names[base],
        baseline_given=baseline is not None,
        level=level,
        scenes=tuple(aligned.scenes),
        kinds=tuple(aligned.kinds),
        interval_kind=sample.interval_kind,
        family_size=len(shown.pairs),
        pairs_size=len(distinct) * (len(distinct) - 1) // 2,
        draws=every.family.draws,
        exact=every.family.exact,
        smallest_p=every.family.smallest_p,
        higher_is_better=higher_is_better,
        percent=bounded,
        pooled=sample.by_scene is None,
        wide=len(distinct) > MAX_STEP_DOWN_METHODS,
        test=how["test"],
        skewed=int(every.skewed.sum()),
        notes=(*aligned.notes, *duplicates, *_flat_notes(names, distinct, sample, bounded, level)),
    )


def _flat_notes(
    names: list[str], distinct: list[int], sample: MethodSample, bounded: bool, level: float
) -> list[str]:
    """Return notes about methods whose scenes all have the same value. Empty if there are no intervals."""
    if sample.interval_kind == "none":
        return []
    flat = sorted(set(distinct) & set(np.flatnonzero(sample.flat).tolist()))
    edge = [m for m in flat if bounded and sample.by_scene is not None and sample.value[m] in (0, 1)]
    notes = [f"all scenes of {names[m]} are at {sample.value[m]:g}: {one_sided(level)}" for m in edge]
    inside = [names[m] for m in flat if m not in edge]
    return notes + ([f"{first_few(inside)}: {NO_SPREAD}"] if inside else [])


@dataclass(frozen=True)
class _Aligned:
    """Methods restricted to their common distinct scenes.

    `identical` has groups of identical methods. `bounded` is whether all values are between 0 and 1.
    `by_kind` has the scores of each method by kind of scene.
    """

    sample: MethodSample
    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    identical: list[tuple[int, ...]]
    bounded: bool
    notes: list[str]
    by_kind: list[ByKind]


def _from_scenes(
    tables: Mapping[str, SceneValues], allow: Collection[str], remedy: str, seed: int | None, resamples: int
) -> _Aligned:
    aligned, notes = align_scenes(tables, allow, remedy)
    scores = [make_scene_score(t) for t in aligned.values()]
    first = scores[0]
    if not first.scenes:
        raise InputError("no scene has values of all methods; compare complete runs by the same score")
    stacked = np.concatenate([np.where(s.weights > 0, s.values, np.nan) for s in scores])
    groups = duplicate_scenes(stacked, first.scenes, first.kinds)
    notes += [f"{' = '.join(first.scenes[i] for i in g)} are the same scene and count once" for g in groups]
    scores = [merge_scenes(s, groups, keep_score=False) for s in scores]
    return _Aligned(
        sample_of_scenes(scores, seed=seed, resamples=resamples),
        scores[0].scenes,
        scores[0].kinds,
        identical_methods(np.array([s.values.ravel() for s in scores])),
        all(bool(((s.values >= 0) & (s.values <= 1)).all()) for s in scores),
        notes,
        [scene_kinds(s) for s in scores],
    )


def _from_pooled(
    tables: Mapping[str, PooledBins], values: Mapping[str, float] | None, seed: int | None, resamples: int
) -> _Aligned:
    bins = align_pooled(tables)
    exact = None if values is None else [float(values[n]) for n in tables]
    sample = sample_of_pooled(list(bins.values()), values=exact, seed=seed, resamples=resamples)
    first = next(iter(bins.values()))
    by_kind = [pooled_kinds(b) for b in bins.values()]
    # Methods are identical only if score and influence agree in every scene.
    compared = np.concatenate([sample.value[:, None], sample.influence.T], axis=1)
    identical = identical_methods(compared, tolerance=0.0)
    return _Aligned(sample, first.scenes, first.kinds, identical, True, [], by_kind)


def _duplicates(identical: list[tuple[int, ...]], base: int | None) -> dict[int, int]:
    """Map each duplicate method to the baseline if its group has it, else to the first of its group."""
    same_as = {m: group[0] for group in identical for m in group[1:]}
    if base is None or base not in same_as:
        return same_as
    old = same_as[base]
    group = [old, *(k for k, v in same_as.items() if v == old and k != base)]
    return {k: v for k, v in same_as.items() if v != old} | dict.fromkeys(group, base)
