# SPDX-License-Identifier: BSD-3-Clause
"""Methods of which only one number is known: they stand in the table, without interval and without test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..runs.comparable import some
from .result import Comparison, MethodRow


def value_row(method: str, value: float) -> MethodRow:
    """A row of a value alone."""
    return MethodRow(method, value, None, None, None, (), None, None, tested=False)


def beside(comparison: Comparison, values: Mapping[str, float]) -> Comparison:
    """The comparison with methods that have a value but no scene values; a note says why none is tested."""
    if not values:
        return comparison
    sign = -1.0 if comparison.higher_is_better else 1.0
    rows = [*comparison.rows, *(value_row(m, v) for m, v in values.items())]
    rows.sort(key=lambda r: sign * r.value)
    return replace(comparison, rows=tuple(rows), notes=(*comparison.notes, why_untested(list(values))))


def why_untested(names: list[str]) -> str:
    """The note of methods without scene values.

    >>> why_untested(["sift"])
    'sift has one number and no scene values (imported as such): shown without interval, no test'
    """
    has = "has one number" if len(names) == 1 else "have one number each"
    return f"{some(names)} {has} and no scene values (imported as such): shown without interval, no test"


def values_only(
    values: Mapping[str, float],
    *,
    task: str,
    metric: str,
    group: str,
    protocol: str,
    higher_is_better: bool,
    notes: tuple[str, ...] = (),
) -> Comparison:
    """A comparison of numbers alone: nothing has scene values, so nothing is tested.

    >>> c = values_only({"a": 0.5, "b": 0.6}, task="t", metric="ap", group="all", protocol="p",
    ...                 higher_is_better=True)
    >>> [r.method for r in c.rows], c.pairs, c.n_scenes
    (['b', 'a'], (), 0)
    """
    empty = Comparison(
        rows=(),
        pairs=(),
        task=task,
        metric=metric,
        group=group,
        protocol=protocol,
        baseline="",
        baseline_given=False,
        level=0.95,
        scenes=(),
        kinds=(),
        interval_kind="none",
        resamples=0,
        family_size=0,
        pairs_size=0,
        draws=0,
        exact=False,
        smallest_p=1.0,
        higher_is_better=higher_is_better,
        percent=all(0 <= v <= 1 for v in values.values()),
        pooled=False,
        notes=notes,
    )
    return beside(empty, values)
