# SPDX-License-Identifier: BSD-3-Clause
"""Scores of a run, and the per-scene values from which intervals and tests are computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray


def group_name(**parts: str | int | float) -> str:
    """Return the name of a score group: ``key=value`` parts sorted by key; `all` if there are none.

    >>> group_name(noise="hard", negatives="inter"), group_name()
    ('negatives=inter,noise=hard', 'all')
    """
    return ",".join(f"{k}={parts[k]}" for k in sorted(parts)) or "all"


def scene_kind(scene: str, marks: tuple[str, str] = ("i_", "v_")) -> str:
    """Return the kind of a scene, derived from its name: `i` (illumination), `v` (viewpoint) or `other`.

    >>> scene_kind("v_wall"), scene_kind("s_boring"), scene_kind("indoor", ("i", "v"))
    ('v', 'other', 'i')
    """
    return scene[0] if scene.startswith(marks) else "other"


@dataclass(frozen=True)
class SceneValues:
    """Per-scene values of a score, with their weights.

    `kinds` are the strata (`i`, `v`, `other`). A score may average several combinations of settings, called
    cells. `cells` (cells, scenes) has one row of values per combination; NaN if a scene has no value for it.
    `weights` has the same shape. The score is the mean over cells of the weighted mean over scenes.
    """

    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    cells: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class PooledBins:
    """Counts by scene and distance bin, for intervals of pooled scores, which are not scene means.

    `positives[s, b]` is the number of positive pairs of scene s in bin b. `negatives` has rows (scene1,
    scene2, bin, count); the two scenes differ for inter-scene pairs. Bins are ordered by distance.
    `statistic` is the score computed from the counts: `ap`, `auc` or `fpr95`. If the score is the mean over
    several ranked lists of the same scenes, `also` contains the counts of the other lists.
    """

    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    positives: NDArray[np.float64]
    negatives: NDArray[np.int64]
    statistic: str
    also: tuple[PooledBins, ...] = ()


CAUTION = "caution: "
"""Prefix of the notes that are cautions. A score with a caution is marked wherever it is printed."""


BELOW_FLOOR = "auc below the residual of the true homographies"
"""Text of the caution about a threshold below the precision of the truth. Tables bracket such scores."""


NOT_DETERMINISTIC = "is not deterministic"
"""Text of the caution about a method that is not deterministic. All scores of its runs have it."""


def caution_notes(note: str | None) -> list[str]:
    """Return the parts of a score's note that are marked as cautions.

    >>> caution_notes("caution: few pairs; wide interval; caution: two"), caution_notes("few pairs")
    (['few pairs', 'two'], [])
    """
    parts = (note or "").split("; ")
    return [part.removeprefix(CAUTION) for part in parts if part.startswith(CAUTION)]


@dataclass(frozen=True)
class Score:
    """One score: metric, group, value, number of items, and the data for its interval."""

    metric: str
    group: str
    value: float
    n: int
    protocol: str = "exact"
    low: float | None = None
    high: float | None = None
    scenes: SceneValues | None = None
    pooled: PooledBins | None = None
    chance: float | None = None
    note: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One stored score. Its fields are the columns of the SQL table `scores`."""

    protocol: str
    metric: str
    group: str
    value: float | None
    n: int
    low: float | None = None
    high: float | None = None
    interval: str | None = None
    chance: float | None = None
    note: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the columns by name. Numbers that are not finite become None, for JSON and SQL."""
        found = {name: getattr(self, name) for name in SCORE_COLUMNS}
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in found.items()}


SCORE_COLUMNS = tuple(f.name for f in fields(ScoreRow))


@dataclass(frozen=True)
class SceneCurves:
    """One curve per scene on a common grid, e.g. precision-recall curves.

    A task yields them from ``scene_curves(records)``. `curve` is the kind of curve (``pr``, ``success_at_k``
    …), and `group` is the score group. The curves are `y` (scenes, k) at `x` (k,). The mean curve weights the
    rows by `weights` (scenes,). `kinds` are the strata within which scenes are resampled for its confidence
    band.
    """

    group: str
    curve: str
    x: NDArray[np.float64]
    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    y: NDArray[np.float64]
    weights: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Weighted mean curve over scenes, (k,).

        >>> y = np.array([[0.0, 1.0], [1.0, 1.0]])
        >>> SceneCurves("all", "pr", np.arange(2.0), ("a", "b"), ("i", "i"), y, np.array([1.0, 3.0])).mean
        array([0.75, 1.  ])
        """
        return np.asarray(self.weights @ self.y / self.weights.sum())
