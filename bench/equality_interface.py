# SPDX-License-Identifier: BSD-3-Clause
"""Public names, command line, exit codes and drop-in scripts, for snapshots of `equality.py`."""

from __future__ import annotations

import inspect
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from enum import EnumType
from typing import Any

from equality_masks import json_parts
from equality_snapshot import (
    PROTOCOLS,
    Cell,
    FailedError,
    Outcome,
    Place,
    called,
    checked,
    file_hashes,
    outcome_parts,
    tiepoint,
)

REMOVED = frozenset({"store migrate"})
"""Mask rule "removed command": the refactoring deletes this command; no option of it is compared."""

WRONG = """\
run
run sift
run sift --task nonsense --data WORK/patches
run sift --task hpatches/matching --data WORK/nowhere
run siftt --task hpatches/matching --data WORK/patches
run sift?foo=3 --task hpatches/matching --data WORK/patches
run sift?max_features=many --task keypoints/ranking --data WORK/demo/sequences
run sift --task hpatches/matching --data WORK/patches -o bogus=1
run sift --task hpatches/matching --data WORK/patches -o split
run sift --task hpatches/matching --data WORK/patches --protocol zz
run sift --task hpatches/matching --data WORK/patches --split nonsense
run sift --task hpatches/matching --data WORK/patches --on-bad maybe
run sift --task hpatches/matching --data WORK/patches --jobs -1
run sift --task hpatches/matching --data WORK/patches --jobs many
run sift orb --task hpatches/matching --data WORK/patches --name both
run files:WORK/nowhere --task hpatches/matching --data WORK/patches
run WORK/user.py:Nothing --task hpatches/matching --data WORK/patches
run dis --task hpatches/matching --data WORK/patches
run sift --task tss --data WORK/demo/dense
run sift --task pose/relative --data WORK/patches
run sift@set:unknown --task keypoints/ranking --data WORK/demo/sequences
run sift --task keypoints/ranking --data WORK/demo/sequences -o scenes=v_nothing
run --config WORK/nowhere.yaml
run --config WORK/user.py
score hpatches-v1/matching --results WORK/nowhere --data WORK/patches
score nonsense --results WORK --data WORK/patches
score tss --results WORK/tss-part --data DATA/tss/Dataset
describe sift --data WORK/nowhere --out WORK/nothing
describe dis --data WORK/patches --out WORK/nothing
describe sift --data WORK/patches --out WORK/described/rootsift --on-bad miss
compare --task hpatches/matching --store WORK/nowhere
compare --task nonsense --store WORK/store
compare one two --task hpatches/matching --store WORK/store
report --store WORK/nowhere
report --format doc --store WORK/store
report --table wide --format md --store WORK/store
plot nonsense --store WORK/store
list things
list runs --store WORK/nowhere
show nothing --store WORK/store
import WORK/nowhere.p --store WORK/nothing
import WORK/user.py --store WORK/nothing
sql select --store WORK/store
sql drop_table_runs --store WORK/store
sql delete+from+runs --store WORK/store
data get nonsense
data get evd --dry-run --sources WORK/user.py
data cut --data WORK/nowhere --out WORK/nothing
data tasks --suite old --data WORK/patches --out WORK/nothing
data pack WORK/nowhere
data check WORK/nowhere
keypoints make again --data WORK/demo/sequences --store WORK/store
keypoints make x --detector none --data WORK/demo/sequences --store WORK/store
keypoints export unknown --out WORK/nothing --store WORK/store
flow show WORK/user.py
flow convert WORK/user.py WORK/nothing.flo
flow convert DATA/flow/RubberWhale.flo WORK/nothing.abc
flow warp WORK/user.py WORK/user.py --out WORK/nothing.png
pairs show nothing pair --store WORK/store
serve --store WORK/nowhere
serve --store WORK/store --host 0.0.0.0
serve --store WORK/store --host 0.0.0.0 --token short
store rm nothing --store WORK/store
store rm --store WORK/store
store rename nothing other --store WORK/store
store prune --store WORK/store
store prune --older-than soon --store WORK/store
store check --store WORK/nowhere
store ls --store WORK/nowhere
nonsense
--nonsense
run --nonsense
-q -v list
"""


def value_type(one: Any) -> Any:
    """Return the declared type of a parameter; Typer keeps it in its own descriptor, click in `type`."""
    return one.type_descriptor.annotation if hasattr(one, "type_descriptor") else one.type


def type_name(kind: Any) -> str:
    """Return the name of a type without the module that defines it."""
    return kind.__name__ if isinstance(kind, type) else str(getattr(kind, "name", kind))


