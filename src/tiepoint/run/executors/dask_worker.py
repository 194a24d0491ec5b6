# SPDX-License-Identifier: BSD-3-Clause
"""What runs inside the workers of a Dask cluster: the check that a worker fits, and batches of jobs.

Imported in every worker, so it needs no more than `distributed` and tiepoint there.
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
"""Contexts that a worker keeps."""

SHARED_S = 20.0
"""A file that another machine wrote is looked for so long: folders of a network come after it."""

REPORT_INTERVAL_S = 0.5
"""At most so often a worker says how far a batch is."""

TOKEN = ".cluster-"
"""Files by which both sides see that they have the same folder before them."""

ALWAYS = ("numpy", "scipy", "numba", "pyarrow")
"""Libraries that scores and records depend on, whatever the methods are."""


WholeJob = Callable[[RunContext, Mapping[str, Any], Done], dict[str, Any]]
"""Takes all arguments of a batch, calls `done` for each, and returns results and failures by name."""


@dataclass(frozen=True)
class WorkerRequirements:
    """What a worker must have in common with the process that submits: plain values.

    `worker_versions` are those of tiepoint, of its source and of libraries; `folder` is the current folder, which
    relative paths start from; `token` names a file in the folder of the store.
    """

    token: str
    root: str
    folder: str
    versions: Mapping[str, str]


@dataclass(frozen=True)
class RemoteRecipe:
    """A recipe with what must be true where it is used; `content` is the hash of the dataset.

    `family` is the method's, as which it sees the task; `threads` those of the kernels, None for as many as
    the worker was started with.
    """

    recipe: ContextRecipe
    family: str
    content: str
    expected: WorkerRequirements
    threads: int | None = None


@dataclass(frozen=True)
class UnfitWorker:
    """Why a worker cannot take part."""

    reason: str


class _Dropped(BaseException):
    """Nobody waits for the batch at work any more; past what handles errors of a method."""


class TransientError(Exception):
    """An error of the system, not of the work: the batch is tried again, perhaps elsewhere."""


def token_file(root: str | Path, token: str, answer: str = "") -> Path:
    """File by which both sides see that they have the same folder before them."""
    return Path(root) / f"{TOKEN}{token}{'-' if answer else ''}{answer}"


def write_token(expected: WorkerRequirements) -> None:
    """Write the file that workers look for, and the hashes of files that this process knows."""
    root = Path(expected.root)
    hashing.save_memo(root / "hashes.json", atomic_file)
    with atomic_file(token_file(root, expected.token)) as temporary:
        temporary.write_text(expected.token, encoding="utf-8", newline="\n")


def remove_tokens(expected: WorkerRequirements) -> None:
    """Remove that file and the answers of the workers."""
    for path in Path(expected.root).glob(f"{TOKEN}{expected.token}*"):
        with contextlib.suppress(OSError):
            path.unlink()


@lru_cache(maxsize=1)
def package_source_hash() -> str:
    """Hash of the source files of this package, which tells two states of one version apart."""
    package = Path(__file__).parents[2]
    files = sorted(package.rglob("*.py"))
    parts = [[p.relative_to(package).as_posix(), hashing.hash_bytes(p.read_bytes())] for p in files]
    return hashing.hash_json(parts)[:16]


def worker_versions(libraries: Sequence[str]) -> dict[str, str]:
    """Versions of tiepoint, of its source, and of libraries by the names they are imported by.

    >>> sorted(worker_versions(["numpy"]))
    ['numpy', 'tiepoint', 'tiepoint source']
    """
    own = {"tiepoint": __version__, "tiepoint source": package_source_hash()}
    return own | library_versions(libraries)


def where() -> str:
    """This worker, as messages name it: address and machine."""
    return f"{_worker().address} on {platform.node()}"


def _worker() -> Any:
    from distributed import get_worker

    return get_worker()


def wait_for_file(path: Path, patience_s: float = SHARED_S, stop: Callable[[], bool] = bool) -> bool:
    """Whether a file that another machine has written is here, or comes within `stall_timeout_s` seconds.

    It is looked for no longer once `stop()` is true.

    A network file system may remember for a while that a name did not exist; listing its folder asks again.
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
"""One job at a time in a process: kernels and the current folder are shared by its threads."""
_fit: set[str] = set()
"""Tokens of the commands that this worker was found fit for."""
_contexts: dict[str, RunContext] = {}


