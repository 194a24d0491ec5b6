# SPDX-License-Identifier: BSD-3-Clause
"""Resources that the runs of one command share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.processes import remove_orphans
from ..methods.pairs.image_memo import MEMO
from ..methods.source_files import OWN
from ..store.atomic_files import remove_temporaries, temporary_folder
from ..store.feature_cache import FeatureCache
from ..store.store import Store
from .cache_keys import temporary_method_key
from .compute import ComputedRecords
from .context import Progress, RunContext, no_progress
from .executors import Executor
from .preparation import (
    PreparedRun,
    initial_manifest,
    is_cacheable,
    make_context,
    stored_result,
)
from .repeat_check import irreproducible
from .request import RunRequest
from .scoring import discard_damaged, recompute_notices

if TYPE_CHECKING:
    from .cluster_runs import ClusterRuns
    from .executors.process_pool import ProcessPool

_cleaned: set[Path] = set()
"""Stores from which this process already removed temporary files of killed processes."""


class RunSession(ExitStack):
    """Worker processes, cluster and temporary cache of one command.

    `cluster` is the argument of `DaskExecutor.open`, None to compute on this machine. `report` receives
    messages for the user. Temporary files of killed processes are removed from the store at `root`.
    """

    def __init__(self, root: Path, cluster: Any = None, report: Callable[[str], None] = print) -> None:
        super().__init__()
        self.root = root
        self.cluster = cluster
        self.report = report
        self.callback(_close_programs)
        MEMO.clear()  # a key does not contain everything that user code reads
        self._pool: ProcessPool | None = None
        self._reasons: dict[frozenset[str], str | None] = {}
        self._cluster_runs: ClusterRuns | None = None
        if root not in _cleaned:
            _cleaned.add(root)
            remove_temporaries(root)
            remove_orphans()

    def pool(self, jobs: int) -> Executor:
        """Return the pool of worker processes. The first call sets the number of workers."""
        if self._pool is None:
            from .executors.process_pool import ProcessPool

            self._pool = ProcessPool(jobs)
            self.callback(self._pool.close)
        return self._pool

    def submit(self, runs: Sequence[PreparedRun], store: Store, progress: Progress = no_progress) -> None:
        """Submit all runs that are not stored yet to the cluster. Do nothing without a cluster."""
        if self.cluster is None:
            return
        submitted: dict[int, PreparedRun] = {}
        for run in runs:
            if not is_cacheable(run.opened, run.method) or run.method.spec is None:
                self.report(f"{run.method.name} cannot be sent to the cluster; running it locally")
            elif run.fit.log or self._missing(run, store) is not None:
                submitted[id(run)] = run
        if submitted:
            self._cluster_runs = self.connect(list(submitted.values()), store)
            self._cluster_runs.submit(submitted, partial(self._repaired, store=store), progress)

    def connect(self, runs: Sequence[PreparedRun], store: Store) -> ClusterRuns:
        """Connect to the cluster, whose workers must have the libraries of the runs' methods."""
        from .cluster_runs import connect_cluster_runs

        device = str(runs[0].request.method_options.get("device", "cpu"))
        methods = [run.method for run in runs]
        return connect_cluster_runs(self, self.cluster, store, methods, device, self.report)

    def _missing(self, prepared: PreparedRun, store: Store) -> RunContext | None:
        """Return the context of a run. None if the result is stored."""
        method, fit = prepared.fit_transforms(store.root)
        context = make_context(prepared, store, self, method)
        manifest = initial_manifest(prepared, context.method, fit)
        stored = stored_result(context, manifest, prepared.protocols, store)
        return context if stored is None else None

    def _repaired(self, prepared: PreparedRun, store: Store) -> RunContext | None:
        """Recompute corrupt features of a run and return its context. None if the result is stored."""
        context = self._missing(prepared, store)
        if context is not None:
            since_ns = time.time_ns()
            discard_damaged(context)
            for notice in recompute_notices(context, since_ns):
                self.report(notice)
        return context

    def collect(self, prepared: PreparedRun) -> ComputedRecords | None:
        """Wait for the cluster and return the records of a run. None if the run was not submitted."""
        return None if self._cluster_runs is None else self._cluster_runs.collect(id(prepared))

    def context(self, context: RunContext, request: RunRequest) -> RunContext:
        """Return a context whose features go to the temporary cache unless they can be cached.

        Features that are cached already are used if user code still computes them.
        """
        method = context.method
        if is_cacheable(context.opened, method):
            key = frozenset(context.feature_keys.values())
            if key not in self._reasons:
                self._reasons[key] = None if request.on_cluster else irreproducible(context)
            if self._reasons[key] is None:
                return context
            method = replace(method, uncached_reason=self._reasons[key])
        own = temporary_method_key(request, method)
        return replace(context, method=method, features=self.temporary_cache, temporary_key=own)

    @cached_property
    def temporary_cache(self) -> FeatureCache:
        """Feature cache that is removed at the end of the command."""
        return FeatureCache(self.enter_context(temporary_folder(self.root)))


def _close_programs() -> None:
    """Close the external programs of this process. If there are none, do not import their module."""
    programs = sys.modules.get(f"{OWN}.methods.programs.program")
    if programs is not None:
        programs.close_programs()
