# SPDX-License-Identifier: BSD-3-Clause
"""A store as the last version with schema 3 left it: built-ins known by their source, no scene values.

The keys are restated here from the rules of that version; the hashes of its sources are those it had.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from store_world import TASK, make_patches

from tiepoint.core.hashing import hash_json
from tiepoint.methods.resolve import resolve
from tiepoint.run.costs import machine
from tiepoint.run.engine import RunRequest, evaluate
from tiepoint.run.preparation import prepare_run
from tiepoint.run.result import Run
from tiepoint.store import schema
from tiepoint.store.locking import make_engine
from tiepoint.store.store import Store, split_url

METHODS = ("pixels", "resize?size=4", "meanstd+l2")
PROTOCOLS = ("exact", "hbench-2016")
INTENSITY = "dcfafb99"
"""Hash of the source that had the classes of the methods, as far as it tells it from others."""


@dataclass(frozen=True)
class Older:
    """Where it is, and what running the same again gives: the requests, and the runs of a new store."""

    where: str
    files: Path
    requests: list[RunRequest]
    fresh: list[Run]
    ids: list[str]


def make_older(root: Path, where: str | None = None, *, user_code: bool = False) -> Older:
    """Make the store of an older version at `where`, and the dataset its runs were made on."""
    data = make_patches(root)
    where = where or str(root / "older")
    files = split_url(where)[1] if "://" in where else Path(where)
    requests = [RunRequest(m, TASK, data, PROTOCOLS, {"tasks": str(root)}) for m in METHODS]
    with Store.open(root / "fresh") as store:
        fresh = [evaluate(request, store) for request in requests]
    shutil.copytree(root / "fresh" / "records", files / "records")
    (files / "runs").mkdir()
    runs = [_aged(request, run, root, files) for request, run in zip(requests, fresh, strict=True)]
    if user_code:
        runs.append(_of_user_code(runs[0]))
    for run in runs:
        (files / "runs" / f"{run['id']}.json").write_text(json.dumps(run, indent=1, sort_keys=True))
    engine = (
        make_engine(split_url(where)[0], "write")[0]
        if "://" in where
        else sa.create_engine(f"sqlite:///{files / 'tiepoint.sqlite'}")
    )
    with engine.begin() as connection:
        schema.upgrade(connection, to=3)
        for run in runs:
            _insert(connection, run)
    engine.dispose()
    return Older(where, files, requests, fresh, [str(r["id"]) for r in runs])


def _known() -> dict[str, Any]:
    from tiepoint.methods import legacy_keys

    found = json.loads((Path(legacy_keys.__file__).parent / "legacy_sources.json").read_text())
    assert isinstance(found, dict)
    return found


def old_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a method as that version wrote it."""
    if "base" in config:
        own = {"transform": config["transform"], "source": _known()["transforms"]}
        return {"base": old_config(config["base"]), **own}
    module = next(m for m in _known()["modules"] if m["source"].startswith(INTENSITY))
    return {
        "class": next(name for name, known in module["classes"].items() if known == config["method"]),
        "source": module["source"],
        "libraries": {name: version(name) for name in module["libraries"]},
        **{k: config[k] for k in ("distance", "on_bad", "params")},
    }


def old_key(config: Mapping[str, Any]) -> str:
    """What identified a method in the keys of features."""
    if "base" in config:
        return hash_json([old_key(config["base"]), config["transform"], config["source"], None])
    return hash_json(dict(config))


def _aged(request: RunRequest, run: Run, root: Path, files: Path) -> dict[str, Any]:
    """The file of a run as that version wrote it; its features are put where that version kept them."""
    prepared = prepare_run(request, root / "fresh")
    method = resolve(request.method, family="patches")
    config = old_config(method.config)
    for item in prepared.opened.items:
        new = hash_json(["features", method.key(item), item.content])
        old = hash_json(["features", old_key(config), item.content])
        target = files / "features" / old[:2] / old
        shutil.copytree(root / "fresh" / "features" / new[:2] / new, target, dirs_exist_ok=True)
    measured = files / "efficiency" / f"{hash_json([old_key(config), machine()])[:24]}.json"
    measured.parent.mkdir(exist_ok=True)
    measured.write_text(json.dumps(run.manifest.efficiency))
    definitions = [u.definition for u in prepared.opened.units]
    identity = [[method.name, config, "l2"], TASK, prepared.opened.data_hash, definitions]
    m = run.manifest
    manifest = {
        "task": TASK,
        "options": m.options,
        "split": None,
        "scoring": m.scoring,
        "protocols": list(m.protocols),
        "method": {
            "name": method.name,
            "spec": request.method,
            "family": "patches",
            "distance": "l2",
            "config": config,
        },
        "dataset": m.dataset.model_dump(exclude={"imported"}),
        "lists": hash_json(definitions),
        "units": m.units,
        "versions": m.versions,
        "machine": m.machine,
        "warnings": list(m.warnings),
        "efficiency": m.efficiency,
    }
    return {
        "id": hash_json(identity)[:12],
        "task": TASK,
        "status": "done",
        "manifest": manifest,
        "scores": [{k: v for k, v in s.items() if k != "position"} for s in run.stored.scores],
        "error": None,
        "created_at": run.stored.created_at,
        "time_s": 1.0,
        "keypoint_set": None,
    }


def _of_user_code(run: Mapping[str, Any]) -> dict[str, Any]:
    """The same run, made by a class of the user's."""
    other: dict[str, Any] = json.loads(json.dumps(run))
    other["id"] = "0123456789ab"
    other["manifest"]["method"] |= {"name": "mine", "spec": "mine.py:Mine"}
    other["manifest"]["method"]["config"] |= {"class": "Mine", "source": "0" * 64}
    return other


def _insert(c: sa.Connection, run: Mapping[str, Any]) -> None:
    m, d = run["manifest"]["method"], run["manifest"]["dataset"]
    mid = hash_json([m["name"], m["family"], m["config"]])
    rows = [
        ("methods", {"id": mid, "name": m["name"], "spec": m["spec"], "family": "patches", "config": "{}"}),
        ("datasets", {"id": d["hash"], "name": d["name"], "path": d["path"], "family": "patches"}),
        (
            "runs",
            {
                **{k: run[k] for k in ("id", "task", "status", "error", "created_at", "time_s")},
                "method_id": mid,
                "dataset_id": d["hash"],
                "manifest": json.dumps(run["manifest"], sort_keys=True),
            },
        ),
        *(("scores", {"run_id": run["id"], "position": i, **s}) for i, s in enumerate(run["scores"])),
    ]
    for table, row in rows:
        names = ", ".join(f'"{k}"' for k in row)
        values = ", ".join(f":{k}" for k in row)
        c.execute(sa.text(f"insert into {table} ({names}) values ({values}) on conflict do nothing"), row)
