# SPDX-License-Identifier: BSD-3-Clause
"""Drop-in for the results script of the HPatches Python reference: same options, tables and numbers.

``python -m tiepoint.compat.hpatches_results --descr-name=sift --task=matching --split=a``

The script prints results that `hpatches_eval` wrote (``NAME_TASK_SPLIT.json``), and pickles of the reference,
which are read but never executed. The option `--results-dir` is respected; the reference ignores it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .._version import __version__
from ..core.errors import FormatError, InputError, StoreError, TiepointError, UnknownNameError
from ..core.formatting import path_part, printable
from ..core.records import Records
from ..formats.json_yaml import read_json
from ..formats.safe_pickle import read_plain_pickle
from ..store.atomic_files import atomic_file
from ..tasks.hpatches.matching import score as v2_matching_scores
from ..tasks.hpatches.protocols import HPatchesRules, hpatches_rules
from ..tasks.hpatches.retrieval import score as v2_retrieval_scores
from ..tasks.hpatches.retrieval.compare import DistractorPool
from ..tasks.hpatches.verification import score as v2_verification_scores

TASKS = ("verification", "matching", "retrieval")
LETTERS = {"easy": "e", "hard": "h", "tough": "t"}
PROTOCOL = "hpatches-python"
ROWS = {"e": "Easy", "h": "Hard", "t": "Tough"}
SAME_AUC = (
    "the balanced AUC of inter and intra is one number at every noise; a fork of the tool stored the intra "
    "one twice, so ignore the inter one"
)
Table = list[list[str]]
_INCOMPLETE = (LookupError, TypeError, ValueError, AttributeError, StopIteration, ArithmeticError)


def parser() -> argparse.ArgumentParser:
    """Return the parser with the options of the reference script."""
    p = argparse.ArgumentParser(
        prog="python -m tiepoint.compat.hpatches_results",
        description="Print HPatches results as the Python reference does.",
        epilog="Example: python -m tiepoint.compat.hpatches_results --descr-name=sift --task=matching",
    )
    p.add_argument("--descr-name", "--descr", action="append", required=True, help="may be repeated")
    p.add_argument("--task", action="append", required=True, help=f"{', '.join(TASKS)}; may be repeated")
    p.add_argument("--results-dir", default="results", help="folder of results [%(default)s]")
    p.add_argument("--split", default="a", help="split [a]")
    p.add_argument("--version", action="version", version=f"tiepoint {__version__}")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables. Return the exit code."""
    args = parser().parse_args(arguments)
    try:
        for task in args.task:
            if task not in TASKS:
                raise UnknownNameError("task", task, TASKS)
        for name in args.descr_name:
            for task in args.task:
                results = read_results(Path(args.results_dir), name, task, args.split)
                print_lines(f">> {name}: {task}, split {args.split}")
                try:
                    print(text_of(task, results))
                except _INCOMPLETE as e:
                    raise InputError(
                        f"the {task} results of {name} are incomplete ({e!r}); run hpatches_eval again"
                    ) from e
                if task == "verification" and same_auc(results):
                    print_lines(f"hpatches_results: warning: {name}: {SAME_AUC}", sys.stderr)
    except (TiepointError, FormatError) as e:
        print_lines(f"hpatches_results: {e}", sys.stderr)
        return e.exit_code
    return 0


def print_lines(text: str, stream: TextIO | None = None) -> None:
    """Print lines to standard output or `stream`, with control characters escaped."""
    for line in text.split("\n"):
        print(printable(line).encode("utf-8", "backslashreplace").decode(), file=stream, flush=True)


def text_of(task: str, results: Any) -> str:
    """Format the tables of a task."""
    if task == "verification":
        return verification_text(results)
    return matching_text(results) if task == "matching" else retrieval_text(results)


def verification_text(results: Mapping[str, Any]) -> str:
    """Format a table of the balanced AUC and one of the imbalanced AP, by noise level and negatives."""
    parts = []
    for variant, metric in (("balanced", "auc"), ("imbalanced", "ap")):
        table: Table = [["Noise", "Inter", "Intra"]]
        for z, label in ROWS.items():
            cells = (results[z][n][variant][metric] for n in ("inter", "intra"))
            table.append([label, *(_number(c) for c in cells)])
        parts.append(f"{variant.capitalize()} variant ({metric})\n{_layout(table)}")
    return "\n\n".join(parts)


def same_auc(results: Mapping[str, Any]) -> bool:
    """Return whether inter and intra negatives have equal balanced AUC but different imbalanced AP.

    This shows that the tool wrote the AUC of one kind of negatives for both kinds.

    >>> def cell(auc, ap): return {"balanced": {"auc": auc}, "imbalanced": {"ap": ap}}
    >>> same_auc({z: {"inter": cell(0.8, 0.7), "intra": cell(0.8, 0.6)} for z in "eht"})
    True
    """

    def equal(variant: str, metric: str) -> list[bool]:
        return [results[z]["inter"][variant][metric] == results[z]["intra"][variant][metric] for z in ROWS]

    return all(equal("balanced", "auc")) and not all(equal("imbalanced", "ap"))


