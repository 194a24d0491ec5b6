# SPDX-License-Identifier: BSD-3-Clause
"""Recompute one case from cached features and return the answer, matches or flow of each method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, TiepointError
from ..core.hashing import hash_json
from ..geometry.flow.color import flow_color, max_motion
from ..geometry.flow.warp import warp_image
from ..kernels import first_two, pair_distances, value_table
from ..metrics.dense import endpoint_error
from ..run.recompare import ReopenedRun, reopen
from ..run.result import Run
from ..tasks.base import TaskData
from ..tasks.capabilities import ReplaysFlow, ReplaysQueries
from ..tasks.cases import Cases, DenseCase, MatchedPair, QueryCase
from .case_order import cases_of
from .pictures.flow import error_map
from .pictures.matches import match_case
from .pictures.thumbnails import crop

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
ERROR_MAP_WHITE_FRACTION = 0.05
"""Error that is drawn white in the error map, as a fraction of the target's larger side."""


@dataclass(frozen=True)
class DenseView:
    """Pictures (h, w, 3) of a flow from `source` to `target`, at the size of the flow.

    `flow` is the coloured flow and `warped` is the target warped to the source. `error` and `true_flow` are
    None if the true flow is unknown. `errors_px` (h, w) is NaN at pixels without true flow and infinite at
    pixels without estimated flow. `longest_px` is the error that is drawn white in the error map. `points`
    (q, 2) are keypoints. `estimated_points` and `true_points` are their estimated and true positions in the
    target.
    """

    source: Image
    target: Image
    flow: Image
    warped: Image
    error: Image | None
    true_flow: Image | None
    errors_px: Floats | None
    longest_px: float
    points: Floats | None = None
    estimated_points: Floats | None = None
    true_points: Floats | None = None


def dense_view(case: DenseCase) -> DenseView | None:
    """Draw the pictures of a flow with the colour scale of the true flow. None if the case has no flow.

    >>> image, flow = np.zeros((4, 6, 3), np.uint8), np.zeros((4, 6, 2))
    >>> view = dense_view(DenseCase(image, image, flow + 3, flow))
    >>> view.error.shape, float(view.errors_px[0, 0].round(3))
    ((4, 6, 3), 4.243)
    """
    if case.flow is None:
        return None
    flow = np.asarray(case.flow, np.float64)
    truth = None if case.truth is None else np.asarray(case.truth, np.float64)
    longest_px = ERROR_MAP_WHITE_FRACTION * max(case.target.shape[:2])
    scale = max_motion(flow if truth is None else truth)
    error, errors, true = None, None, None
    if truth is not None:
        error = error_map(flow, truth, longest_px=longest_px)
        errors = np.asarray(endpoint_error(flow, truth), np.float64)
        true = flow_color(truth, longest=scale)
    return DenseView(
        case.source,
        case.target,
        flow_color(flow, longest=scale),
        warp_image(case.target, flow),
        error,
        true,
        errors,
        longest_px,
        case.points,
        case.estimated_points,
        case.true_points,
    )


Kind = Literal["query", "pair", "dense", "unknown"]
T = TypeVar("T")
OPEN, DATASETS = 32, 8
"""Maximum numbers of open runs and of open tasks in the cache."""


@dataclass(frozen=True)
class MethodView:
    """The result of one run on a case. `missing` explains why parts are absent and how to compute them."""

    run: Run
    score: float | None
    confidence: float | None
    answered: QueryCase | None = None
    matched: MatchedPair | None = None
    dense: DenseView | None = None
    missing: str = ""


@dataclass(frozen=True)
class CaseDetail:
    """A case with the result of each run.

    `query` and `right` are picture references that `picture` reads: ``SEQUENCE/IMAGE#INDEX`` or
    ``SCENE/IMAGE@x,y``. `query` is empty if the methods have different queries. `images` has both images of a
    pair. `missing` explains why there are no pictures: the dataset is missing, was moved or has changed.
    """

    task: str
    scene: str
    key: str
    label: str
    kind: Kind
    views: tuple[MethodView, ...]
    query: str = ""
    right: tuple[str, ...] = ()
    images: tuple[Image, Image] | None = None
    opened: TaskData | None = None
    missing: str = ""


