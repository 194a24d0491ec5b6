# SPDX-License-Identifier: BSD-3-Clause
"""Data of `keypoints/geometry`: keypoints of images, or matches of image pairs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.errors import InputError
from ....core.hashing import hash_json
from ....core.records import Arrays, Features, ImageFacts, Item, Records, Unit
from ....datasets.image_pairs.ground_truth import PairTruth
from ....datasets.image_pairs.pair import ImagePair, Size
from ....geometry.two_view.estimator import canonical_order
from ...cases import MatchedPair
from ...pairs.data import PairMatches, match_errors, matches_of, oracle_features
from ..data import ComparedFeatures, OpenKeypoints
from ..neighbours import first_neighbours_mutual, user_class_matches

Floats = NDArray[np.float64]


class OpenGeometry(OpenKeypoints):
    """Data for methods that detect keypoints. Each item is one image."""

    pairs_as_items = False

    @cached_property
    def pairs(self) -> Mapping[str, PairTruth]:
        """Pairs of the reference image and every other image of its sequence, by name."""
        return {truth.pair.name: truth for truth in self.sequences.pairs()}

    def pair_sizes(self, scene: str, k: str) -> tuple[Size, Size]:
        """Return (width, height) of the reference image and of image k."""
        s = self.sequences
        return s.size(scene, s.images(scene)[0]), s.size(scene, k)

    def drawable_pairs(self) -> tuple[str, ...]:
        """Return the names of the pairs of the reference image and every other image of its sequence."""
        return tuple(self.pairs)

    def draw_matches(self, name: str, features: Features) -> MatchedPair:
        """Return mutual nearest neighbours or the method's matches, with errors by the true homography."""
        truth = self.pairs[name]
        pair = truth.pair
        k = name.removeprefix(f"{pair.scene}/{self.sequences.images(pair.scene)[0]}-")
        found = self.matches(features, pair.scene, k)
        return match_errors(truth, found.points0, found.points1, found.confidence)

    def matches(self, features: Features, scene: str, k: str, *, exact: bool = False) -> PairMatches:
        """Match the reference image and image k by mutual nearest neighbours or by the custom matcher.

        Mutual neighbours are sorted by the row of the first keypoint. With `exact`, they are in the seeded
        random order that breaks ties; the estimators of the protocol `exact` depend on it. The confidence is
        1 - d1/d2, where d1 and d2 are the first and second distance.
        """
        source = self.features_of(features, scene, self.sequences.images(scene)[0])
        target = self.features_of(features, scene, k)
        sure: Floats | None = None
        if self.options.matcher is not None and not exact:
            made = user_class_matches(self.options.matcher, source, target, distance=features.distance)
            first, second = made.first, made.second
        else:
            found = first_neighbours_mutual(
                source, target, distance=features.distance, seed=self.options.seed
            )
            kept = np.flatnonzero(found.mutual)
            order = kept if exact else kept[np.argsort(found.first[kept], kind="stable")]
            first, second = found.first[order], found.second[order]
            d1, d2 = found.d1[order], found.d2[order]
            sure = 1.0 - np.divide(d1, d2, out=np.ones(len(d1)), where=d2 > 0)
        return PairMatches(source.xy[first], target.xy[second], sure, (len(source), len(target)))

    def d2net_matches(self, features: Features, scene: str, k: str) -> tuple[Floats, Floats]:
        """Return the points of D2-Net's matches: mutual neighbours by dot product of the raw descriptors."""
        top = self.options.top_keypoints
        sides = []
        for name in (self.sequences.images(scene)[0], k):
            side = self.features_of(features, scene, name)
            rows = np.flatnonzero(side.valid)
            sides.append((side, rows if top is None else self._best(features, side, rows, top)))
        (one, here), (two, there) = sides
        first, second = dot_product_matches(one.values[here], two.values[there])
        return one.xy[here[first]], two.xy[there[second]]

    def _best(self, features: Features, side: ComparedFeatures, rows: NDArray[np.int64], top: int) -> Any:
        """Return the rows of the `top` keypoints of highest response, in ascending order of response."""
        table = np.asarray(features.arrays(side.key)["keypoints"], np.float64)
        if table.shape[1] < 5:
            raise InputError(f"{side.key}: `top_keypoints` needs keypoint responses; remove the option")
        return rows[np.argsort(table[rows, 4])[-top:]]


