# SPDX-License-Identifier: BSD-3-Clause
"""Cells of a snapshot of `equality.py`: runs, commands, comparisons, and the folders they use.

A cell returns `values` (they count) and `words` (they do not). The first level of both names a kind.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equality_clock import fix_times
from equality_masks import is_time, json_parts, mask, number

FORMAT = 3
FIELDS = ("value", "n", "low", "high", "chance", "interval")
V1, V2 = ("exact", "hbench-2016"), ("exact", "hpatches-python", "hpatches-matlab")
ALL_KEYPOINT = ("exact", "workbench", "bojanic")
WXBS = ("exact", "wxbs-benchmark")
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
    "keypoints/geometry": ("exact", "loftr", "dkm", "roma", "dad", "glue-factory", "toolbox", "d2net"),
    "tss": ("exact", "tss-cpp", "tss-matlab"),
    "dense/flow": ("exact",),
    "dense/pck": ("exact",),
    "pose/relative": (
        "exact", "superglue", "loftr", "eloftr", "roma", "roma-poselib", "dad", "xfeat", "glue-factory",
        "zeb", "imc",
    ),
    "wxbs/fundamental": WXBS,
    "wxbs/points": WXBS,
    "evd/homography": WXBS,
    "semantic/pck": ("exact", "hpf", "dhpf", "cats", "dift", "geoaware", "distilldift-stretched"),
}  # fmt: skip
"""All protocols of every task; the cell "tasks and protocols" fails if `tiepoint list tasks` has others."""
NOT_REPEATABLE = {"pose/relative": ("imc",)}
"""Protocols that give other digits at every call or need a package that is missing; run on their own."""
V1_TASKS = tuple(t for t in PROTOCOLS if t.startswith("hpatches-v1/"))
V2_TASKS = tuple(t for t in PROTOCOLS if t.startswith("hpatches/"))
KEYPOINT_TASKS = tuple(t for t in PROTOCOLS if t.startswith("keypoints/"))


def protocols_of(task: str) -> tuple[str, ...]:
    """Return the repeatable protocols of a task."""
    return tuple(p for p in PROTOCOLS[task] if p not in NOT_REPEATABLE.get(task, ()))


def digest(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


@dataclass
class Place:
    """Folders of one snapshot, and the ids of the runs until now."""

    data: Path
    work: Path
    runs: dict[str, str] = field(default_factory=dict)

    def full(self, text: str) -> str:
        """Replace WORK and DATA by the folders."""
        return text.replace("WORK", str(self.work)).replace("DATA", str(self.data))

    def plain(self, text: str) -> str:
        """Replace the folders by WORK and DATA."""
        for folder, name in ((self.work, "WORK"), (self.data, "DATA")):
            for form in dict.fromkeys((str(folder.resolve()), str(folder))):
                text = text.replace(form, name)
        return text

    def value(self, given: Any) -> Any:
        """Return the value of an option with the folders put in."""
        return self.full(given) if isinstance(given, str) else given

    def words(self, text: str) -> str:
        """Return wording with the folders and all masks applied."""
        return mask(self.plain(text), durations=True)

    def plain_tree(self, value: Any) -> Any:
        """Return a JSON value without the folders."""
        return json.loads(self.plain(json.dumps(value, default=number)))

    @property
    def store(self) -> Path:
        """The store that cells share; features are extracted once."""
        return self.work / "store"


@dataclass(frozen=True)
class Cell:
    """One unit of a snapshot; `work` returns its values and words."""

    part: str
    name: str
    work: Callable[[Place], dict[str, Any]]


class FailedError(Exception):
    """A command that ended with an error: its message and its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


# --- runs ---


