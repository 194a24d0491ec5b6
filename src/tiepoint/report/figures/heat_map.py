# SPDX-License-Identifier: BSD-3-Clause
"""Draw a heat map of the headline score by method and scene."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.formatting import count_text
from ...core.scores import SceneValues
from ...formats.csv_table import to_csv
from ...run.result import Run
from ..runs.sections import TaskSection
from .figure import Figure, axis_label, escape_mathtext, only_best, short
from .svg import Drawing, text_width

WIDTH = 13.0
LABEL_PT = 5.8
"""Width of a rotated scene name. If columns are narrower, some names are skipped."""


def headline_by_scene(section: TaskSection, run: Run) -> dict[str, float]:
    """Return the headline metric by scene, from stored scores if available, else from scene values."""
    found = {scene: math.nan if s.value is None else s.value for scene, s in section.scene_rows(run).items()}
    if found:
        return found
    table = section.tables(run).get((section.metric, section.group))
    if not isinstance(table, SceneValues):
        return {}
    known = np.isfinite(table.cells)
    sums, count = np.where(known, table.cells, 0.0).sum(axis=0), known.sum(axis=0)
    return {table.scenes[i]: float(sums[i] / count[i]) for i in np.flatnonzero(count)}


def heat_map(section: TaskSection) -> Figure | None:
    """Draw methods as rows and scenes as columns. Sort scenes by kind and difficulty. None without scenes."""
    if section.no_ranking:
        return None
    methods = section.methods
    table = [(section.names[r.id], headline_by_scene(section, r)) for r in section.inspected]
    table = [(name, row) for name, row in table if row]
    scenes = sorted({scene for _, row in table for scene in row})
    if not scenes:
        return None
    factor = section.info.scale[0]
    values = np.array([[row.get(s, math.nan) for s in scenes] for _, row in table])
    lower = section.info.lower
    with np.errstate(invalid="ignore"):
        level = np.nansum(values, axis=0) / np.maximum(np.isfinite(values).sum(axis=0), 1)
    order = sorted(range(len(scenes)), key=lambda i: (_kind(scenes[i]), level[i] * (1 if lower else -1), i))
    scenes, values = [scenes[i] for i in order], values[:, order]
    names = [name for name, _ in table]
    labels = [short(n, 26) for n in names]
    marks = [short(s, 20) for s in scenes]
    left = 0.2 + max(text_width(n) for n in labels)
    below = 0.25 + max(text_width(m, 7) for m in marks)
    width = min(WIDTH, max(5.2, left + 1.1 + 0.32 * len(scenes)))
    height = 0.25 + below + 0.24 * max(2, len(names))

    def draw(axes: Any) -> None:
        picture = axes.pcolormesh(
            factor * values, cmap="cividis_r" if lower else "cividis", rasterized=True, shading="flat"
        )
        axes.set_yticks(np.arange(len(names)) + 0.5, [escape_mathtext(n) for n in labels])
        axes.invert_yaxis()
        plot_pt = axes.get_window_extent().width
        step = max(1, math.ceil(len(scenes) * LABEL_PT / plot_pt))
        ticks = np.arange(0, len(scenes), step)
        axes.set_xticks(ticks + 0.5, [escape_mathtext(marks[i]) for i in ticks], rotation=90, fontsize=7)
        axes.tick_params(length=2)
        side = axes.inset_axes((1.01, 0.0, 0.12 * 72 / plot_pt, 1.0))
        label = axis_label(section.score_words, section.info)
        axes.figure.colorbar(picture, cax=side, label=label if len(names) > 5 else section.info.scale[1])

    picture = Drawing(
        draw,
        label=f"{section.score_words} by method and scene",
        width=width,
        height=height,
        left=left,
        right=1.0,
        bottom=below,
        top=0.1,
        rows=max(2, len(names)),
    )
    box = (left / width, 0.1 / height, 1 - 1.0 / width, 1 - below / height)
    rows = [[n, *row] for n, row in zip(names, values.tolist(), strict=True)]
    return Figure(
        f"scenes {section.title}",
        f"{section.score_words[0].upper()}{section.score_words[1:]} by scene.",
        f"{count_text(len(scenes), 'scene')}, grouped by kind, easy ones first; brighter is better"
        f" ({'lower' if lower else 'higher'} values)."
        + only_best(len(section.inspected), len(methods), data=False),
        picture,
        to_csv(["method", *scenes], rows),
        wide=len(scenes) > 12,
        extra={"heat": " ".join(f"{v:.4f}" for v in box), "factor": f"{factor:g}"},
        kind="scenes",
        group=section.group,
    )


def _kind(scene: str) -> str:
    return scene[:2] if scene[1:2] == "_" else ""
