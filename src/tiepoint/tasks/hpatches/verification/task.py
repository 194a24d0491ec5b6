# SPDX-License-Identifier: BSD-3-Clause
"""Task `hpatches/verification` (2017): separate corresponding from other patch pairs by distance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from ....core.buffers import Workspace
from ....core.hashing import hash_json
from ....core.records import Features, Records, Unit
from ...base import MetricInfo, TaskInfo
from ...info import AP_OF_PAIRS, AUC_OF_PAIRS, FPR_OF_PAIRS, HPATCHES, POOLED_LIST
from ...steps import StepTable, convention_tables
from ..data import LICENCE, HPatchesOptions, HPatchesTask, OpenHPatches, open_setting, raise_problems
from ..pair_lists import verification_source
from ..protocols import VERIFICATION, convention_steps, hpatches_rules, refuse_imported
from . import score as scoring
from .compare import NAME, compare, items_for_noise, pair_plan


class VerificationOptions(HPatchesOptions):
    """Options of `hpatches/verification`."""

    lists: Literal["official", "clean"] | None = None
    """Sampling of pair lists if there are no list files. `official`: the published recipe (the default).
    `clean`: without pairs of one scene under two names and without duplicates.
    """


class HPatchesVerification(HPatchesTask):
    """Task `hpatches/verification`: separate pairs of the same patch from pairs of different patches.

    Negatives are pairs within (`intra`) or between (`inter`) sequences. Metrics by noise and negatives: `auc`
    and `fpr95` on all pairs (1 : 1), and `ap` on the first fifth of the positives and all negatives (1 : 5),
    which is the "verification mAP" of the literature. `all` is the mean over the six combinations of noise
    and negatives.
    """

    name = NAME
    scoring = scoring
    options = VerificationOptions
    info = TaskInfo(
        "Does the distance separate pairs of the same patch from other pairs?",
        ("ap", "all"),
        {
            "ap": MetricInfo(f"{AP_OF_PAIRS} (1 correct to 5 incorrect), mean of the six lists"),
            "auc": MetricInfo(f"{AUC_OF_PAIRS}, on the balanced lists, mean of the six"),
            "fpr95": MetricInfo(f"{FPR_OF_PAIRS}, mean of the six lists", better="lower"),
        },
        cite=(HPATCHES,),
        licence=LICENCE,
        title="HPatches 2017 verification",
        protocol_versions={"hpatches-python": 3},
        not_raceable=POOLED_LIST,
    )

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenHPatches:
        """Open a folder in the HPatches layout."""
        problems: list[str] = []
        setting, chosen = open_setting(NAME, Path(data), self.options, options, problems)
        source = verification_source(setting, chosen.lists, problems)
        raise_problems(data, problems)
        images = source.images if source.given is None else setting.levels + 1
        units = [
            Unit(n, items_for_noise(setting, n, images), hash_json([source.definition, n]))
            for n in setting.noises
        ]

        plan, space = cache(lambda: pair_plan(setting, source)), Workspace()

        def compare_one(unit: Unit, features: Features) -> Records:
            return compare(plan(), unit.key, features, space)

        return OpenHPatches(setting, units, compare_one, source, answer=partial(scoring.replay, plan))

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return the mean scores after each step: `hpatches-python`, `hpatches-matlab`, then `exact`."""
        refuse_imported(records, "telling conventions apart")
        score = partial(scoring.score, bins=False)
        return convention_tables(records, scoring.METRICS, convention_steps(VERIFICATION), score)

    def curves(self, records: Sequence[Records]) -> Iterator[tuple[str, str, Any, Any]]:
        """Compute the ROC and precision-recall curves under `exact`."""
        refuse_imported(records, "drawing a curve")
        return scoring.curves(records, hpatches_rules("exact"))


TASK = HPatchesVerification()
