# SPDX-License-Identifier: BSD-3-Clause
"""What every task has: the hooks that the rest of the package calls, each with its default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from ..core.errors import InputError, UnknownNameError
from ..core.hashing import hash_json
from ..core.records import Arrays, Features, Item, Records, Unit
from ..core.scores import SceneCurves, Score
from .cases import Cases, DenseCase, MatchedPair, QueryCase
from .info import Column, MetricInfo, TaskInfo, group_title, metric_title
from .options import TaskOptions

__all__ = ["Column", "MetricInfo", "OpenTask", "Size", "StepTable", "Task", "TaskInfo"]

MAX_TABLE_COLUMNS = 10
"""Of a table whose task names none."""
Size = tuple[int, int]
"""Height and width of an image."""
Rules = TypeVar("Rules")


class StepTable(NamedTuple):
    """A metric after each step from one convention to another: (step in words, value after it)."""

    metric: str
    steps: list[tuple[str, float]]
    of: str = ""
    """What tells it from another table of the same metric."""

    @property
    def title(self) -> str:
        """Metric and what the table is of."""
        return f"{self.metric}, {self.of}" if self.of else self.metric


class OpenTask:
    """A task bound to its data and options. Opening checks everything that can be checked early.

    A task of your own defines `items`, `units`, `read` and `compare`; the rest has defaults.
    """

    warnings: Sequence[str] = ()
    """What the user should know about this data."""

    thread_safe_compare: bool = False
    """Whether several threads may compare units at once."""

    split: str | None = None
    """Name of the split in use, also where none was asked for; None for tasks without splits."""

    @cached_property
    def items(self) -> Sequence[Item]:
        """What the method must be run on."""
        raise NotImplementedError

    @cached_property
    def units(self) -> Sequence[Unit]:
        """The independent pieces of the comparison."""
        raise NotImplementedError

    @cached_property
    def data_hash(self) -> str:
        """Content hash of the dataset; by default that of all items."""
        return hash_json([[item.key, item.content] for item in self.items])

    def read(self, item: str) -> Any:
        """What the method is given for an item: patches, an image, a pair of images."""
        raise NotImplementedError

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """The records of one unit."""
        raise NotImplementedError

    def training(self, images: str) -> Sequence[Item]:
        """Items of the split's training part for transforms that are fitted: references (`ref`) or `all`."""
        raise InputError(
            "a transform is fitted on training sequences, but this task has no split with such sequences; "
            "name a dataset to fit it on with `fit_on`"
        )

    def for_family(self, family: str) -> OpenTask:
        """The task as methods of a family see it: itself, unless it takes several families."""
        return self

    def notices(self, protocols: Sequence[str]) -> Sequence[str]:
        """What the user should know about this data under these protocols; by default `warnings`."""
        return self.warnings

    def facts_of(self, meta: Mapping[str, Any], comparison: str) -> Mapping[str, Any]:
        """What a comparison takes from a method besides its features: part of the key of its records."""
        return {}

    def sizes(self, item: str) -> tuple[Size, Size]:
        """(height, width) of both images of a pair; tasks on pairs of images have it."""
        raise NotImplementedError

    def true_flow(self, item: str) -> Any:
        """True flow on image 1 of a pair for the pictures of a report, None where there is none."""
        return None

    def drawable_pairs(self) -> Sequence[str]:
        """Names of the pairs of images whose matches can be drawn; none by default."""
        return ()

    def matched(self, name: str, features: Features) -> MatchedPair:
        """The matches of such a pair beside its truth."""
        raise NotImplementedError

    def answered(self, scene: str, key: str, features: Features | None) -> QueryCase | None:
        """The query that a key of `Task.cases` names, made again; None where cases are no queries.

        Without features it names the pictures of the query and its right answers alone, or is None where
        these are the method's own.
        """
        return None

    def replay_flow(self, scene: str, key: str, features: Features | None) -> DenseCase | None:
        """The dense pair that a key of `Task.cases` names, made again; None where cases are no such pairs."""
        return None

    def case_pair(self, scene: str, key: str) -> str | None:
        """The pair of images that a key of `Task.cases` names, for `matched`; None where there is none."""
        return None


