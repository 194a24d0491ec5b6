# SPDX-License-Identifier: BSD-3-Clause
"""One case made again from cached features: what each method chose, its matches, or its flow."""

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
from .galleries import crop
from .pictures.flow import error_map
from .pictures.matches import match_case

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
ERROR_MAP_WHITE_FRACTION = 0.05
"""The error map is white from this share of the target's larger side on."""


@dataclass(frozen=True)
class DenseView:
    """A flow of `source` onto `target`, all pictures (h, w, 3) of the flow's size.

    `flow` is in colour, `warped` the target pulled back onto the source; `error` and `true_flow` are None
    without a true flow. `errors_px` (h, w) are NaN where the truth is unknown and infinite where the flow is.
    `points`, `found` and `true_points` (q, 2) are keypoints, where the flow takes them and where they belong.
    """

    source: Image
    target: Image
    flow: Image
    warped: Image
    error: Image | None
    true_flow: Image | None
    errors_px: Floats | None
    longest_px: float
    """The error that is white in the error map."""
    points: Floats | None = None
    found: Floats | None = None
    true_points: Floats | None = None


def dense_view(case: DenseCase) -> DenseView | None:
    """The pictures of a flow; None where there is none. Colours of both flows have the scale of the true one.

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
    coloured = flow_color(flow, longest=scale)
    error, errors, true = None, None, None
    if truth is not None:
        error = error_map(flow, truth, longest_px=longest_px)
        errors = np.asarray(endpoint_error(flow, truth), np.float64)
        true = flow_color(truth, longest=scale)
    return DenseView(
        case.source,
        case.target,
        coloured,
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
Made = TypeVar("Made")
OPEN, DATASETS = 32, 8
"""Runs, and datasets bound to a task, that stay open for the next case."""


@dataclass(frozen=True)
class MethodView:
    """What one run has of a case; `missing` says in a sentence why there is less, and what makes it."""

    run: Run
    score: float | None
    confidence: float | None
    answered: QueryCase | None = None
    matched: MatchedPair | None = None
    dense: DenseView | None = None
    missing: str = ""


@dataclass(frozen=True)
class CaseDetail:
    """A case as each run has it.

    `query` (empty where methods have queries of their own) and `right` are references to pictures
    (``SEQUENCE/IMAGE#INDEX``, ``SCENE/IMAGE@x,y``) that `picture` reads; `images` are both images of a pair.
    `missing` says why pictures are not at hand: the dataset is gone, was moved or has changed.
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
    """One case of runs of one task, made again; None where no run has such a case.

    Nothing raises for what is not at hand: `missing` of the case or of a method says it. Datasets stay open
    for the next case.

    Args:
        runs: Of one task and one dataset.
        scene: As the scores call it.
        key: Of `Cases`, as text.
        data: Where the dataset lies now, if it was moved.
    """
    found = [cases_of(run, scene) for run in runs]
    rows = [None if c is None else c.find(key) for c in found]
    known = [c for c, row in zip(found, rows, strict=True) if c is not None and row is not None]
    if not known:
        return None
    opened, missing = _first_opened(runs, data)
    asked = None
    images: tuple[Image, Image] | None = None
    kind: Kind = "unknown"
    if opened is not None:
        kind, asked, images, missing = _asked(opened, scene, key)
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
        asked.query if asked is not None else next(iter(own)) if len(own) == 1 else "",
        () if asked is None else tuple(a.picture for a in asked.right),
        images or _matched_images(views),
        opened,
        missing,
    )


def picture(case: CaseDetail, reference: str, *, side: int = 65) -> Image | None:
    """The patch, or the square of `side` pixels of an image, that a reference names.

    None where the dataset is not at hand, or has no such item.
    """
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
    """A run with its dataset and method at hand; the last ones stay open.

    Raises:
        InputError: The run is of no store, or its method or dataset is gone; the message says what to do.
    """
    if run.root is None:
        raise InputError(f"run {run.id} is of no store, so that its features cannot be found")
    return _reopened(run.root, run.id, data, _Kept(run))


def warm_up() -> None:
    """Load what the first case would wait for, compiled code above all; a server does so when it starts.

    Takes seconds, and where nothing is cached yet half a minute; nothing else waits for it.
    """
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    value_table(rows, rows, distance="l2")
    pair_distances(rows, rows, [0], [1])
    first_two(rows, rows)
    image = np.zeros((4, 4, 3), np.uint8)
    dense_view(DenseCase(image, image, np.zeros((4, 4, 2), np.float32)))


class _Kept(Generic[Made]):
    """Carries something past a cache, which goes by the other arguments alone."""

    def __init__(self, value: Made) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=OPEN)
def _reopened(root: Path, run_id: str, data: Path | None, kept: _Kept[Run]) -> ReopenedRun:
    stored = kept.value.stored
    if data is not None:
        dataset = stored.manifest.dataset.model_copy(update={"path": str(data)})
        stored = replace(stored, manifest=stored.manifest.model_copy(update={"dataset": dataset}))
    again = reopen(stored, root)
    facts, opened = stored.manifest, again.context.opened
    key = hash_json(
        [facts.task, facts.dataset.hash, facts.dataset.path, facts.options, type(opened).__name__]
    )
    return replace(again, context=replace(again.context, opened=_shared(key, _Kept(opened))))


@lru_cache(maxsize=DATASETS)
def _shared(key: str, opened: _Kept[TaskData]) -> TaskData:
    """The first of the open tasks that differ only by their method: lists are held once for all methods."""
    return opened.value


def _tried(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """What is made, or None and why it cannot be."""
    try:
        return make(), ""
    except (TiepointError, OSError) as error:
        return None, str(error)


def _first_opened(runs: Sequence[Run], data: Path | None) -> tuple[TaskData | None, str]:
    """The open task of the first run that can be opened, or why none can."""
    said = ""
    for run in runs:
        again, why = _tried(partial(opened_run, run, data))
        if again is not None:
            return again.context.opened, ""
        said = said or why
    return None, said


def _asked(
    opened: TaskData, scene: str, key: str
) -> tuple[Kind, QueryCase | None, tuple[Image, Image] | None, str]:
    """What a case is, its pictures, and why these are missing."""
    if isinstance(opened, ReplaysQueries):
        asked, why = _tried(lambda: opened.replay_query(scene, key, None))
        if asked is not None or why:
            return "query", asked, None, why
    if isinstance(opened, ReplaysFlow):
        dense, why = _tried(lambda: opened.replay_flow(scene, key, None))
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
    """What one run has of a case."""
    if numbers is None:
        return MethodView(run, None, None, missing=f"run {run.id} has no such case")
    view = MethodView(run, *numbers)
    made, why = _tried(lambda: _made(view, opened_run(run, data), scene, key, kind))
    return replace(view, missing=why) if made is None else made


def _made(view: MethodView, again: ReopenedRun, scene: str, key: str, kind: Kind) -> MethodView:
    opened, features = again.context.opened, again.features
    if kind == "dense" and isinstance(opened, ReplaysFlow):
        found = opened.replay_flow(scene, key, features)
        dense = None if found is None else dense_view(found)
        return replace(view, dense=dense, missing="" if dense else "the method gave no flow for this pair")
    draw = None if kind == "query" else match_case(opened, scene, key)
    if draw is not None:
        return replace(view, matched=draw(features))
    # Some queries can be named only from the features of a method; their kind is unknown before.
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
