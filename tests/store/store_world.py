# SPDX-License-Identifier: BSD-3-Clause
"""What the store tests share: a run made of nothing, a dataset of a few patches, what a folder looks like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import patch_sets
from tiepoint.core.scores import ScoreRow
from tiepoint.store.sql_query import select_all
from tiepoint.store.store import Store
from tiepoint.store.stored_run import Manifest, StoredRun
from tiepoint.store.writers import save_run

TASK = "hpatches-v1/matching"


def a_run(
    run_id: str = "abc123",
    value: float | None = 0.5,
    method: str = "m",
    *,
    scores: int = 1,
    protocol: str = "exact",
    **changes: Any,
) -> StoredRun:
    """A run with some scores and no records."""
    plain = {
        "task": "t/a",
        "method": {"name": method, "spec": "m", "family": "patches", "distance": "l2", "config": {"a": 1}},
        "dataset": {"hash": "d" * 64, "name": "data", "path": "somewhere", "items": 3},
        "units": {},
        "versions": {"tiepoint": "0"},
    }
    rows = [ScoreRow(protocol, f"m{i}" if i else "ap", "all", value, 7, 0.4, 0.6) for i in range(scores)]
    manifest = Manifest.model_validate(plain | changes)
    return StoredRun(run_id, "t/a", "done", manifest, rows, None, "2026-01-01T00:00:00Z", 1.5)


def keypoint_run(run_id: str, task: str, day: int, scores: dict[tuple[str, str], float | None]) -> StoredRun:
    """A run of a keypoint task with scores by protocol and metric."""
    name = f"keypoints/{task}"
    made = a_run(run_id, task=name)
    rows = [ScoreRow(p, m, "all", v, 1, note="a=1;" * (m == "metadata")) for (p, m), v in scores.items()]
    return replace(made, task=name, scores=rows, created_at=f"2026-01-{day:02}T00:00:00Z")


def check_results(store: Store) -> None:
    """The view `results`: a row for each protocol, no row with two runs of a task, none of other tasks."""
    old = {("exact", "true_map_micro"): 0.9, ("exact", "precision_at_1"): 0.1}
    new = {
        ("exact", "true_map_micro"): 0.2,
        ("exact", "true_map_macro_by_scene_including_zeros"): 0.25,
        ("exact", "metadata"): None,
        ("workbench", "mean_precision"): 0.3,
    }
    for run in (
        keypoint_run("d", "ranking", 1, old),  # with another option
        keypoint_run("c", "ranking", 2, new),
        keypoint_run("b", "verification", 1, {("exact", "keypoint_verification_ap"): 0.0}),
        keypoint_run("a", "geometry", 3, {("exact", "auc"): 0.5}),
    ):
        save_run(store, run)
    columns = (
        "r.id, r.protocol, true_map_micro, precision_at_1, true_map_macro_with_zeros,"
        " keypoint_verification_ap, mean_precision, legacy_mean_precision, metadata, e.descriptor_type"
    )
    found = select_all(
        store.engine,
        f"select {columns} from results r join experiments e on e.id = r.experiment_id"
        " order by r.protocol, r.timestamp desc",
    )[1]
    assert [(*row[:8], row[9]) for row in found] == [
        ("b", "exact", 0.2, None, 0.25, 0.0, None, None, "m"),
        ("d", "exact", 0.9, 0.1, None, None, None, None, "m"),
        ("c", "workbench", None, None, None, None, 0.3, 0.3, "m"),
    ]
    metadata = [
        text and {key: float(value) for key, value in (part.split("=") for part in text[:-1].split(";"))}
        for text in (row[8] for row in found)
    ]
    assert metadata == [
        {"a": 1, "true_map_macro_with_zeros": 0.25, "keypoint_verification_ap": 0},
        None,
        {"legacy_mean_precision": 0.3},
    ]


def make_patches(root: Path, scenes: int = 2, count: int = 6) -> Path:
    """Write patch strips of so many scenes and a matching benchmark; return the folder of the strips."""
    return patch_sets.make_patches(root, [f"{'iv'[s % 2]}_s{s}" for s in range(scenes)], count=count)


def look(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a folder, with times, sizes and contents."""
    return {
        str(p.relative_to(folder)): (
            p.stat().st_mtime_ns,
            p.stat().st_size,
            p.read_bytes() if p.is_file() else b"",
        )
        for p in [folder, *sorted(folder.rglob("*"))]
    }
