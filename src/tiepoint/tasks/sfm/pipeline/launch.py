# SPDX-License-Identifier: BSD-3-Clause
"""Run COLMAP in a child process with a time limit, and measure its peak memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("child.py")
_POLL_S = (0.005, 0.1)
_LOG_CHARS = 300


@dataclass(frozen=True)
class ChildResult:
    """Result of a child process.

    `found` is the content of ``result.json``. If it is missing, `failure` states why. `crashed` is set if a
    signal ended the process.
    """

    found: dict[str, Any]
    peak_mib: float
    failure: str = ""
    crashed: bool = False


def run_child(stage: str, job: dict[str, Any], folder: Path, limit_s: float) -> ChildResult:
    """Run a stage in a new process and wait for it. `folder` receives the files that it writes.

    The process is killed after `limit_s` seconds. It is also killed if this process is interrupted or ends.
    """
    path = folder / "job.json"
    path.write_text(
        json.dumps({**job, "stage": stage, "parent": os.getpid()}), encoding="utf-8", newline="\n"
    )
    (folder / "result.json").unlink(missing_ok=True)
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), str(path)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    status, peak_mib, late = _wait(process, limit_s)
    if late:
        return ChildResult({}, peak_mib, f"exceeded the time limit of {limit_s:g} s")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return ChildResult({}, peak_mib, f"the process ended by signal {name}", crashed=True)
    if os.WEXITSTATUS(status) or not (folder / "result.json").is_file():
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return ChildResult({}, peak_mib, f"COLMAP failed: {(lines or ['no message'])[-1][:_LOG_CHARS]}")
    return ChildResult(json.loads((folder / "result.json").read_text(encoding="utf-8")), peak_mib)


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> tuple[int, float, bool]:
    """Wait for a process.

    Return its wait status, its peak memory in MiB, and whether it was killed at the limit.
    """
    end, pause, late, pid = time.monotonic() + limit_s, _POLL_S[0], False, 0
    peak_mib = 0.0
    try:
        while True:
            peak_mib = max(peak_mib, _peak_mib(process.pid))
            pid, status, usage = os.wait4(process.pid, 0 if late else os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return status, peak_mib or usage.ru_maxrss / (1 << 20), late
            late = time.monotonic() > end
            if late:
                process.kill()
                continue
            time.sleep(pause)
            pause = min(pause * 1.2, _POLL_S[1])
    finally:
        if not pid:  # interrupted
            process.kill()
            with contextlib.suppress(ChildProcessError):
                os.wait4(process.pid, 0)
            process.returncode = -signal.SIGKILL


def _peak_mib(pid: int) -> float:
    """Return the peak memory of a process so far (Linux), else 0.

    Trap: the peak that `wait4` reports on Linux starts with the memory of this process, from which the child
    was forked.
    """
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        peak = re.search(r"VmHWM:\s*(\d+) kB", status)
        return int(peak[1]) / 1024 if peak else 0.0
    return 0.0
