# SPDX-License-Identifier: BSD-3-Clause
"""Compare methods on the same scenes: differences, intervals, tests, groups that cannot be told apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ...core.errors import InputError, UnknownNameError
from ...core.scores import PooledBins, SceneValues
from ...stats.duplicates import duplicate_scenes, identical_methods, merge_scenes
from ...stats.paired import MAX_STEP_DOWN_METHODS, against, all_pairs, compare_pairs, compare_pairs_wide
from ...stats.resampling import RESAMPLES, make_scene_score, seed_of
from ...stats.samples import MethodSample, sample_of_pooled, sample_of_scenes
from ...stats.sign_flip import FLIPS
from .comparability import REMEDY, align_pooled, align_scenes, check_metadata
from .comparison import Comparison
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
) -> Comparison:
    """Compare methods by their values in the same scenes.

    Scenes that agree in all values of all methods are one scene and count once; methods that agree in all
    scenes are one method. All pairs of distinct methods are one family, tested by sign flips with step-down
    max-T; letters and ranks follow from it. With a baseline, the p-values shown beside it come from the
    smaller family of comparisons with the baseline. Without one, differences are to the best method, and
    their p-values stay those of all pairs, because the data chose it.

    More than 300 distinct methods are tested by single-step max-T over all pairs, with fewer patterns of
    signs. They have ranges of ranks and no letters, and only the pairs with the baseline are kept.

    Args:
        tables: by method, its scene values, or the bins of its pooled score.
        baseline: the method the others are compared with; by default the best one.
        values: the exact pooled scores by method; bins alone give them up to binning.
        task: names of what is compared, for the title.
        metric: likewise.
        group: likewise.
        protocol: likewise.
        higher_is_better: False for errors.
        bounded: whether scores live between 0 and 1; by default, whether all scene values do.
        meta: by method, what must agree (dataset, lists, protocol …); see `check_metadata`.
        allow: what may differ nevertheless; the output says so.
        remedy: what to do about runs that differ, for the error.
        level: of the intervals, and of the family.
        flips: random sign patterns, where not all can be taken.
        resamples: bootstrap resamples from 40 scenes on.
        seed: by default from the names of the scenes.
        ranks_only: leave out intervals and differences to the baseline.

    Raises:
        ProblemsError: runs that differ in data, lists or protocol.
        UnknownNameError: a baseline that is not among the methods.

    >>> x = np.array([[0.9, 0.8, 0.7, 0.8, 0.6, 0.7]])
    >>> table = lambda cells: SceneValues(tuple("pqrstu"), ("v",) * 6, cells)
    >>> c = compare_methods({"a": table(x), "b": table(x / 2)}); c.rows[0].method, c.between("a", "b").separated
    ('a', True)
    """
    if not tables:
        raise InputError("nothing to compare; name at least one method")
    if baseline is not None and baseline not in tables:
        raise UnknownNameError("baseline", baseline, tables)
    notes = check_metadata(meta, allow, remedy) if meta else []
    names = list(tables)
    if isinstance(next(iter(tables.values())), PooledBins):
        given = _pooled(cast("Mapping[str, PooledBins]", tables), values, seed, resamples)
    else:
        given = _scenes(cast("Mapping[str, SceneValues]", tables), allow, remedy, seed, resamples)
    sample, scenes, kinds = given.sample, given.scenes, given.kinds
    bounded = given.inside if bounded is None else bounded
    same_as = {m: group[0] for group in given.twins for m in group[1:]}
    if baseline is not None and names.index(baseline) in same_as:
        same_as = _lead_with(names.index(baseline), same_as)
    kept = [m for m in range(len(names)) if m not in same_as]
    sign = 1.0 if higher_is_better else -1.0
    kept.sort(key=lambda m: (-sign * sample.value[m], names[m]))
    test_seed = seed_of("flips", list(scenes), list(kinds)) if seed is None else seed
    base = kept[0] if baseline is None else names.index(baseline)
    columns = np.array(kept, dtype=np.int64)
    how: dict[str, Any] = {"level": level, "flips": flips, "seed": test_seed}
    with_base = columns[against(kept.index(base), len(kept))]
    letters: list[tuple[str, ...]]
    if len(kept) > MAX_STEP_DOWN_METHODS:
        wide = compare_pairs_wide(sample, columns, base, **how)
        every = wide.shown
        shown = every if baseline is None else compare_pairs(sample, with_base, **how)
        letters, ranks = [()] * len(kept), counted_ranks(wide, sign)
    else:
        every = compare_pairs(sample, columns[all_pairs(len(kept))], **how)
        shown = every if baseline is None else compare_pairs(sample, with_base, **how)
        letters, ranks = letters_and_ranks(kept, every, sign=sign)
    shape: dict[str, Any] = {"level": level, "bounded": bounded, "sign": sign, "ranks_only": ranks_only}
    rows = method_rows(names, kept, base, sample, shown, letters, ranks, **shape)
    by_kind = dict(zip(names, given.by_kind, strict=True))
    rows = [replace(r, by_kind=by_kind[r.method]) for r in rows]
    by_name = {r.method: r for r in rows}
    for m, first in same_as.items():
        rows.append(replace(by_name[names[first]], method=names[m], identical_to=names[first]))
    rows.sort(key=lambda r: -sign * r.value)
    notes += given.notes
    notes += [f"{names[m]} equals {names[f]} in every scene: one method" for m, f in same_as.items()]
    return Comparison(
        rows=tuple(rows),
        pairs=PairRows(names, every, sign),
        task=task,
        metric=metric,
        group=group,
        protocol=protocol,
        baseline=names[base],
        baseline_given=baseline is not None,
        level=level,
        scenes=tuple(scenes),
        kinds=tuple(kinds),
        interval_kind=sample.interval_kind,
        resamples=resamples if sample.interval_kind == "bca" else 0,
        family_size=len(shown.pairs),
        pairs_size=len(kept) * (len(kept) - 1) // 2,
        draws=every.family.draws,
        exact=every.family.exact,
        smallest_p=every.family.smallest_p,
        higher_is_better=higher_is_better,
        percent=bounded,
        pooled=sample.by_scene is None,
        wide=len(kept) > MAX_STEP_DOWN_METHODS,
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _Given:
    """Methods brought to the same distinct scenes; `inside`: all values lie between 0 and 1.

    `by_kind` has the scores by kind of scene of each method.
    """

    sample: MethodSample
    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    twins: list[tuple[int, ...]]
    inside: bool
    notes: list[str]
    by_kind: list[ByKind]


def _scenes(
    tables: Mapping[str, SceneValues], allow: Collection[str], remedy: str, seed: int | None, resamples: int
) -> _Given:
    aligned, notes = align_scenes(tables, allow, remedy)
    scores = [make_scene_score(t) for t in aligned.values()]
    first = scores[0]
    if not first.scenes:
        raise InputError("no scene has a value for all methods; compare the same score of complete runs")
    stacked = np.concatenate([np.where(s.weights > 0, s.values, np.nan) for s in scores])
    groups = duplicate_scenes(stacked, first.scenes, first.kinds)
    notes += [f"{' = '.join(first.scenes[i] for i in g)} are the same scene and count once" for g in groups]
    scores = [merge_scenes(s, groups, keep_score=False) for s in scores]
    return _Given(
        sample_of_scenes(scores, seed=seed, resamples=resamples),
        scores[0].scenes,
        scores[0].kinds,
        identical_methods(np.array([s.values.ravel() for s in scores])),
        all(bool(((s.values >= 0) & (s.values <= 1)).all()) for s in scores),
        notes,
        [scene_kinds(s) for s in scores],
    )


def _pooled(
    tables: Mapping[str, PooledBins], values: Mapping[str, float] | None, seed: int | None, resamples: int
) -> _Given:
    bins = align_pooled(tables)
    exact = None if values is None else [float(values[n]) for n in tables]
    sample = sample_of_pooled(list(bins.values()), values=exact, seed=seed, resamples=resamples)
    first = next(iter(bins.values()))
    by_kind = [pooled_kinds(b) for b in bins.values()]
    # Two methods are one only if no scene tells them apart, neither by its value nor by what it moves.
    seen = np.concatenate([sample.value[:, None], sample.influence.T], axis=1)
    return _Given(
        sample, first.scenes, first.kinds, identical_methods(seen, tolerance=0.0), True, [], by_kind
    )


def _lead_with(base: int, same_as: dict[int, int]) -> dict[int, int]:
    """Let the baseline stand for its group of identical methods."""
    old = same_as[base]
    twins = [old, *(k for k, v in same_as.items() if v == old and k != base)]
    return {k: v for k, v in same_as.items() if v != old} | dict.fromkeys(twins, base)