def run_parts(run: Any, place: Place) -> dict[str, Any]:
    """Return the id, scores and score order of a run as values, its notes and warnings as words.

    Records, cache keys and the manifest are in the snapshot of the store (`equality_store`).
    """
    scores: dict[str, dict[str, Any]] = {}
    notes: dict[str, str] = {}
    order = []
    for row in run.scores.to_dict("records"):
        mine = scores.setdefault(row["protocol"], {})
        key = f"{row['metric']} {row['group']}"
        while key in mine:
            key += " (again)"
        timed = is_time(row["metric"])
        mine[key] = "MASKED" if timed else [number(row[name]) for name in FIELDS]
        order.append(f"{row['protocol']} {key}")
        if isinstance(row["note"], str):
            notes[order[-1]] = place.words(row["note"])
    told = [place.words(str(w)) for w in run.warnings]
    return {
        "values": {
            "run id": run.id,
            "method name": place.plain(run.method),
            "scores": {p: dict(sorted(rows.items())) for p, rows in sorted(scores.items())},
            "row order": digest("\n".join(order).encode()),
            "counts": {"warnings of the run": len(told), "notes": len(notes), "rows": len(order)},
        },
        "words": {"notes": dict(sorted(notes.items())), "warnings": sorted(told)},
    }


def named(options: Mapping[str, Any]) -> str:
    """Return options as part of the name of a cell."""
    return " ".join(f"{k}={v}" for k, v in options.items())


def run(part: str, task: str, method: Any, data: str, /, **options: Any) -> Cell:
    """Run a method, given by name or as an object, on a task under all its protocols."""
    called = method if isinstance(method, str) else f"object of {type(method).__name__}"
    name = f"{task} | {called} | {data} | {named(options)}"

    def work(place: Place) -> dict[str, Any]:
        import tiepoint as tp

        given = {"protocol": protocols_of(task), **{k: place.value(v) for k, v in options.items()}}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = tp.evaluate(
                place.value(method),
                task=task,
                data=place.full(data),
                store=place.store,
                progress=False,
                **given,
            )
        place.runs[name] = made.id
        found = run_parts(made, place)
        issued = [place.words(str(w.message)) for w in caught if w.category is UserWarning]
        found["values"]["counts"]["warnings issued"] = len(issued)
        found["words"]["warnings issued"] = sorted(issued)
        return found

    return Cell(part, name, work)


def runs(part: str, tasks: Sequence[str], methods: Sequence[Any], data: str, /, **options: Any) -> list[Cell]:
    """Run several methods on several tasks."""
    return [run(part, task, method, data, **options) for method in methods for task in tasks]


# --- commands ---


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def messages(self) -> list[str]:
        """Lines of standard error that tiepoint wrote; progress lines are excluded."""
        return [line for line in self.err.splitlines() if line.startswith("tiepoint: ")]

    @property
    def warnings(self) -> int:
        """Number of warnings on standard error."""
        return sum(line.startswith("tiepoint: warning: ") for line in self.messages)


