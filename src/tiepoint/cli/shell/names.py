# SPDX-License-Identifier: BSD-3-Clause
"""Names that a shell completes: of the package, and of a store read without any of the libraries of it."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

_V2 = ("exact", "hpatches-python", "hpatches-matlab")
_WXBS = ("exact", "wxbs-benchmark")
PROTOCOLS: dict[str, tuple[str, ...]] = {
    **{f"hpatches-v1/{t}": ("exact", "hbench-2016") for t in ("classification", "matching", "retrieval")},
    **{f"hpatches/{t}": _V2 for t in ("verification", "matching", "retrieval")},
    "keypoints/ranking": ("exact", "workbench"),
    "keypoints/images": ("exact", "workbench"),
    "keypoints/matching": ("exact", "bojanic"),
    "keypoints/retrieval": ("exact", "workbench", "bojanic"),
    "keypoints/verification": ("exact", "workbench", "bojanic"),
    "keypoints/geometry": (
        "exact", "loftr", "dkm", "roma", "dad", "glue-factory", "toolbox", "d2net",
    ),
    "dense/flow": ("exact",),
    "dense/pck": ("exact",),
    "tss": ("exact", "tss-cpp", "tss-matlab"),
    "pose/relative": (
        "exact", "superglue", "loftr", "eloftr", "roma", "roma-poselib", "dad", "xfeat", "glue-factory",
        "zeb", "imc",
    ),
    "semantic/pck": ("exact", "hpf", "dhpf", "cats", "dift", "geoaware", "distilldift-stretched"),
    "evd/homography": _WXBS,
    "wxbs/fundamental": _WXBS,
    "wxbs/points": _WXBS,
}  # fmt: skip
"""Protocols by task, so that no task need be imported."""
SPLITS = ("a", "b", "c", "illum", "view", "full")
MAX_COMPLETIONS = 500


def tasks() -> Iterator[str]:
    """Names of tasks, plug-ins among them."""
    from ...tasks import TASKS

    return (entry.name for entry in TASKS)


def methods(task: str | None = None) -> Iterator[str]:
    """Names of methods; those of the family of a task, if it is known."""
    from ...core.plugins import PLUGGED
    from ...methods.registry import METHODS
    from ...tasks import TASKS

    family = TASKS.entry(task).family if task and task in TASKS else None
    for entry in METHODS:
        if family is None or entry.family in (family, PLUGGED):
            yield entry.name.split(":")[-1]
    yield from ("files:", "onnx:", "torch:", "kornia:")


def datasets() -> Iterator[str]:
    """Names of published datasets that can be fetched."""
    from importlib.resources import files

    with contextlib.suppress(ImportError, OSError, ValueError, KeyError, TypeError):
        place = files("tiepoint.datasets.download").joinpath("sources.json")
        listed = json.loads(place.read_text(encoding="utf-8"))["sources"]
        yield from sorted(listed if isinstance(listed, dict) else (one["name"] for one in listed))


def run_completions(store: str | None, task: str | None) -> Iterator[str]:
    """Methods of runs, then ids of runs, newest first; of one task if it is given."""
    yield from stored_methods(store, task)
    yield from stored_run_ids(store, task)


def stored_run_ids(store: str | None, task: str | None) -> Iterator[str]:
    """Ids of runs, newest first; of one task if it is given."""
    of = "where runs.task = ?" if task else ""
    return _column(store, f"select id from runs {of} order by created_at desc", (task,) if task else ())


def stored_methods(store: str | None, task: str | None) -> Iterator[str]:
    """Methods of runs, the newest first; of one task if it is given."""
    of = "where runs.task = ?" if task else ""
    return _column(
        store,
        "select name from (select methods.name as name, max(runs.created_at) as made from runs join methods "
        f"on runs.method_id = methods.id {of} group by methods.name) order by made desc",
        (task,) if task else (),
    )


def stored_datasets(store: str | None, _task: str | None) -> Iterator[str]:
    """Names of datasets that have runs."""
    return _column(store, "select distinct name from datasets order by name")


def keypoint_sets(store: str | None, _task: str | None) -> Iterator[str]:
    """Names of keypoint sets."""
    return _column(store, "select distinct name from keypoint_sets order by name")


def ran_on(store: str | None, _task: str | None) -> Iterator[str]:
    """Tasks that have runs."""
    return _column(store, "select distinct task from runs order by task")


def counts(store: str | None) -> dict[str, int] | None:
    """How many runs, methods, tasks and datasets the database file of a store has; None without one."""
    joined = "runs join methods on runs.method_id = methods.id"
    wanted = {
        "runs": "*",
        "method": "distinct methods.name",
        "task": "distinct task",
        "dataset": "distinct dataset_id",
    }
    found = {k: [*_column(store, f"select 'n' || count({what}) from {joined}")] for k, what in wanted.items()}
    return {k: int(n[0][1:]) for k, n in found.items()} if all(found.values()) else None


def metrics(store: str | None, task: str | None) -> Iterator[str]:
    """Metrics of the scores of a task."""
    return _scores(store, task, "metric")


def groups(store: str | None, task: str | None) -> Iterator[str]:
    """Groups of the scores of a task, without those of single scenes and pairs."""
    return (g for g in _scores(store, task, "group") if "scene=" not in g and "pair=" not in g)


def splits(store: str | None, _task: str | None) -> Iterator[str]:
    """Splits of HPatches, and those of runs."""
    yield from SPLITS
    yield from _column(store, "select distinct json_extract(manifest, '$.split') from runs")


def _scores(store: str | None, task: str | None, column: str) -> Iterator[str]:
    of = "where run_id in (select id from runs where task = ?)" if task else ""
    wanted = f'select distinct "{column}" from scores {of} order by 1'
    return _column(store, wanted, (task,) if task else ())


def _column(store: str | None, query: str, given: tuple[str, ...] = ()) -> Iterator[str]:
    """The first column of a query on the database of a store; nothing where there is none to read."""
    where = _database(store or os.environ.get("TIEPOINT_STORE") or "tiepoint-store")
    if where is None or not where.is_file():
        return
    with contextlib.suppress(sqlite3.Error):
        place = f"file:{quote(str(where.absolute()))}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=0.3)) as connection:
            for (value,) in connection.execute(f"{query} limit {MAX_COMPLETIONS}", given):
                if value:
                    yield str(value)


def _database(store: str) -> Path | None:
    """The database file of a store; None for one on a server."""
    if store.startswith("sqlite:///"):
        return Path(store.removeprefix("sqlite:///").partition("?")[0])
    return None if "://" in store else Path(store) / "tiepoint.sqlite"
