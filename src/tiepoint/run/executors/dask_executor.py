# SPDX-License-Identifier: BSD-3-Clause
"""Jobs in the workers of a Dask cluster: keys and small numbers travel, arrays lie in the store's folder.

Jobs of one kind are cut into pieces, each one task of Dask, so that thousands of tiny jobs cost no more than
a few hundred. A job stays what is named and tried again: a piece that Dask gives up on is done job by job, at
last one job at a time, so that a job which kills its worker takes no other one with it.
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

PIECES = 256
"""Jobs of one kind are cut into at least so many pieces, where there are so many."""
PIECES_A_WORKER = 32
"""And into so many a worker, so that the last ones do not wait long for one."""

RETRIES = 2
"""Errors of the system (files, memory) are tried again so often before a piece is taken apart."""

LOOK_S = 1.0
"""The connection is looked at this often."""

GONE_S = 120.0
"""Workers of a local cluster are started again at once; after so long without any, none will come."""

ALONE_S = 15.0
"""It is said where there has been no worker for so long."""

Report = Callable[[str], None]
Needs = Callable[[Any], Iterable["JobBatch"]]


@dataclass(eq=False)
class JobBatch:
    """Jobs that travel as one task of Dask; `results` by name once they are known, `lost` why not."""

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
    told: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is to come of it."""
        return self.results is not None or self.lost is not None

    def count(self, done: int) -> None:
        """Tell that so many of its jobs are done."""
        while self.told < min(done, len(self.arguments)):
            self.told += 1
            self.done()


def _nothing() -> None:
    pass


