# SPDX-License-Identifier: BSD-3-Clause
"""Restrict imported runs with different lists of units to the units that all of them have."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...core.errors import InputError
from ...core.hashing import hash_json
from ...run.result import Run, stored_tables
from ...run.scoring import score_rows_with_intervals
from ...tasks import stored_task
from ...tasks.capabilities import HasCommonUnits
from ..runs.lazy_records import scored_records


def with_common_units(
    runs: Sequence[Run], protocol: str, allow: Collection[str]
) -> tuple[Sequence[Run], list[str]]:
    """Return imported runs on their common units, scored again, and a note.

    The runs are returned unchanged if their lists are equal, or if `allow` does not permit different lists.
    """
    task = stored_task(runs[0].task)
    if not {"lists", "all"} & set(allow) or len({run.manifest.lists for run in runs}) < 2:
        return runs, []
    # Imported results have one record for all units.
    if not isinstance(task, HasCommonUnits) or any(len(run.manifest.units) != 1 for run in runs):
        return runs, []
    records = [own for run in runs for own in scored_records(run, task, protocol)]
    common = task.common_units(records) if len(records) == len(runs) else None
    if common is None:
        return runs, []
    if not len(common[0]):
        raise InputError("these runs have no unit in common; compare runs on the same data")
    made = []
    for run, own in zip(runs, common, strict=True):
        scores = task.score([own], protocol)
        rows = score_rows_with_intervals(task, scores)
        lists = hash_json([protocol, "common", sorted(r.id for r in runs)])
        manifest = run.manifest.model_copy(update={"lists": lists})
        unit, by = next(iter(run.unit_records.items()))
        made.append(
            replace(
                run,
                stored=replace(run.stored, scores=rows, manifest=manifest),
                unit_records={unit: {**dict(by), task.comparison(protocol): own}},
                values={protocol: stored_tables(scores)},
                load_single_scores=None,
            )
        )
    return made, [f"compared on the {len(common[0]):,} units that all runs have"]
