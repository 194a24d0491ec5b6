# SPDX-License-Identifier: BSD-3-Clause
"""Show that a change of the code changes no behaviour: take snapshots before and after, and compare them.

    python bench/equality.py take OUT.json --data DATA --work DIR [--part NAME ...]
    python bench/equality.py store OUT.json STORE
    python bench/equality.py compare BEFORE.json AFTER.json [--words OUT.txt] [--part NAME ...]
    python bench/equality.py planted SNAPSHOT.json

``take`` makes the demo set and runs methods of every family on it and on the real data of the tests (DATA),
on all tasks under all their protocols. It writes reports and figures in every format, visits the pages of
``serve``, runs wrong commands and the drop-in scripts, and reads every table, record and cache key of the
stores. It uses the names in ``tiepoint.__all__`` and the command line only, so modules and names inside the
package may change.

A snapshot has two classes. *Values* count: numbers with all bits, records, run ids, cache keys, names, SQL
tables, views and columns, order, exit codes, structure of JSON and HTML, numbers of warnings and notes,
pixels, hashes of task lists. *Words* do not count: notes, warnings, errors, captions, help. ``compare``
prints a line with DIFFERS for every value and ends with code 1 if there is one. It lists old and new wording,
and flags those whose numbers or quoted names differ. The rules in `equality_masks` mask times, temporary
paths and versions. ``take`` also replaces the clock (`equality_clock`), because the order of runs and the
list of figures depend on it.

Run ids and cache keys depend on absolute paths. Take both snapshots with the same --work and --data;
``compare`` refuses others. DIR must be new or empty, so remove it between two snapshots. A snapshot is larger
than 2 MB, so do not commit it.

``store`` writes a snapshot of an existing store. ``planted`` plants one change of every kind in a copy of a
snapshot and shows that ``compare`` finds it. The measured package is the one that Python finds; ``take``
prints its folder first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy is loaded
os.environ.setdefault("COLUMNS", "200")

from equality_cells import PARTS, chosen_cells  # noqa: E402
from equality_clock import cpu_s, install, wall_s  # noqa: E402
from equality_compare import compare_snapshots, flat, refusal, words_page  # noqa: E402
from equality_masks import rule_names  # noqa: E402
from equality_planted import plant_all  # noqa: E402
from equality_snapshot import FORMAT, Cell, Place  # noqa: E402
from equality_store import store_parts  # noqa: E402

LIBRARIES = (
    "numpy", "scipy", "numba", "pandas", "pyarrow", "opencv-contrib-python-headless", "scikit-image", "torch",
    "kornia", "onnxruntime", "typer", "pillow", "matplotlib", "poselib",
)  # fmt: skip


def result(cell: Cell, place: Place) -> dict[str, Any]:
    """Return the values and words of a cell; an error is a value, its message is words."""
    started = wall_s()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = cell.work(place)
        except Exception as e:  # the other cells go on
            code = getattr(e, "code", getattr(e, "exit_code", None))
            builtin = next(c.__name__ for c in type(e).__mro__ if c.__module__ == "builtins")
            found = {
                "values": {"error": {"code": code if isinstance(code, int) else None, "base": builtin}},
                "words": {"error": {"class": type(e).__name__, "message": place.words(str(e))}},
            }
    return {"part": cell.part, **found, "seconds": round(wall_s() - started, 2)}


def installed(name: str) -> str | None:
    """Return the version of a package, None if it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def announce() -> None:
    """Print which package is measured."""
    import tiepoint

    print(f"tiepoint {tiepoint.__version__} of {Path(tiepoint.__file__).parent}", flush=True)


def take(out: Path, data: Path, work: Path, parts: Sequence[str]) -> int:
    """Run all cells and write the snapshot."""
    if work.exists() and any(work.iterdir()):
        print(f"{work}: not empty; remove it first", file=sys.stderr)
        return 2
    work.mkdir(parents=True, exist_ok=True)
    place = Place(data.absolute(), work.absolute())
    os.environ["TIEPOINT_CACHE"] = str(place.work / "cache")
    install()
    announce()
    cells: dict[str, Any] = {}
    chosen = chosen_cells(parts)
    started, cpu = wall_s(), cpu_s()
    for i, cell in enumerate(chosen, 1):
        made = cells[cell.name] = result(cell, place)
        error = made["values"].get("error") if "values" in made else None
        end = (
            f"  ERROR {made['words']['error']['class']}: {made['words']['error']['message'][:90]}"
            if error
            else ""
        )
        print(
            f"{i:4}/{len(chosen)} {made['seconds']:7.2f} s  {cell.part}  {cell.name[:150]}{end}", flush=True
        )
    head = {"data": str(place.data), "work": str(place.work), "cpu_s": round(cpu_s() - cpu, 1)}
    write(out, cells, wall_s() - started, head)
    return 0


