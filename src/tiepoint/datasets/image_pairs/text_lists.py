# SPDX-License-Identifier: BSD-3-Clause
"""Pairs as text, one a line: two names, two numbers of quarter turns, K0, K1 and T_0to1, 38 fields."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from .builder import PairDraft
from .problems import PairProblems
from .scenes import dataset_of, known_sizes

TURNED_FIELDS = {38: "names, turns, K0, K1, T_0to1", 4: "names and turns", 2: "names"}


def turned_drafts(lines: Sequence[str], findings: PairProblems) -> list[PairDraft]:
    """Pairs of lines with 38 fields, or with 4 or 2 without truth; comments begin with `#`.

    Fields: name0 name1 turns0 turns1 K0(9) K1(9) T_0to1(16), row by row, all before the turns. The tool that
    reads these files turns each image by `np.rot90` and takes K and T along.
    """
    drafts = []
    for where, fields, values in rows(lines, TURNED_FIELDS, findings):
        turns = tuple(int(v) if v in (0, 1, 2, 3) else -1 for v in values[:2]) or (0, 0)
        if -1 in turns:
            findings.problems.append(f"{where}: fields 3 and 4 are 0 to 3 quarter turns, found {fields[2:4]}")
            continue
        truth, names = len(fields) == 38, (fields[0], fields[1])
        drafts.append(
            PairDraft(
                where,
                names,
                turns=(turns[0], turns[1]),
                assumed=known_sizes(names, values[4], values[13]) if truth else (None, None),
                centre=0.5 if dataset_of(None, names) == "megadepth" else 0.0,
                K=(values[2:11], values[11:20]) if truth else (None, None),
                T=values[20:] if truth else None,
            )
        )
    return drafts


def rows(
    lines: Sequence[str], known: Mapping[int, str], findings: PairProblems
) -> Iterator[tuple[str, list[str], list[float]]]:
    """Where each pair stands, its fields, and the numbers behind its two names; comments begin with `#`.

    Lines whose number of fields is not `known`, and words that are no numbers, are left with the findings.
    """
    for number, line in enumerate(lines, start=1):
        fields, where = line.split(), f"line {number}"
        if not fields or line.startswith("#"):
            continue
        if len(fields) not in known:
            expected = "; ".join(f"{n} ({what})" for n, what in known.items())
            findings.problems.append(f"{where} has {len(fields)} fields; expected {expected}")
            continue
        values = floats(fields[2:], where, findings)
        if values is not None:
            yield where, fields, values


def floats(words: Sequence[str], where: str, findings: PairProblems) -> list[float] | None:
    """Words as finite numbers; None after a problem was noted."""
    try:
        values = [float(word) for word in words]
    except ValueError as e:
        findings.problems.append(f"{where}: {e}")
        return None
    if not all(math.isfinite(value) for value in values):
        findings.problems.append(f"{where}: a number is not finite")
        return None
    return values
