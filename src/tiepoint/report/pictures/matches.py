# SPDX-License-Identifier: BSD-3-Clause
"""Draw the matches of an image pair, coloured by error, and the true epipolar lines of selected points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import count_text
from ...core.records import Features, Records
from ...datasets.image_pairs.pair import file_name
from ...formats.image.reader import to_grey
from ...geometry.homography import project
from ...run.recompare import ReopenedRun, reopen
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.base import Task, TaskData
from ...tasks.capabilities import DrawsMatches, HasPairAccuracy, HasPairCaption
from ...tasks.cases import MatchedPair
from ...tasks.info import headline_column, metric_info, metric_label
from ..cells import value_text
from ..runs.lazy_records import scored_records
from .error_colours import (
    GRADES,
    INK,
    LINE,
    PAPER,
    TEXT,
    UNKNOWN,
    count_grades,
    font,
    grades,
    spread,
    wrap_text,
)

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
GAP = 8
FINE = 2
"""Supersampling factor for anti-aliased lines."""
DOT = 3.0
FADED = 150
"""Opacity of the lines between matched points, 0 to 255."""
CHOSEN = ((255, 255, 255), (255, 128, 200), (120, 220, 255), (255, 200, 90), (190, 255, 150), (200, 170, 255))
ABSENT = (200, 200, 200)


class Panels:
    """Layout of two images side by side. The longer side of each image has `side_px` pixels.

    >>> Panels(((100, 50), (50, 50)), 200).place(1, np.array([[0.0, 0.0]])).tolist()
    [[209.5, 1.5]]
    """

    def __init__(self, sizes: tuple[tuple[int, int], tuple[int, int]], side_px: int) -> None:
        self.scales = [side_px / max(size) for size in sizes]
        self.sizes = [
            (max(1, round(w * s)), max(1, round(h * s))) for (w, h), s in zip(sizes, self.scales, strict=True)
        ]
        self.left = (0, self.sizes[0][0] + GAP)
        self.width = self.left[1] + self.sizes[1][0]
        self.height = max(h for _, h in self.sizes)

    def place(self, side: int, points: Floats) -> Floats:
        """Convert image coordinates (n, 2) to picture coordinates."""
        return (np.asarray(points) + 0.5) * self.scales[side] - 0.5 + [self.left[side], 0]


def pair_picture(
    matched: MatchedPair,
    *,
    caption: Sequence[str] = (),
    most: int = 200,
    chosen: Sequence[int] = (),
    side_px: int = 720,
) -> Image:
    """Draw both images with matches, a caption and a legend that counts the matches of each colour.

    Args:
        matched: Images, matches and errors.
        caption: Lines above the images.
        most: Maximum number of drawn matches, sampled evenly from the smallest to the largest error.
        chosen: Indices of matches whose true epipolar lines are drawn (for a homography, the true positions).
            The other matches are then dots without lines.
        side_px: Longer side of each image in the picture.
    """
    from PIL import Image as Pillow
    from PIL import ImageDraw

    panels = pair_panels(matched, most=most, chosen=chosen, side_px=side_px)
    width = panels.shape[1]
    head = [w for line in caption for w in wrap_text(line, width)]
    foot = [w for line in _notes(matched, most, len(chosen)) for w in wrap_text(line, width)]
    rows = _legend_rows(matched, width)
    height = LINE * (len(head) + len(rows) + len(foot)) + panels.shape[0] + 3 * GAP
    canvas = Pillow.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(canvas)
    y = GAP // 2
    for line in head:
        draw.text((2, y), line, fill=INK, font=font())
        y += LINE
    canvas.paste(Pillow.fromarray(panels), (0, y + GAP // 2))
    y += panels.shape[0] + GAP
    for row in rows:
        for x, text, colour in row:
            draw.rectangle((x, y + 4, x + 12, y + 16), fill=colour, outline=INK)
            draw.text((x + 18, y), text, fill=INK, font=font())
        y += LINE
    for line in foot:
        draw.text((2, y), line, fill=INK, font=font())
        y += LINE
    return np.asarray(canvas)


def pair_panels(
    matched: MatchedPair, *, most: int = 200, chosen: Sequence[int] = (), side_px: int = 720
) -> Image:
    """Draw the images with their matches, without caption and legend. Chosen points are numbered."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    panels = Panels(matched.sizes, side_px)
    canvas = Pillow.new("RGB", (panels.width, panels.height), PAPER)
    for side, image in enumerate(matched.images):
        canvas.paste(_panel(image, panels.sizes[side]), (panels.left[side], 0))
    over = Pillow.new("RGBA", (panels.width * FINE, panels.height * FINE), (0, 0, 0, 0))
    draw = ImageDraw.Draw(over)
    ends = [_fine(panels.place(k, p)) for k, p in enumerate((matched.points0, matched.points1))]
    grade, rows = grades(matched), spread(matched, most)
    # The rarest colour is drawn last, so that it stays visible.
    frequent = sorted(range(-1, len(GRADES)), key=lambda g: (-int((grade == g).sum()), g))
    ordered = [r for g in frequent for r in rows[grade[rows] == g].tolist()]
    if not len(chosen):
        for r in ordered:
            faded = (*_colour(grade[r]), FADED)
            draw.line((*ends[0][r], *ends[1][r]), fill=faded, width=FINE + 1)
    for r in ordered:
        for points in ends:
            _dot(draw, points[r], _colour(grade[r]))
    inks = [CHOSEN[k % len(CHOSEN)] for k in range(len(chosen))]
    for r, ink in zip(chosen, inks, strict=True):
        for side in (0, 1):
            _truth(draw, matched, panels, int(r), side, ink)
    for r, ink in zip(chosen, inks, strict=True):
        for points in ends:
            _dot(draw, points[r], _colour(grade[r]))
            _ring(draw, points[r], ink)
            _number(draw, points[r], str(r), ink)
    small = over.resize((panels.width, panels.height), Pillow.Resampling.BOX)
    canvas.paste(small, (0, 0), small)
    return np.asarray(canvas)


