# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of a queue as the workers of a Dask cluster, by dask-jobqueue."""

from __future__ import annotations

import inspect
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from ...core.errors import InputError, UnknownNameError
from ..machine import has_dashboard
from .cluster_spec import QUEUES, ClusterFile
from .process_pool import SAFE_PATH

GONE_S = 20.0
"""A job is over when its workers are away for so long; one that was killed comes back sooner."""


def replace_finished_jobs(
    made: Any, wanted: ClusterFile, met_s: dict[Any, float], workers: Iterable[str]
) -> None:
    """Replace jobs whose workers, all but those named in `workers`, have come and gone.

    `met_s` has, by job, when its workers were seen last.
    """
    now = time.monotonic()
    there = {f"{worker}-" for worker in workers}  # a job of several workers adds -0, -1 … to its name
    met_s |= {job: now for job in made.worker_spec if any(w.startswith(f"{job}-") for w in there)}
    gone = [job for job in made.worker_spec if now - met_s.get(job, now) > GONE_S]
    if gone:
        made.sync(made.scale_down, gone)
        for job in gone:
            del met_s[job]  # another may get its name
        if wanted.adapt is None:
            made.scale(jobs=wanted.jobs or 1)


def shape(wanted: ClusterFile) -> tuple[int, int]:
    """Workers of a job, and threads of the kernels in each."""
    kind = next(k for k in QUEUES if getattr(wanted, k) is not None)
    arguments = getattr(wanted, kind)
    total = int(arguments.get("cores") or 1)
    processes = int(arguments.get("processes") or (1 if wanted.resources.get("GPU") else total))
    return processes, wanted.threads or max(1, total // processes)


def queue_cluster(wanted: ClusterFile, where: str, security: Any = None) -> Any:
    """The cluster object of dask-jobqueue; no job is submitted yet.

    A job is cut into one worker a core, or one worker where it has a GPU; every worker takes one piece of
    work at a time.
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
            raise InputError(f"{where}: {kind} needs {key}, of one job")
    processes, _ = shape(wanted)
    # Mapped features count as memory of a worker though they are not; the queue has its own limit.
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
    board = {"dashboard_address": ":0", "dashboard": has_dashboard()}  # a port is taken even without one
    arguments["scheduler_options"] = {**board, **(arguments.get("scheduler_options") or {})}
    try:
        return cls(**arguments)
    except (TypeError, ValueError) as e:
        raise InputError(f"{where}: {kind}: {e}") from e


def _job_queues() -> Any:
    """The module `dask_jobqueue`; what it does to signals when it is imported is undone."""
    ours = threading.current_thread() is threading.main_thread()
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)} if ours else {}
    try:
        import dask_jobqueue
    except ImportError as e:
        raise InputError("job queues need dask-jobqueue: pip install 'tiepoint[cluster]'") from e
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return dask_jobqueue


def known_arguments(cls: Any) -> set[str]:
    """Names of the arguments that a class of dask-jobqueue takes, those of its jobs included."""
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
