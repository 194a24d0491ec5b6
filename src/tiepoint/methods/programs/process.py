# SPDX-License-Identifier: BSD-3-Clause
"""A running program: its standard input and output as lines, and its last error messages."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...core.errors import InputError
from ...core.formatting import printable
from ...core.processes import SHARED_MEMORY, is_alive, process_prefix, remove_orphans

LINE_BYTES = 1 << 20
"""Longest line that a program may write to its standard output."""

ERROR_LINES, ERROR_CHARS = 20, 500
"""Number and length of the last lines of standard error that are shown."""

EXIT_S = 1.0
"""Time for a program to exit after its standard input is closed, in seconds."""

END_S = 8.0
"""Time for the guardian to kill a program with its descendants, in seconds."""

FREE_BYTES = 1 << 30
"""Free bytes of shared memory above which arrays are stored there instead of the temporary folder."""

SAFE_PATH = "PYTHONSAFEPATH"


class ProgramFailure(Exception):
    """Raised if a program ended, did not answer in time or broke the protocol. It must be restarted."""


class ProgramProcess:
    """A started program. A guardian process ends it with all its descendants when this process ends.

    `folder` is an empty folder for arrays, which the guardian creates and removes.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str], folder: str | None) -> None:
        if os.name != "posix":
            raise InputError("exec: needs Linux or macOS; wrap the program in a Python class instead")
        remove_orphans()
        self.folder = os.path.join(_exchange_place(), process_prefix() + secrets.token_hex(8))
        self.pid, self._owner = 0, os.getpid()
        self._errors: deque[str] = deque(maxlen=ERROR_LINES)
        self._part = b""
        self._out = bytearray()
        self._lines: deque[bytes] = deque()
        self._unsent: deque[memoryview] = deque()
        self._status = b""
        self._ended: str | None = None
        self._channel, theirs = socket.socketpair()
        guardian = str(Path(__file__).with_name("guardian.py"))
        command = [sys.executable, "-I", "-S", guardian, str(theirs.fileno()), self.folder, *words]
        try:
            with theirs:
                self._guardian = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=folder,
                    env=_environment(env),
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except BaseException:
            self._channel.close()
            raise
        self._stdin, self._stdout, self._stderr = (
            stream
            for stream in (self._guardian.stdin, self._guardian.stdout, self._guardian.stderr)
            if stream
        )
        self._selector = selectors.DefaultSelector()
        for stream in (self._stdin, self._stdout, self._stderr, self._channel):
            os.set_blocking(stream.fileno(), False)
        for source in (self._stdout, self._stderr, self._channel):
            self._selector.register(source, selectors.EVENT_READ)

    def send(self, line: bytes) -> None:
        """Queue a line for the program's standard input. `receive` sends what the pipe cannot take yet."""
        self._unsent.append(memoryview(line + b"\n"))
        self._write()
        if self._unsent and self._stdin.fileno() not in self._selector.get_map():
            self._selector.register(self._stdin, selectors.EVENT_WRITE)

    def _write(self) -> None:
        while self._unsent:
            try:
                count = os.write(self._stdin.fileno(), self._unsent[0])
            except BlockingIOError:
                return
            except OSError:  # the program has closed its input; its end is reported by `receive`
                self._unsent.clear()
                return
            rest = self._unsent.popleft()[count:]
            if rest:
                self._unsent.appendleft(rest)

    def receive(self, timeout_s: float) -> bytes:
        """Return the next line that the program writes.

        Raises:
            ProgramFailure: The program ended, wrote a line that is too long, or wrote none in time.
        """
        until = time.monotonic() + timeout_s
        while not self._lines:
            if self._ended is not None and not self._is_open(self._stdout):
                part = f" in the middle of the line {_brief(self._out)}" if self._out else ""
                raise ProgramFailure(f"{self._ended}{part}")
            rest = until - time.monotonic()
            if rest <= 0:
                raise ProgramFailure(
                    f"the program did not answer within {timeout_s:g} s; increase exec.timeout_s"
                )
            self._pump(rest)
        return self._lines.popleft()

    def _is_open(self, stream: object) -> bool:
        return any(key.fileobj is stream for key in self._selector.get_map().values())

    def _pump(self, timeout_s: float) -> None:
        """Wait for one event of the program's pipes, and read or write the available data."""
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._stdin:
                self._write()
                if not self._unsent:
                    self._selector.unregister(self._stdin)
                continue
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fileobj)
                if key.fileobj is self._channel and self._ended is None:
                    self._ended = "its guardian process was killed"
            elif key.fileobj is self._stdout:
                self._split(data)
            elif key.fileobj is self._stderr:
                *lines, self._part = (self._part + data).split(b"\n")
                self._part = self._part[-ERROR_CHARS:]
                self._errors.extend(_shown(line) for line in lines)
            else:
                self._status += data
                *notes, self._status = self._status.split(b"\n")
                for note in notes:
                    self._note(note.decode())

    def _split(self, data: bytes) -> None:
        """Split output into lines. Only data after the last line break is searched again."""
        head, newline, rest = data.partition(b"\n")
        self._out += head
        while newline:
            self._limit()
            self._lines.append(bytes(self._out))
            self._out.clear()
            head, newline, rest = rest.partition(b"\n")
            self._out += head
        self._limit()

    def _limit(self) -> None:
        if len(self._out) > LINE_BYTES:
            raise ProgramFailure(
                f"the program wrote a line of more than {LINE_BYTES >> 20} MiB to standard output; write "
                "arrays to files"
            )

    def _note(self, note: str) -> None:
        """Handle a line that the guardian sent: the program's process id or its end."""
        what, _, rest = note.partition(" ")
        if what == "started":
            self.pid = int(rest)
        elif what == "failed":
            self._ended = f"it cannot be started: {rest}"
        else:
            status, left = map(int, rest.split())
            how = f"was killed by {_signal_name(-status)}" if status < 0 else f"exited with code {status}"
            more = f" and left {left} running processes, which were killed" if left else ""
            self._ended = f"the program {how}{more}"

    def errors(self) -> str:
        """Return the last lines of the program's standard error."""
        lines = [*self._errors, *([_shown(self._part)] if self._part else [])][-ERROR_LINES:]
        return "\n".join(lines).strip("\n")

    def drain(self, seconds: float = 0.2) -> None:
        """Read the remaining standard error of a program that has ended or will be ended."""
        until = time.monotonic() + seconds
        with contextlib.suppress(ProgramFailure):
            while self._is_open(self._stderr) and (rest := until - time.monotonic()) > 0:
                if self._ended is None:
                    rest = min(rest, 0.02)
                before = len(self._errors), len(self._part)
                self._pump(rest)
                if self._ended is None and before == (len(self._errors), len(self._part)):
                    return

    def close(self, *, gently: bool = False) -> None:
        """End the program with its descendants, and remove the folder.

        With `gently`, the program may exit by itself first.
        """
        if os.getpid() != self._owner:  # a fork must not end the program of its parent
            return
        if self._is_open(self._stdin):
            self._selector.unregister(self._stdin)
        with contextlib.suppress(OSError):
            self._stdin.close()
        until = time.monotonic() + EXIT_S
        with contextlib.suppress(ProgramFailure):
            while gently and self._ended is None and (rest := until - time.monotonic()) > 0:
                self._lines.clear()
                self._pump(rest)
        self._selector.close()
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self._channel.close()
        try:
            self._guardian.wait(END_S)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
        finally:
            if self._guardian.returncode:  # the guardian was killed and could not clean up
                if self.pid:
                    with contextlib.suppress(OSError):
                        os.killpg(self.pid, signal.SIGKILL)
                    until = time.monotonic() + END_S
                    while is_alive(self.pid) and time.monotonic() < until:  # it could write until its end
                        time.sleep(0.002)
                shutil.rmtree(self.folder, ignore_errors=True)
            for stream in (self._stdout, self._stderr):
                stream.close()


def _exchange_place() -> str:
    """Return the folder for arrays: shared memory if it has enough space, else the temporary folder."""
    try:
        has_room = shutil.disk_usage(SHARED_MEMORY).free >= FREE_BYTES and os.access(SHARED_MEMORY, os.W_OK)
    except OSError:
        has_room = False
    return os.path.realpath(SHARED_MEMORY if has_room else tempfile.gettempdir())


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the program's environment, without the variables that tiepoint sets for its own workers."""
    own = dict(os.environ)
    if multiprocessing.parent_process() is not None:
        own.pop(SAFE_PATH, None)
    return own | dict(env)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _shown(line: bytes) -> str:
    return printable(line[-ERROR_CHARS:].decode("utf-8", "replace").rstrip("\r"))


def _brief(data: bytes | bytearray) -> str:
    """Return the start of a line, shortened for messages.

    >>> _brief(b"Loading weights")
    "'Loading weights'"
    """
    text = printable(bytes(data[:60]).decode("utf-8", "replace"))
    return repr(text if len(data) <= 60 else f"{text}…")