class OpenGeometryPairs(OpenGeometry):
    """Data for methods that match two images. Each item is an image pair, such as ``v_graffiti/1-2``."""

    pairs_as_items = True

    def __init__(self, task: Any, sequences: Any, options: Any) -> None:
        super().__init__(task, sequences, options)
        given = [n for n in ("border_px", "matcher", "top_keypoints") if getattr(options, n) is not None]
        if given:
            raise InputError(
                f"option {given[0]} of {task.name} is for keypoints, but this method returns matches; remove "
                "the option"
            )

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per image pair."""
        return tuple(
            Item(name, t.pair.content(), images=self._images(t.pair), truth_hash=t.definition())
            for name, t in self.pairs.items()
        )

    def _images(self, pair: ImagePair) -> tuple[ImageFacts, ...]:
        """Return names and sizes of both images of a pair. Names include the file extension."""
        numbers = pair.name.rpartition("/")[2].split("-")
        paths = (pair.image0, pair.image1)
        return tuple(
            ImageFacts(f"{pair.scene}/{n}{path.suffix if path else ''}", size)
            for n, path, size in zip(numbers, paths, pair.sizes(), strict=True)
        )

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """One unit per scene."""
        s, options = self.sequences, self.options.settings()
        units = []
        for scene in s.scenes:
            items = tuple(name for name, t in self.pairs.items() if t.pair.scene == scene)
            parts = [self.task.name, "pairs", s.definition(scene), options, items]
            units.append(Unit(scene, items, hash_json(parts)))
        return tuple(units)

    def read_item(self, key: str) -> Any:
        """Return both images of a pair."""
        return self.pairs[key].pair.payload()

    def oracle_features(self, item: Item, noise_px: float) -> Arrays:
        """Return the true correspondences of a pair with Gaussian noise of `noise_px` pixels."""
        return oracle_features(self.pairs[item.key], noise_px)

    def method_facts(self, meta: Mapping[str, Any], comparison: str) -> dict[str, Any]:
        """Return the properties of a method that affect the records: none."""
        return self.task.method_facts(self.options, meta, comparison)

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the result records of one scene."""
        return self.task.comparisons[comparison](self, unit.key, features)

    def matches(self, features: Features, scene: str, k: str, *, exact: bool = False) -> PairMatches:
        """Return the matches of an image pair in the order in which the method returned them.

        With `exact`, sort them by coordinates and remove duplicates.
        """
        name = f"{scene}/{self.sequences.images(scene)[0]}-{k}"
        found = matches_of(features.arrays(name), name)
        if not exact:
            return found
        order = canonical_order(found.points0, found.points1)
        sure = None if found.confidence is None else found.confidence[order]
        return PairMatches(found.points0[order], found.points1[order], sure, found.keypoints)

    def d2net_matches(self, features: Features, scene: str, k: str) -> tuple[Floats, Floats]:
        """Return the points of the method's own matches."""
        found = self.matches(features, scene, k)
        return found.points0, found.points1


def dot_product_matches(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Match two sets of descriptors (n, d): mutual nearest neighbours by largest dot product.

    Return the matched rows (m,) of `a` and of `b`. If products are equal, the first row wins. Descriptors are
    not normalised, so long vectors are favoured. D2-Net descriptors have unit length.

    >>> [rows.tolist() for rows in dot_product_matches(np.eye(2), np.array([[0.0, 3.0], [1.0, 0.0]]))]
    [[0, 1], [1, 0]]
    """
    if not len(a) or not len(b):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    x, y = (v if np.issubdtype(v.dtype, np.floating) else v.astype(np.float64) for v in (a, b))
    similar = x @ y.T
    there, back = similar.argmax(axis=1), similar.argmax(axis=0)
    first = np.flatnonzero(back[there] == np.arange(len(x)))
    return first, there[first]
