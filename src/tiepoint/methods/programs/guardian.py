# SPDX-License-Identifier: BSD-3-Clause
"""Start a program, and kill it with all its descendants when tiepoint ends or closes the channel.

The guardian creates and removes FOLDER, so that no files remain even if tiepoint is killed.

tiepoint runs this file as a script: ``guardian.py CHANNEL FOLDER PROGRAM WORD...``. It imports nothing of
tiepoint. The program inherits standard input, output and error. The guardian writes lines to the channel (a
socket): ``started PID``, ``failed REASON``, and ``ended STATUS LEFT`` with the number of processes that the
program left running.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILLING_S = 5.0
"""Time limit for killing descendants that keep starting processes, in seconds."""


def main(channel: socket.socket, folder: str, words: list[str]) -> None:
    """Run the program until it ends or the channel is closed. Then kill all processes and remove `folder`."""
    if sys.platform == "linux":
        prctl(PR_SET_CHILD_SUBREAPER)
    noted, wake = os.pipe()
    for end in (noted, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, lambda *_: None)
    pid = 0
    try:
        os.mkdir(folder, 0o700)
        pid = started(channel, words)
    except OSError as e:
        say(channel, f"failed {e.strerror}: {folder}")
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silent, number)  # else the program's pipes stay open after its end
    if pid:
        say(channel, f"started {pid}")
    while True:
        ready, _, _ = select.select([channel.fileno(), noted], [], [])
        if noted in ready:
            os.read(noted, 4096)
        if pid and (status := ended(pid)) is not None:
            left = kill_all(pid)
            say(channel, f"ended {status} {left}")
            pid = 0
        if channel.fileno() in ready and not channel.recv(4096):
            break
    kill_all(pid)
    shutil.rmtree(folder, ignore_errors=True)


def prctl(option: int, value: int = 1) -> None:
    """Set a Linux attribute of this process (prctl). Ignore kernels that lack it."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def say(channel: socket.socket, line: str) -> None:
    """Send a line to tiepoint. Ignore the error if tiepoint has ended."""
    with contextlib.suppress(OSError):
        channel.sendall(f"{line}\n".encode())


def started(channel: socket.socket, words: list[str]) -> int:
    """Start the program in a new process group and report it. Return its process id, 0 on failure."""
    failed, report = os.pipe()  # closed by a successful start
    guardian = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            os.setpgid(0, 0)
            if sys.platform == "linux":
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != guardian:
                    os._exit(127)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execvp(words[0], words)
        except OSError as e:
            os.write(report, (e.strerror or str(e)).encode())
        finally:
            os._exit(127)
    os.close(report)
    why = os.read(failed, 4096).decode()
    os.close(failed)
    if why:
        os.waitpid(pid, 0)
        say(channel, f"failed {why}")
        return 0
    return pid


def ended(pid: int) -> int | None:
    """Collect all ended child processes. Return the program's exit status, or None if it still runs."""
    found = None
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not child:
            return found
        if child == pid:
            found = os.waitstatus_to_exitcode(status)


def kill_all(pid: int) -> int:
    """Kill the program's process group and all descendants of the guardian. Return how many were running."""
    count, until = 0, time.monotonic() + KILLING_S
    seen: set[int] = set()
    while time.monotonic() < until:
        running = descendants()
        if pid:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        for child in running:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        count += len(running - seen)
        seen |= running
        ended(0)
        if not running:
            break
        time.sleep(0.002)
    return count


def descendants() -> set[int]:
    """Return the process ids of all running descendants. Empty on systems without ``/proc``."""
    parents: dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return set()
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    words = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if words[:1] != [b"Z"] and len(words) > 1:
                parents[int(name)] = int(words[1])
    own, found = os.getpid(), set()
    for child in parents:
        at = child
        while at in parents and at != own:
            at = parents[at]
        if at == own and child != own:
            found.add(child)
    return found


if __name__ == "__main__":
    os.set_inheritable(int(sys.argv[1]), False)  # the program must not have it
    with socket.socket(fileno=int(sys.argv[1])) as opened:
        main(opened, sys.argv[2], sys.argv[3:])
