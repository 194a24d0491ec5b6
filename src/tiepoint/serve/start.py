# SPDX-License-Identifier: BSD-3-Clause
"""Starting the server: the store, the cache folder, who may look, and uvicorn."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from ..core.errors import InputError
from ..store.store import Store
from .app import application
from .auth import AccessPolicy
from .cached_results import section_comparison
from .pictures import evict_oldest
from .run_index import RunIndex

PORT = 8765
PREPARING_S = 3600.0
"""Longest time that the next comparison waits for the one before it, when the server starts."""


def cache_folder() -> Path:
    """Where sort orders and pictures are kept: ``$TIEPOINT_CACHE``, or the user's cache folder."""
    given = os.environ.get("TIEPOINT_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tiepoint"


def serve(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    data: Sequence[Path] = (),
    said: Callable[[str], None] = print,
) -> None:
    """Serve the pages of a store until the process is interrupted.

    Raises:
        InputError: Others reach the host and there is no token, a folder of `data` is not there, or the port
            is taken.
    """
    door = AccessPolicy(host, token)
    for folder in data:
        if not folder.exists():
            raise InputError(f"there is no {folder}; `data` names folders to look for datasets in")
    library = RunIndex(store, data=data, cache=cache_folder())
    evict_oldest(cache_folder())
    library.snapshot()
    listening = _listen(host, port)
    threading.Thread(target=_prepare, args=(library,), daemon=True).start()
    shown = f"[{host}]" if ":" in host else host
    said(f"the store {store.where} is at http://{shown}:{listening.getsockname()[1]}/ (Ctrl-C ends)")
    config = uvicorn.Config(
        application(library, door), log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=2, proxy_headers=False, lifespan="off",
    )  # fmt: skip
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _prepare(library: RunIndex) -> None:
    """Make what the first visitors will look at, while they are on their way."""
    import matplotlib.figure  # noqa: F401  slow to import

    from ..report.case_detail import warm_up

    warm_up()
    for section in library.snapshot().sections:
        section_comparison(library, section, time.monotonic() + PREPARING_S)


def _listen(host: str, port: int) -> socket.socket:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(kind, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as e:
        made.close()
        why = getattr(e, "strerror", None) or e
        raise InputError(f"cannot listen on {host}, port {port}: {why}; choose another `port`") from e
    made.listen(128)
    return made
