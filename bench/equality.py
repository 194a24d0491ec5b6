# SPDX-License-Identifier: BSD-3-Clause
"""Does a change of the code change a record or a score? Snapshots before and after, and their difference.

    python bench/equality.py take OUT.json --data DATA --work DIR [--part NAME ...]
    python bench/equality.py store OUT.json STORE
    python bench/equality.py compare BEFORE.json AFTER.json [--words]

``take`` makes the demo set, runs methods of every family on it and on the real data of the tests (DATA), on
all tasks under all their protocols, and writes what came out: every score, a hash of every column and header
of every record, hashes of the files that commands write, and the tables of ``show --conventions``,
``compare`` and ``merge``. A cell that fails is kept with its error. DIR is for data and stores and must be
new or empty. One process and one thread for BLAS; some ten minutes. ``store`` writes the same of all runs
that a store holds: does a store of an older version still say what it said?

``compare`` prints everything that differs, with both numbers, and ends with code 1 if anything does. Times
are left out. Notes, warnings, error sentences, the order of rows and the ids of runs are compared apart: they
are told and do not count. Only the names of the package itself and the command line are used, so that modules
may move between the two. The package that is measured is the one Python finds; its folder is printed first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy is loaded

from equality_cells import PARTS, chosen_cells  # noqa: E402
from equality_snapshot import FIELDS, FORMAT, Cell, Place, leaves, stored_runs  # noqa: E402

LIBRARIES = (
    "numpy", "scipy", "numba", "pandas", "pyarrow", "opencv-contrib-python-headless", "scikit-image", "torch",
    "kornia", "onnxruntime",
)  # fmt: skip


def kept(cell: Cell, place: Place) -> dict[str, Any]:
    """What a cell gives, or how it failed."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = cell.work(place)
        except Exception as e:  # whatever it is, the other cells go on
            code = getattr(e, "code", getattr(e, "exit_code", None))
            found = {"error": [type(e).__name__, code if isinstance(code, int) else None]}
            found["words"] = {"sentence": place.plain(str(e))}
    return {"part": cell.part, **found, "seconds": round(time.perf_counter() - started, 2)}


def counted(cells: Mapping[str, Any]) -> dict[str, int]:
    """How much a snapshot holds."""
    every = [one for c in cells.values() for one in (c, *c.get("runs", {}).values())]
    return {
        "cells": len(cells),
        "errors": sum("error" in c for c in cells.values()),
        "runs": sum("scores" in one for one in every),
        "scores": sum(len(rows) for one in every for rows in one.get("scores", {}).values()),
        "records": sum(len(by) for one in every for by in one.get("records", {}).values()),
        "columns": sum(
            len(r["columns"]) for one in every for by in one.get("records", {}).values() for r in by.values()
        ),
        "files": sum(len(one.get("files", {})) for one in every),
        "values": sum(len(one.get("values", {})) for one in every),
    }