def detail(runs: Sequence[Run], scene: str, key: str, *, data: Path | None = None) -> CaseDetail | None:
    """Recompute one case for several runs. Return None if no run has the case.

    Missing data raises no error. The field `missing` of the case or of a method reports it. Datasets stay
    open for the next case.

    Args:
        runs: Runs of one task and one dataset.
        scene: Name of the scene in the scores.
        key: Key in `Cases`, as text.
        data: Folder of the dataset, if it was moved.
    """
    found = [cases_of(run, scene) for run in runs]
    rows = [None if c is None else c.find(key) for c in found]
    known = [c for c, row in zip(found, rows, strict=True) if c is not None and row is not None]
    if not known:
        return None
    opened, missing = _first_opened(runs, data)
    question = None
    images: tuple[Image, Image] | None = None
    kind: Kind = "unknown"
    if opened is not None:
        kind, question, images, missing = _classify(opened, scene, key)
    views = tuple(
        _view(run, _numbers(cases, row), scene, key, kind, data)
        for run, cases, row in zip(runs, found, rows, strict=True)
    )
    own = {v.answered.query for v in views if v.answered is not None}
    if kind == "unknown" and own:
        kind = "query"
    return CaseDetail(
        runs[0].task,
        scene,
        key,
        known[0].description(key),
        kind,
        views,
        question.query if question is not None else next(iter(own)) if len(own) == 1 else "",
        () if question is None else tuple(a.picture for a in question.right),
        images or _matched_images(views),
        opened,
        missing,
    )


def case_kind(opened: TaskData) -> Kind:
    """Return the kind of the cases of a task: dense flows, queries, or pairs with matches."""
    if isinstance(opened, ReplaysFlow):
        return "dense"
    return "query" if isinstance(opened, ReplaysQueries) else "pair"


def true_flow_case(opened: TaskData, item: str) -> tuple[str, str, DenseCase] | None:
    """Return scene, key and content (without an estimate) of the flow from image 1 of an item.

    None if the task has no flows, or does not score the flow of this item.
    """
    named = opened.flow_case(item) if isinstance(opened, ReplaysFlow) else None
    if named is None or not isinstance(opened, ReplaysFlow):
        return None
    found = opened.replay_flow(*named, None)
    return None if found is None else (*named, found)


def picture(case: CaseDetail, reference: str, *, side: int = 65) -> Image | None:
    """Read the picture of a reference: a patch, or a crop of `side` pixels. None if its data are missing."""
    if case.opened is None:
        return None
    item, _, place = reference.replace("@", "#").partition("#")
    try:
        image = np.asarray(case.opened.read_item(item))
        if "," in place:
            x, y = (round(float(v)) for v in place.split(","))
            return crop(image, x, y, side)
        return image[int(place)] if place else image
    except (TiepointError, OSError, LookupError, ValueError, OverflowError):
        return None


def opened_run(run: Run, data: Path | None = None) -> ReopenedRun:
    """Open a run with its dataset and method. Recently opened runs stay open.

    Raises:
        InputError: The run is not in a store, or its method or dataset is missing.
    """
    if run.root is None:
        raise InputError(f"run {run.id} is not in a store, so its features cannot be read")
    return _reopened(run.root, run.id, data, _Uncompared(run))


def warm_up() -> None:
    """Load the compiled code that the first case needs. This takes seconds, or 30 s if it is not cached."""
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    value_table(rows, rows, distance="l2")
    pair_distances(rows, rows, [0], [1])
    first_two(rows, rows)
    image = np.zeros((4, 4, 3), np.uint8)
    dense_view(DenseCase(image, image, np.zeros((4, 4, 2), np.float32)))


