# SPDX-License-Identifier: BSD-3-Clause
"""The failure gallery of dense tasks: image pairs on which methods do worst, with the true flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...geometry.flow_color import flow_color
from ...model.errors import TiepointError
from ...run.engine import load_task
from ..runs.collect import Section
from ..runs.rescore import opened_again, records_of
from .gallery import data_uri

SHOWN = 6
SIDE = 280
EASY = 0.9
"""Pairs with at least this mean score are missed by nobody in particular."""


def pair_gallery(section: Section) -> dict[str, Any] | None:
    """The pairs that the methods get right least, the mean over methods; None for tasks without pairs.

    A task names its pairs through ``rights(records)``: tuples (item, share right) under the headline rule,
    an item once or in both directions. Pictures are the two images and the true flow, if there is one.
    """
    task = load_task(section.task)
    rights = getattr(task, "rights", None)
    runs = section.methods
    if rights is None or not runs:
        return None
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for item, share in rights(records_of(run, task, "exact")):
            found.setdefault(item, {}).setdefault(run.method, []).append(share)
    means = {item: {m: float(np.mean(v)) for m, v in by.items()} for item, by in found.items()}
    # A pair that one method lacks would stand above or below others for that alone.
    every = {r.method for r in runs}
    full = {i: by for i, by in means.items() if len(by) == len(every)}
    missed = {i: by for i, by in full.items() if np.mean(list(by.values())) < EASY}
    opened = opened_again(runs[0])
    if not missed or opened is None:
        return None
    worst = sorted(missed, key=lambda item: (np.mean(list(full[item].values())), item))[:SHOWN]
    shown = []
    for item in worst:
        try:
            pictures = _pictures(opened, item)
        except (TiepointError, OSError):
            return None  # the dataset changed since: the report then has no gallery
        order = sorted(full[item].items(), key=lambda p: (-p[1], p[0]))
        caption = f"{item}: " + ", ".join(f"{name} {100 * value:.1f} %" for name, value in order[:8])
        shown.append({"pictures": pictures, "caption": caption + (", …" if len(order) > 8 else "")})
    note = (
        f"The {len(worst)} of {len(full)} pairs with the lowest headline score, the mean over {len(runs)} "
        f"methods, lowest first; pairs above {100 * EASY:.0f} % are left out."
    )
    return {"task": section.task, "note": note, "misses": shown, "pairs": True}


def _pictures(opened: Any, item: str) -> list[dict[str, str]]:
    one, two = opened.read(item)
    pictures = [("image 1", one), ("image 2", two)]
    flow = opened.true_flow(item)
    if flow is not None:
        pictures.append(("true flow of image 1", flow_color(flow)))
    return [
        {"label": label, "what": "", "source": data_uri(image, photo_side=SIDE)} for label, image in pictures
    ]
