# SPDX-License-Identifier: BSD-3-Clause
"""The Dask cluster of a command: connected to, or started here and ended with it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...core.errors import InputError, UnknownNameError
from ...core.scratch import scratch_folder
from ..machine import cores, has_dashboard, visible_gpus
from .cluster_spec import ADDRESS, ClusterFile, read_spec
from .process_pool import SAFE_PATH, THREAD_VARIABLES, block_interrupts_in_workers
from .queues import queue_cluster, replace_finished_jobs, shape

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
