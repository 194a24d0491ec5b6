# SPDX-License-Identifier: BSD-3-Clause
"""SIGTERM and SIGHUP end a command, also one that is deep in a library or in code that goes on regardless."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Collection

GRACE_S = 12.0
"""Seconds that a command has to stop by itself: workers are asked, then killed, and files removed."""


def force_exit_after(names: Collection[str] = ("SIGTERM", "SIGHUP"), after_s: float = GRACE_S) -> None:
    """End this process so many seconds after one of these signals, if it is still there; to be called once.

    Python calls the handler of a signal when the main thread is back from what it does, and code may go on
    after the exception that the handler raises. Here a thread is told of the signal by the system. Workers
    are killed; what they and this process leave is removed by the next command. Only a library that holds
    Python's lock without end is not ended by it.
    """
    numbers = {int(getattr(signal, name)) for name in names if hasattr(signal, name)}
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, numbers, after_s), name="end surely", daemon=True).start()


def _watch(reader: int, numbers: Collection[int], after_s: float) -> None:
    while received := os.read(reader, 1):
        if received[0] in numbers:
            time.sleep(after_s)
            with contextlib.suppress(Exception):
                used = sys.modules.get("multiprocessing")
                for worker in () if used is None else used.active_children():
                    worker.kill()
            with contextlib.suppress(OSError):
                os.write(2, f"tiepoint: Ended: the work did not stop within {after_s:g} s.\n".encode())
            os._exit(128 + received[0])
