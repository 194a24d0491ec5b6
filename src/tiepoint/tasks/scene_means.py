# SPDX-License-Identifier: BSD-3-Clause
"""Scores as means over queries or scenes, carrying the scene values their intervals come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.scores import SceneValues, Score, group_name

Floats = NDArray[np.float64]
KIND_NAMES = {"v": "viewpoint", "i": "illumination"}


@dataclass(frozen=True)
class Sums:
    """Sum and number of values in each scene, (scenes,); `n` counts what the score is of.

    `chance` is the sum of the chance levels of the same values, where there is a closed form.
    """

    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    total: Floats
    count: Floats
    chance: Floats | None = None

    def only(self, keep: NDArray[np.bool_]) -> Sums:
        """The scenes of a mask."""
        chosen = np.flatnonzero(keep)
        chance = None if self.chance is None else self.chance[chosen]
        names = tuple(self.scenes[i] for i in chosen)
        kinds = tuple(self.kinds[i] for i in chosen)
        return Sums(names, kinds, self.total[chosen], self.count[chosen], chance)

    def of_kind(self, kind: str) -> Sums:
        """The scenes of a kind."""
        return self.only(np.array([k == kind for k in self.kinds], bool))


def micro(metric: str, sums: Sums, *, group: str = "all", **more: Any) -> Score:
    """Mean over all values: scenes weigh by how many they have. NaN without any."""
    some = sums.only(sums.count > 0)
    n = float(some.count.sum())
    cells = (some.total / some.count)[None] if n else np.empty((1, 0))
    scenes = SceneValues(some.scenes, some.kinds, cells, some.count[None])
    value = float((cells[0] * some.count).sum() / n) if n else float("nan")
    chance = None if some.chance is None or not n else float(some.chance.sum() / n)
    return Score(metric, group, value, int(n), scenes=scenes, chance=chance, **more)


def macro(metric: str, sums: Sums, *, group: str = "all", **more: Any) -> Score:
    """Mean over scenes of the scene's mean; scenes without a value are left out. `n` counts values."""
    some = sums.only(sums.count > 0)
    n = int(some.count.sum())
    cells = (some.total / some.count)[None] if n else np.empty((1, 0))
    value = float(cells.mean()) if n else float("nan")
    chance = None if some.chance is None or not n else float((some.chance / some.count).mean())
    scenes = SceneValues(some.scenes, some.kinds, cells)
    return Score(metric, group, value, n, scenes=scenes, chance=chance, **more)


def by_scene(metric: str, sums: Sums, **parts: Any) -> list[Score]:
    """One score per scene that has a value, group ``scene=…``."""
    return [
        Score(
            metric,
            group_name(scene=scene, **parts),
            float(sums.total[i] / sums.count[i]),
            int(sums.count[i]),
            chance=None if sums.chance is None else float(sums.chance[i] / sums.count[i]),
        )
        for i, scene in enumerate(sums.scenes)
        if sums.count[i] > 0
    ]


def count_score(metric: str, value: float, *, group: str = "all", **more: Any) -> Score:
    """A plain count."""
    return Score(metric, group, float(value), int(value), **more)


def with_protocol(scores: Sequence[Score], protocol: str) -> list[Score]:
    """The scores under the name of a protocol."""
    from dataclasses import replace

    return [replace(score, protocol=protocol) for score in scores]
