# SPDX-License-Identifier: BSD-3-Clause
"""The failure gallery: queries that most methods miss, and image pairs on which dense methods do worst."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..core.amounts import count_text
from ..core.hashing import hash_json
from ..run.result import Run
from ..tasks import stored_task
from .album import EmbeddedImages
from .figures.figure import only_best
from .runs.lazy_records import scored_records
from .runs.sections import TaskSection

MAX_GALLERY_QUERIES = 12


def gallery(section: TaskSection) -> dict[str, Any] | None:
    """Pictures of the queries missed by most methods; None for tasks that do not name their misses.

    A task names them through ``misses(records)``: tuples (query, right, wrong) of picture references,
    ``SEQUENCE/IMAGE#INDEX`` for patches and ``SCENE/IMAGE@x,y`` for keypoints.
    """
    task = stored_task(section.task)
    runs = section.inspected
    if not runs:
        return None
    missed: Counter[tuple[str, str]] = Counter()
    wrong: dict[tuple[str, str], Counter[str]] = {}
    owner: dict[tuple[str, str], Run] = {}
    for run in runs:
        # A method counts once, however many of its keypoints lie in the same place.
        own = {(q, right): answer for q, right, answer in task.misses(scored_records(run, task, "exact"))}
        for key, answer in own.items():
            missed[key] += 1
            owner.setdefault(key, run)
            wrong.setdefault(key, Counter())[answer] += 1
    album = EmbeddedImages()
    missed = Counter({key: n for key, n in missed.items() if album.opened(owner[key]) is not None})
    if not missed:
        return None
    # By the hash among equals: in order of names the first patches of the first scenes would fill the page.
    worst = sorted(missed, key=lambda k: (-missed[k], hash_json(k)))
    spread = _spread(worst, MAX_GALLERY_QUERIES)
    found = []
    for query, right in spread:
        answer = min(wrong[(query, right)], key=lambda a: (-wrong[(query, right)][a], a))
        trio = [("query", query), ("right answer", right), ("most frequent answer", answer)]
        pictures = [
            {"label": label, "what": reference, "source": album.cutout(owner[query, right], reference)}
            for label, reference in trio
        ]
        caption = f"missed by {missed[(query, right)]} of {count_text(len(runs), 'method')}"
        found.append({"pictures": pictures, "caption": caption})
    queries = count_text(len(missed), "query is", "queries are")
    some = f"{queries} missed by at least one of {count_text(len(runs), 'method')}"
    note = f"{some}; the ones that most of them miss are shown."
    note += only_best(len(runs), len(section.methods), data=False)
    return {"task": section.title, "note": note, "misses": found}


def _spread(worst: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """The first `count`, each query once, at most two of a scene while others wait."""
    taken: Counter[str] = Counter()
    first: list[tuple[str, str]] = []
    later: list[tuple[str, str]] = []
    for key in worst:
        scene = key[0].split("/")[0]
        taken[key[0]] += 1
        if taken[key[0]] > 1:
            continue
        taken[scene] += 1
        (first if taken[scene] <= 2 else later).append(key)
        if len(first) >= count:
            break
    return (first + later)[:count]


PAIRS_SHOWN = 6
PHOTO_SIDE = 280
EASY = 0.9
"""Pairs with at least this mean score are missed by nobody in particular."""
