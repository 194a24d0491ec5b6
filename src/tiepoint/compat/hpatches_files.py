# SPDX-License-Identifier: BSD-3-Clause
"""Result files of the drop-in scripts: ``NAME_TASK_SPLIT.json`` in the layout of the reference's pickles."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..formats.restricted_pickle import read_plain_pickle
from ..model.errors import FormatError, InputError, StoreError
from ..model.records import Records
from ..store.atomic import atomic_file
from ..tasks.hpatches import matching_scores as v2_matching_scores
from ..tasks.hpatches import retrieval_scores as v2_retrieval_scores
from ..tasks.hpatches import verification_scores as v2_verification_scores
from ..tasks.hpatches.protocols import rules_of
from ..tasks.hpatches.retrieval_compare import Pool

TASKS = ("verification", "matching", "retrieval")
LETTERS = {"easy": "e", "hard": "h", "tough": "t"}
PROTOCOL = "hpatches-python"


def results_of(task: str, records: Sequence[Records]) -> dict[str, Any]:
    """Nested results under the rules of the Python tool.

    verification ``[e|h|t][inter|intra][balanced|imbalanced]`` with `auc` or `ap`; matching
    ``[sequence][e|h|t][1..5]`` with `ap`, `sr`; retrieval ``[query][e|h|t][pool]`` with `ap`.
    """
    rules = rules_of(PROTOCOL)
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
        for s in v2_retrieval_scores.columns_of(r, rules):
            label = Pool(*r.meta["pools"][s]).label
            for q, ap in enumerate(v2_retrieval_scores.query_values(r, z, s, rules)):
                queries[str(q)].setdefault(LETTERS[noise], {})[label] = {"ap": float(ap)}
    return queries


def _images(records: Records, values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for i, image in enumerate(records.meta["images"]):
        cell = {"ap": float(values["map"][i]), "sr": float(values["success_rate"][i])}
        found.setdefault(image[0], {})[image[1:]] = cell
    return found


def result_path(folder: Path, name: str, task: str, split: str) -> Path:
    """Where the results of a descriptor are written."""
    return folder / f"{name}_{task}_{split}.json"


def write_results(folder: Path, name: str, task: str, split: str, results: Mapping[str, Any]) -> Path:
    """Write results as JSON."""
    path = result_path(folder, name, task, split)
    plain = {"descriptor": name, "task": task, "split": split, "protocol": PROTOCOL, "results": results}
    try:
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(plain))
    except StoreError as e:
        reason = e.__cause__ or e
        raise InputError(f"cannot write {path} ({reason}); name another folder with --results-dir") from e
    return path


def read_results(folder: Path, name: str, task: str, split: str) -> Any:
    """Results of a descriptor, from JSON or from a pickle of the reference (which is not executed)."""
    path = result_path(folder, name, task, split)
    if path.is_file():
        try:
            return json.loads(path.read_text())["results"]
        except (ValueError, KeyError) as e:
            raise FormatError(path, "is no file of results; run hpatches_eval again") from e
    old = path.with_suffix(".p")
    if old.is_file():
        return read_plain_pickle(old)
    raise InputError(f"there are no results {path} (nor {old.name}); run tiepoint.compat.hpatches_eval first")
