# SPDX-License-Identifier: BSD-3-Clause
"""Non-inferiority in a comparison: which methods lose at most a margin against the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...core.errors import InputError, StoreError
from ...stats.non_inferiority import MIN_UNITS, holm, non_inferiority
from ...stats.samples import MethodSample
from ...store.margins import record_margin
from .comparison import Comparison, MarginRow
from .sentences import number


def reference_of(names: Sequence[str]) -> str:
    """Return the default baseline of a margin, which is the second of two methods."""
    if len(names) != 2:
        raise InputError(
            f"`margin` without `baseline` needs two methods, found {len(names)}; name two methods or "
            "pass `baseline`"
        )
    return names[1]


def add_margin(c: Comparison, names: Sequence[str], sample: MethodSample, margin: float) -> Comparison:
    """Test whether each method loses at most `margin` against the baseline of a comparison.

    The tested value of a scene is n times its contribution to the score of n scenes, so that the mean is the
    score.

    Raises:
        InputError: The margin is not positive, or the score is pooled and has no values by scene.
    """
    if not (math.isfinite(margin) and margin > 0):
        raise InputError(f"`margin` is {margin:g}; expected a positive number")
    if sample.by_scene is None:
        raise InputError(
            f"`margin`: {c.metric} is pooled over all pairs and has no values by scene; "
            "choose a mean with `metric`"
        )
    if len(names) < 2:
        raise InputError("`margin` needs a method beside the baseline; name at least two methods")
    limit = margin / 100 if c.percent else margin
    assert sample.contributions is not None
    values = sample.n_scenes * sample.contributions * (1.0 if c.higher_is_better else -1.0)
    base = names.index(c.baseline)
    others = [m for m in range(len(names)) if m != base]
    tests = [non_inferiority(values[:, m] - values[:, base], limit, level=c.level) for m in others]
    adjusted = holm(np.array([t.p for t in tests]))
    rows = []
    for m, t, p in zip(others, tests, adjusted, strict=True):
        known = t.units > 1
        # Equal to `t.holds` for one method: the bound lies above -margin exactly if p is below 1 - level.
        holds = (t.holds if len(others) == 1 else bool(p < 1 - c.level)) if t.units >= MIN_UNITS else None
        rows.append(
            MarginRow(
                names[m],
                t.mean,
                lower=t.lower if known else None,
                p=t.p if known else None,
                p_adjusted=float(p) if known else None,
                holds=holds,
            )
        )
    return replace(c, margin=limit, margins=tuple(rows))


def margin_notes(root: Path, c: Comparison) -> list[str]:
    """Record the margin of a comparison in the store. Return notes on other margins for the same runs."""
    if c.margin is None:
        return []
    run = {r.method: r.run or r.method for r in c.rows}
    notes = []
    for row in c.margins:
        question = [c.task, c.metric, c.group, c.protocol, run[row.method], run[c.baseline]]
        try:
            others = record_margin(root, question, c.margin)
        except StoreError as e:
            return [f"the margin is not recorded ({e}), so a second margin would not be reported"]
        if others:
            unit = " points" if c.percent else ""
            tested = ", ".join(f"{number(c, m)}{unit}" for m in others)
            notes.append(
                f"{row.method} was also tested against {c.baseline} with the margin {tested}: "
                "the first margin counts"
            )
    return notes