class _Uncompared(Generic[T]):
    """Wrapper for an argument that `lru_cache` must ignore: all instances compare equal."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Uncompared)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=OPEN)
def _reopened(root: Path, run_id: str, data: Path | None, run: _Uncompared[Run]) -> ReopenedRun:
    stored = run.value.stored
    if data is not None:
        dataset = stored.manifest.dataset.model_copy(update={"path": str(data)})
        stored = replace(stored, manifest=stored.manifest.model_copy(update={"dataset": dataset}))
    again = reopen(stored, root)
    facts, opened = stored.manifest, again.context.opened
    key = hash_json(
        [facts.task, facts.dataset.hash, facts.dataset.path, facts.options, type(opened).__name__]
    )
    return replace(again, context=replace(again.context, opened=_shared(key, _Uncompared(opened))))


@lru_cache(maxsize=DATASETS)
def _shared(key: str, opened: _Uncompared[TaskData]) -> TaskData:
    """Return the first open task with this key, so that runs of several methods share its pair lists."""
    return opened.value


def _try(make: Callable[[], T]) -> tuple[T | None, str]:
    """Call `make`. Return its result, or None and the error message."""
    try:
        return make(), ""
    except (TiepointError, OSError) as error:
        return None, str(error)


def _first_opened(runs: Sequence[Run], data: Path | None) -> tuple[TaskData | None, str]:
    """Return the task of the first run that can be opened, or None and the first error message."""
    first = ""
    for run in runs:
        again, why = _try(partial(opened_run, run, data))
        if again is not None:
            return again.context.opened, ""
        first = first or why
    return None, first


def _classify(
    opened: TaskData, scene: str, key: str
) -> tuple[Kind, QueryCase | None, tuple[Image, Image] | None, str]:
    """Return the kind of a case, its query, its images, and the reason if query or images are missing."""
    if isinstance(opened, ReplaysQueries):
        question, why = _try(lambda: opened.replay_query(scene, key, None))
        if question is not None or why:
            return "query", question, None, why
    if isinstance(opened, ReplaysFlow):
        dense, why = _try(lambda: opened.replay_flow(scene, key, None))
        if dense is not None or why:
            return "dense", None, None if dense is None else (dense.source, dense.target), why
    return "unknown" if match_case(opened, scene, key) is None else "pair", None, None, ""


def _view(
    run: Run,
    numbers: tuple[float | None, float | None] | None,
    scene: str,
    key: str,
    kind: Kind,
    data: Path | None,
) -> MethodView:
    """Return the result of one run on a case."""
    if numbers is None:
        return MethodView(run, None, None, missing=f"run {run.id} has no such case")
    view = MethodView(run, *numbers)
    result, why = _try(lambda: _recompute(view, opened_run(run, data), scene, key, kind))
    return replace(view, missing=why) if result is None else result


def _recompute(view: MethodView, again: ReopenedRun, scene: str, key: str, kind: Kind) -> MethodView:
    opened, features = again.context.opened, again.features
    if kind == "dense" and isinstance(opened, ReplaysFlow):
        flow = opened.replay_flow(scene, key, features)
        dense = None if flow is None else dense_view(flow)
        return replace(view, dense=dense, missing="" if dense else "the method gave no flow for this pair")
    draw = None if kind == "query" else match_case(opened, scene, key)
    if draw is not None:
        return replace(view, matched=draw(features))
    # Some tasks need the features of a method to identify a query.
    query = opened.replay_query(scene, key, features) if isinstance(opened, ReplaysQueries) else None
    return replace(view, answered=query)


def _numbers(cases: Cases | None, row: int | None) -> tuple[float | None, float | None] | None:
    if cases is None or row is None:
        return None
    sure = np.nan if cases.confidence is None else cases.confidence[row]
    score = cases.score[row]
    return None if np.isnan(score) else float(score), None if np.isnan(sure) else float(sure)


def _matched_images(views: Sequence[MethodView]) -> tuple[Image, Image] | None:
    for view in views:
        if view.matched is not None:
            one, two = view.matched.images
            return None if one is None or two is None else (one, two)
    return None
