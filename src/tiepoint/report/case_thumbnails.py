# SPDX-License-Identifier: BSD-3-Clause
"""Small pictures of a case for lists: its images, and the result of each method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core.errors import TiepointError
from ..run.result import Run
from .case_detail import (
    ERROR_MAP_WHITE_FRACTION,
    CaseDetail,
    Image,
    MethodView,
    case_kind,
    opened_run,
    picture,
)
from .pictures.error_colours import GRADES
from .pictures.matches import pair_panels
from .pictures.thumbnails import in_row

PHOTO_HEIGHT, PATCH_HEIGHT = 160, 65
PANEL_SIDE, MAX_MATCHES = 240, 60


_DENSE = (
    "Pictures: image 1, image 2 and the true flow, then flow and error of each method. The error is black at "
    f"0 and white from {100 * ERROR_MAP_WHITE_FRACTION:.0f} % of the target's larger side; grey is unknown."
)
_QUERY = "Pictures: the query and its right answer, then the nearest answer of each method."
_COLOURS = ("green", "blue", "yellow", "red")
_PAIR = (
    "Pictures: both images, then the matches of each method, coloured by their true error: "
    f"{', '.join(f'{c} {g.text}' for c, g in zip(_COLOURS, GRADES, strict=True))}."
)


def pictures_note(runs: Sequence[Run], data: Path | None = None) -> tuple[str, str]:
    """Return (description of the pictures of cases, empty text), or (empty text, why they are missing)."""
    first = ""
    for run in runs:
        try:
            opened = opened_run(run, data).context.opened
        except (TiepointError, OSError) as error:
            first = first or str(error)
            continue
        return {"dense": _DENSE, "query": _QUERY}.get(case_kind(opened), _PAIR), ""
    return "", first


def case_picture(case: CaseDetail) -> Image | None:
    """Draw a case: query and right answer, both images of a pair, or both images and the true flow.

    None if the pictures are missing.
    """
    dense = next((v.dense for v in case.views if v.dense is not None), None)
    if dense is not None:
        known = [p for p in (dense.source, dense.target, dense.true_flow) if p is not None]
        return in_row(known, height=PHOTO_HEIGHT)
    if case.images is not None:
        return in_row(case.images, height=PHOTO_HEIGHT)
    return _patches(case, [case.query, *case.right[:1]])


def result_picture(case: CaseDetail, view: MethodView) -> Image | None:
    """Draw the result of a method: its first answer, its matches, or its flow and the error of the flow.

    None if it is missing.
    """
    if view.dense is not None:
        known = [p for p in (view.dense.flow, view.dense.error) if p is not None]
        return in_row(known, height=PHOTO_HEIGHT)
    if view.matched is not None:
        return pair_panels(view.matched, most=MAX_MATCHES, side_px=PANEL_SIDE)
    chosen = () if view.answered is None else view.answered.chosen
    return _patches(case, [a.picture for a in chosen[:1]])


def _patches(case: CaseDetail, references: list[str]) -> Image | None:
    found = [p for r in references if r and (p := picture(case, r)) is not None]
    return in_row([np.asarray(p) for p in found], height=PATCH_HEIGHT) if found else None