def installed(name: str) -> str | None:
    """Version of a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def take(out: Path, data: Path, work: Path, parts: Sequence[str]) -> int:
    """Run all cells and write the snapshot."""
    import tiepoint

    if work.exists() and any(work.iterdir()):
        print(f"{work} is not empty; a snapshot starts from nothing", file=sys.stderr)
        return 2
    work.mkdir(parents=True, exist_ok=True)
    place = Place(data.absolute(), work.absolute())
    print(f"tiepoint {tiepoint.__version__} of {Path(tiepoint.__file__).parent}", flush=True)
    cells: dict[str, Any] = {}
    chosen = chosen_cells(parts)
    started = time.perf_counter()
    for i, cell in enumerate(chosen, 1):
        made = cells[cell.name] = kept(cell, place)
        end = f"  {made['error'][0]}: {made['words']['sentence'][:90]}" if "error" in made else ""
        print(f"{i:4}/{len(chosen)} {made['seconds']:7.2f} s  {cell.name}{end}", flush=True)
    write(out, cells, time.perf_counter() - started)
    return 0


def take_store(out: Path, store: Path) -> int:
    """Write what the runs of a store hold."""
    import tiepoint

    print(f"tiepoint {tiepoint.__version__} of {Path(tiepoint.__file__).parent}", flush=True)
    started = time.perf_counter()
    nowhere = Path("/nowhere")  # paths in the store stay as they are
    found = stored_runs(Place(nowhere, nowhere), store)
    write(out, {"store": {"part": "store", "runs": found}}, time.perf_counter() - started)
    return 0


def write(out: Path, cells: Mapping[str, Any], seconds: float) -> None:
    """Write a snapshot and say how much it holds."""
    head = {
        "format": FORMAT,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: installed(name) for name in LIBRARIES},
        "seconds": round(seconds, 1),
    }
    out.write_text(json.dumps({"head": head, "cells": cells}, indent=0, allow_nan=False))
    print(f"{out}: {', '.join(f'{n} {k}' for k, n in counted(cells).items())}; {seconds:.0f} s")


# --- compare ---


@dataclass
class Differences:
    """What differs: `hard` counts, `soft` (words, order, ids) is told."""

    hard: list[str] = field(default_factory=list)
    soft: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    def same(self, where: str, a: Any, b: Any, *, hard: bool = True) -> None:
        """Note a difference of two plain values; -0.0 is not 0.0."""
        if repr(a) != repr(b):
            (self.hard if hard else self.soft).append(f"{where}: {a!r} -> {b!r}")

    def keys(
        self, where: str, a: Mapping[str, Any], b: Mapping[str, Any], what: str, *, hard: bool = True
    ) -> list[str]:
        """Keys of both; those of one alone are differences."""
        mine = self.hard if hard else self.soft
        mine += [f"{where}: {what} {k!r} is gone" for k in a if k not in b]
        mine += [f"{where}: {what} {k!r} is new" for k in b if k not in a]
        both = [k for k in a if k in b]
        if hard:
            self.checked[what] = self.checked.get(what, 0) + len(both)
        return both


def compare_one(found: Differences, where: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
    """One cell, or one run of a cell."""
    found.same(f"{where}: error", a.get("error"), b.get("error"))
    mine, other = a.get("scores", {}), b.get("scores", {})
    for protocol in found.keys(where, mine, other, "protocol"):
        here = f"{where}: {protocol}"
        for key in found.keys(here, mine[protocol], other[protocol], "score"):
            for name, x, y in zip(FIELDS, mine[protocol][key], other[protocol][key], strict=True):
                found.same(f"{here}: {key}: {name}", x, y)
    mine, other = a.get("records", {}), b.get("records", {})
    for unit in found.keys(where, mine, other, "unit"):
        for comparison in found.keys(f"{where}: {unit}", mine[unit], other[unit], "record"):
            here = f"{where}: {unit} ({comparison})"
            x, y = mine[unit][comparison], other[unit][comparison]
            found.same(f"{here}: kind", x["kind"], y["kind"])
            for name in found.keys(here, x["columns"], y["columns"], "column"):
                found.same(f"{here}: column {name}", x["columns"][name], y["columns"][name])
            for name in found.keys(here, x["meta"], y["meta"], "header"):
                found.same(f"{here}: header {name}", x["meta"][name], y["meta"][name])
    for what in ("files", "values"):
        mine, other = a.get(what, {}), b.get(what, {})
        for key in found.keys(where, mine, other, what.removesuffix("s")):
            found.same(f"{where}: {key}", mine[key], other[key])
    for what in ("words", "identity"):
        mine, other = dict(leaves(a.get(what, {}))), dict(leaves(b.get(what, {})))
        for key in found.keys(f"{where}: {what}", mine, other, what, hard=False):
            found.same(f"{where}: {what} {key}", mine[key], other[key], hard=False)
    mine, other = a.get("runs", {}), b.get("runs", {})
    for key in found.keys(where, mine, other, "run"):
        compare_one(found, f"{where}: {key}", mine[key], other[key])


def compare(before: Path, after: Path, *, words: bool) -> int:
    """Print what differs between two snapshots; 1 if a record, a score, a file or an error does."""
    a, b = (json.loads(path.read_text()) for path in (before, after))
    found = Differences()
    for key in ("format", "python", "machine", "libraries"):
        found.same(f"environment: {key}", a["head"].get(key), b["head"].get(key), hard=False)
    for name in found.keys("snapshot", a["cells"], b["cells"], "cell"):
        compare_one(found, name, a["cells"][name], b["cells"][name])
    for line in found.hard:
        print(f"DIFFERS  {line}")
    shown = found.soft if words else found.soft[:20]
    for line in shown:
        print(f"words    {line}")
    if len(shown) < len(found.soft):
        print(f"words    and {len(found.soft) - len(shown)} more; --words shows all")
    counts = ", ".join(f"{n} {k}{'' if k.endswith('s') else 's'}" for k, n in found.checked.items())
    errors = sum("error" in c for c in b["cells"].values())
    print(f"compared: {counts}; {errors} cells are errors after")
    print(f"{len(found.hard)} differences, {len(found.soft)} of words, order and ids")
    return 1 if found.hard else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("take", help="run everything and write a snapshot")
    taking.add_argument("out", type=Path)
    taking.add_argument("--data", type=Path, required=True, help="folder of the real data")
    taking.add_argument("--work", type=Path, required=True, help="new folder for data and stores")
    taking.add_argument("--part", action="append", choices=sorted(PARTS), default=[], help="only this part")
    storing = commands.add_parser("store", help="write a snapshot of the runs in a store")
    storing.add_argument("out", type=Path)
    storing.add_argument("store", type=Path)
    comparing = commands.add_parser("compare", help="print what differs between two snapshots")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--words", action="store_true", help="all differences of words, order and ids")
    given = parser.parse_args()
    if given.command == "take":
        return take(given.out, given.data, given.work, given.part)
    if given.command == "store":
        return take_store(given.out, given.store)
    return compare(given.before, given.after, words=given.words)


if __name__ == "__main__":
    raise SystemExit(main())
