# SPDX-License-Identifier: BSD-3-Clause
"""What a snapshot of `equality.py` holds, and the cells it is made of."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1
FIELDS = ("value", "n", "low", "high", "chance", "interval")
V1, V2 = ("exact", "hbench-2016"), ("exact", "hpatches-python", "hpatches-matlab")
ALL_KEYPOINT = ("exact", "workbench", "bojanic")
PROTOCOLS: dict[str, tuple[str, ...]] = {
    "hpatches-v1/classification": V1,
    "hpatches-v1/matching": V1,
    "hpatches-v1/retrieval": V1,
    "hpatches/verification": V2,
    "hpatches/matching": V2,
    "hpatches/retrieval": V2,
    "keypoints/ranking": ("exact", "workbench"),
    "keypoints/verification": ALL_KEYPOINT,
    "keypoints/matching": ("exact", "bojanic"),
    "keypoints/retrieval": ALL_KEYPOINT,
    "keypoints/images": ("exact", "workbench"),
    "keypoints/geometry": ("exact",),
    "tss": ("exact", "tss-cpp", "tss-matlab"),
    "dense/flow": ("exact",),
    "dense/pck": ("exact",),
    "pose/relative": ("exact", "superglue", "loftr", "roma", "dad", "xfeat", "glue-factory"),
    "wxbs/fundamental": ("exact", "wxbs-benchmark"),
    "wxbs/points": ("exact", "wxbs-benchmark"),
    "evd/homography": ("exact", "wxbs-benchmark"),
    "semantic/pck": ("exact", "hpf", "dhpf", "dift", "geoaware"),
}
V1_TASKS = tuple(t for t in PROTOCOLS if t.startswith("hpatches-v1/"))
V2_TASKS = tuple(t for t in PROTOCOLS if t.startswith("hpatches/"))
KEYPOINT_TASKS = tuple(t for t in PROTOCOLS if t.startswith("keypoints/"))

# --- what a snapshot holds ---


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def number(value: Any) -> Any:
    """A number of a table as JSON holds it: all digits, None for NaN, text for infinity."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        found = float(value)
        return found if math.isfinite(found) else None if math.isnan(found) else repr(found)
    return str(value)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and texts of a nested value, by path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}/{key}")
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{i}")
    else:
        yield path, number(value)


def is_time(metric: str) -> bool:
    """Whether a metric is a measured time."""
    return metric.endswith("_ms") or "time" in metric.split("_")


@dataclass
class Place:
    """Folders of one snapshot, and ids of the runs made so far."""

    data: Path
    work: Path
    runs: dict[str, str] = field(default_factory=dict)

    def full(self, text: str) -> str:
        """A text with the folders put in."""
        return text.replace("WORK", str(self.work)).replace("DATA", str(self.data))

    def plain(self, text: str) -> str:
        """A text without the folders."""
        for folder, name in ((self.work, "WORK"), (self.data, "DATA")):
            for form in (str(folder.resolve()), str(folder)):
                text = text.replace(form, name)
        return text

    def value(self, given: Any) -> Any:
        """The value of an option with the folders put in."""
        return self.full(given) if isinstance(given, str) else given

    @property
    def store(self) -> Path:
        """The store that cells share: features are made once."""
        return self.work / "store"


def record_of(records: Any, place: Place) -> dict[str, Any]:
    """Hashes of the columns and of the header of a record."""
    columns = {}
    for name, column in records.columns.items():
        array = np.asarray(column)
        raw = (
            repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
        )
        columns[name] = [str(array.dtype), list(array.shape), digest(raw)]
    meta = {
        key: digest(place.plain(json.dumps(value, sort_keys=True, default=str)).encode())
        for key, value in records.meta.items()
    }
    return {
        "kind": records.kind,
        "columns": dict(sorted(columns.items())),
        "meta": dict(sorted(meta.items())),
    }


def plain_manifest(run: Any) -> Mapping[str, Any]:
    """The manifest of a run as plain values; it was a mapping before it became a model."""
    manifest = run.manifest
    found: Mapping[str, Any] = manifest.plain() if hasattr(manifest, "plain") else manifest
    return found


def run_of(run: Any, place: Place) -> dict[str, Any]:
    """Scores and records of a run, and apart what is told about them."""
    scores: dict[str, dict[str, Any]] = {}
    notes: dict[str, str] = {}
    order = []
    for row in run.scores.to_dict("records"):
        if is_time(row["metric"]):
            continue
        mine = scores.setdefault(row["protocol"], {})
        key = f"{row['metric']} {row['group']}"
        while key in mine:
            key += " (again)"
        mine[key] = [number(row[name]) for name in FIELDS]
        order.append(f"{row['protocol']} {key}")
        if isinstance(row["note"], str):
            notes[order[-1]] = place.plain(row["note"])
    manifest = plain_manifest(run)
    return {
        "scores": {p: dict(sorted(rows.items())) for p, rows in sorted(scores.items())},
        "records": {
            unit: {c: record_of(r, place) for c, r in sorted(by.items())}
            for unit, by in sorted(run.unit_records.items())
        },
        "words": {
            "order": digest("\n".join(order).encode()),
            "method": place.plain(run.method),
            "notes": dict(sorted(notes.items())),
            "warnings": sorted(place.plain(str(w)) for w in [*run.warnings, *manifest.get("warnings", ())]),
        },
        "identity": {
            "run": run.id,
            "split": manifest.get("split"),
            "dataset": manifest.get("dataset", {}).get("hash"),
            "lists": manifest.get("lists"),
            "method": digest(
                place.plain(json.dumps(manifest.get("method"), sort_keys=True, default=str)).encode()
            ),
        },
    }


