# SPDX-License-Identifier: BSD-3-Clause
"""Run jobs in the workers of a Dask cluster. Jobs exchange only keys; arrays stay in the store.

Each Dask task runs a batch of jobs, because thousands of tiny tasks would be slow. Failures and retries still
concern single jobs. If Dask gives up on a batch, its jobs are rerun as separate tasks, and finally one at a
time. A job that kills its worker therefore affects no other job.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import ClusterError, ErrorCollector, InputError
from ..context import ContextRecipe
from ..costs import has_dashboard
from . import Done, Job, JobFailure, Outcome, too_many_failures
from .dask_cluster import ClusterConnection, connect
from .dask_worker import (  # fmt: skip
    SHARED_S,
    RemoteRecipe,
    UnfitWorker,
    WholeJob,
    WorkerRequirements,
    final_status,
    loss_reason,
    preflight,
    remove_tokens,
    run_batch,
    token_file,
    wait_for_file,
    worker_versions,
    write_token,
)

MIN_BATCHES = 256
"""Minimum number of batches per kind of job, if there are enough jobs."""
BATCHES_PER_WORKER = 32
"""Minimum number of batches per worker, so that all workers finish at about the same time."""

RETRIES = 2
"""Retries of a batch after system errors (files, memory) before its jobs are run one by one."""

CHECK_INTERVAL_S = 1.0
"""Seconds between two checks of the connection."""

LOCAL_TIMEOUT_S = 120.0
"""Seconds without workers after which a local cluster has failed. It normally restarts them immediately."""

NO_WORKER_S = 15.0
"""Seconds without workers after which a message is printed."""

Report = Callable[[str], None]
Needs = Callable[[Any], Iterable["JobBatch"]]


@dataclass(eq=False)
class JobBatch:
    """Jobs sent as one Dask task. `results` has results by job name. `lost` explains why Dask gave up."""

    job: Job | WholeJob
    arguments: Mapping[str, Any]
    remote: RemoteRecipe
    done: Done
    priority: int = 0
    whole: bool = False
    needs: tuple[JobBatch, ...] = ()
    number: int = 0
    future: Any = None
    results: dict[str, Any] | None = None
    lost: str | None = None
    dropped: bool = False
    reported: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether the batch is finished: it has results, or Dask gave up on it."""
        return self.results is not None or self.lost is not None

    def count(self, done: int) -> None:
        """Report the number of finished jobs of the batch."""
        while self.reported < min(done, len(self.arguments)):
            self.reported += 1
            self.done()


def _nothing() -> None:
    pass


