# SPDX-License-Identifier: BSD-3-Clause
"""Drop-in for the evaluation script of the HPatches Python reference: same options, same numbers.

``python -m tiepoint.compat.hpatches_eval --descr-name=sift --task=verification --task=matching``

Descriptors are read from ``DESCR_DIR/NAME/SEQ/IM.csv``; no patches are needed. Results are written as JSON,
not as pickles, and always computed anew. What the reference found after minutes (a missing or short file) is
found at the start, and a wrong input ends with exit code 2.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .._version import __version__
from ..methods.checks import KEEP_ZEROS
from ..model.errors import InputError, ProblemsError, TiepointError, UnknownNameError
from .hpatches_files import PROTOCOL, TASKS, results_of, write_results

DISTANCES = {"L2": "l2", "L1": "l1", "masked_L1": "masked_l1"}


def parser() -> argparse.ArgumentParser:
    """The options of the reference, and `--tasks-dir` for its folder of task files."""
    p = argparse.ArgumentParser(
        prog="python -m tiepoint.compat.hpatches_eval",
        description="Evaluate a descriptor on HPatches as the Python reference does.",
        epilog="Example: python -m tiepoint.compat.hpatches_eval --descr-name=sift --task=matching --split=a",
    )
    p.add_argument("--descr-name", required=True, help="name of the folder below DESCR_DIR")
    p.add_argument("--task", action="append", required=True, help=f"{', '.join(TASKS)}; may be repeated")
    p.add_argument("--descr-dir", default="data/descriptors", help="folder of descriptors [%(default)s]")
    p.add_argument("--results-dir", default="results", help="folder for results [%(default)s]")
    p.add_argument("--tasks-dir", default="tasks", help="folder of task files and splits.json [%(default)s]")
    p.add_argument("--split", default="a", help="a, b, c, full, illum, view, or one of splits.json [a]")
    p.add_argument("--dist", default="L2", help="L2, L1 or masked_L1 [L2]")
    p.add_argument("--delimiter", default=",", help="of the descriptor files [,]")
    p.add_argument("--pcapl", default="no", choices=("no", "yes"), help="also with PCA power law [no]")
    p.add_argument("--version", action="version", version=f"tiepoint {__version__}")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit code."""
    given = parser().parse_args(arguments)
    try:
        return evaluate_descriptor(given)
    except TiepointError as e:
        print(f"hpatches_eval: {e}", file=sys.stderr)
        return e.exit_code


def evaluate_descriptor(given: argparse.Namespace) -> int:
    """Evaluate the tasks that are asked for, plain and, with `--pcapl yes`, transformed."""
    for task in given.task:
        if task not in TASKS:
            raise UnknownNameError("task", task, TASKS)
    if given.dist not in DISTANCES:
        raise UnknownNameError("distance", given.dist, DISTANCES)
    folder = Path(given.descr_dir) / given.descr_name
    if not folder.is_dir():
        raise InputError(f"the folder of descriptors {folder} does not exist; see --descr-dir")
    tasks = Path(given.tasks_dir)
    spec = f"files:{folder}?distance={DISTANCES[given.dist]}&delimiter={given.delimiter}"
    variants = {given.descr_name: spec}
    if given.pcapl == "yes":
        variants[f"{given.descr_name}_pcapl"] = f"{spec}+hpatches-python"
    with tempfile.TemporaryDirectory(prefix="tiepoint-") as scratch:
        lengths = write_lengths(folder, given.split, tasks, Path(scratch), train=given.pcapl == "yes")
        for name, method in variants.items():
            for task in given.task:
                print(f">> {name}: {task} on split {given.split}", flush=True)
                path = _one(method, name, task, given, lengths, Path(scratch))
                print(f">> results written to {path}", flush=True)
    return 0


def write_lengths(folder: Path, split: str, tasks: Path, scratch: Path, *, train: bool) -> Path:
    """A dataset of lengths, counted in the reference files of the split's sequences; all that lack listed."""
    from ..datasets.hpatches_v2 import official_splits
    from ..formats.descriptor_table import count_rows, find_descriptor_file
    from ..formats.splits import read_splits

    path = tasks / "splits.json"
    known = read_splits(path) if path.is_file() else official_splits()
    if split not in known:
        raise UnknownNameError("split", split, known)
    wanted = (*known[split].test, *((known[split].train or ()) if train else ()))
    lengths, problems = {}, []
    for sequence in dict.fromkeys(wanted):
        file = find_descriptor_file(folder, sequence, "ref")
        if file is None:
            problems.append(f"{sequence}/ref.csv is missing")
        else:
            lengths[sequence] = count_rows(file)
    if problems:
        raise ProblemsError(f"descriptors in {folder}", problems)
    out = scratch / "lengths.json"
    out.write_text(json.dumps(lengths))
    return out


def _one(method: str, name: str, task: str, given: argparse.Namespace, lengths: Path, scratch: Path) -> Path:
    from ..run.engine import Request, evaluate
    from ..store.store import Store

    options = {"split": given.split}
    if Path(given.tasks_dir).is_dir():
        options["tasks"] = given.tasks_dir
    with Store.open(scratch / "store") as store:
        request = Request(method, f"hpatches/{task}", lengths, (PROTOCOL,), options, {"on_bad": KEEP_ZEROS})
        run = evaluate(request, store)
    for warning in run.warnings:
        print(f"hpatches_eval: warning: {warning}", file=sys.stderr)
    records = [r for by in run.unit_records.values() for r in by.values()]
    return write_results(Path(given.results_dir), name, task, given.split, results_of(task, records))


if __name__ == "__main__":
    raise SystemExit(main())
