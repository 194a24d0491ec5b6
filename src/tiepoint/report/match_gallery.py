# SPDX-License-Identifier: BSD-3-Clause
"""The pairs on which methods that match two images do worst, with the matches of each method."""

from __future__ import annotations

from typing import Any

from ..core.errors import TiepointError
from ..core.formatting import count_text
from ..tasks import stored_task
from .galleries import data_uri, worst_pairs
from .pictures.error_colours import GRADES, count_grades
from .pictures.matches import RunPairs, pair_caption, pair_panels
from .runs.lazy_records import scored_records
from .runs.sections import TaskSection

PAIRS_SHOWN, METHODS_SHOWN = 4, 3
SIDE_PX, MATCHES = 440, 150


def match_gallery(section: TaskSection) -> dict[str, Any] | None:
    """The worst pairs, each as the best methods match it, coloured by the true error.

    None where the task has no matches to draw, or none of them is at hand any more: runs of session objects,
    of datasets or features that are gone.
    """
    opened: list[RunPairs] = []
    for run in section.inspected:
        if len(opened) == METHODS_SHOWN:
            break
        try:
            opened.append(RunPairs(run))
        except (TiepointError, OSError):
            continue
    worst = worst_pairs(section, PAIRS_SHOWN) if opened else None
    if worst is None:
        return None
    shown = [
        {
            "pictures": [p for pairs in opened if (p := _picture(section, pairs, name)) is not None],
            "caption": worst.caption(name),
        }
        for name in worst.names
    ]
    if not all(figure["pictures"] for figure in shown):
        return None
    legend = [(g.words, "#{:02x}{:02x}{:02x}".format(*g.colour)) for g in GRADES]
    few = (
        f" Of more methods the first {METHODS_SHOWN} are drawn." if len(section.methods) > len(opened) else ""
    )
    note = f"{worst.note} Lines are matches, coloured by their true error.{few}"
    return {"task": section.title, "note": note, "misses": shown, "pairs": True, "legend": legend}


def _picture(section: TaskSection, pairs: RunPairs, name: str) -> dict[str, str] | None:
    """The matches of one method; None where its features or an image are gone."""
    run = pairs.run
    try:
        matched = pairs.matches(name)
    except (TiepointError, OSError):
        return None
    task = stored_task(section.task)
    found = count_grades(matched)
    near = sum(n for grade, n in found if grade.high_px <= GRADES[1].high_px)
    known = f"{near:,} of {count_text(len(matched), 'match', 'matches')} within {GRADES[1].high_px:g} px"
    about = pair_caption(task, scored_records(run, task, "exact"), name)
    words = "; ".join(w for w in (known if matched.errors_px is not None else "", about) if w)
    panels = pair_panels(matched, most=MATCHES, side_px=SIDE_PX)
    source = data_uri(panels, photo_side=max(panels.shape))
    return {"label": section.names[run.id], "what": words, "source": source}
