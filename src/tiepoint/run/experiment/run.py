# SPDX-License-Identifier: BSD-3-Clause
"""Running an experiment: sets that are missing, then every cell of the grid; failures are kept as such."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...methods.base import Method
from ...model.errors import InputError, TiepointError, joined
from ...model.hashing import hash_json
from ...store.manifest import DatasetFacts, Manifest, MethodFacts
from ...store.runs import StoredRun, save_run
from ...store.store import Store
from .. import manifest as about
from ..engine import Prepared, Progress, Request, evaluate_prepared, load_task, prepare_all, silent
from ..result import Run
from .config import Experiment
from .plan import PROJECTED_BORDER_PX, Cell, plan


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: a run, or why there is none."""

    cell: Cell
    run: Run | None = None
    error: str | None = None


def run_experiment(
    experiment: Experiment,
    store: Store,
    *,
    progress: Progress = silent,
    starting: Callable[[Cell], None] = lambda _cell: None,
) -> Iterator[Outcome]:
    """Work through the grid; what the store has already is not computed again."""
    cells = plan(experiment)
    ready = _prepared([c for c in cells if c.make is None], experiment, store, progress)
    make_sets(experiment, cells, store, progress)
    ready |= _prepared([c for c in cells if c.make is not None], experiment, store, progress)
    for cell in cells:
        starting(cell)
        try:
            yield Outcome(cell, evaluate_prepared(ready.pop(id(cell)), store, progress))
        except InputError:
            raise
        except TiepointError as e:
            _keep_failure(cell, experiment, str(e), store)
            yield Outcome(cell, error=str(e))


def _prepared(
    cells: list[Cell], experiment: Experiment, store: Store, progress: Progress
) -> dict[int, Prepared]:
    """Cells made ready, by their identity; all that is wrong with any of them is raised as one error."""
    options = method_options(experiment)
    jobs = experiment.performance.num_threads or about.cores()
    asked: dict[int, Request] = {}
    errors: list[InputError] = []
    for cell in cells:
        try:
            method = resolved(cell, experiment, store)
        except InputError as e:
            errors.append(e)
            continue
        asked[id(cell)] = Request(
            method, cell.task, experiment.dataset.path, cell.protocols, cell.options, options, jobs
        )
    made: list[Prepared] = []
    try:
        made = prepare_all(list(asked.values()), store.root, progress)
    except InputError as e:
        errors.append(e)
    if errors:
        raise joined(errors)
    return dict(zip(asked, made, strict=True))


def method_options(experiment: Experiment) -> dict[str, Any]:
    """Options of the resolver."""
    return {"on_bad": experiment.performance.on_bad, "device": experiment.performance.device}


def resolved(cell: Cell, experiment: Experiment, store: Store) -> Method:
    """The method of a cell under the name the experiment gives it."""
    from ...methods.keypoints.spec import located
    from ...methods.resolve import resolve

    made = resolve(located(cell.spec, store.root), family="keypoints", **method_options(experiment))
    e = experiment.experiment
    words = {k: v for k, v in e.model_dump().items() if v}
    return replace(made, name=cell.name, meta={**made.meta, "experiment": words, "written_as": cell.spec})


def make_sets(experiment: Experiment, cells: list[Cell], store: Store, progress: Progress = silent) -> None:
    """Projected keypoint sets that cells need and the store has not."""
    from ...datasets.keypoint_sets.make import make_keypoint_set
    from ...datasets.sequences import ImageSequences
    from ...formats.keypoints.set_folder import sets_below
    from ...store.keypoint_sets import load_keypoint_set, save_keypoint_set

    wanted = {c.spec.partition("@set:")[2].partition("+")[0]: c.make for c in cells if c.make is not None}
    for name, detector in wanted.items():
        k = experiment.keypoints
        border = PROJECTED_BORDER_PX if k.border_px is None else k.border_px
        sequences = ImageSequences(experiment.dataset.path, experiment.dataset.scenes or None)
        recipe = {
            "detector": detector, "max_features": k.max_features, "border_px": border,
            "data_hash": sequences.data_hash,
        }  # fmt: skip
        if name in sets_below(store.root):
            have = load_keypoint_set(store.root, name).recipe
            if all(have.get(key) == value for key, value in recipe.items()):
                continue
        made = make_keypoint_set(
            sequences, name, detector=str(detector), mode="projected", max_features=k.max_features,
            border_px=border, device=experiment.performance.device,
            progress=lambda d, t, n=name: progress(f"keypoint set {n}", d, t),  # type: ignore[misc]
        )  # fmt: skip
        save_keypoint_set(store, made, overwrite=True)


def _keep_failure(cell: Cell, experiment: Experiment, error: str, store: Store) -> None:
    """A run that failed stays a failed run, with its reason and without scores."""
    data = experiment.dataset.path
    manifest = Manifest(
        task=cell.task,
        options=cell.options,
        protocols=cell.protocols,
        method=MethodFacts(
            name=cell.name, spec=cell.spec, family="keypoints", config={"written_as": cell.spec}
        ),
        dataset=DatasetFacts(hash=hash_json(str(data)), name=data.name, path=str(data)),
        versions=about.versions(),
        machine=about.machine(),
        warnings=(error,),
    )
    run_id = hash_json(["failed", cell.name, cell.spec, cell.task, str(data)])[:12]
    save_run(store, StoredRun(run_id, cell.task, "failed", manifest, (), error, about.now(), None))


def store_of(experiment: Experiment, config: Path, given: str | None) -> str | None:
    """Where results go: ``--store``, else ``database.connection``, else the default.

    A workbench connection names an SQLite file; the store is the folder of that name beside the experiment
    file, ``sqlite:///experiments.db`` becomes ``experiments.db.store``: the old file is never written to.
    """
    connection = experiment.database.connection
    if given is not None or connection is None:
        return given
    if connection.startswith("sqlite:///"):
        return str(config.parent / f"{connection.removeprefix('sqlite:///')}.store")
    return connection


def sizes(cell: Cell, experiment: Experiment) -> tuple[int, int]:
    """Number of images and of units of a cell, without computing anything."""
    opened = load_task(cell.task).open(experiment.dataset.path, cell.options)
    return len(opened.items), len(opened.units)
