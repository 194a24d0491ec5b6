# SPDX-License-Identifier: BSD-3-Clause
"""Task `hpatches/matching` (2017): correctness and ranking of nearest-neighbour patch matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ....core.hashing import hash_json
from ....core.records import Features, Records, Unit
from ....core.scores import SceneCurves, scene_kind
from ....kernels import ThreadTeam, first_two, first_two_aligned, one_blas_thread, pair_distances
from ...base import TaskInfo
from ...info import FIRST_PATCHES, HPATCHES, ap_of_matches
from ...steps import StepTable, convention_tables
from ...unit_values import Means, MeansOfUnits, UnitFacts, UnitWeights, group_parts, unit_weights
from ..data import (
    LICENCE,
    DatasetSplit,
    HPatchesOptions,
    HPatchesTask,
    OpenHPatches,
    base_meta,
    compact,
    descriptor_rows,
    infinite_rows,
    open_setting,
    raise_problems,
    smallest_unsigned,
)
from ..protocols import MATCHING, convention_steps, hpatches_rules, is_imported, refuse_imported
from . import score as scoring

NAME = "hpatches/matching"
EQUAL_WEIGHTS = "; noise levels and kinds of scenes (`hpatches-python`: sequences) have equal weight"


def is_subset(setting: DatasetSplit) -> bool:
    """Return whether the dataset has sequences that the split excludes."""
    return len(setting.data.sequences) > len(setting.split.test)


def compare(setting: DatasetSplit, sequence: str, features: Features) -> Records:
    """Find the nearest descriptor of every reference patch in every other image of a sequence.

    Rows are sorted by image (`meta["images"]`), then by patch. Columns:

    * `d1`, `d2`: first and second distance (squared for l2, infinite if there is none).
    * `index`: lowest index at distance `d1`.
    * `ties`: number of targets at distance `d1`.
    * `right`: whether the correct target is one of these ties.
    * `failed_ref`, `failed_target`: whether the descriptor of this patch in the reference or in the other
      image failed. `far_target`: whether the latter contains infinity but no NaN. The three columns are
      missing if no descriptor failed.

    A failed reference patch has the index that NumPy's argmin returns for it.
    """
    reference, good = descriptor_rows(features, f"{sequence}/ref")
    n, images = len(reference), setting.images
    shape = (len(images), n)
    columns: dict[str, NDArray[Any]] = {
        "d1": np.full(shape, np.inf),
        "d2": np.full(shape, np.inf),
        "index": np.zeros(shape, np.int64),
        "ties": np.ones(shape, np.int64),
        "right": np.zeros(shape, bool),
        "failed_ref": np.broadcast_to(~good, shape),
        "failed_target": np.zeros(shape, bool),
        "far_target": np.zeros(shape, bool),
    }
    far = np.flatnonzero(infinite_rows(reference, good))
    squared = features.distance == "l2"

    whole = bool(good.all())
    queries = np.flatnonzero(good)

    targets = [descriptor_rows(features, f"{sequence}/{image}") for image in images]

    def one(i: int, _: int) -> None:
        target, usable = targets[i]
        columns["failed_target"][i] = ~usable
        columns["far_target"][i] = away = infinite_rows(target, usable)
        columns["index"][i, far] = [_met(reference[k], target, np.flatnonzero(away)) for k in far]
        rows = np.flatnonzero(usable)
        if not len(queries) or not len(rows):
            return
        a = reference if whole else reference[queries]
        b = target if usable.all() else target[rows]
        near = first_two(a, b, distance=features.distance, squared=squared)
        for name in ("d1", "d2", "ties"):
            columns[name][i, queries] = getattr(near, name)
        columns["index"][i, queries] = rows[near.index]
        both = np.flatnonzero(good & usable)
        truth = pair_distances(reference, target, both, both, distance=features.distance, squared=squared)
        columns["right"][i, both] = truth == columns["d1"][i, both]

    if whole and n and all(len(valid) == n and valid.all() for _, valid in targets):
        _all_valid(reference, [target for target, _ in targets], features.distance, columns)
    else:
        # One thread for each image: one such kernel is too small to keep several threads busy.
        with one_blas_thread():
            ThreadTeam().each([(i, i + 1) for i in range(len(images))], one)
    for name in ("index", "ties"):
        columns[name] = smallest_unsigned(columns[name])
    for name in ("d1", "d2"):
        columns[name] = compact(columns[name])
    if not (columns["failed_ref"].any() or columns["failed_target"].any()):
        del columns["failed_ref"], columns["failed_target"], columns["far_target"]
    meta = base_meta(NAME, [sequence], features)
    meta |= {"images": list(images), "patches": n, "in_split": sequence in setting.split.test}
    meta |= {"noises": list(setting.noises), "is_subset": is_subset(setting)}
    return Records("rank", {k: np.ascontiguousarray(v).reshape(-1) for k, v in columns.items()}, meta)


def _all_valid(
    reference: NDArray[Any], targets: list[NDArray[Any]], distance: str, columns: dict[str, NDArray[Any]]
) -> None:
    """Fill `columns` for a sequence without failed descriptors, for all images in one call."""
    found = first_two_aligned(reference, targets, distance=distance, squared=distance == "l2")
    for i, (near, truth) in enumerate(found):
        columns["d1"][i], columns["d2"][i] = near.d1, near.d2
        columns["ties"][i], columns["index"][i] = near.ties, near.index
        np.equal(truth, near.d1, out=columns["right"][i])


def _met(row: NDArray[Any], target: NDArray[Any], far: NDArray[np.int64]) -> int:
    """Return the target index that NumPy's argmin returns for a reference row with infinity.

    All its distances are infinite, or NaN if both rows contain the same infinity. argmin returns the first
    NaN. `far` are the indices of the targets with infinity.
    """
    met = far[(np.isinf(row) & (target[far] == row)).any(axis=1)]
    return int(met[0]) if len(met) else 0


class HPatchesMatchingOptions(HPatchesOptions):
    """Options of `hpatches/matching`."""

    sequences: Literal["split", "all"] = "split"
    """Sequences to compare: those of the split, or all of the dataset (as in `hpatches-matlab`)."""


class HPatchesMatching(MeansOfUnits, HPatchesTask):
    """Task `hpatches/matching`: match the reference patches to every other image of their sequence.

    Metrics: `map` (AP of the matches ranked by distance, with every reference patch in the denominator),
    `success_rate` (share of correct matches) and `map_ratio` (ranked by the ratio of first to second
    distance), by noise, kind and scene. `all` is the mean over the combinations of noise and kind.
    `weighting=sequences` is the mean over sequences.
    """

    name = NAME
    scoring = scoring
    options = HPatchesMatchingOptions
    means: ClassVar[Means] = dict.fromkeys(scoring.METRICS, frozenset({"kind", "noise", "weighting"}))
    info = TaskInfo(
        "Is the nearest patch of another image the correct one, and are correct matches ranked first?",
        ("map", "all"),
        {
            "map": ap_of_matches("distance", EQUAL_WEIGHTS),
            "map_ratio": ap_of_matches("first over second distance", EQUAL_WEIGHTS),
            "success_rate": FIRST_PATCHES,
        },
        cite=(HPATCHES,),
        licence=LICENCE,
        title="HPatches 2017 matching",
        protocol_versions={"hpatches-python": 2, "hpatches-matlab": 2},
    )

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenHPatches:
        """Open a folder in the HPatches layout."""
        problems: list[str] = []
        setting, chosen = open_setting(NAME, Path(data), self.options, options, problems)
        more = [s for s in setting.data.sequences if s not in setting.split.test]
        others = more if chosen.sequences == "all" else []
        problems += setting.data.missing(others, setting.images)
        raise_problems(data, problems)
        images = ("ref", *setting.images)
        fixed = [NAME, images, is_subset(setting)]
        units = [
            Unit(s, tuple(f"{s}/{m}" for m in images), hash_json([*fixed, s, s in setting.split.test]))
            for s in (*setting.split.test, *others)
        ]

        def compare_one(unit: Unit, features: Features) -> Records:
            return compare(setting, unit.key, features)

        answer = partial(scoring.replay, setting)
        return OpenHPatches(setting, units, compare_one, answer=answer, side_by_side=True)

    def unit_facts(self, opened: OpenHPatches) -> Mapping[str, UnitFacts]:
        """Return the kind of every sequence, and whether it is in the split."""
        test = set(opened.setting.split.test)
        return {u.key: _facts(u.key, scene_kind(u.key), u.key in test) for u in opened.units}

    def record_facts(self, records: Mapping[str, Records]) -> Mapping[str, UnitFacts]:
        """Return the kind of every sequence, and whether it is in the split, from its records.

        Imported results have one record for all sequences.
        """
        found = {}
        for key, record in records.items():
            if is_imported([record]):
                both = zip(record.meta["scenes"], record.meta["kinds"], strict=True)
                found.update({scene: _facts(scene, kind, True) for scene, kind in both})
            else:
                found[key] = self.facts_of(record)
        return found

    def unit_values(
        self, records: Mapping[str, Records], protocol: str, metric: str, group: str
    ) -> Mapping[str, float]:
        """Return the value of every sequence in a score: the mean over its image pairs."""
        first = next(iter(records.values()), None)
        if first is not None and is_imported([first]):
            return scoring.imported_values(first, metric, group_parts(group).get("noise"))
        return super().unit_values(records, protocol, metric, group)

    def facts_of(self, record: Records) -> UnitFacts:
        """Return the kind of a sequence, and whether it is in the split, from its records."""
        meta = record.meta
        return _facts(meta["scenes"][0], meta["kinds"][0], bool(meta.get("in_split", True)))

    def weigh(
        self,
        units: Mapping[str, UnitFacts],
        sizes: Mapping[str, float],
        protocol: str,
        parts: Mapping[str, str],
    ) -> UnitWeights:
        """Return the weights of the sequences in a mean over kinds, or over sequences."""
        rules = hpatches_rules(protocol)
        counted = {k: 1.0 for k in sizes if rules.all_sequences or (units[k].groups or {})["split"] == "in"}
        chosen = parts.get("weighting", "sequences" if rules.sequence_weighted else "cells")
        return unit_weights(units, counted, by_kind=chosen == "cells", unit="scene")

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return the headline scores after each step: `hpatches-python`, `hpatches-matlab`, then `exact`."""
        refuse_imported(records, "telling conventions apart")
        return convention_tables(records, scoring.METRICS, convention_steps(MATCHING), scoring.score)

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Compute the mean precision-recall curve of every scene and noise level under `exact`."""
        return scoring.scene_curves(records, hpatches_rules("exact"))

    def wrong_answers(self, records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
        """Return wrong matches of a fixed sample of patches: (query, correct answer, method's answer)."""
        return scoring.wrong_answers(records)


def _facts(scene: str, kind: str, in_split: bool) -> UnitFacts:
    return UnitFacts(scene, kind, groups={"split": "in" if in_split else "out"})


TASK = HPatchesMatching()
