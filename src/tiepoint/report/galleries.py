# SPDX-License-Identifier: BSD-3-Clause
"""Create the galleries of a report: missed queries, and image pairs with the lowest scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import TiepointError
from ..core.formatting import count_text
from ..core.hashing import hash_json
from ..geometry.flow.color import flow_color
from ..run.result import Run
from ..tasks import stored_task
from ..tasks.base import TaskData
from ..tasks.capabilities import HasWrongAnswers
from .case_detail import ERROR_MAP_WHITE_FRACTION, case_kind, detail, true_flow_case
from .case_thumbnails import PHOTO_HEIGHT
from .figures.figure import only_best
from .pictures.error_colours import GRADES, count_grades
from .pictures.matches import RunPairs, pair_accuracy, pair_caption, pair_panels
from .pictures.thumbnails import crop, in_row, thumbnail_uri
from .runs.lazy_records import reopen_task, scored_records
from .runs.sections import TaskSection


class EmbeddedImages:
    """Pictures from datasets as data URIs. Each dataset is opened once and each image is read once."""

    def __init__(self) -> None:
        self._opened: dict[str, TaskData | None] = {}
        self._images: dict[tuple[str, str], NDArray[np.uint8]] = {}

    def open_task(self, run: Run) -> TaskData | None:
        """Open the task of a run on its dataset. None if the dataset is missing or has changed."""
        key = self._key(run)
        if key not in self._opened:
            self._opened[key] = reopen_task(run)
        return self._opened[key]

    def cutout(self, run: Run, reference: str) -> str:
        """Return the patch or image region of a picture reference as a data URI."""
        item, _, place = reference.replace("@", "#").partition("#")
        key = (self._key(run), item)
        if key not in self._images:
            opened = self.open_task(run)
            assert opened is not None, "the caller skips runs without a dataset"
            self._images[key] = np.asarray(opened.read_item(item))
        image = self._images[key]
        if "," in place:
            x, y = (round(float(v)) for v in place.split(","))
            return thumbnail_uri(crop(image, x, y))
        return thumbnail_uri(image[int(place)])

    def _key(self, run: Run) -> str:
        dataset = run.manifest.dataset
        return hash_json([run.task, dataset.path, dataset.hash, run.manifest.options])


MAX_GALLERY_QUERIES = 12


def gallery(section: TaskSection) -> dict[str, Any] | None:
    """Return pictures of the queries that most methods miss. None if the task has no `wrong_answers`.

    ``wrong_answers(records)`` of a task yields picture references (query, right, wrong). A reference is
    ``SEQUENCE/IMAGE#INDEX`` for patches and ``SCENE/IMAGE@x,y`` for keypoints.
    """
    task = stored_task(section.task)
    runs = section.inspected
    if not runs or not isinstance(task, HasWrongAnswers):
        return None
    missed: Counter[tuple[str, str]] = Counter()
    wrong: dict[tuple[str, str], Counter[str]] = {}
    owner: dict[tuple[str, str], Run] = {}
    for run in runs:
        # A method counts once, even with several keypoints at one position.
        records = scored_records(run, task, "exact")
        own = {(q, right): answer for q, right, answer in task.wrong_answers(records)}
        for key, answer in own.items():
            missed[key] += 1
            owner.setdefault(key, run)
            wrong.setdefault(key, Counter())[answer] += 1
    album = EmbeddedImages()
    missed = Counter({key: n for key, n in missed.items() if album.open_task(owner[key]) is not None})
    if not missed:
        return None
    # Ties are sorted by hash: sorted by name, the first patches of the first scenes would fill the page.
    worst = sorted(missed, key=lambda k: (-missed[k], hash_json(k)))
    shown = []
    for query, right in _spread(worst, MAX_GALLERY_QUERIES):
        answer = min(wrong[(query, right)], key=lambda a: (-wrong[(query, right)][a], a))
        trio = [("query", query), ("right answer", right), ("most frequent answer", answer)]
        pictures = [
            {"label": label, "what": reference, "source": album.cutout(owner[query, right], reference)}
            for label, reference in trio
        ]
        caption = f"missed by {missed[(query, right)]} of {count_text(len(runs), 'method')}"
        shown.append({"pictures": pictures, "caption": caption})
    queries = count_text(len(missed), "query is", "queries are")
    some = f"{queries} missed by at least one of {count_text(len(runs), 'method')}"
    note = f"{some}; the ones that most of them miss are shown."
    note += only_best(len(runs), len(section.methods), data=False)
    return {"task": section.title, "note": note, "misses": shown}


def _spread(worst: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Return the first `count` distinct queries. If there are enough scenes, take at most two per scene."""
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


MAX_FLOW_PAIRS, MAX_FLOW_METHODS = 6, 2
EASY = 0.9
"""Mean score from which a pair is not shown."""


@dataclass(frozen=True)
class WorstPairs:
    """The image pairs with the lowest scores in a section, lowest score first.

    `shares` has the scores by method name, for all pairs that every method has.
    """

    names: tuple[str, ...]
    shares: Mapping[str, Mapping[str, float]]
    note: str

    def caption(self, name: str) -> str:
        """Return the caption of a pair with the score of each method, highest score first."""
        order = sorted(self.shares[name].items(), key=lambda p: (-p[1], p[0]))
        scores = ", ".join(f"{method} {100 * value:.1f} %" for method, value in order[:8])
        return f"{name}: {scores}" + (", …" if len(order) > 8 else "")


