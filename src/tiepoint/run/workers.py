# SPDX-License-Identifier: BSD-3-Clause
"""Worker processes: none outlives its parent, and ended ones leave nothing half-written."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from ..store.atomic import remove_temporaries

WATCH_S = 0.5
"""A worker looks this often whether its parent is still there."""

PATIENCE_S = 5.0
"""A worker that is asked to end and has not done so by then is killed."""


def follow_parent(parent: int) -> None:
    """End this process soon after `parent` has gone, however that ended (called in the worker)."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, name="parent watch", daemon=True).start()


@contextmanager
def interrupts_are_ours() -> Iterator[None]:
    """Workers started here ignore Ctrl-C, which a terminal sends to them too: their parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_workers(workers: Sequence[BaseProcess], root: Path) -> None:
    """End processes and remove what they were just writing in the store's folder."""
    started = [w for w in workers if w.pid is not None]
    for worker in started:
        worker.terminate()
    left = {w.sentinel: w for w in started}
    deadline = time.monotonic() + PATIENCE_S
    while left and (rest := deadline - time.monotonic()) > 0:
        ended = wait(list(left), timeout=rest)
        left = {sentinel: w for sentinel, w in left.items() if sentinel not in ended}
    for worker in left.values():
        worker.kill()
    if left:
        wait(list(left), timeout=PATIENCE_S)
    remove_temporaries(root, {w.pid for w in started if w.pid is not None})
