# SPDX-License-Identifier: BSD-3-Clause
"""State whether the order of methods differs between protocols, and which convention changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from ...core.formatting import count_text
from ...run.result import Run
from ..runs.sections import is_canary

MAX_SWAPS = 3
"""Maximum number of swapped pairs that a sentence names."""

MAX_STEP_CHARS = 18


def swapped_pairs(
    first: Mapping[str, float], second: Mapping[str, float], *, lower: bool
) -> list[tuple[str, str]]:
    """Return the pairs (better, worse) under `first` whose order is reversed under `second`. Skip ties.

    >>> swapped_pairs({"a": 0.9, "b": 0.8, "c": 0.1}, {"a": 0.5, "b": 0.6, "c": 0.1}, lower=False)
    [('a', 'b')]
    """
    sign = -1.0 if lower else 1.0
    both = sorted((m for m in first if m in second), key=lambda m: -sign * first[m])
    x, y = (sign * np.array([by[m] for m in both]) for by in (first, second))
    found: list[tuple[str, str]] = []
    for i, a in enumerate(both):
        below = (x[i] - x[i + 1 :] > 0) & (y[i] - y[i + 1 :] < 0)
        found += [(a, both[i + 1 + k]) for k in np.flatnonzero(below)]
    return found


def order_sentence(by_protocol: Mapping[str, Mapping[str, float]], *, lower: bool) -> str:
    """Name the methods that swap places between two protocols. Empty without two methods and protocols.

    `by_protocol` has the scores by protocol and method. Every protocol is compared with the first one.

    >>> order_sentence({"exact": {"a": 2.0, "b": 1.0}, "old": {"a": 1.0, "b": 2.0}}, lower=False)
    'The order of methods changes between exact and old: a and b swap.'
    """
    names = list(by_protocol)
    others = [p for p in names[1:] if len(set(by_protocol[names[0]]) & set(by_protocol[p])) > 1]
    if not others:
        return ""
    swaps = {p: swapped_pairs(by_protocol[names[0]], by_protocol[p], lower=lower) for p in others}
    changes = [f"between {names[0]} and {p}: {_pairs_text(pairs)}" for p, pairs in swaps.items() if pairs]
    if changes:
        return f"The order of methods changes {'; '.join(changes)}."
    return f"The order of methods is the same under {' and '.join([names[0], *others])}."


def step_order_sentence(by_step: Mapping[str, Mapping[str, float]], *, lower: bool) -> str:
    """Name the steps between two protocols that change the order of methods. Empty for a single method.

    `by_step` has the scores by step and method, in the order of the steps. The first step is a protocol, and
    each further step changes one convention.

    >>> by_step = {"old": {"a": 1.0, "b": 2.0}, "ties: kept": {"a": 3.0, "b": 2.0}}
    >>> step_order_sentence(by_step, lower=False)
    'Step 1 (ties) flips the order of methods: b and a swap.'
    """
    names = list(by_step)
    if len(names) < 2 or max(len(own) for own in by_step.values()) < 2:
        return ""
    found = []
    for k, (before, after) in enumerate(pairwise(names), start=1):
        swaps = swapped_pairs(by_step[before], by_step[after], lower=lower)
        if swaps:
            name = step_name(after)
            found.append(
                f"step {k}{f' ({name})' if name else ''} flips the order of methods: {_pairs_text(swaps)}"
            )
    if not found:
        return "No step changes the order of methods."
    return f"S{'; '.join(found)[1:]}."


def step_name(step: str) -> str:
    """Return a short name of a step: the text before its colon or bracket. Empty if that is too long.

    >>> step_name("ties: expectation over random orders"), step_name("a tie is one step of the curve")
    ('ties', '')
    """
    name = step.split(":")[0].split(" (")[0].strip()
    return name if len(name) <= MAX_STEP_CHARS else ""


def _pairs_text(pairs: Sequence[tuple[str, str]]) -> str:
    shown = ", ".join(f"{a} and {b}" for a, b in pairs[:MAX_SWAPS])
    more = len(pairs) - MAX_SWAPS
    return f"{shown} swap" if more <= 0 else f"{shown} and {count_text(more, 'more pair')} swap"


def protocol_scores(
    names: Mapping[str, str], runs: Sequence[Run], metric: str, group: str, first: str
) -> dict[str, dict[str, float]]:
    """Return a score by protocol and method, `first` before other protocols. `names` are by run id.

    Reference methods are excluded.
    """
    found: dict[str, dict[str, float]] = {first: {}}
    for run in runs:
        for s in run.score_rows:
            if (s.metric, s.group) == (metric, group) and s.value is not None and not is_canary(run):
                found.setdefault(s.protocol, {})[names[run.id]] = s.value
    return {first: found[first]} | {p: found[p] for p in sorted(found) if p != first}