def parameter(one: Any) -> dict[str, Any]:
    """Return the options, type, default and limits of a parameter; names of values are wording."""
    kind = value_type(one)
    known = getattr(kind, "choices", None) or (list(kind) if isinstance(kind, EnumType) else [])
    limits = one if hasattr(one, "min") else kind
    default = one.default() if callable(one.default) else one.default
    is_option = one.param_type_name == "option"
    return {
        "options": [*one.opts, *getattr(one, "secondary_opts", [])] if is_option else [],
        "kind": one.param_type_name,
        "type": "choice" if known else type_name(kind),
        "choices": [str(getattr(c, "value", c)) for c in known],
        "range": [repr(getattr(limits, "min", None)), repr(getattr(limits, "max", None))],
        "default": repr(getattr(default, "value", default)),
        "required": bool(one.required),
        "nargs": one.nargs,
        "multiple": bool(getattr(one, "multiple", False)),
        "flag": bool(getattr(one, "is_flag", False)),
        "envvar": repr(one.envvar),
        "hidden": bool(getattr(one, "hidden", False)),
    }


def command_tree(place: Place) -> Any:
    """Return the root command that the entry point builds, caught where Typer returns it."""
    import typer.main

    built: list[Any] = []
    before = typer.main.get_command

    def catch(*arguments: Any, **options: Any) -> Any:
        built.append(before(*arguments, **options))
        return built[-1]

    typer.main.get_command = catch
    try:
        tiepoint(place, ["--version"])
    finally:
        typer.main.get_command = before
    roots = [b for b in built if "run" in getattr(b, "commands", {})]
    if not roots:
        raise FailedError("the entry point built no command tree", 1)
    return roots[0]


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its path, except removed ones."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        if " ".join((*path, name)) not in REMOVED:
            yield from walk(inner, (*path, name))


def command_line(place: Place) -> dict[str, Any]:
    """Describe all commands and options; help texts are words."""
    values: dict[str, Any] = {}
    words: dict[str, Any] = {}
    for path, command in walk(command_tree(place)):
        name = " ".join(path) or "(root)"
        subcommands = [c for c in getattr(command, "commands", {}) if " ".join((*path, c)) not in REMOVED]
        given = [parameter(p) for p in command.params]
        values[name] = {
            "subcommands": subcommands,
            "options": {" ".join(p["options"]): p for p in given if p["kind"] == "option"},
            "arguments": [json.dumps(p) for p in given if p["kind"] != "option"],
        }
        done = tiepoint(place, [*path, "--help"])
        values[name]["exit code of --help"] = done.code
        words[name] = [place.words(line) for line in done.out.splitlines() if line.strip()]
    return {"values": {"command line": values}, "words": {"help": words}}


def public_names(place: Place) -> dict[str, Any]:
    """Describe `tiepoint.__all__`, the signatures of its functions and the members of its results."""
    import tiepoint as tp

    plain = {n: str(inspect.signature(f)) for n in tp.__all__ if callable(f := getattr(tp, n))}
    parameters = {
        n: [
            f"{p.name} {p.kind.name} {p.default!r}"
            for p in inspect.signature(getattr(tp, n)).parameters.values()
        ]
        for n in plain
    }
    families = ("patches", "keypoints", "dense", "pairs", "detectors")
    return {
        "values": {
            "public names": {"all": list(tp.__all__), "parameters": parameters},
            "lists": {
                "tasks": tp.list_tasks(),
                **{f: tp.list_methods(f) for f in families},
                "all": tp.list_methods(),
            },
        },
        "words": {"documentation": {n: (getattr(tp, n).__doc__ or "").splitlines() for n in plain}},
    }


def tasks_and_protocols(place: Place) -> dict[str, Any]:
    """Check that the table of protocols is complete."""
    listed = json.loads(checked(place, ["list", "tasks", "--json"]).out)
    found = {t["name"]: tuple(t["protocols"]) for t in listed}
    if {k: set(v) for k, v in found.items()} != {k: set(v) for k, v in PROTOCOLS.items()}:
        odd = [t for t in {*found, *PROTOCOLS} if set(found.get(t, ())) != set(PROTOCOLS.get(t, ()))]
        raise AssertionError(f"PROTOCOLS of equality_snapshot.py is not complete: {sorted(odd)}")
    values, words = json_parts(listed)
    return {
        "values": {"protocols": {k: list(v) for k, v in found.items()}, "json": values},
        "words": {"json": words},
    }


def wrong(line: str) -> Cell:
    """Run a wrong command: its exit code counts, its message is words."""

    def work(place: Place) -> dict[str, Any]:
        done = tiepoint(place, [word.replace("+", " ") for word in line.split()])
        return outcome_parts(place, done)

    return Cell("interface", f"wrong command | {line}", work)


def in_processes(place: Place) -> dict[str, Any]:
    """Run a few commands in separate processes: exit codes and streams of the real entry point."""
    found: dict[str, Any] = {"exit code": {}, "lines": {}}
    words: dict[str, Any] = {}
    for line in ("--version", "list tasks --json", "nonsense", "run", "list runs --store WORK/nowhere"):
        done = tiepoint(place, line.split(), process=True)
        found["exit code"][line] = done.code
        found["lines"][line] = [len(done.out.splitlines()), len(done.messages)]
        words[line] = [place.words(m) for m in done.messages]
    return {"values": found, "words": words}


