# SPDX-License-Identifier: BSD-3-Clause
"""The main finding of a comparison: best method, its lead, significance, and deviating kinds of scenes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.errors import InputError
from ...core.formatting import count_text, first_few
from ...store.stored_run import CANARIES
from ..runs.sections import TaskSection, is_canary
from .comparison import Comparison, MethodRow, PairRow
from .rows import PairRows
from .runs import compare_runs
from .sentences import joint, number, order_reversal_sentence, p_value, these_scenes


@dataclass(frozen=True)
class ComparisonFinding:
    """The method with the best score, and its difference to the second best.

    `tied` has the methods that are not separated from the best one. `kinds` is a sentence about kinds of
    scenes in which the best two methods swap places. `sure` is whether the best two are separated; None if
    nothing was tested. Texts may be empty.
    """

    first: str
    value: str
    second: str = ""
    lead: str = ""
    sure: bool | None = None
    why: str = ""
    tied: tuple[str, ...] = ()
    kinds: str = ""
    sentence: str = ""


def compare_section(section: TaskSection) -> tuple[Comparison | None, list[str]]:
    """Compare the runs of a section by its headline score. Return the comparison (or None) and its notes."""
    if section.no_ranking:
        return None, [section.no_ranking]
    if len(section.methods) < 2:
        return None, []
    score: dict[str, Any] = {"metric": section.metric, "group": section.group, "protocol": section.protocol}
    try:
        comparison = compare_runs(section.runs, ranks_only=True, test=section.test, **score)
    except InputError as e:
        return None, [f"there are no groups, because {e.one_line}"]
    caution = [f"there are no groups, because {comparison.caution}"] if comparison.caution else []
    return comparison, [*caution, *comparison.notes]


def finding_for(
    source: TaskSection | Comparison, compared: tuple[Comparison | None, Sequence[str]] | None = None
) -> ComparisonFinding | None:
    """Return the main finding of a section (by its headline score) or of a comparison.

    `compared` is the result of `compare_section` for the section, if already computed.
    """
    if isinstance(source, Comparison):
        return find_in_comparison(source)
    comparison, why = compare_section(source) if compared is None else compared
    if comparison is None:
        return _find_in_scores(source, "; ".join(why))
    return find_in_comparison(comparison, [source.names[r.id] for r in source.runs if is_canary(r)])


def _find_in_scores(section: TaskSection, why: str) -> ComparisonFinding | None:
    """Return the best method by stored scores, without tests. None if no score ranks the methods."""
    if section.no_ranking:
        return None
    scored = [
        (r, s.value) for r in section.methods if (s := section.score(r)) is not None and s.value is not None
    ]
    if not scored:
        return None
    factor, unit = section.info.scale
    shown = [f"{factor * value:.{2 if unit == '%' else 3}f}" for _, value in scored[:2]]
    names = [section.names[r.id] for r, _ in scored[:2]]
    if len(scored) == 1:
        sentence = f"{names[0]} alone has {shown[0]}{' ' if unit else ''}{unit}."
        return ComparisonFinding(names[0], shown[0], why="there is no other method", sentence=sentence)
    sentence = f"{names[0]} has {shown[0]}, {names[1]} {shown[1]}; they are not compared: {why}."
    return ComparisonFinding(names[0], shown[0], names[1], why=why or "not compared", sentence=sentence)


def find_in_comparison(c: Comparison, canaries: Sequence[str] | None = None) -> ComparisonFinding | None:
    """Return the main finding of a comparison, without reference methods. None if no method has a value.

    Only methods with scene values are tested. If the best method has no scene values, nothing is significant.
    """
    excluded = [r.method for r in c.rows if _is_canary(r)] if canaries is None else canaries
    rows = [r for r in c.rows if r.method not in excluded and r.identical_to is None]
    if not rows:
        return None
    first, others = rows[0], rows[1:]
    value = number(c, first.value)
    if not others:
        same = [r.method for r in c.rows if r.method not in excluded and r.identical_to is not None]
        why = "the others are the same in every scene" if same else "there is no other method"
        return ComparisonFinding(first.method, value, why=why, sentence=_alone(c, first, same))
    second = others[0]
    unit = " points" if c.percent else ""
    gap = number(c, abs(first.value - second.value))
    found = ComparisonFinding(first.method, value, second.method, f"{gap}{unit}")
    separated = _separated_from(c, first.method) if first.tested else {}
    if second.method not in separated or not isinstance(c.pairs, PairRows):
        name = first.method if not first.tested else second.method
        missing = "the scores are estimates" if c.design else f"{name} has no scene values"
        reason = next((note for note in c.notes if note.startswith("no interval")), missing)
        why = c.caution or reason
        sentence = f"{first.method} leads {second.method} by {gap}{unit}; {why}, so nothing is tested."
        return replace(found, why=why, sentence=sentence)
    pair = c.pairs.one(first.method, second.method)
    gap = f"{number(c, abs(pair.difference))}{unit}"
    tied = tuple(name for name, apart in separated.items() if not apart)
    kinds = "" if _prints_zero(c, pair) else order_reversal_sentence(c, first.method, second.method)
    found = replace(found, lead=gap, sure=pair.separated, why=_why(c, pair), tied=tied, kinds=kinds)
    return replace(found, sentence=_sentence(c, found, pair, len(separated) - len(tied)))


def _is_canary(row: MethodRow) -> bool:
    return not row.tested and re.split("[?@]", row.base_name or row.method)[0] in CANARIES


def _separated_from(c: Comparison, first: str) -> dict[str, bool]:
    """Return whether each other tested method is separated from `first`, by name, best score first."""
    if not isinstance(c.pairs, PairRows):
        return {}
    separated = c.pairs.separated(first)
    return {r.method: separated[r.method] for r in c.rows if r.method in separated}


def _alone(c: Comparison, row: MethodRow, same: Sequence[str]) -> str:
    value = f"{number(c, row.value)}{' %' if c.percent else ''}"
    if same:
        return f"{row.method} and {first_few(same)} have {value}, the same in every scene."
    return f"{row.method} alone has {value}."


def _why(c: Comparison, pair: PairRow) -> str:
    """Return a short explanation of why the lead of the best method is significant or not."""
    if c.smallest_p > 1 - c.level:
        return f"{count_text(c.n_scenes, f'{c.unit} separates', f'{c.unit}s separate')} nothing"
    won = ""
    if pair.wins is not None:
        won = f", ahead in {pair.wins[0]} of {count_text(sum(pair.wins), c.unit)}"
    return f"p = {p_value(pair.p_adjusted)}{won}"


def _sentence(c: Comparison, found: ComparisonFinding, pair: PairRow, below: int) -> str:
    interval = ""
    if pair.low is not None and pair.high is not None:
        low, high = (pair.low, pair.high) if pair.difference >= 0 else (-pair.high, -pair.low)
        kind = f"{joint(c.pairs_size)}{100 * c.level:g} % confidence interval"
        interval = f" ({kind} {number(c, low)} to {number(c, high)})"
    if found.sure:
        head = f"{found.first} is better than {found.second} by {found.lead}{interval}, {found.why}"
        if not found.tied:
            return f"{head}, and than {_others(below - 1)}." if below > 1 else f"{head}."
        are = "is" if len(found.tied) == 1 else "are"
        return f"{head}; {first_few(found.tied)} {are} not separated from it."
    if _prints_zero(c, pair):
        return f"{found.first} and {found.second} are equal in the printed digits."
    head = f"{found.first} leads {found.second} by {found.lead}{interval}"
    if c.smallest_p > 1 - c.level:
        return f"{head}, but {found.why}."
    head += f", but {these_scenes(c)} do{'es'[: 2 * (c.n_scenes == 1)]} not separate them ({found.why})"
    rest = [name for name in found.tied if name != found.second]
    if rest:
        head += f", nor {first_few(rest)} from the first"
    if not below:
        return f"{head}."
    return f"{head}; it is better than {_others(below)}."


def _prints_zero(c: Comparison, pair: PairRow) -> bool:
    return number(c, abs(pair.difference)) == number(c, 0.0)


def _others(n: int) -> str:
    return "the other method" if n == 1 else f"the other {n} methods"
