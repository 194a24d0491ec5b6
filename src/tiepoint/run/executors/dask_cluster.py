# SPDX-License-Identifier: BSD-3-Clause
"""Connect to the Dask cluster of a command, or start one for it."""

from __future__ import annotations

import contextlib
import inspect
import logging
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import printable
from ...core.processes import scratch_folder
from ..costs import cores, has_dashboard, visible_gpus
from .cluster_spec import ADDRESS, QUEUES, ClusterFile, read_spec
from .process_pool import SAFE_PATH, THREAD_VARIABLES, block_interrupts_in_workers

JOB_TIMEOUT_S = 20.0
"""Seconds without workers after which a queue job counts as finished. A killed worker restarts sooner."""


def replace_finished_jobs(
    made: Any, wanted: ClusterFile, met_s: dict[Any, float], workers: Iterable[str]
) -> None:
    """Resubmit queue jobs whose workers have left. `workers` has the names of the connected workers.

    `met_s` has the time at which the workers of each job were last connected.

    Raises:
        InputError: A job could not be submitted, and no worker has connected until now.
    """
    now = time.monotonic()
    workers = list(workers)
    if made.job_cls.failures and not workers and not met_s:
        raise InputError(
            f"cannot submit a job to the queue: {made.job_cls.failures[0]}; run the command on a machine "
            "that can submit jobs, or correct the cluster file"
        )
    there = {f"{worker}-" for worker in workers}  # a job of several workers adds -0, -1 … to its name
    met_s |= {job: now for job in made.worker_spec if any(w.startswith(f"{job}-") for w in there)}
    gone = [job for job in made.worker_spec if now - met_s.get(job, now) > JOB_TIMEOUT_S]
    if gone:
        made.sync(made.scale_down, gone)
        for job in gone:
            del met_s[job]  # a new job may get the same name
        if wanted.adapt is None:
            made.scale(jobs=wanted.jobs or 1)


def shape(wanted: ClusterFile) -> tuple[int, int]:
    """Return the number of workers per job and the kernel threads per worker."""
    kind = next(k for k in QUEUES if getattr(wanted, k) is not None)
    arguments = getattr(wanted, kind)
    total = int(arguments.get("cores") or 1)
    processes = int(arguments.get("processes") or (1 if wanted.resources.get("GPU") else total))
    return processes, wanted.threads or max(1, total // processes)


def queue_cluster(wanted: ClusterFile, where: str, security: Any = None) -> Any:
    """Create the dask-jobqueue cluster object without submitting jobs.

    A job has one worker per core, or a single worker if it has a GPU. A worker runs one batch at a time.
    """
    dask_jobqueue = _job_queues()
    kind = next(k for k in QUEUES if getattr(wanted, k) is not None)
    arguments = dict(getattr(wanted, kind))
    cls = getattr(dask_jobqueue, QUEUES[kind])
    known = known_arguments(cls)
    for key in arguments:
        if key not in known:
            raise UnknownNameError(f"key of {kind} in {where}", key, known)
    for key in ("cores", "memory"):
        if key not in arguments:
            raise InputError(f"{where}: section {kind} has no {key}; add the value for one job")
    processes, _ = shape(wanted)
    # Memory-mapped features would count as memory of the worker; the queue has its own limit.
    extra = ["--nthreads", "1", "--memory-limit", "0"]
    extra += ["--lifetime", wanted.lifetime] if wanted.lifetime else []
    extra += ["--lifetime-stagger", wanted.lifetime_stagger] if wanted.lifetime_stagger else []
    if wanted.resources:
        extra += ["--resources", ",".join(f"{k}={v:g}" for k, v in wanted.resources.items())]
    arguments["processes"] = processes
    arguments["worker_extra_args"] = [*(arguments.get("worker_extra_args") or ()), *map(shlex.quote, extra)]
    prologue = arguments.get("job_script_prologue") or ()
    arguments["job_script_prologue"] = [f"export {SAFE_PATH}=1", *prologue]
    if security is not None:
        arguments["security"] = security
    arguments["job_cls"] = _reporting_job(cls.job_cls)
    board = {"dashboard_address": ":0", "dashboard": has_dashboard()}  # Dask opens a port in any case
    arguments["scheduler_options"] = {**board, **(arguments.get("scheduler_options") or {})}
    try:
        return cls(**arguments)
    except (TypeError, ValueError) as e:
        raise InputError(f"{where}: {kind}: {e}") from e


def _reporting_job(job_class: Any) -> Any:
    """Return a job class that records in `failures` why jobs could not be submitted.

    Dask only logs the error and waits for workers of the job.
    """
    from distributed.core import Status

    class ReportingJob(job_class):  # type: ignore[misc]
        failures: ClassVar[list[str]] = []

        async def _submit_job(self, script_filename: str) -> Any:
            try:
                return await super()._submit_job(script_filename)
            except (OSError, RuntimeError) as e:
                self.status = Status.failed  # otherwise the cluster cannot be closed
                self.failures.append(f"`{self.submit_command}` failed: {printable(str(e))}")
                raise

    return ReportingJob


def _job_queues() -> Any:
    """Import `dask_jobqueue` and restore the signal handlers that its import replaces."""
    in_main = threading.current_thread() is threading.main_thread()
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)} if in_main else {}
    try:
        import dask_jobqueue
    except ImportError as e:
        raise InputError("job queues need dask-jobqueue: pip install 'tiepoint[cluster]'") from e
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return dask_jobqueue