def check_worker(expected: WorkerRequirements, patience_s: float = SHARED_S) -> UnfitWorker | None:
    """Compare this worker with what the submitting process has; the store's folder is tried both ways."""
    found = worker_versions([name for name in expected.versions if not name.startswith("tiepoint")])
    for name, wanted in expected.versions.items():
        if found.get(name) != wanted:
            return UnfitWorker(
                f"has {name} {found.get(name, 'not installed')} where the submitting process has {wanted}; "
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
    """Called once in every worker: its name, the file it wrote, and why it cannot take part, if so."""
    with _alone:
        unfit = check_worker(expected, patience_s)
        if unfit is None:
            _fit.add(expected.token)
        for remote in remotes if unfit is None else ():
            with _settled(remote):
                unfit = unfit or _content(remote)
    return where(), _answer(), None if unfit is None else unfit.reason


def _content(remote: RemoteRecipe) -> UnfitWorker | None:
    """Compare the dataset, opened as the task of a recipe does."""
    try:
        found = remote.recipe.open_task(remote.family).data_hash
    except InputError as e:
        return UnfitWorker(f"cannot open the dataset: {e}")
    return _compared(remote, found)


def _compared(remote: RemoteRecipe, found: str) -> UnfitWorker | None:
    if found == remote.content:
        return None
    return UnfitWorker(
        f"sees another content of {remote.recipe.data} than the submitting process; give all machines the "
        "same files"
    )


@contextlib.contextmanager
def _settled(remote: RemoteRecipe) -> Iterator[None]:
    """In the folder of the submitting process, which paths in specs start from, and with its hashes."""
    hashing.load_memo(Path(remote.expected.root) / "hashes.json")
    with contextlib.chdir(remote.expected.folder):
        yield


def _context(remote: RemoteRecipe) -> RunContext | JobFailure | UnfitWorker:
    """The context of a recipe, made once and kept among the latest; a worker that came later is checked."""
    key = hashing.hash_json([remote.recipe.key, remote.content, remote.expected.token])
    found: RunContext | JobFailure | UnfitWorker | None = _contexts.pop(key, None)
    if found is None:
        found = _made(remote)
    if isinstance(found, RunContext):
        _contexts[key] = found
    while len(_contexts) > CONTEXTS:
        del _contexts[next(iter(_contexts))]
    return found


def _made(remote: RemoteRecipe) -> RunContext | JobFailure | UnfitWorker:
    if remote.expected.token not in _fit:
        if (unfit := check_worker(remote.expected)) is not None:
            return unfit
        _fit.add(remote.expected.token)
    threads = remote.threads or int(_worker().state.nthreads)
    try:
        context = replace(remote.recipe, threads=threads).build()
        return _compared(remote, context.opened.data_hash) or context
    except InputError as e:
        return JobFailure.of("", InputError(f"{e} (worker {where()})"))
    except Exception as e:
        return _named(JobFailure.of("", e))


def _cancelled() -> bool:
    """Whether nobody waits for the batch at work any more."""
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
    """Results and failures of the jobs of a batch by name; it ends early where nobody waits for it.

    `about` is where to tell how far it is, its number, and whether the job takes the whole batch. `before` is
    what the batches returned that this one needs. Whatever an earlier try has finished is found in the store
    by the jobs themselves.
    """
    for done in before:
        if isinstance(done, UnfitWorker):
            return done
        failed = next((name for name, result in done.items() if isinstance(result, JobFailure)), None)
        if failed is not None:
            return {name: JobFailure(name, f"needs {failed}, which failed") for name in batch}
    topic, number, whole = about
    step = _stepper(topic, number)
    with _alone, _settled(remote), contextlib.suppress(_Dropped):
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
    """A failure that says where; what is wrong with the input is so everywhere."""
    if failure.cause is not None:
        return failure
    return replace(failure, error=f"{failure.error} (worker {where()})")


def _stepper(topic: str, number: int) -> Done:
    """To be called before a job: says how many jobs are done, not too often, and ends a batch not wanted."""
    told, begun = time.monotonic(), 0

    def step() -> None:
        nonlocal told, begun
        if _cancelled():
            raise _Dropped
        if begun and time.monotonic() - told > REPORT_INTERVAL_S:
            told = time.monotonic()
            _worker().log_event(topic, (number, begun))
        begun += 1

    return step


def loss_reason(error: BaseException) -> str:
    """Why Dask gave up on a piece."""
    last = getattr(error, "last_worker", None)
    if last is not None:
        return f"its worker died each time, the last time at {last.address}, perhaps for lack of memory"
    return str(error) if type(error).__name__ == "TransientError" else f"{type(error).__name__}: {error}"


def final_status(future: Any, patience_s: float = 60.0) -> str:
    """The status of a future; a result that went with its worker is waited for: Dask makes it again."""
    until = time.monotonic() + patience_s
    while future.status == "lost" and time.monotonic() < until:
        time.sleep(0.05)
    return str(future.status)
