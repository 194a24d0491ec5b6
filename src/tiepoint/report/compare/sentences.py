# SPDX-License-Identifier: BSD-3-Clause
"""Describe a comparison in sentences. Methods are "not separated by these scenes", never "equal"."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...core.formatting import count_text
from ...stats.paired import BOOTSTRAP_T, MAX_STEP_DOWN_METHODS
from ...tasks.info import kind_title
from .comparison import Comparison, PairRow
from .rows import is_reversed

if TYPE_CHECKING:
    from ..runs.sections import TaskSection


SKEWED = "‡"
"""Mark of pairs with skewed scene differences."""


def number(c: Comparison, value: float | None, *, signed: bool = False) -> str:
    """Format a score or difference: fractions as percent with two decimals, other values with four digits."""
    if value is None:
        return "–"
    shown = f"{100 * value:.2f}" if c.percent else f"{value:.4g}"
    if float(shown) == 0:
        shown = shown.lstrip("-")
    return f"+{shown}" if signed and not shown.startswith("-") else shown


def p_value(p: float) -> str:
    """Format a p-value with two significant digits.

    >>> p_value(0.0312), p_value(9.9999e-06), p_value(1.0)
    ('0.031', '1.0e-05', '1.0')
    """
    return f"{p:.1e}" if p < 0.001 else f"{p:.2g}" if p < 0.995 else "1.0"


def scene_count_text(c: Comparison) -> str:
    """Return the number of scenes in total and by kind: ``115 scenes (56 i, 59 v)``."""
    kinds = Counter(c.kinds)
    parts = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    return count_text(c.n_scenes, c.unit) + (f" ({parts})" if len(kinds) > 1 else "")


def these_scenes(c: Comparison) -> str:
    """Return ``these 115 scenes`` or ``this 1 scene``."""
    return f"this 1 {c.unit}" if c.n_scenes == 1 else f"these {c.n_scenes} {c.unit}s"


def joint(pairs: int, wide: bool = False) -> str:
    """Return ``joint`` if an interval holds simultaneously for several pairs, else an empty string.

    >>> joint(1), joint(3)
    ('', 'joint ')
    """
    return "joint " if pairs > 1 or wide else ""


def comparison_answer(c: Comparison, pair: PairRow, *, with_baseline: bool = False) -> str:
    """Return one sentence on whether the first method of a pair is better than the second.

    `with_baseline` is whether the p-value is adjusted for the pairs with the baseline instead of all pairs.
    """
    level = f"{100 * c.level:g} %"
    unit = " points" if c.percent else ""
    size = f"{number(c, abs(pair.difference))}{unit}"
    family = c.family_size if with_baseline else c.pairs_size
    kind = f"{joint(family)}{level} confidence interval"
    bounds = ""
    if pair.low is not None and pair.high is not None:
        low, high = sorted((pair.low, pair.high)) if pair.difference >= 0 else (-pair.high, -pair.low)
        bounds = f" ({kind} {number(c, low)} to {number(c, high)})"
    tested = f"p = {p_value(pair.p_adjusted)}, family-wise over {count_text(family, 'pair')}"
    tested += f" ({skewed_words(c)})" if pair.skewed else ""
    if not pair.separated:
        floor = ""
        if pair.resolvable is not None:
            floor = (
                f"; a true difference of {number(c, pair.resolvable)}{unit} "
                "would have been separated with 80 % probability"
            )
        if c.smallest_p > 1 - c.level:
            floor = f"; no pair could be: the smallest p these {c.unit}s allow is {p_value(c.smallest_p)}"
        gap = f"{number(c, pair.difference, signed=True)}{unit}{_signed_bounds(c, pair, kind)}"
        return (
            f"{pair.first} and {pair.second} are not separated by {these_scenes(c)} "
            f"({level}, family-wise): difference {gap}, {tested}{floor}."
        )
    ahead = (pair.difference > 0) == c.higher_is_better
    won = ""
    if pair.wins is not None:
        won = f", in {pair.wins[0] if ahead else pair.wins[2]} of {count_text(sum(pair.wins), c.unit)}"
    first, second = (pair.first, pair.second) if ahead else (pair.second, pair.first)
    return f"{first} is better than {second} by {size}{bounds}{won}; {tested}."


MAX_SENTENCES = 5
"""Maximum number of methods whose difference to the baseline is described in a sentence."""


def sentences(c: Comparison) -> list[str]:
    """Describe the comparison in sentences, with the p-values and intervals of its table.

    With a given baseline, the result has one sentence for each of the best five other methods. Without a
    baseline, it compares the best two methods. If these are not separated, a second sentence compares the
    best method with the first method that it is separated from. Empty if fewer than two distinct methods are
    tested or differences were skipped. With a margin, the first sentences state which methods lose at most
    the margin.
    """
    return [*margin_sentences(c), *_difference_sentences(c), *unit_difference_sentences(c)]


def unit_difference_sentences(c: Comparison) -> list[str]:
    """State the differences of a comparison without tests, with their intervals."""
    lines = []
    for d in c.unit_differences[:MAX_SENTENCES]:
        size = f"{number(c, d.difference, signed=True)}{' points' if c.percent else ''}"
        bounds = (
            ", no interval"
            if d.low is None or d.high is None
            else (f" (95 % interval {number(c, d.low)} to {number(c, d.high)})")
        )
        lines.append(f"{d.first} minus {d.second}: {size}{bounds}.")
    return lines


def margin_sentences(c: Comparison) -> list[str]:
    """State for each method whether it loses at most the margin against the baseline, and why."""
    if c.margin is None:
        return []
    unit = " points" if c.percent else ""
    limit = f"{number(c, c.margin).rstrip('0').rstrip('.')}{unit}"
    level = f"one-sided {100 * c.level:g} %"
    family = f", Holm over {len(c.margins)} methods" if len(c.margins) > 1 else ""
    lines = []
    for row in c.margins:
        figures = f"gain {number(c, row.gain, signed=True)}{unit}"
        if row.lower is not None and row.p_adjusted is not None:
            figures += f", lower bound {number(c, row.lower, signed=True)}{unit}"
            figures += f", p = {p_value(row.p_adjusted)}{family}"
        loss = f"{row.method} loses at most {limit} against {c.baseline}"
        if row.holds is None:
            too_few = f"{scene_count_text(c)} cannot show whether {loss}"
            lines.append(f"Too few for a statement: {too_few}; {figures}.")
        elif row.holds:
            lines.append(f"{loss} ({level}): {figures}.")
        else:
            lines.append(f"It is not shown that {loss} ({level}): {figures}.")
    return lines


def _difference_sentences(c: Comparison) -> list[str]:
    """Return the sentences of `sentences` about differences."""
    others = [r.versus for r in c.rows if r.versus is not None and r.identical_to is None]
    if c.baseline_given:
        return [comparison_answer(c, pair, with_baseline=True) for pair in others[:MAX_SENTENCES]]
    pairs = [pair.swapped() for pair in others]
    separated = next((pair for pair in pairs if pair.separated), None)
    shown = [*pairs[:1], *([separated] if separated is not None and separated != pairs[0] else [])]
    reversals = [order_reversal_sentence(c, pair.first, pair.second) for pair in pairs[:1]]
    return [comparison_answer(c, pair) for pair in shown] + [x for x in reversals if x]


def order_reversal_sentence(c: Comparison, first: str, second: str) -> str:
    """Return a sentence if the order of two methods differs between kinds of scenes, else ``""``."""
    differences = c.kind_differences(first, second)
    if not is_reversed(differences):
        return ""
    sign = 1.0 if c.higher_is_better else -1.0
    unit = " points" if c.percent else ""
    parts = []
    for kind, difference in differences:
        count = sum(k == kind for k in c.kinds)
        ahead = first if sign * difference > 0 else second
        by = f"{ahead} is ahead by {number(c, abs(difference))}{unit}" if difference else "they are level"
        parts.append(f"on {count_text(count, f'{kind_title(kind)} scene')} {by}")
    return f"Not everywhere: {', '.join(parts)}."


def finding(source: TaskSection | Comparison) -> str:
    """Describe the best method of a section or comparison, its lead and its significance.

    A second sentence reports kinds of scenes in which the first two methods swap places. The text is empty if
    no method has a value. Letters, ranks and p-values are the same as in `compare` for these runs.
    """
    from .findings import finding_for

    result = finding_for(source)
    return "" if result is None else " ".join(x for x in (result.sentence, result.kinds) if x)


def _signed_bounds(c: Comparison, pair: PairRow, kind: str) -> str:
    if pair.low is None or pair.high is None:
        return ""
    return f" ({kind} {number(c, pair.low)} to {number(c, pair.high)})"


def title(c: Comparison) -> str:
    """Return task, protocol, metric and group on one line."""
    task = ", ".join(x for x in (c.task, c.protocol and f"protocol {c.protocol}") if x)
    score = " ".join(x for x in (c.metric, "" if c.group == "all" else c.group) if x)
    unit = "percent" if c.percent else ""
    order = "" if c.higher_is_better else "lower is better"
    return ", ".join(x for x in (task or "comparison", score, unit, order) if x)


def assumption(c: Comparison) -> str:
    """State the null hypothesis of the test, under which its error probability is 5 %."""
    error = f"{100 * (1 - c.level):.3g} %"
    if c.test == BOOTSTRAP_T:
        return f"Null hypothesis: the mean difference is 0; the error probability of {error} is approximate."
    return (
        f"Null hypothesis: {c.unit} differences are symmetric about 0; "
        f"the error probability of {error} holds under this assumption."
    )


def skewed_words(c: Comparison) -> str:
    """Explain how skewed scene differences change the error probability."""
    times = "twice" if c.test == BOOTSTRAP_T else "two to three times"
    return f"skewed: the error probability may be {times} {100 * (1 - c.level):.3g} %"


def skewed_sentence(c: Comparison) -> str:
    """Return a sentence that explains the mark of skewed pairs and counts these pairs."""
    pairs = len(c.pairs)
    return (
        f"{SKEWED} {skewed_words(c)}. In {c.skewed} of {count_text(pairs, 'pair')} the {c.unit} "
        f"differences are more skewed than 99 % of normal samples of {count_text(c.n_scenes, c.unit)}."
    )


def _difference_intervals(c: Comparison, level: str, over: str) -> str:
    """Explain how the intervals of differences were computed, and how to read an interval that ends at 0."""
    hold = f"Intervals of differences hold jointly at {level} (max-T {over}) and exclude"
    if not joint(c.family_size, c.wide):
        source = "the bootstrap-t" if c.test == BOOTSTRAP_T else "Student t"
        hold = f"The interval of the difference is from {source} and excludes"
    shown = [r.versus for r in c.rows if r.versus is not None]
    cut = any(v.separated and 0.0 in (v.low, v.high) for v in shown)
    ends = "; one that ends at 0 shows which method is better, not by how much" if cut else ""
    return f"{hold} 0 if p is at most {1 - c.level:.3g}{ends}."


def legend(c: Comparison) -> list[str]:
    """Explain the columns and the statistics, then list the notes."""
    level = f"{100 * c.level:g} %"
    how = {
        "bca": f"{level}, BCa bootstrap over scenes within kinds, {c.resamples:,} resamples",
        "t": f"{level}, Student t over {'sets' if c.unit == 'set' else 'scenes within kinds'}",
        "none": "none with fewer than 6 scenes, or a single scene of a kind",
    }[c.interval_kind]
    tested = sum(r.tested and r.identical_to is None for r in c.rows)
    methods = count_text(tested, "method", "distinct methods")
    lines = [f"{scene_count_text(c)}, {methods}; confidence intervals: {how}."]
    if c.unit == "set":
        lines.append(
            "The sets are the units: the tests concern sets like these, not scenes within these sets."
        )
    if c.design:
        lines = [c.design]
    elif not c.scenes:
        lines = ["There are no scene values, so nothing is tested."]
    if c.caution:
        lines = [f"Caution: {c.caution}. Differences are not tested."]
    if c.pairs:
        over = (
            f"over {count_text(c.family_size, 'comparison')} with {c.baseline}"
            if c.baseline_given
            else "over all pairs"
        )
        steps = "max-T" if c.wide and not c.baseline_given else "step-down max-T"
        patterns = f"all {c.draws:,} patterns" if c.exact else f"{c.draws - 1:,} patterns"
        subject = " of the contributions of scenes to the pooled score" if c.pooled else ""
        test = f"studentised sign-flip test{subject} ({patterns}), {steps} {over}"
        if c.test == BOOTSTRAP_T:
            patterns = f"{c.draws - 1:,} resamples of scenes"
            test = f"symmetric bootstrap-t test{subject} ({patterns}), {steps} {over}"
        lines.append(f"p: {test}; the smallest possible p is {p_value(c.smallest_p)}.")
        lines.append(assumption(c))
        if c.skewed:
            lines.append(skewed_sentence(c))
        if c.interval_kind != "none":
            lines.append(_difference_intervals(c, level, over))
    if c.margin is not None:
        lines.append(
            f"Loses at most: Student t over {scene_count_text(c)}; "
            "the gain is positive if the method is better. Choose the margin before you look at the scores. "
            "This is not a test of equality."
        )
    if c.pairs and c.wide:
        ranks = f"; rank ranges hold jointly at {level}, by max-T over all {c.pairs_size:,} pairs"
        lines.append(f"Letters are omitted for more than {MAX_STEP_DOWN_METHODS} methods{ranks}.")
    elif c.pairs:
        lines.append(
            f"Methods that share a letter are not separated by {these_scenes(c)} ({level}, "
            f"family-wise over {count_text(c.pairs_size, 'pair')}); "
            f"rank ranges hold jointly at {level}."
        )
    return lines + [f"Note: {n}." for n in c.notes] + [f"* {text}." for text in c.cautions.values()]