def known_arguments(cls: Any) -> set[str]:
    """Return the argument names of a dask-jobqueue cluster class and its job class."""
    makers: list[Callable[..., Any]] = [
        c.__init__ for c in (*cls.__mro__, *cls.job_cls.__mro__) if c is not object
    ]
    names = {n for m in makers for n in inspect.signature(m).parameters}
    return names - {
        "self",
        "args",
        "kwargs",
        "job_kwargs",
        "base_class_kwargs",
        "loop",
        "asynchronous",
        "job_cls",
    }


SETTINGS = {
    # Dask counts the death of a worker against all tasks on it, even waiting ones.
    "distributed.scheduler.allowed-failures": 10,
    "distributed.scheduler.worker-saturation": 1.0,
    # The nanny sets this variable before each start of its worker.
    f"distributed.nanny.pre-spawn-environ.{SAFE_PATH}": "1",
}
"""Dask settings for schedulers that tiepoint starts."""

CONNECT_S = 30.0
"""Timeout of the connection to a scheduler in seconds."""


@dataclass(frozen=True)
class ClusterConnection:
    """An open client of a cluster.

    `threads` is the number of kernel threads per worker. None uses the thread count of the Dask worker.
    `most` is the maximum number of workers, 1 if unknown.
    """

    client: Any
    threads: int | None = None
    most: int = 1
    keep: Callable[[Iterable[str]], None] | None = None
    """Function that resubmits finished queue jobs. Call it about every second with the worker names."""
    local: bool = False
    """Whether the workers are local processes started for this command."""


@contextlib.contextmanager
def connect(spec: Any, device: str = "cpu") -> Iterator[ClusterConnection]:
    """Connect to a cluster or start one. Leaving the block stops a started cluster.

    `spec` is ``tcp://host:8786``, ``local:4``, the path of a YAML file, its content as a mapping, or a
    `distributed.Client`, which stays open. Local workers get GPUs if `device` is ``cuda``.
    """
    distributed = import_distributed()
    if isinstance(spec, distributed.Client):
        yield ClusterConnection(spec)
        return
    wanted, where = read_spec(spec)
    with contextlib.ExitStack() as stack:
        yield _opened(wanted, where, device, stack, distributed)


def import_distributed() -> Any:
    """Import `distributed`. If it is missing, raise an error with the install command."""
    try:
        import distributed
    except ImportError as e:
        raise InputError("a cluster needs Dask: pip install 'tiepoint[cluster]'") from e
    return distributed


