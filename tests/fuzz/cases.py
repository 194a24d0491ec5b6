"""One reader under mutated files, in processes that may crash, hang or ask for memory without harm."""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import mmap
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.mutate import mutated
from fuzz.reader import Reader
from tiepoint.core.errors import TiepointError

MEMORY = 1 << 30
"""Bytes above its start that a process may take."""
SECONDS = 5
_KILLED_AFTER = 8
_BLOCKED = 60
_CHUNK = 5000
"""Cases a process; then another starts, with nothing left over."""
_KEPT = 3
_STATE = struct.Struct("<QQQ")


class HangError(BaseException):
    """A case took longer than it may."""


@dataclass
class Failure:
    """What went wrong: `kind` is the same for cases that fail alike."""

    kind: str
    case: int
    words: str = ""


@dataclass
class Outcome:
    """What came of the cases of a reader."""

    reader: str
    cases: int = 0
    results: int = 0
    errors: int = 0
    cpu_s: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def kinds(self) -> dict[str, list[Failure]]:
        """Failures that are alike, together."""
        found: dict[str, list[Failure]] = {}
        for failure in self.failures:
            found.setdefault(failure.kind, []).append(failure)
        return found


class Cases:
    """The cases of a reader: seed files, and the file or folder that each case reads."""

    def __init__(self, reader: Reader, root: Path, seed: int) -> None:
        self.reader, self.seed = reader, seed
        self.work = root / "work"
        made = root / "seeds"
        made.mkdir(parents=True)
        self.seeds = reader.seeds(made)
        self.files = [self._files(p) for p in self.seeds]
        self.contents = {p: p.read_bytes() for files in self.files for p in files}
        self.parts: dict[Path, list[bytes]] = {}
        for p, data in self.contents.items():
            shell = reader.shell(p.name)
            if shell is not None:
                self.parts[p] = shell.parts(data)
        for i, path in enumerate(self.seeds):
            place = self.work / str(i) / path.name
            place.parent.mkdir(parents=True)
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, place)

    @staticmethod
    def _files(path: Path) -> list[Path]:
        return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]

    def valid(self) -> None:
        """Every seed is read, or the seed is wrong."""
        for path in self.seeds:
            touch(self.reader.read(path))

    def content(self, case: int) -> tuple[int, Path, bytes]:
        """Number of the seed, the file of it that is another, and its bytes."""
        rng = Random(f"{self.seed} {self.reader.name} {case}")
        i = rng.randrange(len(self.seeds))
        path = rng.choice(self.files[i])
        data, shell = self.contents[path], self.reader.shell(path.name)
        if shell is not None and rng.random() < 0.6:
            parts = list(self.parts[path])
            k = rng.randrange(len(parts))
            parts[k] = mutated(parts[k], parts, rng)
            return i, path, shell.whole(data, parts)
        others = [d for p, d in self.contents.items() if p != path]
        return i, path, mutated(data, others, rng)

    def read(self, case: int) -> None:
        """Write the file of a case, read it, and put the valid one back."""
        i, path, data = self.content(case)
        seed = self.seeds[i]
        place = self.work / str(i) / seed.name
        file = place if path == seed else place / path.relative_to(seed)
        file.unlink(missing_ok=True)  # a new file: an earlier one may still be mapped
        file.write_bytes(data)
        try:
            touch(self.reader.read(place))
        finally:
            if path != seed:
                file.unlink(missing_ok=True)
                file.write_bytes(self.contents[path])

    def keep(self, case: int, folder: Path) -> Path:
        """The mutated file or folder of a case, beside the others that failed."""
        i, path, data = self.content(case)
        seed = self.seeds[i]
        place = folder / f"{self.reader.name.replace(' ', '-')}-{self.seed}-{case}" / seed.name
        shutil.rmtree(place.parent, ignore_errors=True)
        place.parent.mkdir(parents=True)
        if path == seed:
            place.write_bytes(data)
        else:
            shutil.copytree(seed, place)
            (place / path.relative_to(seed)).write_bytes(data)
        return place


