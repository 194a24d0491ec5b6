# SPDX-License-Identifier: BSD-3-Clause
"""The result of a method comparison, with export to tables and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ...core.errors import InputError, UnknownNameError


@dataclass(frozen=True)
class PairRow:
    """Difference of two methods (first - second) on the same scenes, with interval and tests.

    `low` and `high` are a simultaneous interval for all pairs of the family. It excludes 0 exactly if the
    pair is `separated`. `single_low` and `single_high` are the interval of this pair alone. `p` is the
    p-value of this pair alone, `p_adjusted` is adjusted for its family, and `q_exploratory` is by
    Benjamini-Hochberg. `wins` counts the scenes in which `first` is better, equal and worse. It is None for
    pooled scores. `skewed` is whether the scene differences are more skewed than 99 % of normal samples.
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
    skewed: bool = False

    def swapped(self) -> PairRow:
        """Return the pair in reverse order (second - first)."""
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
    """One method: its score, interval, difference to the baseline, group letters and rank range.

    `method` is the name in the table. If rows are runs, `base_name` is the name of the method and `run` the
    run id. A method that is not `tested` has no letters, no ranks and no difference. `by_kind` has (kind,
    score of the scenes of this kind) if there are several kinds of scenes.
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
class MarginRow:
    """Whether a method loses at most the margin of the comparison against its baseline.

    `gain` is the mean difference to the baseline, positive if the method is better. `lower` is its one-sided
    lower confidence bound, `p_adjusted` is adjusted for all methods by Holm's method. `holds` is None if
    there are too few scenes for a statement.
    """

    method: str
    gain: float
    lower: float | None
    p: float | None
    p_adjusted: float | None
    holds: bool | None


@dataclass(frozen=True)
class UnitDifference:
    """Difference of two methods (first - second) on a fixed list of units, with a 95 % interval."""

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Comparison:
    """Comparison of methods on the same scenes, best first. See `to_frame`, `to_latex` and `save`.

    With too many methods (`wide`), `pairs` has only pairs with the baseline, and no row has letters.
    `skewed` counts the skewed pairs. With a `margin`, in the unit of the score, `margins` states which
    methods lose at most that much against the baseline. If the methods were scored on different queries,
    `caution` states it, and nothing is tested. A comparison on a subset or over pairs has `unit_differences`
    in place of tests, and `design` states what their intervals are about.
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
    test: str = "sign-flip"
    skewed: int = 0
    margin: float | None = None
    margins: tuple[MarginRow, ...] = ()
    caution: str = ""
    notes: tuple[str, ...] = ()
    cautions: Mapping[str, str] = field(default_factory=dict)
    design: str = ""
    unit_differences: tuple[UnitDifference, ...] = ()

    @property
    def unit(self) -> str:
        """Noun of the independent units: `scene`, or `set` for a mean over the sets of a benchmark."""
        return "set" if "cluster=set" in self.group.split(",") else "scene"

    @property
    def n_scenes(self) -> int:
        """Number of distinct scenes."""
        return len(self.scenes)

    @property
    def n_methods(self) -> int:
        """Number of distinct methods."""
        return sum(r.identical_to is None for r in self.rows)

    def pair(self, first: str, second: str) -> PairRow:
        """Return the pair first - second, with p-values within the family of all pairs.

        Raises:
            UnknownNameError: A method is not in the comparison.
            InputError: Both methods are the same, or a method has no scene values.
        """
        known = {r.method: r.identical_to or r.method for r in self.rows}
        for name in (first, second):
            if name not in known:
                raise UnknownNameError("method", name, known)
            if not next(r.tested for r in self.rows if r.method == name):
                raise InputError(f"{name} was not tested (see the notes), so its differences are unknown")
        a, b = known[first], known[second]
        for row in self.pairs:
            if (row.first, row.second) == (a, b):
                return replace(row, first=first, second=second)
            if (row.first, row.second) == (b, a):
                return replace(row.swapped(), first=first, second=second)
        if self.wide and a != b:
            raise InputError(
                f"with {self.n_methods} methods, only differences to {self.baseline} are computed; "
                f"compare {first} and {second} alone"
            )
        raise InputError(
            f"{first} and {second} are equal in every scene, so they count as one method; compare "
            "other methods"
        )

    def answer(self, first: str, second: str) -> str:
        """Return one sentence on whether the first method is better than the second."""
        from .sentences import comparison_answer

        return comparison_answer(self, self.pair(first, second))

    def kind_differences(self, first: str, second: str) -> tuple[tuple[str, float], ...]:
        """Return (kind, difference first - second) for each kind of scene. Empty if there is one kind."""
        from .rows import kind_differences

        by_kind = {r.method: r.by_kind for r in self.rows}
        for name in (first, second):
            if name not in by_kind:
                raise UnknownNameError("method", name, by_kind)
        return kind_differences(by_kind[first], by_kind[second])

    def plot(self, kind: str = "differences", **how: Any) -> Any:
        """Plot ``differences`` to the baseline or ``scores``. ``out`` writes the figure to a file.

        See `tiepoint.report.figures.plot.plot` for the other options: `names`, `columns`, `width`.
        """
        # Imported here by name, because the module of figures imports this one.
        return import_module("tiepoint.report.figures.plot").plot(kind, self, **how)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per method; values are fractions."""
        from .export import comparison_frame

        return comparison_frame(self)

    def pairs_frame(self) -> Any:
        """Return a pandas DataFrame with one row per pair of distinct methods."""
        from .export import pairs_frame

        return pairs_frame(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all values as a JSON-serialisable dict."""
        from .export import as_dict

        return as_dict(self)

    def to_markdown(self) -> str:
        """Return a Markdown table with its notes."""
        from .text_table import markdown

        return markdown(self)

    def to_latex(self) -> str:
        """Return a LaTeX table without package dependencies: best in bold, groups, intervals, notes below."""
        from .export import latex

        return latex(self)

    def __str__(self) -> str:
        from .text_table import comparison_text

        return comparison_text(self)

    def save(self, path: str | Path) -> Path:
        """Write the table to a file. The suffix sets the format: .txt .md .tex .csv .json .parquet."""
        from .export import save_comparison

        return save_comparison(self, Path(path))
