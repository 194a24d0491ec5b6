# SPDX-License-Identifier: BSD-3-Clause
"""An imported result, and its conversion to a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...core.hashing import hash_array, hash_file, hash_json
from ...core.records import Records
from ...core.scores import scene_kind
from ...store.store import Store
from ...store.stored_run import DatasetFacts, Manifest, MethodFacts
from ...tasks import load_task
from ..cache_keys import imported_key
from ..finish import finish_run
from ..result import Run
from ..scoring import scores_under

NOISES = {"e": "easy", "h": "hard", "t": "tough"}
NEGATIVES = ("inter", "intra")
DATASET = "HPatches 2017 (imported results)"
NOT_KNOWN = "not known"
"""Split name of results whose file does not name a split."""


@dataclass(frozen=True)
class ImportedResult:
    """Imported scores of one descriptor on one task, and the protocol of the original tool."""

    name: str
    task: str
    protocol: str
    split: str | None
    records: Records
    source: Path
    notes: tuple[str, ...] = field(default=())


SLACK = 1e-9
"""Tolerance for fractions that rounding moved below 0 or above 1."""


def not_a_fraction(value: float) -> str | None:
    """Return the reason why a number is not a valid score. None if it is between 0 and 1.

    >>> not_a_fraction(0.5), not_a_fraction(1.5)
    (None, 'expected a fraction between 0 and 1, found 1.5')
    """
    if -SLACK <= value <= 1 + SLACK:
        return None
    return f"expected a fraction between 0 and 1, found {value:g}"


def records_from_scores(protocol: str, columns: dict[str, Any], **meta: Any) -> Records:
    """Build records of kind `rank` with imported scores instead of ranks. Their header has ``form: ap``."""
    scenes = meta.get("scenes")
    if scenes is not None:
        meta["kinds"] = [scene_kind(s) for s in scenes]
    plain = {"form": "ap", "protocol": protocol, "noises": list(NOISES.values()), **meta}
    return Records("rank", {k: np.asarray(v) for k, v in columns.items()}, plain)


OFFICIAL_PAIRS = {"ap": 1_200_000, "auc": 2_000_000}
"""Numbers of pairs in the imbalanced and balanced verification lists of the published splits."""


def save_imported(imported: ImportedResult, store: Store, *, name: str | None = None) -> Run:
    """Store an imported result as a run, under `name` if it is given.

    Files with the same scores give the same run.
    """
    called = name or imported.name
    task = load_task(imported.task)
    source = {"file": imported.source.name, "sha256": hash_file(imported.source)}
    split = imported.split or NOT_KNOWN
    content = [[k, hash_array(v)] for k, v in imported.records.columns.items()]
    plain = [called, imported.task, imported.protocol, split, content, dict(imported.records.meta)]
    key = imported_key(plain)
    store.records.put(key, imported.records)
    comparison = task.comparison(imported.protocol)
    records = {"imported": {comparison: imported.records}}
    manifest = Manifest(
        task=task.name,
        options={"split": split},
        split=imported.split,
        method=MethodFacts(
            name=called,
            name_given=name is not None,
            family=task.family,
            config={"imported": source},
        ),
        dataset=DatasetFacts(
            hash=hash_json([DATASET, split]), name=f"HPatches, split {split} (imported)", imported=True
        ),
        lists=hash_json([DATASET, imported.task, split]),
        units={"imported": {comparison: key}},
        warnings=imported.notes,
        content=key,
    )
    scores = {imported.protocol: scores_under(task, imported.protocol, records)}
    run = finish_run(manifest, scores, store=store)
    return Run.from_stored(run, store, records, (imported.protocol,))
