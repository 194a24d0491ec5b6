# SPDX-License-Identifier: BSD-3-Clause
"""What the store tests share: a run made of nothing, a dataset of a few patches, what a folder looks like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from PIL import Image

from tiepoint.store import schema
from tiepoint.store.manifest import Manifest
from tiepoint.store.runs import StoredRun

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
    rows = [
        {
            "protocol": protocol,
            "metric": f"m{i}" if i else "ap",
            "group": "all",
            "value": value,
            "n": 7,
            "low": 0.4,
            "high": 0.6,
        }
        for i in range(scores)
    ]
    manifest = Manifest.read(plain | changes)
    return StoredRun(run_id, "t/a", "done", manifest, rows, None, "2026-01-01T00:00:00Z", 1.5)


def make_patches(root: Path, scenes: int = 2, count: int = 6) -> Path:
    """A folder of patch strips, with a matching benchmark beside it; returns the folder of the strips."""
    rng = np.random.default_rng(0)
    (root / "matching").mkdir(parents=True)
    lines = []
    for scene in (f"{'iv'[s % 2]}_s{s}" for s in range(scenes)):
        folder = root / "patches" / scene
        folder.mkdir(parents=True)
        base = rng.uniform(0, 255, (count, 20, 20))
        for name, noise in (("ref", 0), ("e1", 30), ("e2", 60)):
            strip = np.clip(base + rng.normal(0, noise, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(strip.reshape(-1, 20)).save(folder / f"{name}.png")
        lines += [f"{scene}.ref,{scene}.e{k}" for k in (1, 2)]
    (root / "matching" / "all.benchmark").write_text("\n".join(lines) + "\n")
    return root / "patches"


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


def make_schema(path: Path, version: int) -> None:
    """A store with a schema of an older version, and one run in it."""
    path.mkdir()
    engine = sa.create_engine(f"sqlite:///{path / 'tiepoint.sqlite'}")
    manifest = json.dumps(a_run().manifest.plain())
    with engine.begin() as c:
        schema.upgrade(c, to=version)
        c.execute(
            sa.text("insert into methods (id, name, family, config) values ('m', 'old', 'patches', '{}')")
        )
        c.execute(sa.text("insert into datasets (id, name, family) values ('d', 'data', 'patches')"))
        c.execute(
            sa.text(
                "insert into runs (id, method_id, dataset_id, task, status, created_at, manifest) "
                "values ('aaa', 'm', 'd', 't/a', 'error', '2026', :manifest)"
            ),
            {"manifest": manifest},
        )
        c.execute(
            sa.text(
                'insert into scores (run_id, protocol, metric, "group", value, n) '
                "values ('aaa', 'exact', 'ap', 'all', 0.25, 3)"
            )
        )
    engine.dispose()
