# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate a method on an informative subset."""

from __future__ import annotations

from collections.abc import Callable

from ...store.status_files import track_progress
from ...store.store import Store
from ..context import Progress, no_progress
from ..engine import evaluate_prepared
from ..preparation import prepare_run
from ..request import RunRequest
from ..result import Run
from ..session import RunSession
from .choose import SubsetRequest, restrict_to_subset


def evaluate_on_subset(
    request: RunRequest,
    subset: SubsetRequest,
    store: Store,
    progress: Progress = no_progress,
    *,
    report: Callable[[str], None] = print,
) -> Run:
    """Evaluate a request on a subset of its units, and store the run with its estimates."""
    with (
        track_progress(store.root, f"{request.method} on {request.task}", progress) as progress,
        RunSession(store.root, None, report) as session,
    ):
        prepared = restrict_to_subset([prepare_run(request, store.root)], subset, store)[0]
        return evaluate_prepared(prepared, store, session, progress)
