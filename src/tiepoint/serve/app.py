# SPDX-License-Identifier: BSD-3-Clause
"""The application: which URL is which page, and what a visitor reads when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..core.errors import InputError, TiepointError
from . import pictures, saved
from .auth import COOKIE, AccessPolicy
from .guard import AuthMiddleware, form_token
from .rendering import page, static_response
from .run_index import RunIndex
from .views import case, events, home, method_pair, run, run_list, scene, task

WRONG_S = 0.3
"""Seconds that a wrong token costs whoever tries it."""
View = Callable[[RunIndex, Request], Any]


def application(library: RunIndex, door: AccessPolicy | None = None) -> Starlette:
    """The pages of a store as an ASGI application.

    Args:
        library: The open store.
        door: Who is let in; by default whoever reaches the loopback address by its name.
    """
    door = door or AccessPolicy()

    def bound(view: View) -> Callable[[Request], Response]:
        return lambda request: view(library, request)

    async def events_(request: Request) -> Response:
        return events.event_stream(library, request)

    async def login(request: Request) -> Response:
        return await _login(door, request)

    routes = [
        Route("/", bound(home.home)),
        Route("/runs", bound(run_list.runs)),
        Route("/task/{name:path}", bound(task.task)),
        Route("/figure/{kind}/{name:path}", bound(task.figure_page)),
        Route("/two/{first}/{second}", bound(method_pair.method_pair_page)),
        Route("/scene/{runs}/{scene:path}", bound(scene.scene)),
        Route("/case/{runs}/{scene:path}", bound(case.case)),
        Route("/picture/{runs}/{scene:path}", bound(pictures.picture_answer)),
        Route("/run/{id}", bound(run.run_page)),
        Route("/run/{id}/{file}", bound(run.download)),
        Route("/events", events_),
        Route("/save", saved.endpoint),
        Route("/login", login, methods=["GET", "POST"]),
        Route("/static/{name}", static_response),
    ]
    handlers: dict[Any, Any] = {HTTPException: _failed, InputError: _wrong, TiepointError: _wrong}
    return Starlette(
        routes=routes, exception_handlers=handlers, middleware=[Middleware(AuthMiddleware, door=door)]
    )


async def _failed(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = error.detail if isinstance(error, HTTPException) else "something went wrong"
    return page(request, "error.html", status, title=f"{status}", words=words)


async def _wrong(request: Request, error: Exception) -> Response:
    words = error.brief if isinstance(error, TiepointError) else str(error)
    return page(request, "error.html", 400, title="400", words=words)


async def _login(door: AccessPolicy, request: Request) -> Response:
    if door.token is None:
        return RedirectResponse("/", 303)
    if request.method != "POST":
        return page(request, "login.html", wrong=False)
    given = await form_token(request)
    if given is None or not door.knows(given):
        await asyncio.sleep(WRONG_S)
        return page(request, "login.html", 403, wrong=True)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(COOKIE, door.cookie_value, httponly=True, samesite="strict", path="/")
    return answer
