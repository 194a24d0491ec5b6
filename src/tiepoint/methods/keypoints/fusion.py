# SPDX-License-Identifier: BSD-3-Clause
"""Fusion: several descriptors of the same keypoints as one, each normalised first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.edges import distance_of
from ...core.errors import InputError, UnknownNameError
from ...core.keypoints import Keypoints
from ...core.units import Item
from ..transforms import l2_normalise
from .adapter import detect_keypoints
from .pooling import AGGREGATIONS, aggregate, load_user_descriptor, parse_numbers

Image = NDArray[np.uint8]
Array = NDArray[Any]
Mask = NDArray[np.bool_]


class Fusion:
    """Descriptors side by side (concatenate, the default) or blended (average, weighted, max, min).

    Each component is brought to length 1 first: otherwise the one with the largest numbers decides alone,
    as SIFT (length 512) does over a network's unit vectors. `weights` multiply the components when
    concatenating and blend them when ``weighted``. Blending needs equal dimensions. Bit strings can only be
    concatenated with bit strings. A keypoint that one component could not describe has failed.
    """

    def __init__(
        self, components: Sequence[Any], aggregation: str = "concatenate", weights: Any = None
    ) -> None:
        kinds = {distance_of(c) for c in components}
        self.binary = kinds == {"hamming"}
        if "hamming" in kinds and not self.binary:
            raise InputError("bit strings and real-valued descriptors have no common distance; fuse one kind")
        self.pool = load_user_descriptor(aggregation)
        if self.pool is None and aggregation not in AGGREGATIONS:
            raise UnknownNameError("aggregation", aggregation, AGGREGATIONS)
        if self.binary and (aggregation != "concatenate" or weights is not None):
            raise InputError("bit strings can only be concatenated, and without weights")
        if weights is not None and aggregation not in ("concatenate", "weighted"):
            raise InputError("weights have an effect only with aggregation=concatenate or weighted")
        if aggregation == "weighted" and weights is None:
            raise InputError("aggregation=weighted needs weights, as in fuse:sift,rootsift?weights=2,1")
        self.components = list(components)
        self.aggregation = aggregation
        self.weights = None if weights is None else np.array(parse_numbers(weights, "weights"))
        if self.weights is not None:
            if len(self.weights) != len(self.components):
                raise InputError(
                    f"there are {len(self.weights)} weights for {len(self.components)} descriptors; "
                    "give one for each"
                )
            if (self.weights < 0).any() or not self.weights.sum() > 0:
                raise InputError(
                    f"weights must not be negative, nor all zero, but are {self.weights.tolist()}"
                )
        self.distance = "hamming" if self.binary else "l2"
        self.rooted = all(getattr(c, "rooted", False) for c in components)
        self.tiepoint_parts = {f"component{i}": c for i, c in enumerate(components)}
        if self.pool is not None:
            self.tiepoint_parts["pool"] = self.pool
        self.config = {
            "aggregation": aggregation, "weights": None if self.weights is None else self.weights.tolist()
        }  # fmt: skip

    def describe(self, image: Image, keypoints: Keypoints) -> tuple[Array, Mask]:
        """All components at the same keypoints."""
        return self.join([c.describe(image, keypoints) for c in self.components])

    def join(self, made: Sequence[Any]) -> tuple[Array, Mask]:
        """One row from the rows of all components; row i of each is the same point."""
        pairs = [m if isinstance(m, tuple) else (m, np.ones(len(m), bool)) for m in made]
        counts = {len(values) for values, _ in pairs}
        if len(counts) != 1:
            raise InputError(f"components have {sorted(counts)} rows; fusion needs the same points in each")
        valid = np.logical_and.reduce([np.asarray(v, bool) for _, v in pairs])
        if self.binary:
            return np.concatenate([np.asarray(v) for v, _ in pairs], axis=1), valid
        rows = [l2_normalise(np.asarray(v)) for v, _ in pairs]
        if self.aggregation == "concatenate" and self.pool is None:
            shares = self.weights if self.weights is not None else np.ones(len(rows))
            joined = np.concatenate([r * np.float32(w) for r, w in zip(rows, shares, strict=True)], axis=1)
        else:
            if len({r.shape[1] for r in rows}) != 1:
                raise InputError(
                    f"{self.aggregation} needs descriptors of one dimension, found "
                    f"{[r.shape[1] for r in rows]}; concatenate them instead"
                )
            mask = np.broadcast_to(valid, (len(rows), len(valid)))
            joined, _ = aggregate(
                np.stack(rows), mask, self.aggregation, weights=self.weights, pool=self.pool
            )
        done = np.where(valid[:, None], l2_normalise(joined), np.float32(0))
        return done, valid & done.any(axis=1)


class FusionOfPairs:
    """Components each at keypoints of their own: paired sets, row i of one is the partner of row i of all.

    That rows are partners is checked by the pair numbers of the sets, never assumed from the order. The
    keypoints reported, and so the ground truth, are those of the first component.
    """

    identity = "keypoints/fuse-at-own-places"

    def __init__(self, fusion: Fusion, parts: Sequence[Any], *, name: str) -> None:
        self.fusion, self.parts, self.name = fusion, list(parts), name
        self.distance = fusion.distance
        self.tiepoint_parts = {"fusion": fusion} | {f"place{i}": p.detector for i, p in enumerate(parts)}
        self.keypoint_set = getattr(parts[0], "keypoint_set", None)
        self.given_keypoints = bool(getattr(parts[0], "given_keypoints", False))
        for part in self.parts:
            if not hasattr(part.detector, "pair_ids"):
                raise InputError(
                    f"{name}: components at different places need paired keypoint sets, made by intersecting "
                    "two sets (set:NAME); detectors find different points, and different numbers of them"
                )

    def extract_item(self, item: Item, image: Image) -> tuple[Keypoints, Array, Mask]:
        """Keypoints of the first component and the fused rows."""
        ids = [p.detector.pair_ids(item) for p in self.parts]
        if any(not np.array_equal(ids[0], other) for other in ids[1:]):
            raise InputError(f"{item.key}: the keypoint sets of {self.name} are not partners row by row")
        found = [detect_keypoints(p.detector, item, image, f"{self.name} on {item.key}") for p in self.parts]
        if len(found[0]) == 0:
            return found[0], np.empty((0, 1), np.float32), np.empty(0, bool)
        made = [p.descriptor.describe(image, k) for p, k in zip(self.parts, found, strict=True)]
        return (found[0], *self.fusion.join(made))
