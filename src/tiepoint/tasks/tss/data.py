# SPDX-License-Identifier: BSD-3-Clause
"""Data and options of TSS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ...core.buffers import thread_workspace
from ...core.errors import ErrorCollector, FormatError, InputError, ProblemsError, UnknownNameError
from ...core.hashing import hash_json
from ...core.records import Features, Item, Records, Unit
from ...datasets.image_pairs import ground_truth
from ...datasets.tss import PairTruth, TssDataset, TssPair
from ...formats.flow.tss import PairResult
from ...geometry.flow.reference_resize import resize_u8
from ...methods.dense.files import NO_FOLDER
from ...metrics.dense import ambiguous_pixels
from ..base import BaseTaskData
from ..cases import DenseCase
from ..dense.options import ALLOW, DenseOptions, excluded_pairs_notes
from ..options import Flag, Names
from .compare import KIT_ACCURACY, AccuracyRule, PairCounts, compare_pair, full_flows, no_counts

DIRECTIONS = {"1to2": "image 1 onto image 2", "2to1": "image 2 onto image 1"}
"""Keys of the two directions of a pair, and their descriptions."""


class TssOptions(DenseOptions):
    """Options of `tss`."""

    auto_flip: Flag = False
    """Invert both masks of a pair if this increases its score."""

    use_prec: Flag = False
    """Use pixel accuracy instead of intersection over union in tables, ``scores.csv`` and `auto_flip`."""

    subsets: Names = ()
    """Subsets to use. The default is all subsets."""

    compare: Literal["at_most", "less_than"] = "at_most"
    """Comparison of errors: at most the threshold, or less than it. Only for `exact`."""

    complement: Flag = False
    """Report 1 minus the share of correct pixels, as in the kit's Readme. Only for `exact`."""

    pixels: Literal["known_flow", "foreground"] = "known_flow"
    """Pixels that count: those with known true flow, or the true foreground. In the foreground, a pixel
    without true flow is wrong. Only for `exact`."""

    larger_side: Literal["target", "source", "both"] = "target"
    """Image whose larger side defines the thresholds: the image that the flow points into (`target`), the
    image on which it is defined (`source`), or the larger of the two (`both`). Only for `exact`."""

    only_under: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("compare", "complement", "pixels", "larger_side"), "exact"
    )

    def of_the_readme(self) -> dict[str, Any]:
        """Return the options that the user set to conventions of the kit's Readme."""
        return self.model_dump(include=set(self.only_under), exclude_defaults=True)

    def definition(self) -> dict[str, Any]:
        """Return the options that affect records.

        Omit `subsets`, and options of the Readme at their defaults.
        """
        return self.model_dump(exclude={"subsets", *self.only_under}) | self.of_the_readme()


