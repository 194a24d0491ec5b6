# SPDX-License-Identifier: BSD-3-Clause
"""Record files, folders and servers that user code opens while it computes features.

An audit hook receives these events from Python. Libraries that open files without Python (``cv2.imread``,
``h5py``, ``onnxruntime``) and child processes do not report what they read.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from ..core.hashing import HashedFiles
from .source_files import is_installed

_PACKAGE = str(Path(__file__).parents[1])
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/bin/", "/lib/", "/usr/")
_NOT_SYSTEM = ("/usr/local/", "/dev/shm/")
_CACHES = frozenset({"__pycache__", ".triton", ".nv", "fontconfig", "matplotlib"})
"""Names of cache and settings folders that libraries write and that are not recorded."""
_SCRIPTS = (".sh", ".py", ".pl", ".rb", ".js", ".jar", ".m", ".R", ".jl", ".lua")
_WRITES = os.O_WRONLY | os.O_TRUNC
Stream = Callable[[Iterator[Any]], Iterator[Any]]

_here = threading.local()
_active: list[OpenedFiles] = []
_installed = threading.Lock()


class OpenedFiles:
    """Record of the files, folders and servers that one method has opened, in the order of first use.

    A file that the method writes before reading it, or that appears while the method is in use, is output and
    not recorded. Files of Python, installed packages and the system are not recorded either. `programs` has
    the names of programs and scripts that the code has started, except those of the system.
    """

    def __init__(self) -> None:
        self._since_ns = time.time_ns()
        self._names: dict[str, None] = {}
        self.programs: dict[str, None] = {}
        self._written: set[str] = set()
        self._outside: tuple[int, int, list[str]] = 0, 0, []
        _install_hook()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record within this block what this thread, and other threads that run user code, open."""
        before = getattr(_here, "recorder", None)
        _here.recorder = self
        _active.append(self)
        try:
            yield
        finally:
            _active.remove(self)
            _here.recorder = before

    def calls(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that each call is recorded."""

        def called(*args: Any, **kwargs: Any) -> Any:
            with self.recorded():
                return function(*args, **kwargs)

        return called

    def steps(
        self, stream: Callable[[Iterator[Any]], Iterator[Any]]
    ) -> Callable[[Iterator[Any]], Iterator[Any]]:
        """Wrap a generator function so that its own steps are recorded, but not reading from its argument."""

        def paused(source: Iterator[Any]) -> Iterator[Any]:
            while True:
                before, _here.recorder = getattr(_here, "recorder", None), _PAUSED
                try:
                    value = next(source, _here)
                finally:
                    _here.recorder = before
                if value is _here:
                    return
                yield value

        def called(source: Iterator[Any]) -> Iterator[Any]:
            inner = stream(paused(source))
            while True:
                with self.recorded():
                    value = next(inner, _here)
                if value is _here:
                    return
                yield value

        return called

    def outside(self, keyed: HashedFiles) -> list[str]:
        """Return the recorded names that `keyed`, the files and folders of a cache key, does not contain."""
        *counts, found = self._outside
        if counts == [len(self._names), len(keyed)]:
            return found
        known = {os.path.realpath(path) for path in (*keyed, *keyed.folders)}
        folders = tuple(os.path.join(os.path.realpath(folder), "") for folder in keyed.folders)
        names = list(self._names)
        found = [name for name in names if name not in known and not name.startswith(folders)]
        self._outside = len(names), len(keyed), found
        return found

    def note(self, name: Any) -> None:
        """Record a file or folder that existed before this method was in use. Ignore others."""
        if isinstance(name, str | bytes | os.PathLike):  # else the number of an open file
            path = self._path(name)
            if path is not None:
                self._names[path] = None

    def note_word(self, name: str) -> None:
        """Record a word of a command line if it names a file. An executable file is recorded as a program."""
        path = self._path(name)
        if path is not None:
            self._names[path] = None
            if os.path.isfile(path) and (os.access(path, os.X_OK) or path.endswith(_SCRIPTS)):
                self.programs[os.path.basename(path)] = None

    def _path(self, name: str | bytes | os.PathLike[Any]) -> str | None:
        """Return the real path of a file or folder that counts as input of the method. None for others."""
        path = os.path.realpath(os.path.abspath(os.fsdecode(name)))
        is_system = path.startswith(_SYSTEM) and not path.startswith(_NOT_SYSTEM)
        if is_system or path in self._written:
            return None
        if _CACHES.intersection(path.split(os.sep)):
            try:
                path = importlib.util.source_from_cache(path)
            except ValueError:  # no bytecode of Python itself
                return None
        try:
            found = os.stat(path)
        except OSError:
            return None
        is_file, is_folder = stat.S_ISREG(found.st_mode), stat.S_ISDIR(found.st_mode)
        is_new = is_file and max(found.st_mtime_ns, found.st_ctime_ns) > self._since_ns
        counts = (is_file or is_folder) and not is_new and not _belongs_to_python(path)
        return path if counts else None

    def note_written(self, name: Any) -> None:
        """Remember a file that the method writes, so that reading it later is not recorded."""
        if isinstance(name, str | bytes | os.PathLike):
            path = os.path.realpath(os.path.abspath(os.fsdecode(name)))
            if path not in self._names:
                self._written.add(path)

    def note_server(self, address: Any) -> None:
        """Record a network connection."""
        if isinstance(address, tuple) and len(address) > 1:
            self._names[f"a connection to {address[0]}:{address[1]}"] = None


def _belongs_to_python(path: str) -> bool:
    own = {os.path.realpath(p) for p in (sys.prefix, sys.base_prefix)} - {"/", "/usr"}
    return is_installed(path) or any(Path(path).is_relative_to(p) for p in own)


def _install_hook() -> None:
    """Install the audit hook, once per process. Python cannot remove audit hooks."""
    if _installed.acquire(blocking=False):  # never released
        sys.addaudithook(_hook)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _active or (handler := _EVENTS.get(event)) is None:
        return
    recorder = getattr(_here, "recorder", None)
    if recorder is None and _in_user_code():
        recorder = _active[-1]
    if isinstance(recorder, OpenedFiles):
        with suppress(ValueError, OSError):  # not a path: it has a NUL, or the current folder was removed
            handler(recorder, args)


def _in_user_code() -> bool:
    """Return whether this thread runs for user code.

    It does if user code is on its call stack, or if code of tiepoint is not: a thread of a user's pool may
    have only library code on its stack.
    """
    frame: FrameType | None = sys._getframe(2)
    has_own = False
    while frame is not None:
        file = frame.f_code.co_filename
        has_own = has_own or file.startswith(_PACKAGE)
        if not file.startswith("<") and not is_installed(file):
            return True
        frame = frame.f_back
    return not has_own


def _opened(recorder: OpenedFiles, args: tuple[Any, ...]) -> None:
    path, mode, flags = args
    writes = set(mode or "") & set("wax") or (isinstance(flags, int) and flags & _WRITES)
    (recorder.note_written if writes else recorder.note)(path)


def _listed(recorder: OpenedFiles, args: tuple[Any, ...]) -> None:
    if not sys._getframe(2).f_code.co_filename.startswith("<frozen importlib"):
        recorder.note("." if args[0] is None else args[0])


def _imported(recorder: OpenedFiles, args: tuple[Any, ...]) -> None:
    if args[1]:  # the file of a compiled module
        recorder.note(args[1])


def _connected(recorder: OpenedFiles, args: tuple[Any, ...]) -> None:
    name = os.fsdecode(args[0])
    recorder.note(name.removeprefix("file:").partition("?")[0] if name.startswith("file:") else name)


def _started(recorder: OpenedFiles, args: tuple[Any, ...]) -> None:
    """Record a started program and the files among the words of its command line."""
    program, words, folder = (*args, None, None)[:3]
    given = [words] if isinstance(words, str | bytes | os.PathLike) else list(words or ())
    texts = [os.fsdecode(word) for word in given]
    names = [*texts, *(part for text in texts if " " in text for part in _parts(text))]
    first = [os.fsdecode(program)] if program else []
    for name in dict.fromkeys([*first, *names]):
        place = shutil.which(name) if os.sep not in name else None
        recorder.note_word(place or (os.path.join(os.fsdecode(folder), name) if folder else name))


def _forked(recorder: OpenedFiles, _: tuple[Any, ...]) -> None:
    recorder.programs["a child process"] = None


def _commanded(recorder: OpenedFiles, args: tuple[Any, ...]) -> None:
    _started(recorder, (None, args[0]))


def _parts(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


_PAUSED = object()
_EVENTS: dict[str, Callable[[OpenedFiles, tuple[Any, ...]], None]] = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _listed,
    "import": _imported,
    "sqlite3.connect": _connected,
    "ctypes.dlopen": lambda recorder, args: recorder.note(args[0]),
    "subprocess.Popen": _started,
    "os.posix_spawn": _started,
    "os.system": _commanded,
    "os.fork": _forked,
    "socket.connect": lambda recorder, args: recorder.note_server(args[1]),
}
