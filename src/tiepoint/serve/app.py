# SPDX-License-Identifier: BSD-3-Clause
"""The web application: routes, error pages, login and the server."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..core.array_cache import user_cache_folder
from ..core.errors import InputError, TiepointError
from ..store.store import Store
from . import pictures, rendering
from .auth import COOKIE, WRONG_S, AccessPolicy, AuthMiddleware, PublicUrl, form_token
from .cached_results import section_comparison
from .pictures import evict_oldest
from .rendering import page, static_response
from .run_index import RunIndex
from .views import cameras, case, home, method_pair, run, task

View = Callable[[RunIndex, Request], Any]


def application(library: RunIndex, door: AccessPolicy | None = None) -> Starlette:
    """Create the ASGI application that serves the pages of a store.

    Args:
        library: The open store.
        door: The access policy. By default, only this machine has access (loopback address).
    """
    door = door or AccessPolicy()

    def bound(view: View) -> Callable[[Request], Response]:
        return lambda request: view(library, request)

    async def events_(request: Request) -> Response:
        return home.event_stream(library, request)

    async def login(request: Request) -> Response:
        return await _login(door, request)

    routes = [
        Route("/", bound(home.home)),
        Route("/runs", bound(home.runs)),
        Route("/paper", bound(task.paper)),
        Route("/task/{name:path}", bound(task.task)),
        Route("/figure/{kind}/{name:path}", bound(task.figure_page)),
        Route("/two/{first}/{second}", bound(method_pair.method_pair_page)),
        Route("/scene/{runs}/{scene:path}", bound(case.scene)),
        Route("/case/{runs}/{scene:path}", bound(case.case)),
        Route("/cameras/{run}/{scene:path}", bound(cameras.cameras_page)),
        Route("/picture/{runs}/{scene:path}", bound(pictures.picture_answer)),
        Route("/run/{id}", bound(run.run_page)),
        Route("/run/{id}/{file}", bound(run.download)),
        Route("/events", events_),
        Route("/save", rendering.endpoint),
        Route("/login", login, methods=["GET", "POST"]),
        Route("/static/{name}", static_response),
    ]
    handlers: dict[Any, Any] = {HTTPException: _failed, InputError: _wrong, TiepointError: _wrong}
    made = Starlette(
        routes=routes, exception_handlers=handlers, middleware=[Middleware(AuthMiddleware, door=door)]
    )
    made.state.public = door.public
    made.router.redirect_slashes = False  # such a redirect would lead out of the prefix
    return made


async def _failed(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = error.detail if isinstance(error, HTTPException) else "internal error"
    return page(request, "error.html", status, title=f"{status}", words=words)


async def _wrong(request: Request, error: Exception) -> Response:
    words = error.one_line if isinstance(error, TiepointError) else str(error)
    return page(request, "error.html", 400, title="400", words=words)


async def _login(door: AccessPolicy, request: Request) -> Response:
    if door.token is None:
        return RedirectResponse("/", 303)
    if request.method != "POST":
        return page(request, "login.html", wrong=False)
    given = await form_token(request, door)
    if given is None or not door.accepts_token(given):
        await asyncio.sleep(WRONG_S)
        return page(request, "login.html", 403, wrong=True)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        COOKIE, door.cookie_value, httponly=True, samesite="strict", path=door.public.prefix or "/",
        secure=door.public.scheme == "https",
    )  # fmt: skip
    return answer


PORT = 8765
PREPARING_S = 3600.0
"""Timeout in seconds for each comparison that the server precomputes at start."""


def serve(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    public_url: str | None = None,
    user_header: str | None = None,
    data: Sequence[Path] = (),
    said: Callable[[str], None] = print,
) -> None:
    """Serve the pages of a store until the process is interrupted.

    Args:
        store: The open store.
        host: Address to listen on.
        port: Port to listen on; 0 for a free one.
        token: Access token; required if other machines can reach the host.
        public_url: Address at which a reverse proxy publishes the pages, with the path prefix of all links.
        user_header: Header in which the proxy names the authenticated user.
        data: Folders to search for datasets that were moved.
        said: Called with the address of the pages.

    Raises:
        InputError: Other machines can reach the host and no token is set, a folder in `data` is missing, or
            the port is in use.
    """
    public = PublicUrl() if public_url is None else PublicUrl.parse(public_url)
    door = AccessPolicy(host, token, public, user_header)
    for folder in data:
        if not folder.exists():
            raise InputError(f"{folder} does not exist; pass existing folders as `data`")
    library = RunIndex(store, data=data, cache=user_cache_folder())
    evict_oldest(user_cache_folder())
    library.snapshot()
    listening = _listen(host, port)
    threading.Thread(target=_prepare, args=(library,), daemon=True).start()
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    proxy = f", published by a proxy at {public.scheme}://{public.netloc}{public.prefix}/" * bool(
        public.netloc
    )
    said(f"the store {store.where} is at {address}{proxy} (press Ctrl-C to stop)")
    config = uvicorn.Config(
        application(library, door), log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=2, proxy_headers=False, lifespan="off",
    )  # fmt: skip
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _prepare(library: RunIndex) -> None:
    """Precompute the comparisons of all sections."""
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