@dataclass(eq=False)
class DaskExecutor:
    """An `Executor` that runs jobs in the workers of a cluster. Create it with `open`."""

    cluster: ClusterConnection
    expected: WorkerRequirements
    report: Report
    gpu: bool = False
    _batches: dict[int, JobBatch] = field(default_factory=dict)
    _events: queue.SimpleQueue[tuple[int, int | None]] = field(default_factory=queue.SimpleQueue)
    _broken: str | None = None
    _last_worker_s: float = field(default_factory=time.monotonic)
    _absence_reported: bool = False
    _checked_s: float = 0.0

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, spec: Any, root: Path, libraries: Iterable[str], *, device: str = "cpu", report: Report
    ) -> Iterator[DaskExecutor]:
        """Connect an executor to a cluster. Closing it cancels unfinished work.

        Args:
            spec: The cluster; see `dask_cluster.connect`.
            root: Folder of the store.
            libraries: Names of libraries that must have the same version in all workers.
            device: Device of the methods; jobs for ``cuda`` require the worker resource GPU.
            report: Receives messages for the user.
        """
        with ExitStack() as stack:
            cluster = stack.enter_context(connect(spec, device))
            expected = WorkerRequirements(
                uuid.uuid4().hex, str(root.absolute()), os.getcwd(), worker_versions(sorted({*libraries}))
            )
            stack.callback(remove_tokens, expected)
            executor = cls(cluster, expected, report, device.startswith("cuda"))
            cluster.client.subscribe_topic(expected.token, executor._on_event)
            stack.callback(executor.cancel)
            if has_dashboard() and "dashboard" in cluster.client.scheduler_info().get("services", {}):
                report(f"the dashboard of the cluster is at {cluster.client.dashboard_link}")
            yield executor

    def check(self, remotes: Sequence[RemoteRecipe]) -> None:
        """Raise an `InputError` if a worker has different versions, another store folder or other data.

        First check any one worker, because a cluster may start workers only on demand. Then check all
        connected workers. Workers that join later are checked before their first job.
        """
        write_token(self.expected)
        self._wait(self._preflight(None, remotes))
        checks = {address: self._preflight(address, remotes) for address in self._workers()}
        problems = ErrorCollector()
        for address, future in checks.items():
            with problems.collect():
                self._check_answer(future, address)
        problems.raise_all()

    def _preflight(self, address: str | None, remotes: Sequence[RemoteRecipe]) -> Any:
        own = {} if address is None else {"workers": [address]}
        return self.cluster.client.submit(
            preflight,
            self.expected,
            list(remotes),
            SHARED_S,
            pure=False,
            priority=10**6,
            **own,
            **self._resources(),
        )

    def _wait(self, future: Any, address: str | None = None) -> bool:
        """Wait for the answer of a worker. Return False if the worker left."""
        while not future.done():
            with contextlib.suppress(TimeoutError, CancelledError):
                future.exception(timeout=CHECK_INTERVAL_S)
                break
            self._check_connection()
            if address is not None and address not in self._workers():
                return False
            if self.gpu and self._workers(every=True) and not self._workers():
                raise InputError(
                    "no worker of the cluster offers a GPU; start workers with `--resources GPU=1`, or write "
                    "`resources: {GPU: 1}` into the cluster file"
                )
        return True

    def _check_answer(self, future: Any, address: str) -> None:
        """Raise an `InputError` if a worker does not meet the requirements."""
        if not self._wait(future, address):
            return
        if future.status == "cancelled":
            raise self._connection_error()
        if (error := future.exception()) is not None:
            at = "the scheduler" if "deserialization" in str(error) else f"the worker {address}"
            raise InputError(
                f"{at} cannot load tiepoint: {type(error).__name__}: {error}; start it in the environment of "
                "the submitting process"
            )
        name, answer, problem = future.result()
        if problem is not None:
            raise InputError(f"the worker {name} {problem}")
        if not wait_for_file(token_file(self.expected.root, self.expected.token, answer), SHARED_S):
            raise InputError(
                f"files that the worker {name} writes to {self.expected.root} are not visible here; choose a "
                "`store` in a folder that all machines share"
            )

    def _workers(self, every: bool = False) -> dict[str, Any]:
        """Return the connected workers by address: those with the required resources, or `every` worker."""
        found = self.cluster.client.scheduler_info()["workers"]
        return {a: w for a, w in found.items() if every or not self.gpu or w.get("resources", {}).get("GPU")}

    def _resources(self) -> dict[str, Any]:
        return {"resources": {"GPU": 1}} if self.gpu else {}

    def submit(
        self,
        job: Job | WholeJob,
        arguments: Mapping[str, Any],
        remote: RemoteRecipe,
        *,
        label: str = "tiepoint",
        done: Done = _nothing,
        priority: int = 0,
        needs: Needs = lambda _: (),
        whole: bool = False,
    ) -> list[JobBatch]:
        """Submit jobs and return immediately.

        Args:
            job: Module-level function. It must skip work that an earlier attempt has finished.
            arguments: Small, serialisable arguments by job name.
            remote: Recipe from which workers build the context.
            label: Name of the jobs in the dashboard.
            done: Called after every job.
            priority: Jobs with a higher priority run first.
            needs: Function that returns the batches that must finish before the job of an argument.
            whole: Whether `job` receives all arguments of a batch at once; see `WholeJob`.
        """
        workers = max(self.cluster.most, len(self._workers()))
        size = max(1, math.ceil(len(arguments) / max(MIN_BATCHES, BATCHES_PER_WORKER * workers)))
        names = list(arguments)
        batches = []
        for start in range(0, len(names), size):
            own = {name: arguments[name] for name in names[start : start + size]}
            before = dict.fromkeys(b for argument in own.values() for b in needs(argument))
            batch = JobBatch(job, own, remote, done, priority, whole, tuple(before))
            batches.append(self._submit(batch, label))
        return batches

    def _submit(self, batch: JobBatch, label: str) -> JobBatch:
        if self._broken is not None:
            raise self._connection_error()
        batch.number = len(self._batches)
        self._batches[batch.number] = batch
        batch.future = self.cluster.client.submit(
            run_batch,
            batch.job,
            batch.arguments,
            batch.remote,
            (self.expected.token, batch.number, batch.whole),
            *(p.future for p in batch.needs if not p.is_finished),
            key=f"{label}-{uuid.uuid4().hex}",
            retries=RETRIES,
            priority=batch.priority,
            pure=False,
            **self._resources(),
        )
        number = batch.number
        batch.future.add_done_callback(lambda _future: self._events.put((number, None)))
        return batch

    def _on_event(self, event: tuple[float, tuple[int, int]]) -> None:
        """Receive the progress of a batch from a worker. Called in another thread."""
        number, done = event[1]
        self._events.put((number, done))

    def collect(self, batches: Sequence[JobBatch], patience: int | None = 1) -> Outcome:
        """Wait for batches. Return results and failures. Cancel all batches after `patience` input errors."""
        while not all(p.is_finished for p in batches) and not too_many_failures(_failures(batches), patience):
            self._next()
        if too_many_failures(_failures(batches), patience):
            self.cancel(batches)
        else:
            self._rerun([p for p in batches if p.lost is not None])
        results = {
            n: r for p in batches for n, r in (p.results or {}).items() if not isinstance(r, JobFailure)
        }
        return results, _failures(batches)

    def run(
        self,
        job: Job,
        arguments: Mapping[str, Any],
        recipe: ContextRecipe | None,
        done: Done,
        patience: int | None,
    ) -> Outcome:
        """Apply `job` to every argument in the workers; see `Executor`."""
        if recipe is None:
            raise ValueError("the cluster executor cannot run jobs without a recipe; pass `recipe`")
        return self.collect(self.submit(job, arguments, self.remote(recipe), done=done), patience)

    def remote(self, recipe: ContextRecipe, family: str = "", content: str = "") -> RemoteRecipe:
        """Return a recipe with the requirements that workers must meet."""
        return RemoteRecipe(recipe, family, content, self.expected, self.cluster.threads)

    def _next(self) -> None:
        """Process the next event of the cluster. Check the connection every `CHECK_INTERVAL_S` seconds."""
        if time.monotonic() - self._checked_s > CHECK_INTERVAL_S:
            self._check_connection()
        try:
            number, done = self._events.get(timeout=CHECK_INTERVAL_S)
        except queue.Empty:
            return
        batch = self._batches[number]
        if done is not None:
            batch.count(done)
        elif not batch.is_finished:
            self._finish(batch)

    def _finish(self, batch: JobBatch) -> None:
        """Store the result of a finished batch."""
        future, status = batch.future, final_status(batch.future)
        if any(p.dropped for p in batch.needs):
            batch.results = {name: JobFailure(name, "needs a cancelled job") for name in batch.arguments}
            return
        if status in ("cancelled", "lost"):
            raise self._connection_error()
        if status == "error":
            batch.lost = loss_reason(future.exception())
        else:
            try:
                found = future.result()
            except Exception as e:
                self._check_connection()
                batch.lost = loss_reason(e)
                return
            if isinstance(found, UnfitWorker):
                raise ClusterError(f"{found.reason}; finished work is saved, so rerun the command to resume")
            batch.results = found
            batch.count(len(found))
        batch.future = None

    def _rerun(self, lost: Sequence[JobBatch]) -> None:
        """Run the jobs of lost batches again: first in parallel, then one at a time."""
        waiting = [(p, name) for p in lost for name in p.arguments]
        for batch in lost:
            batch.results, batch.lost = {}, None
        for at_once in (len(waiting), 1):
            left = []
            for start in range(0, len(waiting), max(1, at_once)):
                submitted = [(p, n, self._submit_one(p, n)) for p, n in waiting[start : start + at_once]]
                for batch, name, one in submitted:
                    while not one.is_finished:
                        self._next()
                    if one.results is None:
                        left.append((batch, name))
                    found = one.results or {name: JobFailure(name, one.lost or "")}
                    batch.results = (batch.results or {}) | found
            waiting = left
        for batch in lost:
            batch.count(len(batch.arguments))

    def _submit_one(self, batch: JobBatch, name: str) -> JobBatch:
        arguments = {name: batch.arguments[name]}
        one = JobBatch(batch.job, arguments, batch.remote, _nothing, batch.priority, batch.whole)
        return self._submit(one, "again")

    def _check_connection(self) -> None:
        """Raise an error if the scheduler is unreachable. Print a message if the cluster has no workers."""
        client = self.cluster.client
        if client.status != "running":
            raise self._connection_error()
        try:
            every, there = self._workers(every=True), bool(self._workers())
        except (OSError, ValueError) as e:
            raise self._connection_error() from e
        now = self._checked_s = time.monotonic()
        if self.cluster.keep is not None:
            self.cluster.keep([str(w["name"]) for w in every.values()])
        if there:
            self._last_worker_s, self._absence_reported = now, False
            return
        if self.cluster.local and now - self._last_worker_s > LOCAL_TIMEOUT_S:
            raise ClusterError("all workers of the local cluster have died; rerun with fewer workers")
        if now - self._last_worker_s > NO_WORKER_S and not self._absence_reported:
            self._absence_reported = True
            self.report("the cluster has no workers at the moment; waiting for one")

    def _connection_error(self) -> ClusterError:
        address = getattr(self.cluster.client.scheduler, "address", "the scheduler")
        self._broken = self._broken or f"the connection to the Dask scheduler at {address} was lost"
        return ClusterError(f"{self._broken}; finished work is saved, so rerun the command to resume")

    def cancel(self, batches: Sequence[JobBatch] | None = None) -> None:
        """Cancel unfinished batches. A worker finishes its current job and skips the remaining jobs."""
        chosen = [p for p in (self._batches.values() if batches is None else batches) if not p.is_finished]
        for batch in chosen:
            batch.results, batch.dropped = {}, True
        futures = [p.future for p in chosen if p.future is not None]
        if futures and self.cluster.client.status == "running":
            with contextlib.suppress(Exception):  # the scheduler may be gone
                self.cluster.client.cancel(futures, force=True)


def _failures(batches: Sequence[JobBatch]) -> list[JobFailure]:
    return [r for p in batches for r in (p.results or {}).values() if isinstance(r, JobFailure)]
