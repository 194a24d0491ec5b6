# SPDX-License-Identifier: BSD-3-Clause
"""Result of a choice: outcomes of methods on pairs, order of the methods, and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.image_pairs.folder import NamedPair
from ...metrics.steadiness import Sizes, Steadiness
from ...stats.steady_choice import SteadyOrder, steady_order

Floats = NDArray[np.float64]

RELIABLE = 0.7
"""Score of the leader below which no method is reliable."""
SMALL_COVER = 0.15
"""Mean cover below which the matches are in a small part of the images only."""
TURNED_DEG = 45.0
"""Rotation between two images from which they count as turned against each other."""
PICTURES = 5
"""Number of pairs that are shown as pictures."""


@dataclass(frozen=True)
class PairOutcome:
    """Outcome of one method on one pair.

    Attributes:
        steadiness: None if the method failed.
        seconds: Seconds in the method when the matches were computed. None if it failed.
        still: Whether at least half of the matches have almost the same position in both images.
        turn_deg: Rotation from image 0 to image 1 by the confirmed matches, 0 to 180. NaN if unknown.
        points0, points1: Used matches (n, 2).
        failure: Error message of the method. Empty if it did not fail.
    """

    steadiness: Steadiness | None
    seconds: float | None = None
    still: bool = False
    turn_deg: float = float("nan")
    points0: Floats = field(default_factory=lambda: np.empty((0, 2)), repr=False)
    points1: Floats = field(default_factory=lambda: np.empty((0, 2)), repr=False)
    failure: str = ""

    @property
    def steady(self) -> float:
        """Steadiness, 0 if the pair is not confirmed or the method failed."""
        return 0.0 if self.steadiness is None else self.steadiness.steady

    @property
    def is_confirmed(self) -> bool:
        """Whether the method confirms the pair."""
        return self.steadiness is not None and self.steadiness.is_confirmed


@dataclass(frozen=True)
class Candidate:
    """A method to choose from.

    `spec` is None for objects. `classical` states whether it consists of built-in hand-crafted parts, and
    `dense` whether it returns flows or matches on a grid.
    """

    name: str
    spec: str | None
    classical: bool
    dense: bool


@dataclass(frozen=True)
class Choice:
    """Methods compared on image pairs without ground truth.

    Attributes:
        images: Folder of the images.
        candidates: Methods in the order of the request, by name.
        pairs: Pairs by key.
        outcomes: Outcome by method and key of the pair.
        sizes: Sizes of both images of a pair, by key.
        equal: Keys of pairs with equal pixels, which are excluded.
        names: Number of images in the folder. 0 for a list of pairs.
        added: Number of pairs that were added because too few were confirmed.
        notes: Messages about the data.
        truth: The list of pairs, if it has the pose of every pair.
    """

    images: Path
    candidates: Mapping[str, Candidate]
    pairs: Mapping[str, NamedPair]
    outcomes: Mapping[str, Mapping[str, PairOutcome]]
    sizes: Mapping[str, Sizes]
    equal: Sequence[str] = ()
    names: int = 0
    added: int = 0
    notes: Sequence[str] = ()
    truth: Path | None = None

    @cached_property
    def order(self) -> SteadyOrder:
        """Order of the methods by steadiness."""
        return steady_order(
            {name: {key: one.steady for key, one in found.items()} for name, found in self.outcomes.items()},
            {
                name: {key: one.is_confirmed for key, one in found.items()}
                for name, found in self.outcomes.items()
            },
            {name: self.seconds(name) for name in self.candidates},
        )

    @property
    def leader(self) -> str | None:
        """Method to use. None if no method confirms any pair."""
        return self.order.leader

    @property
    def all_classical(self) -> bool:
        """Whether all methods are hand-crafted."""
        return all(c.classical for c in self.candidates.values())

    def seconds(self, name: str) -> float:
        """Return the mean seconds per pair of a method. Infinite if it failed on every pair."""
        found = [one.seconds for one in self.outcomes[name].values() if one.seconds is not None]
        return float(np.mean(found)) if found else float("inf")

    def confirmed(self, name: str) -> list[str]:
        """Return the keys of the pairs that a method confirms."""
        return [key for key, one in self.outcomes[name].items() if one.is_confirmed]

    def cover(self, name: str) -> float:
        """Return the mean share of image area with confirmed matches, over pairs that any method confirms."""
        found = [self.outcomes[name][key].steadiness for key in self.order.pairs]
        return float(np.mean([0.0 if s is None else s.cover for s in found])) if found else 0.0

    def failures(self, name: str) -> dict[str, str]:
        """Return the error messages of a method by key of the pair."""
        return {key: one.failure for key, one in self.outcomes[name].items() if one.failure}

    def state(self, name: str) -> str:
        """Return ``leader``, ``level``, ``behind``, or ``unknown`` if too few pairs are confirmed."""
        if name == self.leader:
            return "leader"
        apart = self.order.differences.get(name)
        if self.leader is None or apart is None or not apart.known:
            return "unknown"
        return "behind" if apart.ahead else "level"

    def still(self) -> list[str]:
        """Return the keys of confirmed pairs in which at least half of the matches do not move."""
        return [
            k for k in self.pairs if any(f[k].is_confirmed and f[k].still for f in self.outcomes.values())
        ]

    def turned(self) -> dict[str, list[str]]:
        """Return, for each method, the keys of pairs with rotated images that it does not confirm.

        A pair counts as rotated if the methods that confirm it find a median rotation of at least
        `TURNED_DEG`.
        """
        angles = {
            key: [f[key].turn_deg for f in self.outcomes.values() if f[key].is_confirmed]
            for key in self.pairs
        }
        known = {key: [a for a in found if not np.isnan(a)] for key, found in angles.items()}
        turned = [key for key, found in known.items() if found and np.median(found) >= TURNED_DEG]
        lost = {
            name: [key for key in turned if not (found[key].is_confirmed or found[key].failure)]
            for name, found in self.outcomes.items()
        }
        return {name: keys for name, keys in lost.items() if keys}

    def most_different(self, count: int = PICTURES) -> list[str]:
        """Return the keys of the pairs on which the steadiness of the methods differs most, largest first."""

        def spread(key: str) -> float:
            values = [found[key].steady for found in self.outcomes.values()]
            return max(values) - min(values)

        return sorted(self.order.pairs, key=lambda key: (-spread(key), key))[:count]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        methods = []
        for name in self.order.methods:
            apart = self.order.differences.get(name)
            known = apart is not None and apart.known
            methods.append(
                {
                    "method": name,
                    "spec": self.candidates[name].spec,
                    "steady": self.order.scores[name],
                    "confirmed_pairs": len(self.confirmed(name)),
                    "cover": self.cover(name),
                    "state": self.state(name),
                    "behind_by": None if apart is None else apart.mean,
                    "interval": [apart.low, apart.high] if apart is not None and known else None,
                    "seconds_per_pair": seconds if np.isfinite(seconds := self.seconds(name)) else None,
                    "classical": self.candidates[name].classical,
                    "dense": self.candidates[name].dense,
                    "failures": len(self.failures(name)),
                }
            )
        return {
            "images": str(self.images),
            "leader": self.leader,
            "level": list(self.order.level),
            "pairs": len(self.pairs),
            "confirmed_pairs": len(self.order.pairs),
            "added_pairs": self.added,
            "equal_pairs": list(self.equal),
            "methods": methods,
            "by_pair": [self._pair(key) for key in self.pairs],
        }

    def _pair(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, outcomes in self.outcomes.items():
            one = outcomes[key]
            s = one.steadiness
            found[name] = {
                "steady": one.steady,
                "confirmed": 0.0 if s is None else s.confirmed,
                "cover": 0.0 if s is None else s.cover,
                "matches": 0 if s is None else s.matches,
                "planar": False if s is None else s.planar,
                "seconds": one.seconds,
                **({"failure": one.failure} if one.failure else {}),
            }
        return {"pair": key, "methods": found}
