# SPDX-License-Identifier: BSD-3-Clause
"""Optional interfaces of tasks, detected with `isinstance`. Exactly one module uses each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:  # some of these modules load Numba or Pillow, which stored runs do not need
    from ..core.records import Arrays, Features, Item, Records
    from ..core.scores import SceneCurves, Score
    from ..datasets.image_pairs.ground_truth import PairTruth
    from ..datasets.stress_kinds import StressKind
    from ..stats.breakdown import StressCurve
    from .base import Column, TaskData
    from .cases import Cases, DenseCase, MatchedPair, QueryCase
    from .scene_views import SceneView, WorstImage
    from .steps import StepTable
    from .unit_values import UnitFacts, UnitWeights

CurvePoints = tuple[str, str, Any, Any]
"""A curve: group, curve name, x values, y values."""

# Optional methods of a Task: figures, pictures, tables


@runtime_checkable
class HasCurves(Protocol):
    """Task with curves computed from the pooled pairs of all scenes."""

    def curves(self, records: Sequence[Records]) -> Iterable[CurvePoints]:
        """Compute the points of each curve under the protocol `exact`."""


@runtime_checkable
class HasSceneCurves(Protocol):
    """Task with curves that are averaged over scenes."""

    def scene_curves(self, records: Sequence[Records]) -> Iterable[SceneCurves]:
        """Compute the curves of each scene under the protocol `exact`."""


@runtime_checkable
class HasStressCurves(Protocol):
    """Task whose scores are measured at several levels of one image change, such as blur."""

    kind: StressKind

    def stress_curves(self, tables: Mapping[tuple[str, str], object]) -> Mapping[str, StressCurve]:
        """Return the curve and its breakdown point for each metric, from scene values by metric and group."""


@runtime_checkable
class HasCases(Protocol):
    """Task whose records contain one score for each query or image pair (case)."""

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return the queries or pairs of a scene with their scores. None if the scene has none.

        The scores are computed from `records` of the protocol `exact`: those of the unit that has the name of
        the scene, or those of all units if no unit has this name.
        """


@runtime_checkable
class HasWrongAnswers(Protocol):
    """Task whose wrong answers can be shown as pictures."""

    def wrong_answers(self, records: Sequence[Records]) -> Iterable[tuple[str, str, str]]:
        """Return names of image positions or patches: (query, correct answer, wrong answer of the method)."""


@runtime_checkable
class HasPairAccuracy(Protocol):
    """Task that computes an accuracy for every image pair."""

    def pair_accuracy(self, records: Sequence[Records]) -> Iterable[tuple[str, float]]:
        """Return tuples (item, accuracy), one per item or one per direction of an item."""


@runtime_checkable
class HasPairCaption(Protocol):
    """Task that provides a caption for its result on an image pair."""

    def pair_caption(self, records: Sequence[Records], pair: str) -> str:
        """Return the caption, computed from records of `exact`."""


@runtime_checkable
class CountsMatches(Protocol):
    """Task whose records contain the number of matches of each query or image pair (case)."""

    def match_count(self, records: Sequence[Records], scene: str, key: str) -> int | None:
        """Return the number of matches of a case from records of `exact`. None if it is unknown.

        `key` identifies the case within its scene.
        """


@runtime_checkable
class HasConventionSteps(Protocol):
    """Task that explains the difference between its protocols, using only records of `exact`."""

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return tables of the metrics as the conventions change step by step to those of `exact`.

        Empty if there are no records.
        """


@runtime_checkable
class HasIntermediateSteps(Protocol):
    """Task that needs additional comparisons to explain the difference between its protocols."""

    def intermediate_comparisons(self, protocols: Sequence[str]) -> tuple[str, ...]:
        """Return the additional comparisons that the steps from these protocols to `exact` need."""

    def convention_steps_between(self, records: Mapping[str, Sequence[Records]]) -> list[StepTable]:
        """Return tables of the metrics as the conventions change step by step to those of `exact`.

        `records` are grouped by comparison.
        """


@runtime_checkable
class AdjustsColumns(Protocol):
    """Task whose column names depend on the options of a run."""

    def expand_column(self, column: Column, options: Mapping[str, Any]) -> Column:
        """Return the table column that is shown instead of `column` under these options."""


@runtime_checkable
class HasLeadMetric(Protocol):
    """Task whose options can select the metric that is printed first."""

    def lead_metric(self, options: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the metric to print first under these options, and its description."""


