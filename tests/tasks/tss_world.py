# SPDX-License-Identifier: BSD-3-Clause
"""Scoring a folder of TSS results without a store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiepoint.core.records import Records
from tiepoint.formats.flow.tss import read_pair_result
from tiepoint.methods.dense.files import pair_folder
from tiepoint.tasks.tss.data import compare_result
from tiepoint.tasks.tss.task import TASK


def score_results(
    results: str | Path, data: str | Path, protocol: str = "exact", options: Mapping[str, Any] | None = None
) -> tuple[list[Records], list[str]]:
    """Records of every pair under a protocol, and warnings; ``missing=zero`` does what the kit does."""
    opened = TASK.open(Path(data), options or {})
    warnings = [*opened.warnings, *TASK.check_results(opened, Path(results))]
    found = {pair: read_pair_result(pair_folder(results, pair.key)) for pair in opened.pairs}
    return [compare_result(pair, r, protocol, opened.options) for pair, r in found.items()], warnings
