# SPDX-License-Identifier: BSD-3-Clause
"""Data of `dense/flow` and `dense/pck`: image pairs in one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError, ProblemsError, UnknownNameError
from ...core.hashing import hash_json
from ...core.records import Features, Item, Records, Unit
from ...core.scores import Score, group_name
from ...datasets.dense_pairs import BrokenPair, DensePair, find_pairs
from ...datasets.image_pairs.ground_truth import PairTruth
from ...formats.flow.tss import PairResult
from ...geometry.flow.resize import resize_flow_pair, same_scale
from ...geometry.flow.warp import transfer
from ...methods.dense.files import check_folders, extra_folders, missing_pairs_message
from ..base import BaseTaskData
from ..cases import Cases, DenseCase, pair_cases
from ..unit_values import UnitFacts, UnitWeights, group_parts, unit_weights
from .options import ALLOW, DenseTask, PairOptions, excluded_pairs_notes, mean_note

Flow = NDArray[Any]
DIRECTED = "directed pairs"
Compare = Callable[[DensePair, Flow | None, Any], Records]


class OpenDense(BaseTaskData):
    """Data of a dense task. Items are image pairs; units are pairs in one direction (directed pairs)."""

    def __init__(self, data: Path, options: Any, task: str, needs: str, compare: Compare) -> None:
        self.options = options
        self._compare = compare
        self._needs = needs
        broken: list[BrokenPair] = []
        self.pairs = [p for p in find_pairs(data, broken) if getattr(p, needs) is not None]
        kinds = sorted({p.kind for p in self.pairs} | {b.kind for b in broken})
        for kind in self.options.kinds:
            if kind not in kinds:
                raise UnknownNameError("kind", kind, kinds)
        if self.options.kinds:
            self.pairs = [p for p in self.pairs if p.kind in self.options.kinds]
            broken = [b for b in broken if b.kind in self.options.kinds]
        if broken and self.options.strict_truth:
            raise ProblemsError(
                f"unusable pairs in {data}; repair them or exclude them with {ALLOW}",
                [b.reason for b in broken],
            )
        if not self.pairs:
            raise InputError(f"{task}: no pair in {data} has {needs} as ground truth; choose another dataset")
        self._items = {p.item: p for p in self.pairs}
        self._units = {p.key: p for p in self.pairs}
        self.known = sorted({*self._items, *(b.item for b in broken)})
        self.warnings = excluded_pairs_notes([b.reason for b in broken])

    @cached_property
    def items(self) -> Sequence[Item]:
        """One item per image pair."""
        return [Item(key, pair.content()) for key, pair in self._items.items()]

    def pair_truths(self) -> Sequence[PairTruth]:
        """Return all image pairs, with the homographies from which true flows were computed."""
        return [pair.truth() for pair in self._items.values()]

    @cached_property
    def units(self) -> Sequence[Unit]:
        """One unit per directed pair."""
        options = self.options.model_dump(exclude={"kinds"})
        return [
            Unit(p.key, (p.item,), hash_json([p.key, p.scene, p.kind, p.truth_content, p.content(), options]))
            for p in self.pairs
        ]

    @cached_property
    def data_hash(self) -> str:
        """Hash of all images and all ground truth."""
        return hash_json([[p.key, p.content(), p.truth_content] for p in self.pairs])

    def read_item(self, key: str) -> Any:
        """Return both images of a pair, RGB uint8."""
        return self._items[key].images()

    def flow_case(self, item: str) -> tuple[str, str] | None:
        """Return scene and key of the flow of a pair from image 1 to image 2. None if it is not scored."""
        pair = self._units.get(f"{item}:1to2")
        return None if pair is None else (pair.scene, pair.key)

    def sizes(self, item: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the sizes (height, width) of image 1 and image 2 of an item."""
        pair = self._items[item]
        source, target = pair.sizes()
        return (source, target) if pair.direction == 1 else (target, source)

    def replay_flow(self, scene: str, key: str, features: Features | None) -> DenseCase | None:
        """Recompute a directed pair: its images, flow and true flow at the resolution of the source."""
        pair = self._units.get(key)
        if pair is None:
            return None
        images = pair.images() if pair.direction == 1 else pair.images()[::-1]
        flow = None
        if features is not None:
            flow = oriented_flow(pair, PairResult.from_arrays(features.arrays(pair.item)), "skip")
        if pair.points is None or self._needs != "points":
            return DenseCase(*images, flow, None if pair.flow is None else pair.flow())
        points, true = pair.points()
        real = np.isfinite(points).all(axis=1) & np.isfinite(true).all(axis=1)
        found = None if flow is None else transfer(points[real], flow)
        return DenseCase(*images, flow, None, points[real], true[real], found)

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the result records of one directed pair.

        With `strict_truth`, unreadable ground truth raises an error. Otherwise the pair is excluded.
        """
        pair = self._units[unit.key]
        result = PairResult.from_arrays(features.arrays(unit.items[0]))
        try:
            flow = oriented_flow(pair, result, self.options.missing)
            return self._compare(pair, flow, self.options)
        except FormatError as e:
            if self.options.strict_truth:
                raise InputError(f"{e}; repair the ground truth or exclude this pair with {ALLOW}") from e
            meta = meta_of(pair, self.options, absent=False, no_truth=str(e))
            return Records("pixel", {"valid": np.zeros(1, np.int64)}, meta)


class PairTask(DenseTask):
    """Base class of the tasks on directed image pairs. `truth` names the required ground truth."""

    truth: ClassVar[str]

    def compare_pair(self, pair: DensePair, flow: Flow | None, options: Any) -> Records:
        """Compute the result records of one directed pair. `flow` is None if the method returned no flow."""
        raise NotImplementedError

    def kind_scores(self, records: Sequence[Records], parts: dict[str, Any]) -> list[Score]:
        """Return the scores of one subset or class; `parts` are the parts of their group name."""
        raise NotImplementedError

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenDense:
        """Open a folder of image pairs with ground truth."""
        chosen = self.options.parse(self.name, options)
        return OpenDense(Path(data), chosen, self.name, self.truth, self.compare_pair)

    def comparison(self, protocol: str) -> str:
        """Return the name of the records, which all protocols share."""
        super().comparison(protocol)
        return self.name.replace("/", "-")

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores over all pairs, and by kind (subset or class) if there are several kinds."""
        self.comparison(protocol)
        if not records:
            return []
        scores = self.kind_scores(records, {})
        kinds = sorted({str(r.meta["kind"]) for r in records})
        for kind in kinds if len(kinds) > 1 else ():
            scores += self.kind_scores([r for r in records if r.meta["kind"] == kind], {"kind": kind})
        return scores

    def unit_facts(self, opened: OpenDense) -> Mapping[str, UnitFacts]:
        """Return scene, kind and number of keypoints of every directed pair."""
        self.refuse_skipping(opened.options.missing)
        return {p.key: UnitFacts(p.scene, p.kind, _points(p)) for p in opened.pairs}

    def facts_of(self, record: Records) -> UnitFacts:
        """Return scene, kind and number of keypoints of a directed pair from its records."""
        meta = record.meta
        self.refuse_skipping(str(meta["missing"]))
        points = float(len(record)) if self.truth == "points" else 1.0
        return UnitFacts(str(meta["scene"]), str(meta["kind"]), 0.0 if "no_truth" in meta else points)

    def weigh(
        self,
        units: Mapping[str, UnitFacts],
        sizes: Mapping[str, float],
        protocol: str,
        parts: Mapping[str, str],
    ) -> UnitWeights:
        """Return the weights of a mean per pair or per point. Pairs without keypoints have no weight."""
        per_point = parts.get("per") == "point"
        chosen = sizes if per_point else dict.fromkeys(sizes, 1.0)
        return unit_weights(units, chosen, unit="directed pair")

    def group_of_one(self, group: str) -> str:
        """Return the group name of one pair's score: any `per` becomes `pair`, and `kind` is removed."""
        parts = {k: v for k, v in group_parts(group).items() if k != "kind"}
        return group_name(**{**parts, "per": "pair"} if "per" in parts else parts)

    def share(self, record: Records) -> float | None:
        """Return the accuracy of a directed pair at the headline threshold.

        None if the pair is not scored.
        """
        raise NotImplementedError

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Return the accuracy of each directed pair, for the report's gallery."""
        for r in usable_records(records)[0]:
            if (share := self.share(r)) is not None:
                yield str(r.meta["pair"]).rpartition(":")[0], share

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return the directed pairs of a scene as cases, scored by their accuracy."""
        own = usable_records([r for r in records if r.meta["scene"] == scene])[0]
        shares = [(str(r.meta["pair"]), share) for r in own if (share := self.share(r)) is not None]
        return pair_cases(shares) if shares else None

    def record_warnings(self, records: Sequence[Records]) -> list[str]:
        """Return warnings about missing ground truth and missing flows, with counts of directed pairs."""
        found = []
        truths = [r for r in records if "no_truth" in r.meta]
        if truths:
            found.append(
                f"{len(truths)} of {len(records)} directed pairs were excluded, because their ground truth "
                f"cannot be used (first reason: {truths[0].meta['no_truth']})"
            )
        for missing, words in (("skip", "are left out"), ("zero", "count as wrong")):
            n = sum(bool(r.meta["absent"]) and r.meta["missing"] == missing for r in records)
            if n:
                found.append(f"{n} of {len(records)} directed pairs have no estimated flow; they {words}")
        return found

    def check_results(self, opened: OpenDense, results: Path) -> list[str]:
        """Return warnings about a results folder: pairs without results, and results without ground truth.

        Raises:
            InputError: The path is not a folder, contains no pair of the dataset, or contains pairs whose
                subset is ambiguous.
        """
        keys = [item.key for item in opened.items]
        subsets = sorted({key.partition("/")[0] for key in opened.known})
        there = set(check_folders(results, keys, subsets))
        absent = [key for key in keys if key not in there]
        warnings = [missing_pairs_message(absent, len(keys))] if absent else []
        return [*warnings, *extra_folders(results, opened.known, subsets)]


def _points(pair: DensePair) -> float:
    """Return the number of true keypoints of a pair, without padding; 1 if the pair has no keypoint data."""
    if pair.points is None:
        return 1.0
    source, target = pair.points()
    return float((np.isfinite(source).all(axis=1) & np.isfinite(target).all(axis=1)).sum())


def oriented_flow(pair: DensePair, result: PairResult, missing: str) -> Flow | None:
    """Return the flow of a directed pair at the size of its source image. None if the flow is missing.

    Raises:
        InputError: The result is invalid or missing, and `missing` is `error`.
    """
    own, other = f"flow{pair.direction}", f"flow{3 - pair.direction}"
    if result.problems or own not in result.arrays:
        if missing == "error":
            why = "; ".join(result.problems) or f"{own} is missing"
            raise InputError(f"{pair.item}: {why}; add the result, or accept missing flows with {ALLOW}")
        if own not in result.arrays:
            return None
    source, target = pair.sizes()
    flow = result.arrays[own]
    if flow.shape[:2] == source:
        return flow
    back = result.arrays.get(other)
    if back is None:
        back = np.zeros((*same_scale(flow.shape[:2], source, target), 2))
    return resize_flow_pair(flow, back, source, target)[0]


def meta_of(pair: DensePair, options: PairOptions, **extra: Any) -> dict[str, Any]:
    """Return the metadata of a pair's records: scene, kind, name, missing results, and `extra`."""
    base = {"scene": pair.scene, "kind": pair.kind, "pair": pair.key, "missing": options.missing}
    return {**base, **extra}


def usable_records(records: Sequence[Records]) -> tuple[list[Records], str | None]:
    """Return the records that enter the means, and a note if some are excluded."""
    used = [r for r in records if "no_truth" not in r.meta and not _skipped(r)]
    return used, mean_note(len(used), len(records), DIRECTED)


def _skipped(record: Records) -> bool:
    return bool(record.meta["absent"]) and record.meta["missing"] == "skip"
