# SPDX-License-Identifier: BSD-3-Clause
"""Code that runs inside Dask workers: check the worker and run batches of jobs.

Every worker imports this module, so it imports only `distributed` and tiepoint.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ..._version import __version__
from ...core import hashing
from ...core.errors import InputError
from ...methods.source_files import library_versions
from ...store.atomic_files import atomic_file, remove_temporaries
from ..context import ContextRecipe, RunContext
from . import Done, Job, JobFailure

CONTEXTS = 4
"""Number of contexts that a worker caches."""

SHARED_S = 20.0
"""Seconds to wait for a file from another machine. Network file systems may show it late."""

REPORT_INTERVAL_S = 0.5
"""Seconds between two progress reports of a worker."""

TOKEN = ".cluster-"
"""Prefix of the files that verify that worker and submitting process share a folder."""

ALWAYS = ("numpy", "scipy", "numba", "pyarrow")
"""Libraries that influence scores and records of every method."""


WholeJob = Callable[[RunContext, Mapping[str, Any], Done], dict[str, Any]]
"""Job on all arguments of a batch. It calls `done` for each and returns results and failures by name."""


@dataclass(frozen=True)
class WorkerRequirements:
    """Properties that a worker must share with the submitting process.

    `versions` has the versions of tiepoint, its source and libraries. `folder` is the working folder, to
    which paths are relative. `token` names a file in the store folder.
    """

    token: str
    root: str
    folder: str
    versions: Mapping[str, str]


@dataclass(frozen=True)
class RemoteRecipe:
    """A recipe and the requirements that its worker must meet. `content` is the hash of the dataset.

    `family` is the method family. `threads` is the number of kernel threads; None uses the thread count of
    the Dask worker.
    """

    recipe: ContextRecipe
    family: str
    content: str
    expected: WorkerRequirements
    threads: int | None = None


@dataclass(frozen=True)
class UnfitWorker:
    """Answer of a worker that does not meet the requirements."""

    reason: str


class _Dropped(BaseException):
    """Raised when the current batch is cancelled. A `BaseException`, so that methods do not catch it."""


class TransientError(Exception):
    """Raised for a system error. The batch is retried, possibly on another worker."""


def token_file(root: str | Path, token: str, answer: str = "") -> Path:
    """Return the path of a token file, or of the file that a worker writes in reply."""
    return Path(root) / f"{TOKEN}{token}{'-' if answer else ''}{answer}"


def write_token(expected: WorkerRequirements) -> None:
    """Write the token file that workers check, and the known file hashes."""
    root = Path(expected.root)
    hashing.save_memo(root / "hashes.json", atomic_file)
    with atomic_file(token_file(root, expected.token)) as temporary:
        temporary.write_text(expected.token, encoding="utf-8", newline="\n")


def remove_tokens(expected: WorkerRequirements) -> None:
    """Remove the token file and the replies of the workers."""
    for path in Path(expected.root).glob(f"{TOKEN}{expected.token}*"):
        with contextlib.suppress(OSError):
            path.unlink()


@lru_cache(maxsize=1)
def package_source_hash() -> str:
    """Return a hash of the source files of this package. It distinguishes edits within one version."""
    package = Path(__file__).parents[2]
    files = sorted(package.rglob("*.py"))
    parts = [[p.relative_to(package).as_posix(), hashing.hash_bytes(p.read_bytes())] for p in files]
    return hashing.hash_json(parts)[:16]


def worker_versions(libraries: Sequence[str]) -> dict[str, str]:
    """Return the versions of tiepoint, its source and libraries, by import name.

    >>> sorted(worker_versions(["numpy"]))
    ['numpy', 'tiepoint', 'tiepoint source']
    """
    own = {"tiepoint": __version__, "tiepoint source": package_source_hash()}
    return own | library_versions(libraries)


def where() -> str:
    """Return the address and machine of this worker for messages."""
    return f"{_worker().address} on {platform.node()}"


def _worker() -> Any:
    from distributed import get_worker

    return get_worker()


def wait_for_file(path: Path, patience_s: float = SHARED_S, stop: Callable[[], bool] = bool) -> bool:
    """Wait for a file that another machine writes. Return False after `patience_s` seconds or if `stop()`.

    A network file system may cache that a file was missing. Listing the folder refreshes that cache.
    """
    deadline = time.monotonic() + patience_s
    pause = 0.05
    while not path.exists():
        with contextlib.suppress(OSError):
            for folder in (path.parent.parent, path.parent):
                os.listdir(folder)
        if path.exists():
            break
        if time.monotonic() > deadline or stop():
            return False
        time.sleep(pause)
        pause = min(2 * pause, 1.0)
    return True


_alone = threading.RLock()
"""Lock that allows one job per process, because threads share kernels and the working folder."""
_fit: set[str] = set()
"""Tokens of commands for which this worker passed the check."""
_contexts: dict[str, RunContext] = {}


def check_worker(expected: WorkerRequirements, patience_s: float = SHARED_S) -> UnfitWorker | None:
    """Compare this worker with the submitting process, and test the store folder. None if it fits."""
    found = worker_versions([name for name in expected.versions if not name.startswith("tiepoint")])
    for name, required in expected.versions.items():
        if found.get(name) != required:
            return UnfitWorker(
                f"has {name} {found.get(name, 'not installed')} where the submitting process has {required}; "
                "start its worker in the same environment"
            )
    if not os.path.isdir(expected.folder):
        return UnfitWorker(
            f"does not see the current folder {expected.folder}; run the command in a shared folder"
        )
    token = token_file(expected.root, expected.token)
    if (
        not wait_for_file(token, patience_s, _cancelled)
        or token.read_text(encoding="utf-8") != expected.token
    ):
        return UnfitWorker(
            f"does not see the folder of the store, {expected.root}, as the submitting process does; choose "
            "a `store` in a folder that all machines share"
        )
    try:
        with atomic_file(token_file(expected.root, expected.token, _answer())) as temporary:
            temporary.write_text(where(), encoding="utf-8", newline="\n")
    except (OSError, InputError) as e:
        return UnfitWorker(f"cannot write into the folder of the store: {e}")
    remove_temporaries(Path(expected.root))
    return None


def _answer() -> str:
    return hashing.hash_json(where())[:16]


def preflight(
    expected: WorkerRequirements, remotes: Sequence[RemoteRecipe], patience_s: float
) -> tuple[str, str, str | None]:
    """Check this worker. Return its name, the reply file, and the reason if the check failed."""
    with _alone:
        unfit = check_worker(expected, patience_s)
        if unfit is None:
            _fit.add(expected.token)
        for remote in remotes if unfit is None else ():
            with _in_submitter_folder(remote):
                unfit = unfit or _content(remote)
    return where(), _answer(), None if unfit is None else unfit.reason


def _content(remote: RemoteRecipe) -> UnfitWorker | None:
    """Return an error if the dataset differs from that of the submitting process. None otherwise."""
    try:
        found = remote.recipe.open_task(remote.family).data_hash
    except InputError as e:
        return UnfitWorker(f"cannot open the dataset: {e}")
    return _compare_content(remote, found)


def _compare_content(remote: RemoteRecipe, found: str) -> UnfitWorker | None:
    if found == remote.content:
        return None
    return UnfitWorker(
        f"sees another content of {remote.recipe.data} than the submitting process; copy the same files to "
        "all machines"
    )


@contextlib.contextmanager
def _in_submitter_folder(remote: RemoteRecipe) -> Iterator[None]:
    """Change to the working folder of the submitting process, and load its file hashes."""
    hashing.load_memo(Path(remote.expected.root) / "hashes.json")
    with contextlib.chdir(remote.expected.folder):
        yield


def _context(remote: RemoteRecipe) -> RunContext | JobFailure | UnfitWorker:
    """Return the context of a recipe, from the cache if possible. Check this worker first if necessary."""
    key = hashing.hash_json([remote.recipe.key, remote.content, remote.expected.token])
    found: RunContext | JobFailure | UnfitWorker | None = _contexts.pop(key, None)
    if found is None:
        found = _build(remote)
    if isinstance(found, RunContext):
        _contexts[key] = found
    while len(_contexts) > CONTEXTS:
        del _contexts[next(iter(_contexts))]
    return found


def _build(remote: RemoteRecipe) -> RunContext | JobFailure | UnfitWorker:
    if remote.expected.token not in _fit:
        if (unfit := check_worker(remote.expected)) is not None:
            return unfit
        _fit.add(remote.expected.token)
    threads = remote.threads or int(_worker().state.nthreads)
    try:
        context = replace(remote.recipe, threads=threads).build()
        return _compare_content(remote, context.opened.data_hash) or context
    except InputError as e:
        return JobFailure.of("", InputError(f"{e} (worker {where()})"))
    except Exception as e:
        return _named(JobFailure.of("", e))


def _cancelled() -> bool:
    """Return whether the current batch is cancelled."""
    worker = _worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return task is not None and task.state == "cancelled"


def run_batch(
    job: Job | WholeJob,
    batch: Mapping[str, Any],
    remote: RemoteRecipe,
    about: tuple[str, int, bool],
    *before: dict[str, Any] | UnfitWorker,
) -> dict[str, Any] | UnfitWorker:
    """Run the jobs of a batch. Return results and failures by name, both empty if the batch is cancelled.

    `about` has the topic for progress reports, the number of the batch, and whether one call processes the
    entire batch. `before` has the results of the batches that this batch needs. Jobs skip results that an
    earlier attempt has stored.
    """
    for done in before:
        if isinstance(done, UnfitWorker):
            return done
        failed = next((name for name, result in done.items() if isinstance(result, JobFailure)), None)
        if failed is not None:
            return {name: JobFailure(name, f"needs {failed}, which failed") for name in batch}
    topic, number, whole = about
    step = _BatchProgress(topic, number)
    with _alone, _in_submitter_folder(remote), contextlib.suppress(_Dropped):
        context = _context(remote)
        if isinstance(context, UnfitWorker):
            return UnfitWorker(f"the worker {where()} {context.reason}")
        if isinstance(context, JobFailure):
            return {name: replace(context, name=name) for name in batch}
        if whole:
            found = cast(WholeJob, job)(context, batch, step)
            return {n: _named(r) if isinstance(r, JobFailure) else r for n, r in found.items()}
        return {name: _call(cast(Job, job), name, context, batch[name], step) for name in batch}
    return {}


def _call(job: Job, name: str, context: RunContext, argument: Any, done: Done) -> Any:
    done()
    try:
        return job(context, argument)
    except (OSError, MemoryError) as e:
        raise TransientError(f"{name}: {type(e).__name__}: {e} (worker {where()})") from None
    except Exception as e:
        return _named(JobFailure.of(name, e))


def _named(failure: JobFailure) -> JobFailure:
    """Add the worker name to a failure, except to input errors."""
    if failure.cause is not None:
        return failure
    return replace(failure, error=f"{failure.error} (worker {where()})")


class _BatchProgress:
    """Progress callback for the jobs of a batch. Raises `_Dropped` if the batch is cancelled."""

    def __init__(self, topic: str, number: int) -> None:
        self.topic, self.number = topic, number
        self.reported_s, self.started = time.monotonic(), 0

    def __call__(self) -> None:
        if _cancelled():
            raise _Dropped
        if self.started and time.monotonic() - self.reported_s > REPORT_INTERVAL_S:
            self.reported_s = time.monotonic()
            _worker().log_event(self.topic, (self.number, self.started))
        self.started += 1


def loss_reason(error: BaseException) -> str:
    """Return why Dask gave up on a batch."""
    last = getattr(error, "last_worker", None)
    if last is not None:
        return f"its worker died each time, the last time at {last.address}, perhaps for lack of memory"
    return str(error) if type(error).__name__ == "TransientError" else f"{type(error).__name__}: {error}"


def final_status(future: Any, patience_s: float = 60.0) -> str:
    """Return the final status of a future. Wait while Dask recomputes a result lost with its worker."""
    until = time.monotonic() + patience_s
    while future.status == "lost" and time.monotonic() < until:
        time.sleep(0.05)
    return str(future.status)
