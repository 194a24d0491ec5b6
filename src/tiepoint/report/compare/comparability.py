# SPDX-License-Identifier: BSD-3-Clause
"""Check that runs are comparable: same data, pair lists, protocol and scenes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, ProblemsError, one_line_list
from ...core.formatting import first_few
from ...core.scores import PooledBins, SceneValues

SCENES, VALUES, WEIGHTS = "scenes", "values", "weights"
"""Differences between scene values that may be allowed, in addition to metadata keys."""
REMEDY = "rerun the older ones"
WEIGHTS_REMEDY = "compare by a score in which every scene counts the same"
"""Advice for methods with different numbers of queries, which a rerun would not change."""


def check_metadata(
    meta: Mapping[str, Mapping[str, Any]], allow: Collection[str], remedy: str = REMEDY
) -> list[str]:
    """Raise an error if the metadata of runs differ. The error lists each key, its values and their methods.

    Args:
        meta: metadata that must agree, by method: dataset hash, pair list hash, protocol, split …
            A value is None if unknown (imported results).
        allow: keys that may differ; `all` allows every key.
        remedy: advice for the error message.

    Returns:
        A note for each key that differs and is allowed, and for each key that is unknown for some method.

    >>> check_metadata({"a": {"protocol": "exact"}, "b": {"protocol": "workbench"}}, ["protocol"])
    ['compared although protocol differs: exact (a), workbench (b)']
    """
    differing: list[tuple[str, str]] = []
    unknown_keys: dict[tuple[str, ...], list[str]] = {}
    for key in dict.fromkeys(key for m in meta.values() for key in m):
        holders: dict[str, list[str]] = {}
        unknown = [method for method, m in meta.items() if key in m and m[key] is None]
        for method, m in meta.items():
            if method not in unknown:
                holders.setdefault(str(m.get(key, "not given")), []).append(method)
        if unknown and holders:
            unknown_keys.setdefault(tuple(unknown), []).append(key)
        if len(holders) > 1:
            shown = ", ".join(f"{_short(value)} ({first_few(who)})" for value, who in holders.items())
            differing.append((key, f"{key} differ{'' if key.endswith('s') else 's'}: {shown}"))
    notes = check_differences(differing, allow, remedy)
    for who, keys in unknown_keys.items():
        are = "are" if len(keys) > 1 or keys[0].endswith("s") else "is"
        notes.append(
            f"{' and '.join(keys)} of {first_few(who)} {are} not known (imported); scenes are matched by name"
        )
    return notes


class DifferingRunsError(ProblemsError):
    """Raised if runs are not comparable. `remedy` is advice; `keys` are differences that can be allowed."""

    def __init__(self, problems: Sequence[str], remedy: str, keys: Sequence[str]) -> None:
        self.remedy, self.keys = remedy, tuple(keys)
        accept = f'accept it with `allow="{",".join(keys)}"`'
        super().__init__(f"these runs cannot be compared ({remedy}, or {accept})", problems)

    @property
    def one_line(self) -> str:
        """The error on one line, for reports. It does not mention the option to allow differences.

        >>> DifferingRunsError(["a", "b"], "repeat them", ["x", "y"]).one_line
        'these runs cannot be compared (repeat them): a; and 1 more'
        """
        return one_line_list(f"these runs cannot be compared ({self.remedy})", self.problems)


def check_differences(
    differing: list[tuple[str, str]], allow: Collection[str], remedy: str = REMEDY
) -> list[str]:
    """Raise an error for differences that are not allowed. Return notes for allowed differences."""
    refused = [(k, text) for k, text in differing if k not in allow and "all" not in allow]
    if refused:
        keys = list(dict.fromkeys(k for k, _ in refused))
        raise DifferingRunsError([text for _, text in refused], remedy, keys)
    return [f"compared although {text}" for _, text in differing]


def align_scenes(
    tables: Mapping[str, SceneValues], allow: Collection[str], remedy: str = REMEDY
) -> tuple[dict[str, SceneValues], list[str]]:
    """Restrict methods to their common scenes, sorted by name, and to the values that all methods have.

    If a method lacks a value that others have, raise an error unless `values` is allowed. If it is allowed,
    the comparison covers the values that all methods have, and a note counts the missing values. In the same
    way, `scenes` allows scenes that some methods lack, and `weights` allows scenes with different weights.
    """
    shapes = {name: np.atleast_2d(t.cells).shape[0] for name, t in tables.items()}
    if len(set(shapes.values())) > 1:
        raise InputError(
            f"the scores of the methods average different numbers of settings: {shapes}; compare the "
            "same score"
        )
    names_of = {name: tuple(t.scenes) for name, t in tables.items()}
    common = set.intersection(*(set(scenes) for scenes in dict.fromkeys(names_of.values())))
    differing = []
    for name, scenes in names_of.items():
        extra = [] if len(scenes) == len(common) else sorted(set(scenes) - common)
        if extra:
            differing.append((SCENES, f"scenes differ: {name} has {first_few(extra)}, not all methods do"))
    if not common:
        raise InputError("the methods have no scene in common; compare runs on the same data")
    notes = check_differences(differing, allow, remedy)
    order = sorted(common)
    pick = cache(partial(_pick_names, tuple(order)))
    aligned = {name: _pick(t, *pick(names_of[name], tuple(t.kinds))) for name, t in tables.items()}
    first = next(iter(aligned.values()))
    for name, t in aligned.items():
        if t.kinds != first.kinds:
            raise InputError(
                f"{name} assigns different kinds to scenes than the first method; use the same data"
            )
    finite = np.array([np.isfinite(t.cells) for t in aligned.values()])
    everywhere, anywhere = finite.all(axis=0), finite.any(axis=0)
    if (everywhere != anywhere).any():
        lacking = [n for n, own in zip(aligned, finite, strict=True) if (own != anywhere).any()]
        missing = int((anywhere & ~everywhere).sum())
        text = f"{missing} of {int(anywhere.sum())} scene values are missing in {first_few(lacking)}"
        notes += check_differences(
            [(VALUES, f"values differ: {text}; they are excluded for all")], allow, remedy
        )
        aligned = {n: replace(t, cells=np.where(everywhere, t.cells, np.nan)) for n, t in aligned.items()}
    reference = _weights(first)
    unlike = [n for n, t in aligned.items() if not np.allclose(_weights(t), reference, rtol=1e-9, atol=0)]
    if unlike:
        text = f"scenes weigh differently in {first_few(unlike)} than in {next(iter(aligned))}"
        advice = WEIGHTS_REMEDY if remedy == REMEDY else remedy
        notes += check_differences([(WEIGHTS, f"weights differ: {text}")], allow, advice)
    return aligned, notes


def align_pooled(tables: Mapping[str, PooledBins]) -> dict[str, PooledBins]:
    """Check that pooled scores have one statistic, and the same scenes and kinds in the same order."""
    first_name, first = next(iter(tables.items()))
    problems = [
        f"{name}: scenes, kinds or statistic differ from those of {first_name}"
        for name, t in tables.items()
        if (t.scenes, t.kinds, t.statistic) != (first.scenes, first.kinds, first.statistic)
    ]
    if problems:
        raise ProblemsError("these runs cannot be compared", problems)
    return dict(tables)


def _pick_names(
    order: tuple[str, ...], scenes: tuple[str, ...], kinds: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int64]]:
    """Return the scenes of `order`, their kinds and their indices in `scenes`."""
    if len(set(scenes)) != len(scenes):
        duplicate = next(s for s in scenes if scenes.count(s) > 1)
        raise InputError(f"scene {duplicate!r} is listed twice; pass one column per scene")
    position = {scene: i for i, scene in enumerate(scenes)}
    index = [position[scene] for scene in order]
    return order, tuple(kinds[i] for i in index), np.array(index, dtype=np.int64)


def _pick(
    t: SceneValues, scenes: tuple[str, ...], kinds: tuple[str, ...], index: NDArray[np.int64]
) -> SceneValues:
    cells = np.atleast_2d(np.asarray(t.cells, dtype=np.float64))
    weights = None
    if t.weights is not None:
        weights = np.broadcast_to(np.asarray(t.weights, dtype=np.float64), cells.shape)[:, index]
    return SceneValues(scenes, kinds, cells[:, index], weights)


def _weights(t: SceneValues) -> np.ndarray[Any, np.dtype[np.float64]]:
    ones = np.ones(t.cells.shape) if t.weights is None else np.asarray(t.weights, dtype=np.float64)
    return np.where(np.isfinite(t.cells), ones, 0.0)


def _short(value: str) -> str:
    return value if len(value) <= 40 else value[:16] + "…"