def take_store(out: Path, store: Path) -> int:
    """Write a snapshot of a store."""
    announce()
    started = wall_s()
    nowhere = Path("/nowhere")  # paths in the store stay as they are
    found = store_parts(Place(nowhere, nowhere), store)
    write(out, {"store": {"part": "store", **found}}, wall_s() - started, {"store": str(store)})
    return 0


def write(out: Path, cells: Mapping[str, Any], seconds: float, more: Mapping[str, Any]) -> None:
    """Write a snapshot and print its size."""
    head = {
        "format": FORMAT,
        **more,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: installed(name) for name in LIBRARIES},
        "masks": rule_names(),
        "seconds": round(seconds, 1),
    }
    out.write_text(json.dumps({"head": head, "cells": cells}, indent=0, allow_nan=False))
    by_part: dict[str, float] = {}
    for cell in cells.values():
        by_part[cell["part"]] = by_part.get(cell["part"], 0.0) + cell.get("seconds", 0.0)
    leaves = sum(1 for cell in cells.values() for _ in flat(cell.get("values", {})))
    errors = sum("error" in cell.get("values", {}) for cell in cells.values())
    print(", ".join(f"{part} {s:.0f} s" for part, s in by_part.items()))
    cpu = f", {more['cpu_s']:.0f} s of CPU in this process" if "cpu_s" in more else ""
    size = out.stat().st_size / 1e6
    print(
        f"{out}: {len(cells)} cells ({errors} errors), {leaves:,} values, {size:.1f} MB; {seconds:.0f} s{cpu}"
    )


def compare(before: Path, after: Path, *, words: Path | None, parts: Sequence[str] = ()) -> int:
    """Print the differences of two snapshots, or of some parts of them; return 1 if a value differs."""
    a, b = (json.loads(path.read_text()) for path in (before, after))
    refused = refusal(a, b)
    if refused:
        print(f"cannot compare: {refused}", file=sys.stderr)
        return 2
    for key in ("python", "machine", "libraries"):
        if a["head"].get(key) != b["head"].get(key):
            print(f"environment  {key}: {a['head'].get(key)} -> {b['head'].get(key)}")
    if parts:
        for one in (a, b):
            one["cells"] = {n: c for n, c in one["cells"].items() if c["part"] in parts}
    found = compare_snapshots(a, b)
    for line in found.values:
        print(f"DIFFERS  {line}")
    shown = sorted(found.words.values(), key=lambda w: not w.numbers_differ)[:10]
    for one in shown if words is None else ():
        mark = "numbers differ" if one.numbers_differ else "words"
        print(f"{mark}  {one.place}: {one.old!r} -> {one.new!r}")
    if words is not None:
        words.write_text(words_page(found))
        print(f"{words}: all changed words, old and new")
    print("compared: " + ", ".join(f"{n:,} {k}" for k, n in found.checked.most_common()))
    print("masked: " + ", ".join(a["head"].get("masks", ())))
    errors = sum("error" in c.get("values", {}) for c in b["cells"].values())
    print(f"{errors} cells are errors after")
    print(
        f"{len(found.values)} differences of values; {len(found.words)} of words, "
        f"numbers differ in {len(found.flagged)}"
    )
    return 1 if found.values else 0


def planted(snapshot: Path) -> int:
    """Plant a change of every kind in a copy of a snapshot."""
    text = snapshot.read_text()
    return plant_all(json.loads(text), json.loads(text))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("take", help="run everything and write a snapshot")
    taking.add_argument("out", type=Path)
    taking.add_argument("--data", type=Path, required=True, help="folder of the real data")
    taking.add_argument("--work", type=Path, required=True, help="new folder for data and stores")
    taking.add_argument(
        "--part", action="append", choices=sorted(PARTS), default=[], help="run only this part"
    )
    storing = commands.add_parser("store", help="write a snapshot of a store")
    storing.add_argument("out", type=Path)
    storing.add_argument("store", type=Path)
    comparing = commands.add_parser("compare", help="print the differences of two snapshots")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--words", type=Path, help="write all changed words to this file, old and new")
    comparing.add_argument(
        "--part", action="append", choices=sorted(PARTS), default=[], help="only this part"
    )
    planting = commands.add_parser("planted", help="plant a change of every kind and look for it")
    planting.add_argument("snapshot", type=Path)
    given = parser.parse_args()
    if given.command == "take":
        return take(given.out, given.data, given.work, given.part)
    if given.command == "store":
        return take_store(given.out, given.store)
    if given.command == "planted":
        return planted(given.snapshot)
    return compare(given.before, given.after, words=given.words, parts=given.part)


if __name__ == "__main__":
    raise SystemExit(main())