def completions(place: Place) -> dict[str, Any]:
    """Ask for completions as a shell does."""
    found = {}
    for line in (
        "",
        "run ro",
        "run sift --task ke",
        "run --pro",
        "store ",
        "data ge",
        "run sift --protocol su",
    ):
        words = f"tiepoint {line}"
        given = {"_TIEPOINT_COMPLETE": "complete_bash", "COMP_WORDS": words}
        done = subprocess.run(
            [sys.executable, "-m", "tiepoint"],
            env=os.environ | given | {"COMP_CWORD": str(len(words.split(" ")) - 1)},
            cwd=place.work, capture_output=True, text=True, check=False,
        )  # fmt: skip
        removed = {r.split()[-1] for r in REMOVED}
        found[words] = [done.returncode, *(x for x in done.stdout.splitlines() if x.strip() not in removed)]
    return {"values": {"completions": found}, "words": {}}


# --- drop-in scripts ---


def script(place: Place, module: str, *arguments: str) -> Outcome:
    """Run a module as a script in this process."""
    before = sys.argv
    sys.argv = [module, *map(place.full, arguments)]
    try:
        return called(place, lambda: runpy.run_module(module, run_name="__main__", alter_sys=False) and 0)
    finally:
        sys.argv = before


def old_hpatches(place: Place) -> dict[str, Any]:
    """Run the drop-in HPatches scripts: result files, printed tables, exit codes."""
    out, tasks = (
        place.work / "compat-results",
        [f"--task={t}" for t in ("verification", "matching", "retrieval")],
    )
    mine, whole = ["--split=mine", "--tasks-dir=WORK/splits"], ["--split=full", "--tasks-dir=WORK/lists"]
    runs = {
        "eval": ["--descr-name=rootsift", *whole, *tasks],
        "eval l1": ["--descr-name=rootsift", *mine, "--dist=L1", *tasks[:2]],
        "eval pca": ["--descr-name=vlfeat-sift", *mine, "--pcapl=yes", tasks[1]],
        "eval wrong": ["--descr-name=nothing", *mine, tasks[1]],
    }
    values: dict[str, Any] = {"exit code": {}, "printed": {}}
    words: dict[str, Any] = {}
    for name, given in runs.items():
        where = ["--descr-dir=WORK/described", f"--results-dir={out / name.replace(' ', '-')}"]
        done = script(place, "tiepoint.compat.hpatches_eval", *given, *where)
        values["exit code"][name] = done.code
        words[name] = [place.words(line) for line in done.err.splitlines()]
    shown = ["--descr-name=rootsift", "--split=full", *tasks, f"--results-dir={out / 'eval'}"]
    pickles = ["--descr-name=sift", "--task=matching", "--split=full"]
    where = f"--results-dir={place.data / 'hpatches_reference_results' / 'pickles'}"
    for name, given in (("results", shown), ("results of pickles", [*pickles, where])):
        done = script(place, "tiepoint.compat.hpatches_results", *given)
        values["exit code"][name] = done.code
        values["printed"][name] = done.out.splitlines()
    values["files"] = file_hashes(out)
    return {"values": values, "words": {"messages": words}}


def old_workbench(place: Place) -> dict[str, Any]:
    """Call the functions of `tiepoint.compat.workbench`."""
    from tiepoint.compat import workbench as face

    metrics = face.ExperimentMetrics()
    turn = [[0.9, -0.1, 4.0], [0.1, 1.1, -3.0], [1e-4, 0.0, 1.0]]
    targets = [[float(x), float(y)] for x in range(0, 60, 7) for y in range(0, 60, 11)]
    found: dict[str, Any] = {"point": face.project_point(turn, (10.0, 20.0))}
    for i, tie in enumerate(("dw", "expected", "optimistic", "pessimistic")):
        distances = [((k * 7) % 5) / 4 for k in range(len(targets))]
        result = face.compute_query_ap((11.0 + i, 19.0), turn, targets, distances, tau_px=6.0, tie=tie)
        metrics.add_query_ap(f"v_{i % 2}", result)
        found[tie] = [result.ap, result.rank_of_true_match, result.total_relevant]
    metrics.calculate_mean_precision()
    found["average precision"] = face.compute_average_precision([0, 1, 1, 0, 1])
    found["nearest"] = face.find_single_relevant_index((11.0, 19.0), turn, targets, 6.0)
    found["metrics"] = {
        k: v for k, v in sorted(vars(metrics).items()) if isinstance(v, int | float | str | bool)
    }
    values, _ = json_parts(found)
    return {"values": {"names": sorted(face.__all__), "json": values}, "words": {}}


def interface_cells() -> Iterator[Cell]:
    """Describe names and commands, and run wrong commands and drop-in scripts."""
    part = "interface"
    yield Cell(part, "public names", public_names)
    yield Cell(part, "tasks and protocols", tasks_and_protocols)
    yield Cell(part, "command line", command_line)
    yield Cell(part, "commands in processes", in_processes)
    yield Cell(part, "completions", completions)
    for line in WRONG.splitlines():
        yield wrong(line)
    yield Cell(part, "compat | HPatches scripts", old_hpatches)
    yield Cell(part, "compat | workbench", old_workbench)