class OpenTss(BaseTaskData):
    """TSS pairs with complete ground truth. The images of a pair are an item, its ground truth is a unit."""

    def __init__(self, data: Path, options: Mapping[str, Any]) -> None:
        checks = ErrorCollector()
        self.options = TssOptions.parse("tss", options, checks)
        self.dataset = checks.call(TssDataset, data)
        known = () if self.dataset is None else self.dataset.subsets
        self.subsets: tuple[str, ...] = tuple(sorted(self.options.subsets or known))
        for name in self.subsets if known else ():
            if name not in known:
                checks.errors.append(UnknownNameError("subset", name, known))
        checks.raise_all()
        problems: list[str] = []
        self.pairs: list[TssPair] = []
        for pair in self.dataset.pairs:
            if pair.subset in self.subsets:
                found = pair.problems()
                problems += found
                if not found:
                    self.pairs.append(pair)
        if problems and self.options.strict_truth:
            raise ProblemsError(
                f"unusable ground truth in {data}; repair it or exclude these pairs with {ALLOW}", problems
            )
        if not self.pairs:
            raise ProblemsError(
                f"{data}: no pair has complete ground truth; download the dataset again", problems
            )
        self.warnings = excluded_pairs_notes(problems)
        if asked := self.options.of_the_readme():
            rules = ", ".join(f"{name}={str(value).lower()}" for name, value in asked.items())
            slip = "; a perfect flow scores 0" if self.options.complement else ""
            self.warnings.append(f"flow accuracy under exact follows the kit's Readme: {rules}{slip}")

    @cached_property
    def items(self) -> Sequence[Item]:
        """One item per pair. Its content hash covers both images."""
        return [Item(p.key, p.image_content()) for p in self.pairs]

    def pair_truths(self) -> Sequence[ground_truth.PairTruth]:
        """Return all image pairs without their flow."""
        return [ground_truth.PairTruth(pair.image_pair()) for pair in self.pairs]

    @cached_property
    def units(self) -> Sequence[Unit]:
        """One unit per pair, defined by the ground truth and the options."""
        options = self.options.definition()
        # The key is included, because records contain the names of subset and pair.
        return [Unit(p.key, (p.key,), hash_json([p.key, p.truth_content(), options])) for p in self.pairs]

    @cached_property
    def data_hash(self) -> str:
        """Hash of all images and all ground truth."""
        return hash_json([[p.key, p.image_content(), p.truth_content()] for p in self.pairs])

    def read_item(self, key: str) -> Any:
        """Return the two images of a pair, RGB uint8."""
        return self.dataset[key].images()

    def sizes(self, item: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the sizes (height, width) of the ground truth of image 1 and image 2."""
        return self.dataset[item].sizes()

    def flow_case(self, item: str) -> tuple[str, str]:
        """Return scene and key of the flow of a pair from image 1 to image 2."""
        return item, "1to2"

    def replay_flow(self, scene: str, key: str, features: Features | None) -> DenseCase | None:
        """Recompute one direction of a pair: images, flow and truth at the resolution of the truth."""
        at = list(DIRECTIONS).index(key)
        pair = self.dataset[scene]
        truth = pair.truth()
        images = [
            resize_u8(x, *t.shape[:2]) for x, t in zip(pair.images(), (truth.mask1, truth.mask2), strict=True)
        ]
        flow = None
        if features is not None:
            flow = full_flows(PairResult.from_arrays(features.arrays(scene)), truth)[at]
        return DenseCase(images[at], images[1 - at], flow, (truth.flow1, truth.flow2)[at])

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the pixel counts of one pair under the protocol named by `comparison`."""
        return compare_result(
            self.dataset[unit.key],
            PairResult.from_arrays(features.arrays(unit.items[0])),
            comparison,
            self.options,
        )


def compare_result(pair: TssPair, result: PairResult, rule: str, options: TssOptions) -> Records:
    """Compute the result records of one pair from results that have already been read.

    Unreadable ground truth raises an error with `strict_truth`. Otherwise the pair is excluded.
    """
    missing = missing_parts(result)
    if options.missing == "error" and missing:
        raise InputError(
            f"{pair.key}: {'; '.join(missing)}; add the missing files, or accept this with {ALLOW}"
        )
    src, ref = pair.names
    meta = {
        "scene": pair.key,
        "subset": pair.subset,
        "pair": pair.name,
        "src": src,
        "ref": ref,
        "flip": pair.flip,
        "missing": options.missing,
        "use_prec": options.use_prec,
        "complement": options.complement and rule == "exact",
        "absent": not result.present,
    }
    try:
        truth = pair.truth(thread_workspace())
    except FormatError as e:
        if options.strict_truth:
            raise InputError(f"{e} (ground truth); repair the file, or exclude this pair with {ALLOW}") from e
        said = [["ground truth cannot be used, pair left out", None]]
        return Records("pixel", no_counts(), {**meta, "no_truth": str(e), "warnings": said})
    less_than, foreground = options.compare == "less_than", options.pixels == "foreground"
    accuracy = AccuracyRule(less_than, foreground, options.larger_side)
    counts = compare_pair(
        truth,
        result,
        rule=rule,
        auto_flip=options.auto_flip,
        use_prec=options.use_prec,
        lone_flow=rule == "exact" or options.missing == "skip",
        accuracy=accuracy if rule == "exact" else KIT_ACCURACY,
    )
    meta |= {
        "flipped": counts.flipped,
        "estimated_masks": counts.estimated_masks,
        "warnings": [[text, None] for text in missing] + result_warnings(truth, result) + _done(counts),
    }
    return Records("pixel", counts.columns, meta)


def missing_parts(result: PairResult) -> list[str]:
    """Return descriptions of the missing and corrupt result files of a pair.

    Missing masks are not listed, because they are estimated from the flows.
    """
    if not result.present:
        return [NO_FOLDER]
    parts = list(result.problems)
    for name in ("flow1", "flow2"):
        if name not in result.arrays and not any(f"{name}.flo" in p for p in result.problems):
            parts.append(f"{name} is missing")
    return parts


def result_warnings(truth: PairTruth, result: PairResult) -> list[list[Any]]:
    """Return warnings about a result as [text, number of pixels or None]: mask values, NaN, a single mask."""
    found: list[list[Any]] = []
    for name in ("mask1", "mask2"):
        for label, mask in ((name, result.arrays.get(name)), (f"ground truth {name}", getattr(truth, name))):
            if mask is None:
                continue
            odd = ambiguous_pixels(mask)
            if odd:
                hint = " (it holds 0 and 1; write 0 and 255)" if mask.max() == 1 else ""
                found.append([f"{label} has values other than 0 and 255{hint}", odd])
    for name in ("flow1", "flow2"):
        if name in result.arrays and np.isnan(result.arrays[name].min()):
            bad = int(np.count_nonzero(np.isnan(result.arrays[name]).any(axis=2)))
            if bad:
                found.append([f"{name} has NaN, which is taken as unknown", bad])
    if ("mask1" in result.arrays) != ("mask2" in result.arrays):
        found.append(["one mask without the other: both are estimated", None])
    return found


def _done(counts: PairCounts) -> list[list[Any]]:
    said = {
        "resized_flows": "flows resized to the size of the ground truth",
        "resized_masks": "masks resized to the size of the ground truth",
        "estimated_masks": "masks (not flow_accuracy) estimated from the consistency of the flows",
    }
    return [[text, None] for name, text in said.items() if getattr(counts, name)]
