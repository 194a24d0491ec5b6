# SPDX-License-Identifier: BSD-3-Clause
"""HPatches 2017 matching: is the nearest target patch the right one, and do right matches come first?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ...model.curves import SceneCurves
from ...model.hashing import hash_json
from ...model.records import Records
from ...model.scores import Score
from ...model.units import Features, Unit
from ..base import StepTable, Task, TaskInfo
from ..citations import HPATCHES
from ..conventions import convention_tables
from ..info import FIRST_PATCHES, ap_of_matches
from . import matching_scores as scoring
from .imported import imported_matching, refuse_imported
from .matching_compare import NAME, compare, is_subset
from .opened import COMPARISON, LICENCE, HPatchesOptions, OpenV2, open_setting, raise_problems
from .protocols import MATCHING, PROTOCOLS, convention_steps, rules_of


class MatchingOptions(HPatchesOptions):
    """Options of `hpatches/matching`."""

    sequences: Literal["split", "all"] = "split"
    """Sequences to compare: those of the split, or all of the dataset (as `hpatches-matlab` scores)."""


class Matching(Task):
    """First neighbours of the patches of the reference image in every other image of its sequence.

    Metrics: `map` (AP of the matches ranked by distance, every reference patch in the denominator),
    `success_rate` (share of right matches), `map_ratio` (ranked by the ratio of first and second distance),
    by noise, kind and scene. `all` is the mean of the cells noise x kind; `weighting=sequences` beside it.
    """

    name = NAME
    family = "patches"
    protocols = PROTOCOLS
    options = MatchingOptions
    info = TaskInfo(
        "Is the nearest patch of another image the right one, and do right matches come first?",
        ("map", "all"),
        {
            "map": ap_of_matches("distance"),
            "map_ratio": ap_of_matches("first over second distance"),
            "success_rate": FIRST_PATCHES,
        },
        cite=(HPATCHES,),
        licence=LICENCE,
        has_splits=True,
    )

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenV2:
        """Bind to a folder in the HPatches layout."""
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

        return OpenV2(setting, units, compare_one)

    def comparison(self, protocol: str) -> str:
        """All protocols score the same neighbours."""
        rules_of(protocol)
        return COMPARISON

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Scores under a protocol; imported results under the one they were made under."""
        rules = rules_of(protocol)
        imported = imported_matching(records, protocol)
        return scoring.score(records, rules, protocol) if imported is None else imported

    def conventions(self, records: Sequence[Records]) -> list[StepTable]:
        """From `hpatches-python` over `hpatches-matlab` to `exact`, for the one number of each."""
        refuse_imported(records, "telling conventions apart")
        return convention_tables(records, scoring.METRICS, convention_steps(MATCHING), scoring.score)

    def scene_curves(self, records: Sequence[Records]) -> Iterator[SceneCurves]:
        """Mean precision-recall curve of every noise level under `exact`, scene by scene."""
        return scoring.scene_curves(records, rules_of("exact"))

    def misses(self, records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
        """Wrong matches of a fixed sample of patches: (query, right answer, given answer)."""
        return scoring.misses(records)


TASK = Matching()