@runtime_checkable
class HasSceneViews(Protocol):
    """Task whose records contain reconstructions that can be drawn."""

    def scene_views(self, records: Sequence[Records]) -> Sequence[SceneView]:
        """Return the cameras and points of each scene."""

    def worst_images(self, records: Sequence[Records]) -> Sequence[WorstImage]:
        """Return the worst image of each scene, with those of its pairs that failed."""


@runtime_checkable
class WritesModels(Protocol):
    """Task whose cached reconstructions can be written as COLMAP files."""

    def write_models(self, records: Sequence[Records], folder: Path) -> Sequence[Path]:
        """Write COLMAP databases and models below a folder and return their paths.

        Raises:
            InputError: The databases or models are not cached.
        """


# Optional methods of a Task: runs, files


@runtime_checkable
class HasRecordWarnings(Protocol):
    """Task that warns about unusual features or results of a method."""

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return warnings that include the number of affected items."""


@runtime_checkable
class HasTimes(Protocol):
    """Task whose scores include times."""

    def time_scores(self, protocol: str, features_s: float, compare_s: float) -> list[Score]:
        """Return the running times as scores, from the seconds of extraction and comparison."""


def timed_metrics(task: object, protocol: str) -> set[str]:
    """Return the names of a task's metrics that are measured times."""
    return {s.metric for s in task.time_scores(protocol, 0.0, 0.0)} if isinstance(task, HasTimes) else set()


@runtime_checkable
class HasUnitValues(Protocol):
    """Task with scores that are means over units: one value in [0, 1] per unit, with fixed weights."""

    def unit_facts(self, opened: Any) -> Mapping[str, UnitFacts]:
        """Return the properties of the units of opened data, which are known before any method runs."""

    def record_facts(self, records: Mapping[str, Records]) -> Mapping[str, UnitFacts]:
        """Return the properties of the units from their records, for stored runs whose data is not opened."""

    def unit_weights(
        self, units: Mapping[str, UnitFacts], protocol: str, metric: str, group: str
    ) -> UnitWeights:
        """Return the weights of a score's units. Raise `NotRaceableError` if it is not a mean over units."""

    def unit_values(
        self, records: Mapping[str, Records], protocol: str, metric: str, group: str
    ) -> Mapping[str, float]:
        """Return the value of each unit that a score averages. NaN if a unit has none."""


def unit_values_of(
    task: object, records: Mapping[str, Records], protocol: str, metric: str, group: str
) -> Mapping[str, float]:
    """Return the value of each unit that a score averages. Empty if the task has no unit values."""
    if not isinstance(task, HasUnitValues):
        return {}
    return task.unit_values(records, protocol, metric, group)


@runtime_checkable
class HasCommonUnits(Protocol):
    """Task with imported results that may cover different units for different methods."""

    def common_units(self, records: Sequence[Records]) -> Sequence[Records] | None:
        """Return imported records restricted to the units that all of them contain.

        None if no record is imported.
        """


@runtime_checkable
class ReadsResults(Protocol):
    """Task with its own reader for result files of other programs. Other tasks use the method `files:DIR`."""

    def result_folders(self, results: Path, opened: Any) -> Mapping[str, Path]:
        """Return the results of each method in a file or folder, by the method's name."""

    def result_hashes(self, folder: Path, records: Sequence[Records]) -> Mapping[str, str]:
        """Return hashes of the results of one method, by file or part of a file."""

    def records_from_results(self, folder: Path, opened: Any, on_bad: str = "error") -> Sequence[Records]:
        """Read the records of every unit from result files.

        By default, a distance that is not a number raises an error. With ``on_bad="miss"`` it counts as a
        miss.
        """