class Task:
    """A published question with its data, ground truth and scores.

    A task defines `name`, `family`, `protocols`, `info`, `open` and `score`. Every other hook has a default:
    the task then has no curves, no pictures of misses, no result files, and so on. Without `info` its scores
    are shown as fractions, sorted by the first of them.
    """

    name: str
    family: str
    protocols: tuple[str, ...] = ("exact",)
    info: ClassVar[TaskInfo] = TaskInfo()
    options: type[TaskOptions] = TaskOptions
    """The model of its options; none by default."""

    rules: ClassVar[Mapping[str, int]] = {}
    """Number of a protocol's rules of comparing, where they have changed since the first, which are 1.

    Raise it when records of the protocol come out otherwise: they are then made anew, and stored runs that
    were made by older rules are marked until they are run again. Where only the way from records to scores
    changes, raise `SCORING` instead.
    """

    def rule(self, protocol: str) -> int:
        """Number of the rules of a protocol."""
        return self.rules.get(protocol, 1)

    def comparison_version(self, comparison: str) -> int:
        """The highest number among the protocols that score a comparison: its records are of that age."""
        return max((n for p, n in self.rules.items() if self.comparison(p) == comparison), default=1)

    def family_for(self, method: Any) -> str:
        """Family in which a method is looked up, given its specification or object: that of the task."""
        return self.family

    def metric(self, name: str) -> MetricInfo:
        """Facts of a metric; of one that the task does not declare, that it is a fraction."""
        return self.info.metrics.get(name, MetricInfo())

    def metric_label(self, metric: str, group: str) -> str:
        """Name of a metric with the threshold that its score `all` has: ``flow_accuracy T5``."""
        short = self.metric(metric).short if "threshold" not in group and "alpha" not in group else ""
        return f"{metric} {short}" if short else metric

    @property
    def title(self) -> str:
        """The task in words: ``Relative pose``."""
        return self.info.title or self.name

    def score_title(self, metric: str, group: str = "all") -> str:
        """A score in words, with its threshold: ``area under curve at 10°``."""
        info = self.metric(metric)
        words = info.title or metric_title(metric)
        named = group_title(group) or info.short.replace("@", "at ")
        between = " " if named.startswith("at ") else ", "
        return f"{words}{between}{named}" if named else words

    def headline(self, columns: Sequence[Column]) -> Column | None:
        """The score that methods are sorted by, among those there are."""
        overall = [c for c in columns if c[1] == "all"]
        first = next(iter([*overall, *columns]), None)
        return self.info.headline if self.info.headline in columns else first

    def table_columns(self, columns: Sequence[Column]) -> list[Column]:
        """The columns of a narrow table, among those there are."""
        overall = [c for c in columns if c[1] == "all"] or list(columns)
        chosen = [c for metric in self.info.columns for c in overall if c[0] == metric]
        return chosen or overall[:MAX_TABLE_COLUMNS]

    def brief(self, metrics: Sequence[str]) -> tuple[str, ...]:
        """Metrics of a line in a list of many runs, of those there are for group `all`."""
        first = self.headline([(metric, "all") for metric in metrics])
        return self.info.brief or (() if first is None else (first[0],))

    def expand_column(self, column: Column, options: Mapping[str, Any]) -> Column:
        """The column to show instead of one whose name leaves out what a run's options say about it."""
        return column

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenTask:
        """Bind to data; unknown options and bad data are errors, all listed at once."""
        raise NotImplementedError

    def comparison(self, protocol: str) -> str:
        """Name of the comparison a protocol scores; protocols with the same name share records.

        By default every protocol compares in its own way.
        """
        if protocol not in self.protocols:
            raise UnknownNameError(f"protocol of {self.name}", protocol, self.protocols)
        return protocol

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Scores under a protocol, from records alone (no dataset needed)."""
        raise NotImplementedError

    def time_scores(self, protocol: str, described_s: float, compared_s: float) -> list[Score]:
        """Scores that are times: seconds of the features, seconds of comparing in this run."""
        return []

    def warnings(self, records: Sequence[Records]) -> list[str]:
        """What was odd about the features or results, with counts."""
        return []

    def conventions(self, records: Sequence[Records]) -> list[StepTable] | None:
        """The gap between protocols step by step, from records of `exact`, perhaps none.

        None says that the task cannot tell it from any records.
        """
        return None

    def between(self, protocols: Sequence[str]) -> tuple[str, ...]:
        """Comparisons between these protocols and `exact` that `convention_steps_between` needs; none by default.

        They are made from cached features when somebody asks for the gap.
        """
        return ()

    def convention_steps_between(self, records: Mapping[str, Sequence[Records]]) -> list[StepTable]:
        """The gap between protocols step by step, from records by comparison, those of `between` included."""
        return []

    def curves(self, records: Sequence[Records]) -> Iterable[tuple[str, str, Any, Any]] | None:
        """Points of curves under `exact`: (group, name of the curve, x, y); None for a task without any."""
        return None

    def scene_curves(self, records: Sequence[Records]) -> Iterable[SceneCurves]:
        """Curves that are means over scenes, scene by scene, under `exact`."""
        return ()

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """What was asked in a scene and how well it was answered, from records of `exact`; None: nothing.

        `records` are those of the unit that is named after the scene, or of all units where none is.
        """
        return None

    def misses(self, records: Sequence[Records]) -> Iterable[tuple[str, str, str]]:
        """Wrong answers as references to pictures: (query, right answer, given answer)."""
        return ()

    def pair_accuracy(self, records: Sequence[Records]) -> Iterable[tuple[str, float]]:
        """Share right of each pair of images: (item, share), an item once or in both directions."""
        return ()

    def pair_caption(self, records: Sequence[Records], pair: str) -> str:
        """What the records of `exact` say about one pair of images, in words for the caption of a picture."""
        return ""

    reads_results: ClassVar[bool] = False
    """Whether `records_from_results` reads result files; otherwise such files are a method `files:DIR`."""

    def records_from_results(self, folder: Path, opened: Any, on_bad: str = "error") -> Sequence[Records]:
        """Records of every unit from result files that another program wrote into `folder`.

        A distance that is not a number is an error, or with ``on_bad="miss"`` a miss.
        """
        raise NotImplementedError

    checks_results: ClassVar[bool] = False
    """Whether `check_results` has something to say about a folder of results."""

    def check_results(self, opened: Any, results: Path) -> list[str]:
        """Warnings about a folder of results; what makes it unusable is an error that lists everything."""
        return []

    writes_results: ClassVar[bool] = False
    """Whether `write_run` writes result files for other programs."""

    result_forms: ClassVar[tuple[str, ...]] = ("final",)
    """Forms in which it can write them; `document` is that of the task's original document."""

    writing_options: ClassVar[tuple[str, ...]] = ()
    """Options that only say how result files are written."""

    printing_options: ClassVar[tuple[str, ...]] = ()
    """Options that only say what is printed first."""

    def identity_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that are part of a run: all but those about its printing and its result files."""
        passing = (*self.writing_options, *self.printing_options)
        return {name: value for name, value in options.items() if name not in passing}

    def first(self, options: Mapping[str, Any]) -> tuple[str, str] | None:
        """The metric to print before all others under these options, and a sentence that says what it is."""
        return None

    def replacement_column(self, column: Column) -> Column | None:
        """The score that stands before one of this column where that carries a caution."""
        return None

    def write_document(
        self,
        folder: Path,
        name: str,
        opened: Any,
        records: Mapping[str, Mapping[str, Records]],
        arrays: Callable[[str], Arrays],
    ) -> Iterator[Path]:
        """Write the result files of a run below `folder` as the task's original document shows them.

        Args:
            folder: To write into.
            name: Of the method, for its folder.
            opened: The open task.
            records: Of the run, by unit and comparison.
            arrays: Features of an item by its key.
        """
        raise InputError(f"{self.name} has no form of result files but {', '.join(self.result_forms)}")

    def write_run(
        self,
        folder: Path,
        opened: Any,
        records: Mapping[str, Mapping[str, Records]],
        arrays: Callable[[str], Arrays],
        protocols: Sequence[str],
    ) -> Iterator[Path]:
        """Write the result files of a run below `folder`; yields what was written.

        Args:
            folder: To write into.
            opened: The open task.
            records: Of the run, by unit and comparison.
            arrays: Features of an item by its key.
            protocols: The run was asked for.
        """
        raise InputError(f"{self.name} has no result files of its own; export its scores as CSV instead")


class MissingTask(Task):
    """Stands for the task of a stored run whose package is not installed: its scores can still be shown."""

    family = "not installed"
    protocols = ()

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenTask:
        """Refused."""
        raise InputError(f"the task {self.name!r} is not installed; install its package")


def convention_tables(
    records: Sequence[Records],
    metrics: Iterable[str],
    steps: Iterable[tuple[str, Rules]],
    score: Callable[[Sequence[Records], Rules, str], list[Score]],
) -> list[StepTable]:
    """A table a metric: the value of its group `all` after each step.

    Args:
        records: of `exact`; without any there is no table.
        metrics: to show.
        steps: (words, rules) from the oldest convention to `exact`.
        score: scores under rules, called with (records, rules, words).
    """
    if not records:
        return []
    tables: dict[str, list[tuple[str, float]]] = {metric: [] for metric in metrics}
    for step, rules in steps:
        for s in score(records, rules, step):
            if s.group == "all":
                tables[s.metric].append((step, s.value))
    return [StepTable(metric, values) for metric, values in tables.items()]