def worst_pairs(section: TaskSection, most: int) -> WorstPairs | None:
    """Return at most `most` pairs with the lowest mean score over methods. None for tasks without pairs.

    ``pair_accuracy(records)`` of a task yields (item, fraction correct) for the headline score. An item
    occurs once, or twice if both directions are scored.
    """
    task, runs = stored_task(section.task), section.inspected
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for item, share in pair_accuracy(task, scored_records(run, task, "exact")):
            found.setdefault(item, {}).setdefault(section.names[run.id], []).append(share)
    means = {item: {m: float(np.mean(v)) for m, v in by.items()} for item, by in found.items()}
    # Only pairs that all methods have are comparable.
    full = {i: by for i, by in means.items() if len(by) == len(runs)}
    missed = {i: by for i, by in full.items() if np.mean(list(by.values())) < EASY}
    if not missed:
        return None
    worst = sorted(missed, key=lambda item: (np.mean(list(full[item].values())), item))[:most]
    mean = f", averaged over {len(runs)} methods" if len(runs) > 1 else ""
    note = (
        f"The {len(worst)} of {count_text(len(full), 'pair')} with the lowest headline score{mean}, lowest "
        f"first; pairs above {100 * EASY:.0f} % are not shown."
        + only_best(len(runs), len(section.methods), data=False)
    )
    return WorstPairs(tuple(worst), full, note)


def pair_gallery(section: TaskSection) -> dict[str, Any] | None:
    """Return pictures of the pairs with the lowest scores: both images, true flow, and each estimate.

    Flow and error are drawn for the best methods. Return None for tasks without pairs, and if the dataset is
    missing.
    """
    worst = worst_pairs(section, MAX_FLOW_PAIRS)
    opened = next((task for run in section.inspected if (task := reopen_task(run)) is not None), None)
    if worst is None or opened is None:
        return None
    shown = []
    for item in worst.names:
        try:
            pictures = _pair_pictures(section, opened, item)
        except (TiepointError, OSError):
            return None  # The dataset has changed.
        shown.append({"pictures": pictures, "caption": worst.caption(item)})
    note = worst.note
    if case_kind(opened) == "dense":
        limit = f"{100 * ERROR_MAP_WHITE_FRACTION:.0f} %"
        note += (
            f" The error is black at 0 and white from {limit} of the target's larger side; grey is unknown."
        )
    return {"task": section.title, "note": note, "misses": shown, "pairs": True, "sheet": True}


def _pair_pictures(section: TaskSection, opened: TaskData, item: str) -> list[dict[str, str]]:
    flow = true_flow_case(opened, item)
    one, two = opened.read_item(item)[:2] if flow is None else (flow[2].source, flow[2].target)
    pictures = [("image 1", one), ("image 2", two)]
    if flow is not None and flow[2].truth is not None:
        pictures.append(("true flow of image 1", flow_color(flow[2].truth)))
    found = None if flow is None else detail(section.inspected[:MAX_FLOW_METHODS], flow[0], flow[1])
    for view in () if found is None else found.views:
        if view.dense is not None:
            name = section.names[view.run.id]
            pictures.append((f"flow of {name}", view.dense.flow))
            pictures += [] if view.dense.error is None else [(f"error of {name}", view.dense.error)]
    return [
        {"label": label, "what": "", "source": thumbnail_uri(in_row([image], height=PHOTO_HEIGHT))}
        for label, image in pictures
    ]


MAX_MATCH_PAIRS, MAX_MATCH_METHODS = 4, 3
PANEL_SIDE, MAX_MATCHES = 360, 100


def match_gallery(section: TaskSection) -> dict[str, Any] | None:
    """Draw the pairs with the lowest scores and the matches of the best methods, coloured by true error.

    Return None if the task has no matches. Also return None if method, dataset or features of every run are
    missing.
    """
    opened: list[RunPairs] = []
    for run in section.inspected:
        if len(opened) == MAX_MATCH_METHODS:
            break
        try:
            opened.append(RunPairs(run))
        except (TiepointError, OSError):
            continue
    worst = worst_pairs(section, MAX_MATCH_PAIRS) if opened else None
    if worst is None:
        return None
    shown = [
        {
            "pictures": [p for pairs in opened if (p := _match_picture(section, pairs, name)) is not None],
            "caption": worst.caption(name),
        }
        for name in worst.names
    ]
    if not all(figure["pictures"] for figure in shown):
        return None
    legend = [(g.text, "#{:02x}{:02x}{:02x}".format(*g.colour)) for g in GRADES]
    note = f"{worst.note} Lines are matches, coloured by their true error."
    if len(section.methods) > len(opened):
        note += f" Only the first {MAX_MATCH_METHODS} methods are drawn."
    return {"task": section.title, "note": note, "misses": shown, "pairs": True, "legend": legend}


def _match_picture(section: TaskSection, pairs: RunPairs, name: str) -> dict[str, str] | None:
    """Draw the matches of one method. None if its features or an image are missing."""
    run = pairs.run
    try:
        matched = pairs.matches(name)
    except (TiepointError, OSError):
        return None
    task = stored_task(section.task)
    near = sum(n for grade, n in count_grades(matched) if grade.high_px <= GRADES[1].high_px)
    counts = f"{near:,} of {count_text(len(matched), 'match', 'matches')} within {GRADES[1].high_px:g} px"
    caption = pair_caption(task, scored_records(run, task, "exact"), name)
    text = "; ".join(t for t in (counts if matched.errors_px is not None else "", caption) if t)
    panels = pair_panels(matched, most=MAX_MATCHES, side_px=PANEL_SIDE)
    return {"label": section.names[run.id], "what": text, "source": thumbnail_uri(panels)}
