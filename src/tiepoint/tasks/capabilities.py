# SPDX-License-Identifier: BSD-3-Clause
"""Optional abilities of tasks, found with `isinstance`. Each is used by exactly one module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ..core.records import Arrays, Features, Item, Records
from ..core.scores import SceneCurves, Score
from .base import Column, TaskData
from .cases import Cases, DenseCase, MatchedPair, QueryCase
from .steps import StepTable

CurvePoints = tuple[str, str, Any, Any]
"""Group, name of the curve, x, y."""

# Abilities of a Task: figures, pictures, tables


@runtime_checkable
class HasCurves(Protocol):
    """Task with curves over pooled lists."""

    def curves(self, records: Sequence[Records]) -> Iterable[CurvePoints]:
        """Compute curve points under `exact`."""


@runtime_checkable
class HasSceneCurves(Protocol):
    """Task with curves that are means over scenes."""

    def scene_curves(self, records: Sequence[Records]) -> Iterable[SceneCurves]:
        """Compute the curves of single scenes under `exact`."""


@runtime_checkable
class HasCases(Protocol):
    """Task whose records tell how well single questions were answered."""

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return the cases of a scene from records of `exact`. None if the scene has none.

        `records` belong to the unit named after the scene, or to all units if no unit is.
        """


@runtime_checkable
class HasWrongAnswers(Protocol):
    """Task whose wrong answers can be shown as pictures."""

    def wrong_answers(self, records: Sequence[Records]) -> Iterable[tuple[str, str, str]]:
        """Return picture references: (query, correct answer, given answer)."""


@runtime_checkable
class HasPairAccuracy(Protocol):
    """Task with a share of correct answers for every image pair."""

    def pair_accuracy(self, records: Sequence[Records]) -> Iterable[tuple[str, float]]:
        """Return (item, share correct); an item appears once or once per direction."""


@runtime_checkable
class HasPairCaption(Protocol):
    """Task that describes its result on an image pair."""

    def pair_caption(self, records: Sequence[Records], pair: str) -> str:
        """Return a caption from records of `exact`."""


@runtime_checkable
class HasConventionSteps(Protocol):
    """Task that explains the difference between its protocols from records of `exact`."""

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return the metrics after each step. Empty without records."""


@runtime_checkable
class HasIntermediateSteps(Protocol):
    """Task that needs extra comparisons to explain the difference between its protocols."""

    def intermediate_comparisons(self, protocols: Sequence[str]) -> tuple[str, ...]:
        """Return the extra comparisons between these protocols and `exact`."""

    def convention_steps_between(self, records: Mapping[str, Sequence[Records]]) -> list[StepTable]:
        """Return the metrics after each step, from records by comparison."""


@runtime_checkable
class AdjustsColumns(Protocol):
    """Task whose column names depend on the options of a run."""

    def expand_column(self, column: Column, options: Mapping[str, Any]) -> Column:
        """Return the column to show instead."""


@runtime_checkable
class HasLeadMetric(Protocol):
    """Task that can print another metric first."""

    def lead_metric(self, options: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the metric to print first under these options, and a sentence that describes it."""


# Abilities of a Task: runs, files


@runtime_checkable
class HasRecordWarnings(Protocol):
    """Task that detects unusual features or results."""

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return warnings with counts."""


@runtime_checkable
class HasTimes(Protocol):
    """Task whose scores include times."""

    def time_scores(self, protocol: str, features_s: float, compare_s: float) -> list[Score]:
        """Return the scores that are times, from the seconds of extraction and comparison."""


@runtime_checkable
class ReadsResults(Protocol):
    """Task that reads result files of other programs. Other tasks read them as the method `files:DIR`."""

    def records_from_results(self, folder: Path, opened: Any, on_bad: str = "error") -> Sequence[Records]:
        """Read the records of every unit.

        A distance that is not a number is an error, or with ``on_bad="miss"`` a miss.
        """


@runtime_checkable
class ChecksResults(Protocol):
    """Task that checks a folder of results before it is read."""

    def check_results(self, opened: Any, results: Path) -> list[str]:
        """Return warnings. Raise one error that lists everything that makes the folder unusable."""


@runtime_checkable
class WritesResults(Protocol):
    """Task that writes result files for other programs, in the forms `result_forms`."""

    result_forms: tuple[str, ...]

    def write_results(
        self,
        folder: Path,
        opened: Any,
        records: Mapping[str, Mapping[str, Records]],
        arrays: Callable[[str], Arrays],
        protocols: Sequence[str],
        form: str,
    ) -> Iterable[Path]:
        """Write the result files of a run below `folder` and yield their paths.

        Args:
            folder: Folder of the method.
            opened: Data of the task.
            records: By unit and comparison.
            arrays: Returns the features of an item.
            protocols: Protocols of the run.
            form: ``final``, or ``document`` as the task's original document shows them.
        """


@runtime_checkable
class AcceptsFamilies(Protocol):
    """Task that accepts methods of several families."""

    def family_for(self, method: Any) -> str:
        """Return the family in which a method (specification or object) is looked up."""

    def for_family(self, data: Any, family: str) -> TaskData:
        """Return the data as methods of a family see it."""


# Abilities of TaskData


@runtime_checkable
class HasProtocolWarnings(Protocol):
    """Data with warnings that depend on the protocols."""

    def protocol_warnings(self, protocols: Sequence[str]) -> Sequence[str]:
        """Return the warnings under these protocols, besides `warnings`."""


@runtime_checkable
class HasTrainingItems(Protocol):
    """Data with items to fit transforms on."""

    def training(self, images: str) -> Sequence[Item]:
        """Return the training items: reference images (`ref`) or `all` images."""


@runtime_checkable
class DependsOnMethod(Protocol):
    """Data whose comparison depends on more than features."""

    def method_facts(self, meta: Mapping[str, Any], comparison: str) -> Mapping[str, Any]:
        """Return the facts of the method that become part of the record key."""


@runtime_checkable
class HasTrueFlow(Protocol):
    """Data with a dense ground truth for pictures."""

    def true_flow(self, item: str) -> Any:
        """Return the true flow on image 1 of a pair. None if there is none."""


@runtime_checkable
class ReplaysQueries(Protocol):
    """Data whose cases are queries."""

    def replay_query(self, scene: str, key: str, features: Features | None) -> QueryCase | None:
        """Recompute the query of a case. None if the case is not a query.

        Without features, return only the pictures of the query and its correct answers, or None if these
        depend on the method.
        """


@runtime_checkable
class ReplaysFlow(Protocol):
    """Data whose cases are dense pairs."""

    def replay_flow(self, scene: str, key: str, features: Features | None) -> DenseCase | None:
        """Recompute the dense pair of a case. None if the case is not one."""


@runtime_checkable
class DrawsMatches(Protocol):
    """Data whose cases are image pairs with matches."""

    def drawable_pairs(self) -> Sequence[str]:
        """Return the names of the pairs that can be requested."""

    def draw_matches(self, name: str, features: Features) -> MatchedPair:
        """Return the matches of a pair beside its ground truth."""

    def case_pair(self, scene: str, key: str) -> str | None:
        """Return the pair of a case. None if the case is not a pair."""


@runtime_checkable
class MakesOracle(Protocol):
    """Data that computes the features of the oracle of family `pairs`."""

    def oracle_features(self, item: Item, noise_px: float) -> Arrays:
        """Return the true correspondences of an item with Gaussian noise of `noise_px` pixels."""
