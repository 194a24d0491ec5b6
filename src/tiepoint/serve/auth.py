# SPDX-License-Identifier: BSD-3-Clause
"""Access control by Host header, token and cookie, and the security headers of all responses."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from ..core.errors import InputError

COOKIE = "tiepoint"
POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_.-]+))(?::[0-9]{1,5})?", re.ASCII)
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


PAGES = (
    "runs",
    "paper",
    "task",
    "figure",
    "two",
    "scene",
    "case",
    "cameras",
    "picture",
    "run",
    "events",
    "save",
    "login",
    "static",
)
"""First parts of the paths of all pages."""
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,80}")


@dataclass(frozen=True)
class PublicUrl:
    """Address at which a reverse proxy publishes the pages: scheme, host with port, and path prefix."""

    scheme: str = ""
    netloc: str = ""
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> PublicUrl:
        """Parse an address. Raise `InputError` if the pages cannot be published there.

        >>> PublicUrl.parse("https://lab.example.org/tiepoint/")
        PublicUrl(scheme='https', netloc='lab.example.org', prefix='/tiepoint')
        """
        try:
            found = urlsplit(text)
            _ = found.port
        except ValueError:
            found = urlsplit("")
        prefix = found.path.rstrip("/")
        fits = found.scheme in ("http", "https") and _HOST.fullmatch(found.netloc)
        if not fits or found.query or found.fragment or not _PREFIX.fullmatch(prefix):
            raise InputError(
                f"`public_url` is {text[:200]!r}; expected the address of the proxy with an optional path, "
                "such as https://lab.example.org/tiepoint"
            )
        if prefix.split("/")[1:2] and prefix.split("/")[1] in PAGES:
            raise InputError(f"`public_url`: the path {prefix} is the path of a page; choose another prefix")
        return cls(found.scheme, found.netloc.lower(), prefix)


@dataclass(frozen=True)
class AccessPolicy:
    """Access policy: the address to listen on, an optional access token, and the proxy in front.

    `public` is the address that the proxy publishes. `user_header` is a header in which the proxy names the
    user that it has authenticated; a request with this header is accepted.

    Raises:
        InputError: Other machines can reach the host and no token is set, the token is too short, or other
            machines could send `user_header` themselves.
    """

    host: str = "127.0.0.1"
    token: str | None = None
    public: PublicUrl = PublicUrl()
    user_header: str | None = None
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise InputError(
                f"other machines can reach {self.host}; pass an access `token`, e.g. "
                f'`token="{secrets.token_urlsafe(18)}"`'
            )
        if self.token is not None and len(self.token) < 8:
            raise InputError("the `token` has fewer than 8 characters; pass a longer one")
        if self.user_header is not None and not _HEADER.fullmatch(self.user_header):
            raise InputError(
                f"`user_header` is {self.user_header[:80]!r}; expected a name like X-Remote-User"
            )
        if self.user_header is not None and not is_loopback(self.host):
            raise InputError(
                f"other machines can reach {self.host} and send {self.user_header} themselves; listen on "
                "127.0.0.1, or let the proxy send the `token` in the header Authorization"
            )

    @property
    def cookie_value(self) -> str:
        """Value of the login cookie. It is derived from the token and valid for this server only."""
        return hmac.new(self._salt, (self.token or "").encode(), hashlib.sha256).hexdigest()

    def accepts_token(self, given: str) -> bool:
        """Return whether a token is correct. The comparison takes constant time."""
        expected = hashlib.sha256((self.token or "").encode()).digest()
        received = hashlib.sha256(given.encode("utf-8", "surrogatepass")).digest()
        return self.token is not None and hmac.compare_digest(expected, received)

    def accepts_cookie(self, cookie: str | None) -> bool:
        """Return whether a cookie is valid."""
        return self.token is None or hmac.compare_digest(self.cookie_value.encode(), (cookie or "").encode())

    def accepts_request(self, request: Request) -> bool:
        """Return whether a request has the cookie, the token or a user name from the proxy."""
        if self.user_header is not None:
            named = request.headers.getlist(self.user_header)
            if len(named) == 1 and named[0].strip():
                return True
            if self.token is None:
                return False
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.accepts_token(given.strip()):
            return True
        return self.accepts_cookie(request.cookies.get(COOKIE))

    def accepts_host(self, header: str) -> bool:
        """Return whether a Host header names this server.

        Other names that resolve to this machine may belong to a malicious page (DNS rebinding). If a token is
        set, the cookie protects the server. Any IP address is then accepted, because the server does not know
        its own addresses.
        """
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = (found["six"] or found["name"]).lower()
        if name in LOOPBACK_NAMES or name == self.host.lower():
            return True
        if self.public.netloc and name == (urlsplit(f"//{self.public.netloc}").hostname or ""):
            return True
        if is_loopback(self.host):
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            import socket

            return name in {socket.gethostname().lower(), socket.getfqdn().lower()}
        return True


WRONG_S = 0.3
"""Delay in seconds after a wrong token."""
MAX_BODY_BYTES = 4096
"""Maximum size of a login form in bytes."""


INTERNAL = "tiepoint.internal"
"""Key in the scope of a request that the application sends to itself."""
PREFIX = "tiepoint.prefix"
"""Key in the scope of a request with the path prefix of links."""


class AuthMiddleware:
    """Middleware that rejects unauthorised requests and adds security headers to all responses.

    It also removes the path prefix of the proxy, if the proxy has not removed it, and adds it to redirects.
    """

    def __init__(self, app: Any, door: AccessPolicy) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        internal = scope.get(INTERNAL, False)
        prefix = "" if internal else self.door.public.prefix
        path = scope["path"]
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            scope = {**scope, "path": path[len(prefix) :] or "/"}
        scope = {**scope, PREFIX: prefix}

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                known = [
                    (k, _below(prefix, v) if k.lower() == b"location" else v) for k, v in message["headers"]
                ]
                have = {name.lower() for name, _ in known}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in have]
                message["headers"] = [*known, *extra]
            await send(message)

        refused = None if internal else await self._refused(Request(scope, receive))
        await (refused or self.app)(scope, receive, with_headers)

    async def _refused(self, request: Request) -> Response | None:
        hosts = [v for k, v in request.scope["headers"] if k == b"host"]
        if len(hosts) != 1 or not self.door.accepts_host(hosts[0].decode("latin-1")):
            return PlainTextResponse("unknown host name; use the address that the server printed\n", 421)
        if request.method not in ("GET", "HEAD") and (request.method, request.url.path) != ("POST", "/login"):
            return PlainTextResponse("the server is read-only; use GET or HEAD\n", 405)
        open_to_all = request.url.path == "/login" or request.url.path.startswith("/static/")
        if open_to_all or self.door.accepts_request(request):
            return None
        if self.door.token is None:
            return PlainTextResponse(f"the proxy sent no {self.door.user_header}\n", 403)
        if request.headers.get("authorization", "").lower().startswith("bearer "):
            await asyncio.sleep(WRONG_S)
            return PlainTextResponse("wrong token\n", 401)
        return RedirectResponse("/login", 303)


def _below(prefix: str, location: bytes) -> bytes:
    return prefix.encode() + location if location.startswith(b"/") else location


async def form_token(request: Request, door: AccessPolicy) -> str | None:
    """Return the token of a submitted login form. None if the request is not a login form of this site."""
    origin, here = request.headers.get("origin"), {request.headers.get("host", ""), door.public.netloc}
    if origin is not None and origin != "null" and urlsplit(origin).netloc not in here:
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
