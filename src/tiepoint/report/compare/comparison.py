# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison of methods found: an object that prints, frames, writes and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ...core.errors import InputError, UnknownNameError


@dataclass(frozen=True)
class PairRow:
    """The difference first - second of two methods on the same scenes, with what is known about it.

    `low` and `high` hold for all pairs of the family at once, and leave 0 out exactly where the pair is
    `separated`; `single_low` and `single_high` are the interval of this pair alone. `p` is for this pair
    alone, `p_adjusted` within its family, `q_exploratory` by Benjamini-Hochberg.
    `wins` are the scenes in which `first` is better, level, worse; None for pooled scores.
    """

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    p: float
    p_adjusted: float
    q_exploratory: float
    separated: bool
    effect: float | None
    resolvable: float | None
    wins: tuple[int, int, int] | None
    single_low: float | None = None
    single_high: float | None = None

    def flipped(self) -> PairRow:
        """The same pair, second - first."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            difference=-self.difference,
            low=None if self.high is None else -self.high,
            high=None if self.low is None else -self.low,
            single_low=None if self.single_high is None else -self.single_high,
            single_high=None if self.single_low is None else -self.single_low,
            effect=None if self.effect is None else -self.effect,
            wins=None if self.wins is None else (self.wins[2], self.wins[1], self.wins[0]),
        )


@dataclass(frozen=True)
class MethodRow:
    """One method: its score, interval, difference to the baseline, letters and range of ranks.

    `method` is its name in the table; `base_name` is the name of the method itself and `run` the id of its
    run, where rows are runs. A method that is not `tested` has no letters, no ranks and no difference.
    `by_kind` are (kind, score of its scenes alone) where scenes are of several kinds.
    """

    method: str
    value: float
    low: float | None
    high: float | None
    versus: PairRow | None = None
    letters: tuple[str, ...] = ()
    rank_best: int | None = None
    rank_worst: int | None = None
    identical_to: str | None = None
    tested: bool = True
    run: str | None = None
    base_name: str | None = None
    by_kind: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Methods on the same scenes, best first; `print` it, or take `to_frame`, `to_latex`, `save`.

    A `wide` one has so many methods that its `pairs` are only those with the baseline, and no letters.
    """

    rows: tuple[MethodRow, ...]
    task: str
    metric: str
    group: str
    protocol: str
    higher_is_better: bool
    percent: bool
    pairs: Sequence[PairRow] = ()
    baseline: str = ""
    baseline_given: bool = False
    level: float = 0.95
    scenes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    interval_kind: str = "none"
    resamples: int = 0
    family_size: int = 0
    pairs_size: int = 0
    draws: int = 0
    exact: bool = False
    smallest_p: float = 1.0
    pooled: bool = False
    wide: bool = False
    notes: tuple[str, ...] = ()

    @property
    def n_scenes(self) -> int:
        """Number of distinct scenes."""
        return len(self.scenes)

    @property
    def n_methods(self) -> int:
        """Number of distinct methods."""
        return sum(r.identical_to is None for r in self.rows)

    def between(self, first: str, second: str) -> PairRow:
        """The pair first - second, with p-values of the family of all pairs.

        Raises:
            UnknownNameError: a method that is not in the comparison.
            InputError: twice the same method, or one without scene values.
        """
        known = {r.method: r.identical_to or r.method for r in self.rows}
        for name in (first, second):
            if name not in known:
                raise UnknownNameError("method", name, known)
            if not next(r.tested for r in self.rows if r.method == name):
                raise InputError(f"{name} is not tested, so nothing is known about its difference to others")
        a, b = known[first], known[second]
        for row in self.pairs:
            if (row.first, row.second) == (a, b):
                return replace(row, first=first, second=second)
            if (row.first, row.second) == (b, a):
                return replace(row.flipped(), first=first, second=second)
        if self.wide and a != b:
            raise InputError(
                f"of {self.n_methods} methods only the differences to {self.baseline} are kept; compare "
                f"{first} and {second} alone"
            )
        raise InputError(f"{first} and {second} are one method: they agree in every scene")

    def answer(self, first: str, second: str) -> str:
        """Say in one sentence whether the first method is better than the second."""
        from .sentences import comparison_answer

        return comparison_answer(self, self.between(first, second))

    def kind_differences(self, first: str, second: str) -> tuple[tuple[str, float], ...]:
        """(kind, first - second in its scenes) by kind of scene; empty where there is one kind only."""
        from .rows import kind_differences

        of = {r.method: r.by_kind for r in self.rows}
        for name in (first, second):
            if name not in of:
                raise UnknownNameError("method", name, of)
        return kind_differences(of[first], of[second])

    def plot(self, kind: str = "differences", **how: Any) -> Any:
        """A figure of the comparison, ``differences`` to the baseline or ``scores``; ``out`` writes it.

        See `tiepoint.report.figures.plot.plot` for what else can be said: `names`, `columns`, `width`.
        """
        # Named, not imported: what draws comparisons stands above them.
        return import_module("tiepoint.report.figures.plot").plot(kind, self, **how)

    def to_frame(self) -> Any:
        """One row a method, as a pandas DataFrame; values as they are, not in percent."""
        from .export import comparison_frame

        return comparison_frame(self)

    def pairs_frame(self) -> Any:
        """One row a pair of distinct methods, as a pandas DataFrame."""
        from .export import pairs_frame

        return pairs_frame(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        from .export import as_dict

        return as_dict(self)

    def to_markdown(self) -> str:
        """A Markdown table with its notes."""
        from .text_table import markdown

        return markdown(self)

    def to_latex(self) -> str:
        """A LaTeX table that needs no package: best in bold, groups, intervals, notes below."""
        from .export import latex

        return latex(self)

    def __str__(self) -> str:
        from .text_table import comparison_text

        return comparison_text(self)

    def save(self, path: str | Path) -> Path:
        """Write the table; the suffix says how: .txt .md .tex .csv .json .parquet."""
        from .export import save_comparison

        return save_comparison(self, Path(path))
