# SPDX-License-Identifier: BSD-3-Clause
"""The gallery of image pairs on which dense methods do worst."""

from __future__ import annotations

import base64
import io
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
from ..tasks.capabilities import HasTrueFlow, HasWrongAnswers
from .figures.figure import only_best
from .pictures.matches import pair_accuracy
from .runs.lazy_records import reopen_task, scored_records
from .runs.sections import TaskSection

SIDE = 65


class EmbeddedImages:
    """Pictures from the datasets of runs; each dataset is opened once, each image read once."""

    def __init__(self) -> None:
        self._opened: dict[str, TaskData | None] = {}
        self._images: dict[tuple[str, str], NDArray[np.uint8]] = {}

    def open_task(self, run: Run) -> TaskData | None:
        """The task of a run bound to its own dataset, None where that is gone or has changed."""
        key = self._key(run)
        if key not in self._opened:
            self._opened[key] = reopen_task(run)
        return self._opened[key]

    def cutout(self, run: Run, reference: str) -> str:
        """The patch, or the part of an image, that a reference names, as a data URI."""
        item, _, place = reference.replace("@", "#").partition("#")
        key = (self._key(run), item)
        if key not in self._images:
            opened = self.open_task(run)
            assert opened is not None, "runs without their dataset are left out before"
            self._images[key] = np.asarray(opened.read_item(item))
        image = self._images[key]
        if "," in place:
            x, y = (round(float(v)) for v in place.split(","))
            return data_uri(crop(image, x, y))
        return data_uri(image[int(place)])

    def _key(self, run: Run) -> str:
        dataset = run.manifest.dataset
        return hash_json([run.task, dataset.path, dataset.hash, run.manifest.options])


def crop(image: NDArray[np.uint8], x: int, y: int, side: int = SIDE) -> NDArray[np.uint8]:
    """A square around a point, grey where it leaves the image."""
    half = side // 2
    padding = ((half, half), (half, half), *(((0, 0),) * (image.ndim - 2)))
    padded = np.pad(image, padding, constant_values=128)
    x, y = min(max(x, 0), image.shape[1] - 1), min(max(y, 0), image.shape[0] - 1)
    return padded[y : y + side, x : x + side]


def data_uri(image: NDArray[np.uint8], *, photo_side: int | None = None) -> str:
    """An image in a data URI: a PNG, or with `photo_side` a JPEG of at most that many pixels a side."""
    from PIL import Image

    buffer, picture = io.BytesIO(), Image.fromarray(np.ascontiguousarray(image))
    if photo_side is None:
        picture.save(buffer, format="PNG", optimize=False)
    else:
        picture = picture.convert("RGB")
        picture.thumbnail((photo_side, photo_side))
        picture.save(buffer, format="JPEG", quality=80)
    kind = "png" if photo_side is None else "jpeg"
    return f"data:image/{kind};base64," + base64.b64encode(buffer.getvalue()).decode()


MAX_GALLERY_QUERIES = 12


def gallery(section: TaskSection) -> dict[str, Any] | None:
    """Pictures of the queries missed by most methods; None for tasks that do not name their misses.

    A task names them through ``wrong_answers(records)``: tuples (query, right, wrong) of picture references,
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
        # A method counts once, however many of its keypoints lie in the same place.
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


@dataclass(frozen=True)
class WorstPair:
    """The pairs that the methods of a section get right least, worst first.

    `shares` have the share right of every method by its name, for all pairs that every method has.
    """

    names: tuple[str, ...]
    shares: Mapping[str, Mapping[str, float]]
    note: str

    def caption(self, name: str) -> str:
        """A pair with what each method got, best first."""
        order = sorted(self.shares[name].items(), key=lambda p: (-p[1], p[0]))
        words = f"{name}: " + ", ".join(f"{method} {100 * value:.1f} %" for method, value in order[:8])
        return words + (", …" if len(order) > 8 else "")


def worst_pairs(section: TaskSection, most: int) -> WorstPair | None:
    """At most `most` of them, by the mean over methods; None for tasks without pairs.

    A task names its pairs through ``pair_accuracy(records)``: tuples (item, share right) under the headline rule,
    an item once or in both directions.
    """
    task, runs = stored_task(section.task), section.inspected
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for item, share in pair_accuracy(task, scored_records(run, task, "exact")):
            found.setdefault(item, {}).setdefault(section.names[run.id], []).append(share)
    means = {item: {m: float(np.mean(v)) for m, v in by.items()} for item, by in found.items()}
    # A pair that one method lacks would stand above or below others for that alone.
    full = {i: by for i, by in means.items() if len(by) == len(runs)}
    missed = {i: by for i, by in full.items() if np.mean(list(by.values())) < EASY}
    if not missed:
        return None
    worst = sorted(missed, key=lambda item: (np.mean(list(full[item].values())), item))[:most]
    mean = f", averaged over {len(runs)} methods" if len(runs) > 1 else ""
    note = (
        f"The {len(worst)} of {count_text(len(full), 'pair')} with the lowest headline score{mean}, lowest "
        f"first; pairs above {100 * EASY:.0f} % are left out."
        + only_best(len(runs), len(section.methods), data=False)
    )
    return WorstPair(tuple(worst), full, note)


def pair_gallery(section: TaskSection) -> dict[str, Any] | None:
    """The pairs that the methods get right least: both images and the true flow, if there is one.

    None for tasks without pairs, and where no dataset is there any more.
    """
    worst = worst_pairs(section, PAIRS_SHOWN)
    opened = next((there for run in section.inspected if (there := reopen_task(run)) is not None), None)
    if worst is None or opened is None:
        return None
    shown = []
    for item in worst.names:
        try:
            pictures = _pair_pictures(opened, item)
        except (TiepointError, OSError):
            return None  # the dataset changed since: the report then has no gallery
        shown.append({"pictures": pictures, "caption": worst.caption(item)})
    return {"task": section.title, "note": worst.note, "misses": shown, "pairs": True}


def _pair_pictures(opened: TaskData, item: str) -> list[dict[str, str]]:
    one, two = opened.read_item(item)[:2]
    pictures = [("image 1", one), ("image 2", two)]
    flow = opened.true_flow(item) if isinstance(opened, HasTrueFlow) else None
    if flow is not None:
        pictures.append(("true flow of image 1", flow_color(flow)))
    return [
        {"label": label, "what": "", "source": data_uri(image, photo_side=PHOTO_SIDE)}
        for label, image in pictures
    ]