def matching_text(results: Mapping[str, Any]) -> str:
    """Format one row: the mean over sequences and images for each noise level, then the mean of these."""
    means = [
        float(np.mean([[_ap(_get(results[s][z], k)) for k in range(1, 6)] for s in results])) for z in ROWS
    ]
    return _layout([[*ROWS.values(), "mean"], [_number(v) for v in (*means, float(np.mean(means)))]])


def retrieval_text(results: Mapping[Any, Any]) -> str:
    """Format the means over queries by noise level and pool size, then the mean over noise levels."""
    first = next(iter(results.values()))
    sizes = sorted(int(k) for k in first["e"])
    means = np.array([[np.mean([_ap(_get(q[z], k)) for q in results.values()]) for k in sizes] for z in ROWS])
    table: Table = [["Noise", *map(str, sizes)]]
    table += [[label, *map(_number, row)] for label, row in zip(ROWS.values(), means, strict=True)]
    table.append(["mean", *map(_number, means.mean(axis=0))])
    return f"mAP 10K queries\n{_layout(table)}"


def _get(table: Mapping[Any, Any], key: int) -> Any:
    return table[key] if key in table else table[str(key)]


def _ap(cell: Any) -> float:
    return float(cell["ap"] if isinstance(cell, Mapping) else cell)


def _number(value: float) -> str:
    """Format six significant digits, as in the tables of the reference.

    >>> _number(0.849450), _number(2 / 3)
    ('0.84945', '0.666667')
    """
    return f"{value:.6g}"


def _layout(table: Table) -> str:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in table]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def results_of(task: str, records: Sequence[Records]) -> dict[str, Any]:
    """Return the results of a task as nested dicts, in the layout and by the conventions of the Python tool.

    verification ``[e|h|t][inter|intra][balanced|imbalanced]`` with `auc` or `ap`; matching
    ``[sequence][e|h|t][1..5]`` with `ap`, `sr`; retrieval ``[query][e|h|t][pool]`` with `ap`.

    Raises:
        InputError: The tool would stop at these descriptors, so the task has no score.
    """
    rules = hpatches_rules(PROTOCOL)
    if reason := _stop_reason(task, records, rules):
        raise InputError(f"{task} has no score, because {reason}; correct the descriptors")
    if task == "verification":
        found: dict[str, Any] = {}
        for level in v2_verification_scores.pair_lists(records, rules):
            cells = found.setdefault(LETTERS[level.noise], {})
            for negatives, pairs in level.lists.items():
                value = v2_verification_scores.values(pairs, rules)
                cells[negatives] = {"balanced": {"auc": value["auc"]}, "imbalanced": {"ap": value["ap"]}}
        return found
    if task == "matching":
        return {r.meta["scenes"][0]: _images(r, v2_matching_scores.image_values(r, rules)) for r in records}
    (r,) = records
    queries: dict[str, Any] = {str(q): {} for q in range(len(r))}
    for z, noise in enumerate(r.meta["noises"]):
        for s in v2_retrieval_scores.pool_columns(r, rules):
            label = DistractorPool(*r.meta["pools"][s]).label
            for q, ap in enumerate(v2_retrieval_scores.query_values(r, z, s, rules)):
                queries[str(q)].setdefault(LETTERS[noise], {})[label] = {"ap": float(ap)}
    return queries


def _stop_reason(task: str, records: Sequence[Records], rules: HPatchesRules) -> str | None:
    if task == "retrieval":
        return v2_retrieval_scores.retrieval_stop_reason(records[0], rules)
    if task == "verification":
        return v2_verification_scores.verification_stop_reason(records, rules)
    return v2_matching_scores.matching_stop_reason(records, rules)


def _images(records: Records, values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for i, image in enumerate(records.meta["images"]):
        cell = {"ap": float(values["map"][i]), "sr": float(values["success_rate"][i])}
        found.setdefault(image[0], {})[image[1:]] = cell
    return found


def result_path(folder: Path, name: str, task: str, split: str) -> Path:
    """Return the results file of a descriptor."""
    return folder / path_part(f"{name}_{task}_{split}.json", "the file of results")


def write_results(folder: Path, name: str, task: str, split: str, results: Mapping[str, Any]) -> Path:
    """Write results as JSON."""
    path = result_path(folder, name, task, split)
    plain = {"descriptor": name, "task": task, "split": split, "protocol": PROTOCOL, "results": results}
    try:
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(plain), encoding="utf-8", newline="\n")
    except StoreError as e:
        reason = e.__cause__ or e
        raise InputError(f"cannot write {path} ({reason}); name another folder with --results-dir") from e
    return path


def read_results(folder: Path, name: str, task: str, split: str) -> Any:
    """Read the results of a descriptor from JSON, or from a pickle of the reference (not executed)."""
    path = result_path(folder, name, task, split)
    if path.is_file():
        content = read_json(path)
        if not isinstance(content, Mapping) or "results" not in content:
            raise FormatError(path, "is not a results file; run hpatches_eval again")
        return content["results"]
    old = path.with_suffix(".p")
    if old.is_file():
        return read_plain_pickle(old)
    raise InputError(f"neither {path} nor {old.name} exists; run tiepoint.compat.hpatches_eval first")


if __name__ == "__main__":
    raise SystemExit(main())