def touch(value: Any, depth: int = 0) -> None:
    """Read every byte of the arrays of a result: what is mapped is read only now."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biuf" and value.size:
            value.max()
    elif depth < 4:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = [getattr(value, f.name) for f in dataclasses.fields(value)]
        elif isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, list | tuple):
            for inner in value[:50]:
                touch(inner, depth + 1)


def explore(
    reader: Reader, count: int, *, seed: int = 0, first: int = 0, keep: Path | None = None
) -> Outcome:
    """Read `count` mutated files, from case `first` on."""
    outcome = Outcome(reader.name)
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None) as root:
        cases = Cases(reader, Path(root), seed)
        cases.valid()
        at, end = first, first + count
        while at < end:
            at = _process(cases, at, min(end, at + _CHUNK), outcome)
        if keep is not None:
            for failures in outcome.kinds().values():
                for failure in failures[:_KEPT]:
                    failure.words += f" [{cases.keep(failure.case, keep)}]"
    return outcome


def _process(cases: Cases, at: int, end: int, outcome: Outcome) -> int:
    """Cases in a process of their own, up to its end or to the case that ended it; the next case."""
    shared = mmap.mmap(-1, _STATE.size)
    shared[:] = _STATE.pack(at, 0, 0)
    read_end, write_end = os.pipe()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            _child(cases, at, end, shared, write_end)
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as told:
        lines = told.read().splitlines()
    _, status = os.waitpid(pid, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome.cpu_s += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    case, results, errors = _STATE.unpack(shared[:])
    outcome.failures += [Failure(**json.loads(line)) for line in lines]
    outcome.results += results
    outcome.errors += errors
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        kind = "hang in compiled code" if name in ("SIGPROF", "SIGALRM") else f"crash: {name}"
        outcome.failures.append(Failure(kind, case))
        case += 1
    elif case < end:
        outcome.failures.append(Failure(f"the process ended with status {status}", case))
        case += 1
    outcome.cases += case - at
    return case


def _child(cases: Cases, at: int, end: int, shared: mmap.mmap, out: int) -> None:
    faulthandler.disable()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    warnings.simplefilter("ignore")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * mmap.PAGESIZE + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGVTALRM, _hang)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    results = errors = 0
    for case in range(at, end):
        shared[:] = _STATE.pack(case, results, errors)
        failure: Failure | None = None
        # Time of the processor, not of the clock: others may work on the machine. A case that waits for
        # something that never comes is ended by the clock.
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        signal.setitimer(signal.ITIMER_PROF, _KILLED_AFTER)
        signal.setitimer(signal.ITIMER_REAL, _BLOCKED)
        try:
            cases.read(case)
            results += 1
        except TiepointError as e:
            errors += 1
            failure = _judged(e, case)
        except HangError as e:
            failure = Failure(f"hang in {_place(e)}", case)
        except BaseException as e:
            failure = Failure(f"{type(e).__name__} in {_place(e)}", case, _short(e))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if failure is not None:
            os.write(out, json.dumps(dataclasses.asdict(failure)).encode() + b"\n")
    shared[:] = _STATE.pack(end, results, errors)


def _judged(error: TiepointError, case: int) -> Failure | None:
    """An error of ours is what is wanted, unless memory ran out on the way or its words run over lines."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return Failure(f"memory, told as {type(error).__name__} in {_place(error)}", case, _short(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return None


def _hang(number: int, frame: object) -> None:
    raise HangError


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:160].encode("ascii", "backslashreplace").decode()


def _place(error: BaseException) -> str:
    """The last line of tiepoint that led to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/tiepoint/" in f.filename]
    found = (ours or frames)[-1]
    name = found.filename.rpartition("/tiepoint/")[2] if ours else Path(found.filename).name
    return f"{name}:{found.lineno}"


def supported() -> bool:
    """Whether this system has what the processes need."""
    return sys.platform == "linux"
