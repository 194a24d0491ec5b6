# SPDX-License-Identifier: BSD-3-Clause
"""Run an experiment: create missing keypoint sets, then evaluate every combination of the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core.errors import InputError, TiepointError
from ...store.store import Store
from ..context import Progress, no_progress
from ..costs import cores
from ..engine import evaluate_prepared, store_failure
from ..preparation import PreparedRun, prepare_all
from ..request import RunRequest
from ..result import Run
from ..session import RunSession
from .config import Experiment
from .grid import PROJECTED_BORDER_PX, GridCell, plan


@dataclass(frozen=True)
class CellOutcome:
    """Result of one grid combination: a run or an error."""

    cell: GridCell
    run: Run | None = None
    error: str | None = None


def run_experiment(
    experiment: Experiment,
    store: Store,
    *,
    progress: Progress = no_progress,
    cluster: Any = None,
    report: Callable[[str], None] = print,
) -> Iterator[CellOutcome]:
    """Evaluate all combinations of the grid. Stored results are reused.

    A failed combination is stored with its error. `cluster` and `report` are passed to `RunSession`.
    """
    cells = plan(experiment)
    far = cluster is not None
    ready = _prepared([c for c in cells if c.make is None], experiment, store, progress, far)
    make_sets(experiment, cells, store, progress)
    ready |= _prepared([c for c in cells if c.make is not None], experiment, store, progress, far)
    with RunSession(store.root, cluster, report) as shared:
        shared.submit([ready[id(cell)] for cell in cells], store, progress)
        for cell in cells:
            prepared = ready.pop(id(cell))
            try:
                yield CellOutcome(cell, evaluate_prepared(prepared, store, shared, progress))
            except InputError:
                raise
            except TiepointError as e:
                store_failure(prepared, e, store)
                yield CellOutcome(cell, error=str(e))


def _prepared(
    cells: list[GridCell], experiment: Experiment, store: Store, progress: Progress, far: bool
) -> dict[int, PreparedRun]:
    """Prepare all runs of the grid. Return them by ``id(cell)``. One error lists all problems."""
    wanted = [replace(request, on_cluster=far) for request in grid_requests(cells, experiment)]
    ready = prepare_all(wanted, store.root, progress)
    return dict(zip(map(id, cells), ready, strict=True))


def grid_requests(cells: list[GridCell], experiment: Experiment) -> list[RunRequest]:
    """Return the run requests of the grid cells."""
    words = {k: v for k, v in experiment.experiment.model_dump().items() if v}
    performance = experiment.performance
    return [
        RunRequest(
            cell.spec,
            cell.task,
            experiment.dataset.path,
            cell.protocols,
            cell.options,
            {"on_bad": performance.on_bad, "device": performance.device},
            performance.num_threads or cores(),
            name=cell.name,
            meta={"experiment": words, "written_as": cell.spec},
        )
        for cell in cells
    ]


def make_sets(
    experiment: Experiment, cells: list[GridCell], store: Store, progress: Progress = no_progress
) -> None:
    """Create projected keypoint sets that the grid needs and the store does not have."""
    from ...datasets.image_sequences import ImageSequences
    from ...datasets.keypoint_sets.create import make_keypoint_set
    from ...formats.keypoints.set_folder import sets_below
    from ...store.writers import load_keypoint_set, save_keypoint_set

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


def store_of(experiment: Experiment, config: Path, given: str | None) -> str | None:
    """Return the store of an experiment: ``--store``, else ``database.connection``, else the default.

    A workbench connection such as ``sqlite:///experiments.db`` names an SQLite file, which is never written.
    The store is the folder ``experiments.db.store`` beside the experiment file.
    """
    connection = experiment.database.connection
    if given is not None or connection is None:
        return given
    if connection.startswith("sqlite:///"):
        return str(config.parent / f"{connection.removeprefix('sqlite:///')}.store")
    return connection
