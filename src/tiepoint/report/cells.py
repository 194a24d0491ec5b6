# SPDX-License-Identifier: BSD-3-Clause
"""Format scores as table cells for leaderboards, papers, terminal tables and HTML pages."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.scores import BELOW_FLOOR, ScoreRow, caution_notes
from ..tasks.base import MetricInfo

NO_VALUE = "\N{EN DASH}"


@dataclass(frozen=True)
class ScoreCell:
    """One formatted score, in the unit of its column.

    `text` is empty without a score and a dash if the score is undefined. `interval_text` is empty without an
    interval. `value` is the sort key of the column. `tied` marks a score that is not separated from the best
    of its column. `caution` marks a score with an important note.
    """

    text: str = ""
    interval_text: str = ""
    value: float | None = None
    best: bool = False
    second: bool = False
    tied: bool = False
    caution: bool = False

    @property
    def marked(self) -> str:
        """The value, with a star if it needs caution."""
        return f"{self.text} *" if self.caution else self.text

    @property
    def with_interval(self) -> str:
        """The value with its interval in brackets, and with a star if it needs caution."""
        interval = f" [{self.interval_text}]" if self.interval_text else ""
        return f"{self.text}{interval}{' *' if self.caution else ''}"

    @property
    def ranking(self) -> str:
        """Return the marks of the score (`best`, `second`, `not separated`), joined by commas."""
        marks = (("best", self.best), ("second", self.second), ("not separated", self.tied))
        return ", ".join(name for name, applies in marks if applies)


def score_cell(info: MetricInfo, score: ScoreRow | None, best: float | None = None) -> ScoreCell:
    """Format a score for a report. Mark it if its value is the `best` of its column."""
    if score is None or score.value is None:
        return ScoreCell("" if score is None else NO_VALUE)
    interval = ""
    if score.low is not None and score.high is not None:
        interval = f"{value_text(info, score.low)} {NO_VALUE} {value_text(info, score.high)}"
    return ScoreCell(
        bracketed(value_text(info, score.value), score),
        interval,
        score.value,
        best=score.value == best,
        caution=bool(caution_notes(score.note)),
    )


def terminal_cell(info: MetricInfo, score: ScoreRow | None) -> ScoreCell:
    """Format a score for the terminal: two decimals for values, one for intervals, none for counts.

    >>> row = ScoreRow("exact", "map", "all", 0.812, 9, 0.79, 0.831)
    >>> terminal_cell(MetricInfo(), row).with_interval
    '81.20 [79.0, 83.1]'
    """
    if score is None or score.value is None:
        return ScoreCell("" if score is None else NO_VALUE)
    factor, unit = info.scale
    caution = bool(caution_notes(score.note))
    if not unit and float(score.value).is_integer():
        return ScoreCell(f"{score.value:,.0f}", value=score.value, caution=caution)
    interval = ""
    if score.low is not None and score.high is not None:
        interval = f"{factor * score.low:.1f}, {factor * score.high:.1f}"
    text = bracketed(f"{factor * score.value:.2f}", score)
    return ScoreCell(text, interval, score.value, caution=caution)


def bracketed(text: str, score: ScoreRow) -> str:
    """Put the text of a score in brackets if its threshold is below the precision of the ground truth.

    >>> bracketed("12.30", ScoreRow("exact", "auc", "all", 0.123, 9, note=f"caution: {BELOW_FLOOR}: 3 px"))
    '(12.30)'
    """
    return f"({text})" if BELOW_FLOOR in (score.note or "") else text


def value_text(info: MetricInfo, value: float | None, *, change: bool = False) -> str:
    """Format a value in its display unit. With `change`, include the sign. An unknown value becomes a dash.

    >>> value_text(MetricInfo(), 0.5), value_text(MetricInfo(unit="px"), 1.25, change=True)
    ('50.00', '+1.250')
    """
    if value is None or not math.isfinite(value):
        return NO_VALUE
    factor, unit = info.scale
    text = f"{factor * value:{'+' if change else ''}.{2 if unit == '%' else 3 if unit else 0}f}"
    return "0" if change and not text.strip("+-0.") else text