def _panel(image: Image | None, size: tuple[int, int]) -> Any:
    """Return an image in grey, resized for the picture."""
    from PIL import Image as Pillow

    if image is None:
        return Pillow.new("RGB", size, ABSENT)
    shown = Pillow.fromarray(np.ascontiguousarray(to_grey(image)))
    if shown.size != size:
        smaller = size[0] < shown.size[0]
        shown = shown.resize(size, Pillow.Resampling.BOX if smaller else Pillow.Resampling.BILINEAR)
    return shown.convert("RGB")


def _fine(points: Floats) -> Floats:
    return (points + 0.5) * FINE - 0.5


def _colour(grade: int) -> tuple[int, int, int]:
    return UNKNOWN.colour if grade < 0 else GRADES[grade].colour


def _dot(draw: Any, at: Floats, colour: tuple[int, int, int]) -> None:
    r, (x, y) = DOT * FINE, at
    draw.ellipse((x - r - FINE, y - r - FINE, x + r + FINE, y + r + FINE), fill=(*INK, 255))
    draw.ellipse((x - r, y - r, x + r, y + r), fill=(*colour, 255))


def _ring(draw: Any, at: Floats, colour: tuple[int, int, int]) -> None:
    r, (x, y) = 4 * DOT * FINE / 2, at
    draw.ellipse((x - r, y - r, x + r, y + r), outline=(*colour, 255), width=FINE)


def _number(draw: Any, at: Floats, text: str, colour: tuple[int, int, int]) -> None:
    """Write a number above and to the right of a point, inside the picture."""
    r, letters = 3 * DOT * FINE, font(TEXT * FINE)
    width, height = draw.im.size
    x = min(at[0] + r, width - letters.getlength(text) - 2 * FINE)
    y = min(max(at[1] - r - TEXT * FINE, FINE), height - 1.5 * TEXT * FINE)
    draw.text((x, y), text, fill=(*colour, 255), font=letters, stroke_width=FINE, stroke_fill=(*INK, 255))