@contextlib.contextmanager
def captured(folder: Path) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Capture the standard streams in a folder that becomes the current one."""
    before, given = os.getcwd(), sys.stdin
    out, err = io.StringIO(), io.StringIO()
    os.chdir(folder)
    sys.stdin = io.StringIO("")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield out, err
    finally:
        sys.stdin = given
        os.chdir(before)


def called(place: Place, work: Callable[[], Any]) -> Outcome:
    """Call the main function of a program in this process."""
    with captured(place.work) as (out, err):
        try:
            result = work()
            code = result if isinstance(result, int) else 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
    return Outcome(code, out.getvalue(), err.getvalue())


def tiepoint(place: Place, arguments: Iterable[str], *, process: bool = False) -> Outcome:
    """Run a command in this process, or in a new one."""
    words = [place.full(a) for a in arguments]
    if process:
        done = subprocess.run(
            [sys.executable, "-m", "tiepoint", *words],
            cwd=place.work, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)
    from tiepoint.cli.main import main

    return called(place, lambda: main(words))


def checked(place: Place, arguments: Iterable[str]) -> Outcome:
    """Run a command that must succeed."""
    done = tiepoint(place, arguments)
    if done.code:
        errors = [m for m in done.messages if "warning:" not in m] or done.err.splitlines()[-1:]
        raise FailedError(" ".join(errors), done.code)
    return done


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of the files below a folder."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): digest(p.read_bytes()) for p in paths}


def outcome_parts(place: Place, done: Outcome, *, sizes: bool = False) -> dict[str, Any]:
    """Return exit code, number of warnings and JSON structure as values, all text as words."""
    values: dict[str, Any] = {"exit code": done.code, "counts": {"warnings printed": done.warnings}}
    words: dict[str, Any] = {"messages": [place.words(m) for m in done.messages]}
    try:
        printed = json.loads(done.out)
    except ValueError:
        words["output"] = [place.words(line) for line in done.out.splitlines()]
    else:
        values["json"], words["json"] = json_parts(place.plain_tree(printed), sizes=sizes)
    return {"values": values, "words": words}


def command(
    part: str, line: str, *, files: str | None = None, store: str | None = None, sizes: bool = False
) -> Cell:
    """Run a command line; also hash the files in a folder, or snapshot the store that it writes."""

    def work(place: Place) -> dict[str, Any]:
        from equality_store import store_parts

        arguments = line.split()
        if store is not None:
            arguments += ["--store", f"WORK/stores/{store}"]
        found = outcome_parts(place, checked(place, arguments), sizes=sizes)
        if files is not None:
            found["values"]["files"] = file_hashes(Path(place.full(files)))
            fix_times(Path(place.full(files)))
        if store is not None:
            content = store_parts(place, place.work / "stores" / store)
            found["values"] |= content["values"]
            found["words"] |= content["words"]
        return found

    return Cell(part, f"tiepoint {line}", work)


# --- results of several runs ---


def shown(part: str, cell: Cell, *, curves: bool = False) -> Cell:
    """Show a run under every protocol step by step; `curves` also writes its curves."""

    def work(place: Place) -> dict[str, Any]:
        if cell.name not in place.runs:
            raise FailedError(f"no run of {cell.name}", 1)
        arguments = ["show", place.runs[cell.name], "--conventions", "--json", "--store", str(place.store)]
        out = place.work / "curves" / f"{place.runs[cell.name]}.csv"
        if curves:
            out.parent.mkdir(exist_ok=True)
            arguments += ["--curves", str(out)]
        found = outcome_parts(place, checked(place, arguments))
        if curves:
            found["values"]["files"] = {"curves.csv": digest(out.read_bytes())}
        return found

    return Cell(part, f"show --conventions | {cell.name}", work)


def compared(part: str, task: str, cells: Sequence[Cell], /, **options: Any) -> Cell:
    """Compare runs of a task: differences, intervals, tests."""

    def work(place: Place) -> dict[str, Any]:
        import tiepoint as tp

        chosen = [place.runs[c.name] for c in cells]
        found = tp.compare(chosen, task=task, store=place.store, **options)
        values, words = json_parts(place.plain_tree(found.to_frame().to_dict("records")))
        return {
            "values": {"comparison": values, "counts": {"notes": len(found.notes)}},
            "words": {"comparison": words, "notes": [place.words(n) for n in found.notes]},
        }

    return Cell(part, f"compare | {task} | {' , '.join(c.name for c in cells)} | {named(options)}", work)


def merged(part: str, cells: Sequence[Cell]) -> Cell:
    """Merge runs on different scenes into one."""

    def work(place: Place) -> dict[str, Any]:
        import tiepoint as tp

        loaded = [tp.load(place.runs[c.name], store=place.store) for c in cells]
        made = tp.merge(loaded)  # type: ignore[arg-type]
        found = run_parts(made, place)
        found["values"]["records"] = {
            str(name): digest(repr(column.tolist()).encode()) for name, column in made.records.items()
        }
        return found

    return Cell(part, "merge | " + " + ".join(c.name for c in cells), work)
