# SPDX-License-Identifier: BSD-3-Clause
"""Drop-in for the evaluation script of the HPatches Python reference: same options, same numbers.

``python -m tiepoint.compat.hpatches_eval --descr-name=sift --task=verification --task=matching``

Descriptors are read from ``DESCR_DIR/NAME/SEQ/IM.csv``; no patches are needed. Results are written as JSON,
not as pickles, and always recomputed. Missing and short files, which the reference finds only after minutes,
are reported at the start. Wrong input ends with exit code 2. A row of zeros is an ordinary vector, as in the
reference. The number of rows with NaN or infinity is printed on standard error. If the reference would stop
at such a row, the task has no score, and the exit code is 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .._version import __version__
from ..core.errors import FormatError, InputError, ProblemsError, TiepointError, UnknownNameError
from ..core.processes import scratch_folder
from ..datasets.hpatches.layout import STANDARD_IMAGES
from ..datasets.hpatches.splits import official_splits
from ..formats.hpatches.descriptors import find_descriptor_file, table_shape
from ..formats.hpatches.task_lists import Split, read_splits, splits_file
from ..methods.output_checks import KEEP_ZEROS
from .hpatches_results import PROTOCOL, TASKS, print_lines, results_of, write_results

if TYPE_CHECKING:
    from ..run.result import Run


DISTANCES = {"L2": "l2", "L1": "l1", "masked_L1": "masked_l1"}


def parser() -> argparse.ArgumentParser:
    """Return the parser: the options of the reference script, and `--tasks-dir` for the task files."""
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
    """Run the script. Return the exit code."""
    args = parser().parse_args(arguments)
    try:
        return evaluate_descriptor(args)
    except TiepointError as e:
        print_lines(f"hpatches_eval: {e}", sys.stderr)
        return e.exit_code


def evaluate_descriptor(args: argparse.Namespace) -> int:
    """Evaluate descriptors on the requested tasks; with `--pcapl yes`, also after PCA and power law."""
    lengths = check_inputs(args)
    folder = Path(args.descr_dir) / args.descr_name
    spec = f"files:{folder}?distance={DISTANCES[args.dist]}&delimiter={args.delimiter}"
    variants = {args.descr_name: spec}
    if args.pcapl == "yes":
        variants[f"{args.descr_name}_pcapl"] = f"{spec}+{PROTOCOL}"
    options = {"split": args.split}
    if Path(args.tasks_dir).is_dir():
        options["tasks"] = args.tasks_dir
    printed: set[str] = set()
    with scratch_folder() as scratch:
        data = write_lengths(lengths, Path(scratch))
        check_tasks(args.task, data, options)
        for name, method in variants.items():
            for task in args.task:
                print_lines(f">> {name}: {task} on split {args.split}")
                run = _run(method, task, data, options, Path(scratch))
                for warning in (f"{name}: {w}" for w in run.warnings if not w.startswith(f"{PROTOCOL}: ")):
                    if warning not in printed:  # warnings of the protocol are errors in `results_of`
                        printed.add(warning)
                        print_lines(f"hpatches_eval: warning: {warning}", sys.stderr)
                records = [r for by in run.unit_records.values() for r in by.values()]
                results = results_of(task, records)
                path = write_results(Path(args.results_dir), name, task, args.split, results)
                print_lines(f">> results written to {path}")
    return 0


def _run(method: str, task: str, data: Path, options: dict[str, str], scratch: Path) -> Run:
    from ..run.engine import evaluate
    from ..run.request import RunRequest
    from ..store.store import Store

    with Store.open(scratch / "store") as store:
        # For the tool a zero row is an ordinary vector.
        request = RunRequest(method, f"hpatches/{task}", data, (PROTOCOL,), options, {"on_bad": KEEP_ZEROS})
        return evaluate(request, store)


def check_inputs(args: argparse.Namespace) -> dict[str, int]:
    """Check all inputs. Return the number of patches of each sequence. Raise all problems as one error."""
    for task in args.task:
        if task not in TASKS:
            raise UnknownNameError("task", task, TASKS)
    if args.dist not in DISTANCES:
        raise UnknownNameError("distance", args.dist, DISTANCES)
    folder, tasks = Path(args.descr_dir) / args.descr_name, Path(args.tasks_dir)
    if not folder.is_dir():
        raise InputError(f"the folder of descriptors {folder} does not exist; see --descr-dir")
    split = _split(tasks, args.split)
    problems = _unwritable(Path(args.results_dir))
    if args.pcapl == "yes":
        problems += _no_pcapl(split, args.dist)
    if "retrieval" in args.task:
        names = [f"retr_{kind}_split-{split.name}.csv" for kind in ("queries", "distractors")]
        lack = [name for name in names if not (tasks / name).is_file()]
        problems += [
            f"retrieval needs {tasks / name}, which does not exist; see --tasks-dir" for name in lack
        ]
    train = tuple(split.train or ()) if args.pcapl == "yes" else ()
    lengths, wrong = _lengths(folder, split.test, train, args.delimiter)
    if problems + wrong:
        raise ProblemsError(f"descriptors in {folder} for split {split.name}", problems + wrong)
    return lengths


def check_tasks(tasks: Sequence[str], data: Path, options: dict[str, str]) -> None:
    """Open every task before any work, to find task files that do not match the numbers of patches."""
    from ..tasks import load_task

    problems: list[str] = []
    for task in dict.fromkeys(tasks):
        try:
            load_task(f"hpatches/{task}").open(data, options)
        except ProblemsError as e:
            problems += e.problems
    if problems:
        raise ProblemsError(f"task files in {options.get('tasks', '.')}", problems)


def write_lengths(lengths: dict[str, int], scratch: Path) -> Path:
    """Write the number of patches of each sequence to a JSON file, which tasks accept as a dataset."""
    out = scratch / "lengths.json"
    out.write_text(json.dumps(lengths), encoding="utf-8", newline="\n")
    return out


def _split(tasks: Path, name: str) -> Split:
    path = splits_file(tasks)
    known = official_splits() if path is None else read_splits(path)
    if name not in known:
        raise UnknownNameError("split", name, known)
    return known[name]


def _unwritable(folder: Path) -> list[str]:
    """Return the reasons why results cannot be written to a folder. The folder need not exist."""
    existing = next((p for p in (folder, *folder.parents) if p.exists()), Path())
    if not existing.is_dir():
        return [f"results cannot be written to {folder}: {existing} is no folder; see --results-dir"]
    if not os.access(existing, os.W_OK | os.X_OK):
        return [f"results cannot be written to {folder}: no permission; see --results-dir"]
    return []


def _no_pcapl(split: Split, dist: str) -> list[str]:
    problems = []
    if not split.train:
        problems.append(
            f"--pcapl=yes is fitted on training sequences; split {split.name!r} has no training sequences, "
            "so use --split=a, b or c, or --pcapl=no"
        )
    if dist == "masked_L1":
        problems.append(
            "--pcapl=yes has no meaning for descriptors with a mask; use --dist=L1, L2 or --pcapl=no"
        )
    return problems


def _lengths(
    folder: Path, test: Sequence[str], train: Sequence[str], delimiter: str
) -> tuple[dict[str, int], list[str]]:
    """Return the number of patches of each sequence, and messages about missing or inconsistent files."""
    lengths: dict[str, int] = {}
    problems: list[str] = []
    widths: dict[str, int] = {}
    needed = dict.fromkeys(train, ("ref",)) | dict.fromkeys(test, STANDARD_IMAGES)
    for sequence, images in needed.items():
        rows: dict[str, int] = {}
        lack = []
        for image in images:
            try:
                file = find_descriptor_file(folder, sequence, image)
                if file is None:
                    lack.append(f"{image}.csv")
                    continue
                rows[image], widths[f"{sequence}/{image}"] = table_shape(file, delimiter=delimiter)
            except FormatError as e:
                problems.append(f"{sequence}/{image}.csv: {e.reason}")
            except InputError as e:
                problems.append(str(e))
        if len(lack) == len(images):
            problems.append(f"{sequence}: no descriptors" + _deeper(folder, sequence))
        elif lack:
            problems.append(f"{sequence} lacks {', '.join(lack)}")
        expected = rows.get("ref") or (Counter(rows.values()).most_common(1)[0][0] if rows else 0)
        lengths[sequence] = expected
        problems += [
            f"{sequence}/{image}.csv has {n} descriptors, but ref.csv has {expected}; one row a patch"
            for image, n in rows.items()
            if n != expected
        ]
    return lengths, problems + _columns(widths, delimiter)


def _deeper(folder: Path, sequence: str) -> str:
    """Return a hint if the sequence is in a deeper folder, else an empty text."""
    found = next(folder.glob(f"*/{sequence}"), None) or next(folder.glob(f"*/*/{sequence}"), None)
    return "" if found is None else f" there, but in {found}; see --descr-dir and --descr-name"


def _columns(widths: dict[str, int], delimiter: str) -> list[str]:
    if not widths:
        return []
    usual = Counter(widths.values()).most_common(1)[0][0]
    if usual == 1:
        return [f"the files have one column when split at {delimiter!r}; see --delimiter"]
    return [
        f"{key}.csv has {width} columns, most files {usual} (another delimiter than {delimiter!r}?)"
        for key, width in widths.items()
        if width != usual
    ]


if __name__ == "__main__":
    raise SystemExit(main())
