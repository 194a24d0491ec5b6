# SPDX-License-Identifier: BSD-3-Clause
"""Store the margins of non-inferiority tests, to report that a question was tested with several margins."""

from __future__ import annotations

import json
from pathlib import Path

from ..core.hashing import hash_json
from .atomic_files import atomic_file

FOLDER = "margins"


def record_margin(root: Path, question: list[str], margin: float) -> list[float]:
    """Record the margin of a test. Return the other margins recorded for the same question, in order.

    Args:
        root: folder of the store.
        question: task, score, protocol and ids of the two runs.
        margin: largest acceptable loss, in the unit of the score.

    Raises:
        StoreError: The store cannot be written.
    """
    path = root / FOLDER / f"{hash_json(['margin', *question])}.json"
    tested = json.loads(path.read_text(encoding="utf-8"))["margins"] if path.is_file() else []
    if margin not in tested:
        content = {"question": question, "margins": [*tested, margin]}
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8", newline="\n")
    return [m for m in tested if m != margin]
