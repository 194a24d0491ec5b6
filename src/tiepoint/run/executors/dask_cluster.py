# SPDX-License-Identifier: BSD-3-Clause
"""The Dask cluster of a command: connected to, or started here and ended with it."""

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
from typing import Any

from ...core.errors import InputError, UnknownNameError
from ...core.processes import scratch_folder
from ..costs import cores, has_dashboard, visible_gpus
from .cluster_spec import ADDRESS, QUEUES, ClusterFile, read_spec
from .process_pool import SAFE_PATH, THREAD_VARIABLES, block_interrupts_in_workers

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


SETTINGS = {
    # A task that was on a worker when it died is counted against it, though it may only have waited there.
    "distributed.scheduler.allowed-failures": 10,
    "distributed.scheduler.worker-saturation": 1.0,
    # Set by a nanny before each start of its worker.
    f"distributed.nanny.pre-spawn-environ.{SAFE_PATH}": "1",
}
"""Settings of Dask for schedulers that are started here."""

CONNECT_S = 30.0
"""A scheduler that does not answer so long is not there."""


@dataclass(frozen=True)
class ClusterConnection:
    """An open client, with what its user should know.

    `threads` are those of the kernels in a worker (None: as many as it was started with), `most` the number
    of workers there may be, where that is known.
    """

    client: Any
    threads: int | None = None
    most: int = 1
    keep: Callable[[Iterable[str]], None] | None = None
    """To be called with the names of the workers every second or so: replaces jobs of a queue that ended."""
    local: bool = False
    """Whether its workers are processes of this machine that were started for it."""


@contextlib.contextmanager
def connect(spec: Any, device: str = "cpu") -> Iterator[ClusterConnection]:
    """A client of the cluster that `spec` names; what was started for it ends with it.

    `spec` is ``tcp://host:8786``, ``local:4``, the path of a YAML file, what such a file says as a mapping,
    or a `distributed.Client`, which stays open. Workers here get GPUs where `device` is ``cuda``.
    """
    distributed = import_distributed()
    if isinstance(spec, distributed.Client):
        yield ClusterConnection(spec)
        return
    wanted, where = read_spec(spec)
    with contextlib.ExitStack() as stack:
        yield _opened(wanted, where, device, stack, distributed)


def import_distributed() -> Any:
    """The module `distributed`, or an error that says how it is had."""
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

    # Workers must not stop at a Ctrl-C that is meant for this process.
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
    """The security arguments of Dask; True makes temporary ones."""
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
    """A client of a scheduler that runs already."""
    own = {} if ADDRESS.fullmatch(address) else {"scheduler_file": address}
    if own and not Path(address).is_file():
        raise InputError(f"the scheduler file {address} does not exist; `dask scheduler` writes it")
    try:
        client = distributed.Client(
            None if own else address, security=security, timeout=CONNECT_S, set_as_default=False, **own
        )
    except (OSError, TypeError, ValueError) as e:
        raise InputError(f"no Dask scheduler answers at {address} within {CONNECT_S:.0f} s: {e}") from e
    with client:
        yield client


def _local(wanted: ClusterFile, device: str, security: Any, threads: int, folder: str) -> Any:
    """Processes of this machine, one piece of work at a time each; with a GPU device, the GPUs in turn."""
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
