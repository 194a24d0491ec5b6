# SPDX-License-Identifier: BSD-3-Clause
"""Task `hpatches/retrieval` (2017): find the five other views of a patch among distractors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from ....core.hashing import hash_json
from ....core.records import Features, Records, Unit
from ...base import MetricInfo, TaskInfo
from ...info import COMPETING, HPATCHES
from ...steps import StepTable
from ..data import LICENCE, HPatchesOptions, HPatchesTask, OpenHPatches, open_setting, raise_problems
from ..pair_lists import retrieval_source
from ..protocols import RETRIEVAL, convention_steps, hpatches_rules, refuse_imported
from . import score as scoring
from .compare import EVERY, NAME, compare, compare_every, items_for_retrieval


class HPatchesRetrievalOptions(HPatchesOptions):
    """Options of `hpatches/retrieval`."""

    exact_alone: ClassVar[Mapping[str, Any]] = {"distractors": EVERY}

    distractors: Literal["list", "every"] = "list"
    """Distractors: the patches in the list of distractors (`list`), or every patch of every other sequence of
    the split (`every`, only under `exact`). With `every`, only the queries are sampled.
    """


class HPatchesRetrieval(HPatchesTask):
    """Task `hpatches/retrieval`: find the five other views of a reference patch among distractors.

    The distractors are patches of other sequences. The metric is `map` by noise and pool size (number of
    distractors). The score `all` is the mean over noise levels with all distractors. Under `hpatches-python`,
    it is also the mean over seven pool sizes, as most papers print it. With `distractors=every` there is one
    pool, `every`.
    """

    name = NAME
    scoring = scoring
    options = HPatchesRetrievalOptions
    info = TaskInfo(
        "Are the other views of a patch ranked before distractors of other sequences?",
        ("map", "all"),
        {
            "map": MetricInfo(
                "mean over queries of the average precision of the five other views of a patch among "
                "distractors of other sequences"
            )
        },
        cite=(HPATCHES,),
        licence=LICENCE,
        title="HPatches 2017 retrieval",
        protocol_versions={"hpatches-python": 2},
        not_raceable=COMPETING,
    )

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenHPatches:
        """Open a folder in the HPatches layout."""
        problems: list[str] = []
        setting, chosen = open_setting(NAME, Path(data), self.options, options, problems)
        source = retrieval_source(setting, problems)
        raise_problems(data, problems)
        every = chosen.distractors == EVERY
        given = (None, None) if every else source.given or (None, None)
        items = items_for_retrieval(setting, *given)
        definition = hash_json([NAME, source.definition, setting.images, *([EVERY] if every else [])])

        def compare_one(unit: Unit, features: Features) -> Records:
            if every:
                return compare_every(setting, source.lists[0], features)
            return compare(setting, source.lists, features)

        answer = partial(scoring.replay, setting, lambda: source.lists, every)
        return OpenHPatches(
            setting, [Unit(setting.split.name, items, definition)], compare_one, source, answer=answer
        )

    def convention_steps(self, records: Sequence[Records]) -> list[StepTable]:
        """Return `map` as the rules change step by step from the papers' mean over pool sizes to `exact`.

        A second table has the values of the MATLAB tool with all distractors and with its default pool.
        """
        refuse_imported(records, "telling conventions apart")
        if not records:
            return []
        steps = []
        for step, rules in convention_steps(RETRIEVAL):
            found = {s.group: s.value for s in scoring.score(records, rules, step)}
            steps.append((step, found["all"]))
        tool = {s.group: s.value for s in scoring.score(records, hpatches_rules("hpatches-matlab"), "")}
        smaller = [("all distractors (article)", tool["all"])]
        smaller += [(f"{k} (first distractors, the default)", v) for k, v in tool.items() if k == "pool=2000"]
        return [StepTable("map", steps), StepTable("map", smaller, "hpatches-matlab")]

    def wrong_answers(self, records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
        """Return correct answers ranked behind a distractor: (query, correct answer, nearest distractor)."""
        return scoring.wrong_answers(records)


TASK = HPatchesRetrieval()