def _truth(draw: Any, matched: MatchedPair, panels: Panels, row: int, side: int, colour: Any) -> None:
    """Draw the true epipolar line of a match in one image, or a line to its true position (homography)."""
    point0, point1 = matched.points0[row], matched.points1[row]
    if matched.F is not None:
        line = matched.F @ [*point0, 1.0] if side == 1 else matched.F.T @ [*point1, 1.0]
        ends = clip_line(np.asarray(line, np.float64), matched.sizes[side])
        if ends is not None:
            _stroke(draw, _fine(panels.place(side, ends)), colour)
    elif matched.H is not None and side == 1:
        width, height = matched.sizes[0]
        true = project(matched.H, point0[None], reference=((width - 1) / 2, (height - 1) / 2))
        if np.isfinite(true).all() and np.abs(true - point1).max() < 1e6:
            _stroke(draw, _fine(panels.place(1, np.vstack([point1[None], true]))), colour)


def _stroke(draw: Any, ends: Floats, colour: tuple[int, int, int]) -> None:
    flat = tuple(float(v) for v in ends.ravel())
    draw.line(flat, fill=(*INK, 200), width=FINE * 4)
    draw.line(flat, fill=(*colour, 255), width=FINE * 2)


def clip_line(line: Floats, size: tuple[int, int]) -> Floats | None:
    """Clip a line a x + b y + c = 0 to an image of (width, height). Return its ends (2, 2), None if outside.

    >>> clip_line(np.array([0.0, 1.0, -3.0]), (10, 8)).tolist()
    [[-0.5, 3.0], [9.5, 3.0]]
    >>> clip_line(np.array([0.0, 1.0, -30.0]), (10, 8)) is None
    True
    """
    a, b, c = line
    if not np.isfinite(line).all() or (a == 0 and b == 0):
        return None
    low, high = np.array([-0.5, -0.5]), np.array(size) - 0.5
    base = np.array([a, b]) * (-c / (a * a + b * b))
    along = np.array([b, -a]) / np.hypot(a, b)
    along = along if along[0] >= 0 else -along
    first, last = -np.inf, np.inf
    for k in (0, 1):
        if along[k] == 0:
            if not low[k] <= base[k] <= high[k]:
                return None
            continue
        bounds = sorted(((low[k] - base[k]) / along[k], (high[k] - base[k]) / along[k]))
        first, last = max(first, bounds[0]), min(last, bounds[1])
    return np.asarray(np.stack([base + first * along, base + last * along])) if first < last else None


def _notes(matched: MatchedPair, most: int, chosen: int) -> list[str]:
    n = len(matched)
    drawn = count_text(n, "match", "matches")
    if n > most:
        drawn = f"{most:,} of {n:,} matches drawn, evenly from best to worst"
    error = f"error: {matched.measure}" if matched.measure else "no ground truth, so errors are unknown"
    lines = [f"{drawn}; {error}"]
    if chosen and matched.F is not None:
        lines.append("rings: chosen matches, numbered from 0; lines: their true epipolar lines")
    elif chosen and matched.H is not None:
        lines.append("rings: chosen matches, numbered from 0; strokes in image 1 end at the true positions")
    absent = [f"image {k}" for k, image in enumerate(matched.images) if image is None]
    return [*lines, *([f"{' and '.join(absent)}: the file is not there, only its size"] if absent else [])]


def _legend_rows(matched: MatchedPair, width: int) -> list[list[tuple[int, str, Any]]]:
    """Return position, text and colour of each legend entry, wrapped to rows."""
    rows: list[list[tuple[int, str, Any]]] = [[]]
    x = 2
    for grade, n in count_grades(matched):
        text = f"{grade.text}: {n:,} ({100 * n / max(1, len(matched)):.1f} %)"
        needed = 18 + round(font().getlength(text)) + 24
        if rows[-1] and x + needed > width:
            rows.append([])
            x = 2
        rows[-1].append((x, text, grade.colour))
        x += needed
    return rows