def _opened(
    wanted: ClusterFile, where: str, device: str, stack: contextlib.ExitStack, distributed: Any
) -> ClusterConnection:
    security = _security(wanted.security, where, distributed)
    if wanted.scheduler is not None:
        return ClusterConnection(
            stack.enter_context(_client(wanted.scheduler, security, distributed)), wanted.threads
        )
    import dask

    # A Ctrl-C for this process must not stop the workers.
    stack.enter_context(dask.config.set(SETTINGS))
    keep = None
    with block_interrupts_in_workers():
        if wanted.local is not None:
            folder = stack.enter_context(scratch_folder())
            most, threads = wanted.local, wanted.threads or max(1, cores() // wanted.local)
            made = stack.enter_context(_local(wanted, device, security, threads, folder))
        else:
            made = stack.enter_context(queue_cluster(wanted, where, security))
            processes, threads = shape(wanted)
            if wanted.adapt is not None:
                made.adapt(minimum_jobs=wanted.adapt.minimum, maximum_jobs=wanted.adapt.maximum)
            else:
                made.scale(jobs=wanted.jobs or 1)
            keep = partial(replace_finished_jobs, made, wanted, {})
            most = processes * (wanted.adapt.maximum if wanted.adapt else wanted.jobs or 1)
        client = stack.enter_context(distributed.Client(made, timeout=CONNECT_S))
    return ClusterConnection(client, threads, most, keep, local=wanted.local is not None)


def _security(given: dict[str, Any] | bool | None, where: str, distributed: Any) -> Any:
    """Return the Dask security object. The value True creates temporary certificates."""
    if given is None or given is False:
        return None
    if given is True:
        return distributed.Security.temporary()
    known = distributed.Security.__slots__
    for key in given:
        if key not in known:
            raise UnknownNameError(f"key of security in {where}", key, known)
    return distributed.Security(**{"require_encryption": True, **given})


@contextlib.contextmanager
def _client(address: str, security: Any, distributed: Any) -> Iterator[Any]:
    """Connect to a running scheduler."""
    own = {} if ADDRESS.fullmatch(address) else {"scheduler_file": address}
    if own and not Path(address).is_file():
        raise InputError(f"the scheduler file {address} does not exist; start `dask scheduler`")
    try:
        client = distributed.Client(
            None if own else address, security=security, timeout=CONNECT_S, set_as_default=False, **own
        )
    except (OSError, TypeError, ValueError) as e:
        raise InputError(f"no Dask scheduler answered at {address} within {CONNECT_S:.0f} s: {e}") from e
    with client:
        yield client


def _local(wanted: ClusterFile, device: str, security: Any, threads: int, folder: str) -> Any:
    """Start a cluster of local processes. Each runs one batch at a time. GPUs are assigned round-robin."""
    from distributed import Nanny, Scheduler, SpecCluster

    protocol = "tls://" if security else "tcp://"
    common = {
        "nthreads": 1,
        "host": "127.0.0.1",
        "protocol": protocol,
        "security": security,
        "memory_limit": 0,
        "silence_logs": logging.ERROR,
        "local_directory": folder,
    }
    gpus = visible_gpus() if device.startswith("cuda") else []
    resources = wanted.resources or ({"GPU": 1} if gpus else {})
    limits = {name: str(threads) for name in THREAD_VARIABLES}
    workers = {}
    for i in range(wanted.local or 1):
        env = limits | ({"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)]} if gpus else {})
        options = {**common, "name": i, "resources": resources, "dashboard": False, "env": env}
        workers[i] = {"cls": Nanny, "options": options}
    options = {
        "host": "127.0.0.1",
        "port": 0,
        "protocol": protocol,
        "security": security,
        "dashboard": has_dashboard(),
        "dashboard_address": ":0",
    }
    return SpecCluster(
        scheduler={"cls": Scheduler, "options": options},
        workers=workers,
        security=security,
        silence_logs="error",
    )
