# SPDX-License-Identifier: BSD-3-Clause
"""Drop-in for the evaluation script of the HPatches Python reference: same options, same numbers.

``python -m tiepoint.compat.hpatches_eval --descr-name=sift --task=verification --task=matching``

Descriptors are read from ``DESCR_DIR/NAME/SEQ/IM.csv``; no patches are needed. Results are written as JSON,
not as pickles, and always computed anew. What the reference found after minutes (a missing or short file) is
found at the start, and a wrong input ends with exit code 2. A row of zeros is an ordinary vector, as in the
reference; how many rows hold NaN or infinity is said on standard error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .._version import __version__
from ..methods.checks import KEEP_ZEROS
from ..model.errors import TiepointError
from .hpatches_files import PROTOCOL, TASKS, results_of, write_results
from .hpatches_inputs import DISTANCES, check_inputs, check_tasks, write_lengths

if TYPE_CHECKING:
    from ..run.result import Run


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
    lengths = check_inputs(given)
    folder = Path(given.descr_dir) / given.descr_name
    spec = f"files:{folder}?distance={DISTANCES[given.dist]}&delimiter={given.delimiter}"
    variants = {given.descr_name: spec}
    if given.pcapl == "yes":
        variants[f"{given.descr_name}_pcapl"] = f"{spec}+{PROTOCOL}"
    options = {"split": given.split}
    if Path(given.tasks_dir).is_dir():
        options["tasks"] = given.tasks_dir
    told: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="tiepoint-") as scratch:
        data = write_lengths(lengths, Path(scratch))
        check_tasks(given.task, data, options)
        for name, method in variants.items():
            for task in given.task:
                print(f">> {name}: {task} on split {given.split}", flush=True)
                run = _run(method, task, data, options, Path(scratch))
                for warning in (w for w in run.warnings if f"{name}: {w}" not in told):
                    told.add(f"{name}: {warning}")
                    print(f"hpatches_eval: warning: {name}: {warning}", file=sys.stderr)
                records = [r for by in run.unit_records.values() for r in by.values()]
                results = results_of(task, records)
                path = write_results(Path(given.results_dir), name, task, given.split, results)
                print(f">> results written to {path}", flush=True)
    return 0


def _run(method: str, task: str, data: Path, options: dict[str, str], scratch: Path) -> Run:
    from ..run.engine import Request, evaluate
    from ..store.store import Store

    with Store.open(scratch / "store") as store:
        # The tool takes a zero row for an ordinary vector.
        request = Request(method, f"hpatches/{task}", data, (PROTOCOL,), options, {"on_bad": KEEP_ZEROS})
        return evaluate(request, store)


if __name__ == "__main__":
    raise SystemExit(main())
