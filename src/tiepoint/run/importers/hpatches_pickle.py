# SPDX-License-Identifier: BSD-3-Clause
"""Results that the Python reference pickled: ``NAME_TASK_SPLIT.p``. Nothing in them is executed.

Tried on twelve files of a public fork (matching and verification on split full, pickle protocols 3 and 4,
written by dill); no retrieval file was at hand, its layout is taken from the tool's source.
"""

from __future__ import annotations

from pathlib import Path

from ...formats.restricted_pickle import read_plain_pickle
from ...model.errors import InputError
from .hpatches_tables import PROTOCOL, matching_records, retrieval_records, verification_records
from .result import Imported

TASKS = ("matching", "verification", "retrieval")


def name_parts(path: Path) -> tuple[str, str, str]:
    """Descriptor, task and split of a file name.

    >>> name_parts(Path("hardnet+_matching_full.p"))
    ('hardnet+', 'matching', 'full')
    """
    parts = path.stem.rsplit("_", 2)
    if len(parts) != 3 or parts[1] not in TASKS or not all(parts):
        raise InputError(
            f"{path}: expected a name like NAME_TASK_SPLIT{path.suffix} with a task of {', '.join(TASKS)}"
        )
    return parts[0], parts[1], parts[2]


def read(path: Path, *, name: str | None, split: str | None, tasks: Path | None) -> list[Imported]:
    """The results of one file."""
    descriptor, task, named = name_parts(path)
    table = read_plain_pickle(path)
    notes: list[str] = []
    if task == "matching":
        records = matching_records(table, path)
    elif task == "verification":
        records, notes = verification_records(table, path)
    else:
        queries = None if tasks is None else tasks / f"retr_queries_split-{named}.csv"
        records, notes = retrieval_records(table, path, queries)
    said = tuple(f"{path.name}: {n}" for n in notes)
    return [Imported(name or descriptor, f"hpatches/{task}", PROTOCOL, named, records, path, said)]