def pair_accuracy(task: Task, records: Sequence[Records]) -> Iterable[tuple[str, float]]:
    """Return the accuracy of each image pair. Empty if the task has no accuracy by pair."""
    return task.pair_accuracy(records) if isinstance(task, HasPairAccuracy) else ()


def pair_caption(task: Task, records: Sequence[Records], pair: str) -> str:
    """Return the task's caption lines for a pair. Empty if the task has none."""
    return task.pair_caption(records, pair) if isinstance(task, HasPairCaption) else ""


def match_case(opened: TaskData | None, scene: str, key: str) -> Callable[[Features], MatchedPair] | None:
    """Return a function that draws the matches of a case. None if the case is not an image pair."""
    if not isinstance(opened, DrawsMatches) or (pair := opened.case_pair(scene, key)) is None:
        return None
    return partial(opened.draw_matches, pair)


class RunPairs:
    """The image pairs of a run, opened read-only with its dataset and method.

    Raises:
        InputError: The run has no image pairs, or its dataset or method is missing.
    """

    def __init__(self, run: Run) -> None:
        if run.root is None:
            raise InputError(f"run {run.id} is not in a store, so its features cannot be read")
        self.run = run
        self._again: ReopenedRun = reopen(run.stored, run.root)
        opened = self._again.context.opened
        self.names: Sequence[str] = opened.drawable_pairs() if isinstance(opened, DrawsMatches) else ()
        if not self.names:
            raise InputError(
                f"run {run.id} of {run.task} has no matches to draw; choose a run of a task on "
                "image pairs or of keypoints/geometry"
            )

    def pair_name(self, name: str) -> str:
        """Return the full name of a pair. Slashes may be written as `-`. Raise an error if it is unknown."""
        if name in self.names:
            return name
        by_file = {file_name(n): n for n in self.names}
        if file_name(name) not in by_file:
            raise UnknownNameError(f"pair of run {self.run.id}", name, self.names)
        return by_file[file_name(name)]

    def matches(self, name: str) -> MatchedPair:
        """Return images, matches and errors of a pair."""
        opened = self._again.context.opened
        assert isinstance(opened, DrawsMatches), "checked when the run was opened"
        return opened.draw_matches(self.pair_name(name), self._again.features)

    def caption(self, name: str) -> list[str]:
        """Return the caption of a pair: names of pair and method, and their scores."""
        run, pair = self.run, self.pair_name(name)
        task = stored_task(run.task)
        records = scored_records(run, task, "exact")
        shares = [value for item, value in pair_accuracy(task, records) if item == pair]
        parts = [pair_caption(task, records, pair)] if records else []
        if shares:
            parts.append(f"score of this pair {100 * sum(shares) / len(shares):.1f} %")
        return [
            pair,
            f"{run.method} on {run.task}, run {run.id}",
            "; ".join(p for p in [*parts, self._headline()] if p),
        ]

    def _headline(self) -> str:
        """Return the headline score of the run, under `exact` if available."""
        run, task = self.run, stored_task(self.run.task)
        protocols = list(dict.fromkeys(s.protocol for s in run.score_rows))
        if not protocols:
            return ""
        protocol = "exact" if "exact" in protocols else protocols[0]
        rows = [s for s in run.score_rows if s.protocol == protocol]
        column = headline_column(task.info, [(s.metric, s.group) for s in rows])
        if column is None:
            return ""
        value = next(s.value for s in rows if (s.metric, s.group) == column)
        info = metric_info(task.info, column[0])
        shown = f"{value_text(info, value)} {info.scale[1]}".strip()
        return f"{metric_label(task.info, *column)} of the run under {protocol} {shown}"
