# SPDX-License-Identifier: BSD-3-Clause
"""The gallery of image pairs on which dense methods do worst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.amounts import count_text
from ..core.errors import TiepointError
from ..geometry.flow.color import flow_color
from ..tasks import stored_task
from ..tasks.base import OpenTask
from .album import data_uri
from .figures.figure import only_best
from .gallery import EASY, PAIRS_SHOWN, PHOTO_SIDE
from .runs.lazy_records import reopen_task, scored_records
from .runs.sections import TaskSection


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

    A task names its pairs through ``rights(records)``: tuples (item, share right) under the headline rule,
    an item once or in both directions.
    """
    task, runs = stored_task(section.task), section.inspected
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for item, share in task.pair_accuracy(scored_records(run, task, "exact")):
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


def _pair_pictures(opened: OpenTask, item: str) -> list[dict[str, str]]:
    one, two = opened.read(item)[:2]
    pictures = [("image 1", one), ("image 2", two)]
    flow = opened.true_flow(item)
    if flow is not None:
        pictures.append(("true flow of image 1", flow_color(flow)))
    return [
        {"label": label, "what": "", "source": data_uri(image, photo_side=PHOTO_SIDE)}
        for label, image in pictures
    ]