@runtime_checkable
class ChecksResults(Protocol):
    """Task that checks a folder of result files before reading it."""

    def check_results(self, opened: Any, results: Path) -> list[str]:
        """Return warnings. If the folder is unusable, raise one error that lists all problems."""


@runtime_checkable
class WritesResults(Protocol):
    """Task that writes result files for other programs. `result_forms` lists the supported layouts."""

    result_forms: tuple[str, ...]

    def results_form(self, opened: Any) -> str:
        """Return the layout that fits the definition files of the opened data."""

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
            folder: Output folder of the method.
            opened: Data of the task.
            records: Records by unit and comparison.
            arrays: Function that returns the features of an item.
            protocols: Protocols of the run.
            form: Layout of the files: ``final``, or ``document`` for the layout in the task's original
                document.
        """


@runtime_checkable
class AcceptsFamilies(Protocol):
    """Task that accepts methods of several families."""

    def family_for(self, method: Any) -> str:
        """Return the method family of a method, given as a specification or an object."""

    def for_family(self, data: Any, family: str) -> TaskData:
        """Return the task data with the inputs that methods of a family need."""


# Optional methods of TaskData


@runtime_checkable
class HasProtocolWarnings(Protocol):
    """Task data with warnings that depend on the protocols of a run."""

    def protocol_warnings(self, protocols: Sequence[str]) -> Sequence[str]:
        """Return the warnings that apply only under these protocols. `warnings` has the general warnings."""


@runtime_checkable
class HasTrainingItems(Protocol):
    """Task data with training items, used to fit transforms such as PCA."""

    def training(self, images: str) -> Sequence[Item]:
        """Return the training items: reference images (`ref`) or all images (`all`)."""


@runtime_checkable
class DependsOnMethod(Protocol):
    """Task data whose records depend on more than the features of a method."""

    def method_facts(self, meta: Mapping[str, Any], comparison: str) -> Mapping[str, Any]:
        """Return the properties of a method that become part of the cache keys of its records."""


@runtime_checkable
class HasPairTruths(Protocol):
    """Task data of image pairs whose ground truth is checked against matches before the first run."""

    def pair_truths(self) -> Sequence[PairTruth]:
        """Return the image pairs with their pose or homography, if they have one."""


@runtime_checkable
class ReplaysQueries(Protocol):
    """Task data that can recompute its queries for pictures."""

    def replay_query(self, scene: str, key: str, features: Features | None) -> QueryCase | None:
        """Recompute the query that a key of `Cases` names. None if the key does not name a query.

        Without features, return only the pictures of the query and of its correct answers. If these pictures
        depend on the method, return None.
        """


@runtime_checkable
class ReplaysFlow(Protocol):
    """Task data that can recompute dense flows for pictures."""

    def replay_flow(self, scene: str, key: str, features: Features | None) -> DenseCase | None:
        """Recompute the dense flow of the image pair that a key of `Cases` names.

        None if it has no dense flow.
        """

    def flow_case(self, item: str) -> tuple[str, str] | None:
        """Return scene and key of the flow from image 1 to image 2 of an item.

        None if that flow is not scored.
        """


@runtime_checkable
class DrawsMatches(Protocol):
    """Task data that can return the matches of its image pairs for pictures."""

    def drawable_pairs(self) -> Sequence[str]:
        """Return the names of the pairs that `draw_matches` accepts."""

    def draw_matches(self, name: str, features: Features) -> MatchedPair:
        """Return the matches of a pair together with its ground truth."""

    def case_pair(self, scene: str, key: str) -> str | None:
        """Return the name of the image pair that a key of `Cases` names.

        None if the key does not name a pair.
        """


@runtime_checkable
class MakesOracle(Protocol):
    """Task data that can compute the features of the reference method `oracle` (family `pairs`)."""

    def oracle_features(self, item: Item, noise_px: float) -> Arrays:
        """Return the true correspondences of an item with Gaussian noise of `noise_px` pixels."""