@dataclass(eq=False)
class DaskExecutor:
    """Runs jobs in the workers of a cluster; see `Executor`. `open` makes one."""

    cluster: ClusterConnection
    expected: WorkerRequirements
    report: Report
    gpu: bool = False
    _pieces: dict[int, JobBatch] = field(default_factory=dict)
    _events: queue.SimpleQueue[tuple[int, int | None]] = field(default_factory=queue.SimpleQueue)
    _broken: str | None = None
    _met_s: float = field(default_factory=time.monotonic)
    _alone_said: bool = False
    _looked_s: float = 0.0

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, spec: Any, root: Path, libraries: Iterable[str], *, device: str = "cpu", report: Report
    ) -> Iterator[DaskExecutor]:
        """An executor on the cluster that `spec` names; work that is still out when it closes is cancelled.

        Args:
            spec: What `clusters.connected` takes.
            root: Folder of the store.
            libraries: Names of libraries whose versions all workers must share.
            device: Device of the methods; work for ``cuda`` asks for the resource GPU of a worker.
            say: Told what the user should know.
        """
        with ExitStack() as stack:
            cluster = stack.enter_context(connect(spec, device))
            expected = WorkerRequirements(
                uuid.uuid4().hex, str(root.absolute()), os.getcwd(), worker_versions(sorted({*libraries}))
            )
            stack.callback(remove_tokens, expected)
            executor = cls(cluster, expected, report, device.startswith("cuda"))
            cluster.client.subscribe_topic(expected.token, executor._heard)
            stack.callback(executor.cancel)
            if has_dashboard() and "dashboard" in cluster.client.scheduler_info().get("services", {}):
                report(f"the dashboard of the cluster is at {cluster.client.dashboard_link}")
            yield executor

    def check(self, remotes: Sequence[RemoteRecipe]) -> None:
        """Refuse workers that differ from this process in versions, the store's folder or the data.

        The first task goes wherever Dask sends it, since a cluster may start workers only once there is work;
        then every worker that is there is asked. Those that come later are checked before their first job.
        """
        write_token(self.expected)
        self._wait(self._asked(None, remotes))
        asked = {address: self._asked(address, remotes) for address in self._workers()}
        problems = ErrorCollector()
        for address, future in asked.items():
            with problems.collect():
                self._answered(future, address)
        problems.raise_all()

    def _asked(self, address: str | None, remotes: Sequence[RemoteRecipe]) -> Any:
        own = {} if address is None else {"workers": [address]}
        return self.cluster.client.submit(
            preflight,
            self.expected,
            list(remotes),
            SHARED_S,
            pure=False,
            priority=10**6,
            **own,
            **self._wants(),
        )

    def _wait(self, future: Any, address: str | None = None) -> bool:
        """Wait until a worker has answered; False where it went away meanwhile."""
        while not future.done():
            with contextlib.suppress(TimeoutError, CancelledError):
                future.exception(timeout=LOOK_S)
                break
            self._look()
            if address is not None and address not in self._workers():
                return False
            if self.gpu and self._workers(every=True) and not self._workers():
                raise InputError(
                    "no worker of the cluster offers a GPU; start workers with `--resources GPU=1`, or say "
                    "`resources: {GPU: 1}` in the cluster's file"
                )
        return True

    def _answered(self, future: Any, address: str) -> None:
        """Refuse a worker by what it says of itself."""
        if not self._wait(future, address):
            return
        if future.status == "cancelled":
            raise self._lost()
        if (error := future.exception()) is not None:
            at = "the scheduler" if "deserialization" in str(error) else f"the worker {address}"
            raise InputError(
                f"{at} cannot load tiepoint: {type(error).__name__}: {error}; start it in the environment of "
                "this process"
            )
        name, answer, problem = future.result()
        if problem is not None:
            raise InputError(f"the worker {name} {problem}")
        if not wait_for_file(token_file(self.expected.root, self.expected.token, answer), SHARED_S):
            raise InputError(
                f"what the worker {name} writes into {self.expected.root} does not arrive here; choose a "
                "`store` in a folder that all machines share"
            )

    def _workers(self, every: bool = False) -> dict[str, Any]:
        """Workers that are there and can take this work, by address."""
        found = self.cluster.client.scheduler_info()["workers"]
        return {a: w for a, w in found.items() if every or not self.gpu or w.get("resources", {}).get("GPU")}

    def _wants(self) -> dict[str, Any]:
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
        """Send jobs out and return at once.

        Args:
            job: At the top of a module; must find by itself what an earlier try has finished.
            arguments: By name: plain and small.
            remote: How workers make the context.
            label: What the dashboard calls these jobs.
            done: Called after every job.
            priority: Higher ones first.
            needs: The pieces that must be done before the job of an argument.
            whole: The job takes all arguments of a piece at once; see `WholeJob`.
        """
        workers = max(self.cluster.most, len(self._workers()))
        size = max(1, math.ceil(len(arguments) / max(PIECES, PIECES_A_WORKER * workers)))
        names = list(arguments)
        made = []
        for start in range(0, len(names), size):
            own = {name: arguments[name] for name in names[start : start + size]}
            before = dict.fromkeys(p for argument in own.values() for p in needs(argument))
            made.append(self._sent(JobBatch(job, own, remote, done, priority, whole, tuple(before)), label))
        return made

    def _sent(self, piece: JobBatch, label: str) -> JobBatch:
        if self._broken is not None:
            raise self._lost()
        piece.number = len(self._pieces)
        self._pieces[piece.number] = piece
        piece.future = self.cluster.client.submit(
            run_batch,
            piece.job,
            piece.arguments,
            piece.remote,
            (self.expected.token, piece.number, piece.whole),
            *(p.future for p in piece.needs if not p.is_finished),
            key=f"{label}-{uuid.uuid4().hex}",
            retries=RETRIES,
            priority=piece.priority,
            pure=False,
            **self._wants(),
        )
        number = piece.number
        piece.future.add_done_callback(lambda _future: self._events.put((number, None)))
        return piece

    def _heard(self, event: tuple[float, tuple[int, int]]) -> None:
        """A worker says how far a piece is (called in another thread)."""
        number, done = event[1]
        self._events.put((number, done))

    def collect(self, pieces: Sequence[JobBatch], patience: int | None = 1) -> Outcome:
        """Wait for pieces; after `patience` input errors the rest is cancelled. Returns as `run` does."""
        while not all(p.is_finished for p in pieces) and not too_many_failures(_failures(pieces), patience):
            self._next()
        if too_many_failures(_failures(pieces), patience):
            self.cancel(pieces)
        else:
            self._again([p for p in pieces if p.lost is not None])
        results = {
            n: r for p in pieces for n, r in (p.results or {}).items() if not isinstance(r, JobFailure)
        }
        return results, _failures(pieces)

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
            raise ValueError("a cluster needs a recipe")
        return self.collect(self.submit(job, arguments, self.remote(recipe), done=done), patience)

    def remote(self, recipe: ContextRecipe, family: str = "", content: str = "") -> RemoteRecipe:
        """A recipe as workers take it."""
        return RemoteRecipe(recipe, family, content, self.expected, self.cluster.threads)

    def _next(self) -> None:
        """Take in the next thing that happens, or look after the cluster where nothing does."""
        if time.monotonic() - self._looked_s > LOOK_S:
            self._look()
        try:
            number, done = self._events.get(timeout=LOOK_S)
        except queue.Empty:
            return
        piece = self._pieces[number]
        if done is not None:
            piece.count(done)
        elif not piece.is_finished:
            self._finish(piece)

    def _finish(self, piece: JobBatch) -> None:
        """Take the result of a piece."""
        future, status = piece.future, final_status(piece.future)
        if any(p.dropped for p in piece.needs):
            piece.results = {name: JobFailure(name, "needs what was taken back") for name in piece.arguments}
            return
        if status in ("cancelled", "lost"):
            raise self._lost()
        if status == "error":
            piece.lost = loss_reason(future.exception())
        else:
            try:
                found = future.result()
            except Exception as e:
                self._look()
                piece.lost = loss_reason(e)
                return
            if isinstance(found, UnfitWorker):
                raise ClusterError(f"{found.reason}; finished work is saved, so rerun the command to resume")
            piece.results = found
            piece.count(len(found))
        piece.future = None

    def _again(self, lost: Sequence[JobBatch]) -> None:
        """Try the jobs of lost pieces on their own: first side by side, then one at a time."""
        waiting = [(p, name) for p in lost for name in p.arguments]
        for piece in lost:
            piece.results, piece.lost = {}, None
        for at_once in (len(waiting), 1):
            left = []
            for start in range(0, len(waiting), max(1, at_once)):
                sent = [(p, n, self._alone(p, n)) for p, n in waiting[start : start + at_once]]
                for piece, name, one in sent:
                    while not one.is_finished:
                        self._next()
                    if one.results is None:
                        left.append((piece, name))
                    found = one.results or {name: JobFailure(name, one.lost or "")}
                    piece.results = (piece.results or {}) | found
            waiting = left
        for piece in lost:
            piece.count(len(piece.arguments))

    def _alone(self, piece: JobBatch, name: str) -> JobBatch:
        arguments = {name: piece.arguments[name]}
        one = JobBatch(piece.job, arguments, piece.remote, _nothing, piece.priority, piece.whole)
        return self._sent(one, "again")

    def _look(self) -> None:
        """Notice that the scheduler is gone, and say so where there is no worker."""
        client = self.cluster.client
        if client.status != "running":
            raise self._lost()
        try:
            every, there = self._workers(every=True), bool(self._workers())
        except (OSError, ValueError) as e:
            raise self._lost() from e
        now = self._looked_s = time.monotonic()
        if self.cluster.keep is not None:
            self.cluster.keep([str(w["name"]) for w in every.values()])
        if there:
            self._met_s, self._alone_said = now, False
            return
        if self.cluster.local and now - self._met_s > GONE_S:
            raise ClusterError("all workers of the local cluster have died; run again with fewer of them")
        if now - self._met_s > ALONE_S and not self._alone_said:
            self._alone_said = True
            self.report("the cluster has no worker at the moment; the work waits for one")

    def _lost(self) -> ClusterError:
        address = getattr(self.cluster.client.scheduler, "address", "the scheduler")
        self._broken = self._broken or f"the connection to the Dask scheduler at {address} was lost"
        return ClusterError(f"{self._broken}; finished work is saved, so rerun the command to resume")

    def cancel(self, pieces: Sequence[JobBatch] | None = None) -> None:
        """Take back what is still out; a worker ends the job that it is at and drops the rest."""
        chosen = [p for p in (self._pieces.values() if pieces is None else pieces) if not p.is_finished]
        for piece in chosen:
            piece.results, piece.dropped = {}, True
        futures = [p.future for p in chosen if p.future is not None]
        if futures and self.cluster.client.status == "running":
            with contextlib.suppress(Exception):  # they are gone with the scheduler
                self.cluster.client.cancel(futures, force=True)


def _failures(pieces: Sequence[JobBatch]) -> list[JobFailure]:
    return [r for p in pieces for r in (p.results or {}).values() if isinstance(r, JobFailure)]
