# SPDX-License-Identifier: BSD-3-Clause
"""Lets requests through that may be, puts the headers on every answer, reads the login form."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from .auth import COOKIE, HEADERS, AccessPolicy

MAX_BODY_BYTES = 4096
"""Bytes of a login form."""


class AuthMiddleware:
    """Lets requests through that may be, and puts the headers on every answer."""

    def __init__(self, app: Any, door: AccessPolicy) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                have = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in have]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        refused = await self._refused(Request(scope, receive))
        await (refused or self.app)(scope, receive, with_headers)

    async def _refused(self, request: Request) -> Response | None:
        hosts = [v for k, v in request.scope["headers"] if k == b"host"]
        if len(hosts) != 1 or not self.door.accepts_host(hosts[0].decode("latin-1")):
            return PlainTextResponse("this server does not answer to that name\n", 421)
        if request.method not in ("GET", "HEAD") and (request.method, request.url.path) != ("POST", "/login"):
            return PlainTextResponse("pages can only be read\n", 405)
        open_to_all = request.url.path == "/login" or request.url.path.startswith("/static/")
        if open_to_all or self.door.accepts_cookie(request.cookies.get(COOKIE)):
            return None
        return RedirectResponse("/login", 303)


async def form_token(request: Request) -> str | None:
    """The token of a login form of this site; None for anything else that is posted."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if origin is not None and origin != "null" and urlsplit(origin).netloc != host:
        return None
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            return None
    try:
        return parse_qs(body.decode("utf-8"), max_num_fields=4).get("token", [None])[0]
    except ValueError:
        return None