def files_of(folder: Path) -> dict[str, str]:
    """Hashes of the files below a folder."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): digest(p.read_bytes()) for p in paths}


# --- cells ---


@dataclass(frozen=True)
class Cell:
    """One thing that is run; `work` returns what the snapshot keeps."""

    part: str
    name: str
    work: Callable[[Place], dict[str, Any]]


class FailedError(Exception):
    """A command ended with an error; its sentence and its exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


def named(options: Mapping[str, Any]) -> str:
    """Options as part of the name of a cell."""
    return " ".join(f"{k}={v}" for k, v in options.items())


def run(part: str, task: str, method: Any, data: str, /, **options: Any) -> Cell:
    """A method, by name or as an object, on a task under all its protocols."""
    called = method if isinstance(method, str) else f"object of {type(method).__name__}"
    name = f"{task} | {called} | {data} | {named(options)}"

    def work(place: Place) -> dict[str, Any]:
        import tiepoint as tp

        given = {k: place.value(v) for k, v in options.items()}
        thing = place.value(method)
        made = tp.evaluate(
            thing, task=task, data=place.full(data), protocol=PROTOCOLS[task], store=place.store, **given
        )
        place.runs[name] = made.id
        return run_of(made, place)

    return Cell(part, name, work)


def runs(part: str, tasks: Sequence[str], methods: Sequence[Any], data: str, /, **options: Any) -> list[Cell]:
    """Several methods on several tasks."""
    return [run(part, task, method, data, **options) for method in methods for task in tasks]


def tiepoint(place: Place, arguments: Sequence[str]) -> str:
    """What a command prints; `FailedError` with the last words of its errors otherwise."""
    done = subprocess.run(
        [sys.executable, "-m", "tiepoint", *map(place.full, arguments)],
        cwd=place.work, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        told = [line for line in said if line.startswith("tiepoint: ") and "warning:" not in line]
        raise FailedError(" ".join(told or said[-1:]), done.returncode)
    return done.stdout


def command(part: str, line: str, *, files: str | None = None, store: str | None = None) -> Cell:
    """A command line: hashes of the files it leaves in a folder, the runs it leaves in a store of its own."""

    def work(place: Place) -> dict[str, Any]:
        arguments = line.split()
        if store is not None:
            arguments += ["--store", f"WORK/stores/{store}"]
        printed = tiepoint(place, arguments)
        found: dict[str, Any] = {}
        if "--json" in arguments:
            rows = [r for r in json.loads(printed)["scores"] if not is_time(r["metric"])]
            plain = sorted(place.plain(json.dumps(r, sort_keys=True)) for r in rows)
            found["values"] = {"/rows": len(rows), "/json": digest("\n".join(plain).encode())}
        if files is not None:
            found["files"] = files_of(Path(place.full(files)))
        if store is not None:
            found["runs"] = stored_runs(place, place.work / "stores" / store)
        return found

    return Cell(part, f"tiepoint {line}", work)


def stored_runs(place: Place, store: Path) -> dict[str, Any]:
    """All runs of a store by task, method, split and options."""
    import tiepoint as tp

    found: dict[str, Any] = {}
    loaded = tp.load(store=store)
    assert isinstance(loaded, list)
    made = [(r, run_of(r, place)) for r in loaded]
    for one, kept in sorted(made, key=lambda m: (m[0].task, m[0].method, json.dumps(m[1]["scores"]))):
        options = json.dumps(plain_manifest(one).get("options") or {}, sort_keys=True, default=str)
        key = place.plain(f"{one.task} | {one.method} | {options}")
        while key in found:
            key += " (again)"
        found[key] = kept
    return found


def show(part: str, shown: Cell, *, curves: bool = False) -> Cell:
    """The conventions of a run, step by step, and perhaps its curves."""

    def work(place: Place) -> dict[str, Any]:
        if shown.name not in place.runs:
            raise FailedError(f"no run of {shown.name}", 1)
        arguments = ["show", place.runs[shown.name], "--conventions", "--json", "--store", str(place.store)]
        out = place.work / "curves" / f"{place.runs[shown.name]}.csv"
        if curves:
            out.parent.mkdir(exist_ok=True)
            arguments += ["--curves", str(out)]
        told = json.loads(tiepoint(place, arguments))["conventions"]
        found: dict[str, Any] = {"values": dict(leaves(told))}
        if curves:
            found["files"] = {"curves.csv": digest(out.read_bytes())}
        return found

    return Cell(part, f"show --conventions | {shown.name}", work)


def compared(part: str, task: str, cells: Sequence[Cell], /, **options: Any) -> Cell:
    """Runs of a task compared: differences, intervals, tests."""

    def work(place: Place) -> dict[str, Any]:
        import tiepoint as tp

        asked = [place.runs[c.name] for c in cells]
        frame = tp.compare(asked, task=task, store=place.store, **options).to_frame()
        return {"values": dict(leaves(frame.to_dict("records")))}

    return Cell(part, f"compare | {task} | {' , '.join(c.name for c in cells)} | {named(options)}", work)


def merged(part: str, cells: Sequence[Cell]) -> Cell:
    """One run of several on different scenes."""

    def work(place: Place) -> dict[str, Any]:
        import tiepoint as tp

        loaded = [tp.load(place.runs[c.name], store=place.store) for c in cells]
        return run_of(tp.merge(loaded), place)  # type: ignore[arg-type]

    return Cell(part, "merge | " + " + ".join(c.name for c in cells), work)
