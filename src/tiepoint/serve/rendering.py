# SPDX-License-Identifier: BSD-3-Clause
"""Render templates, static files and standalone pages."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from html import escape, unescape
from importlib.resources import files
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from .._version import __version__
from ..report.figures.figure import short
from .auth import INTERNAL, PREFIX
from .params import url

STATIC: Mapping[str, tuple[str, str, str]] = {
    "report.css": ("tiepoint.report", "report.css", "text/css"),
    "serve.css": ("tiepoint.serve", "serve.css", "text/css"),
    "tables.js": ("tiepoint.report", "tables.js", "text/javascript"),
    "copy.js": ("tiepoint.report", "copy.js", "text/javascript"),
    "serve.js": ("tiepoint.serve", "serve.js", "text/javascript"),
    "cameras.js": ("tiepoint.serve", "cameras.js", "text/javascript"),
    "viewer.js": ("tiepoint.serve", "viewer.js", "text/javascript"),
}
FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Content security policy of figures, which are separate documents with inline styles and no scripts."""

_LINK = re.compile(r'([ \n](?:[\w:-]*-)?(?:xlink:)?(?:href|src|action)=)"/(?!/)')
"""Start of an attribute with the path of a page."""


@cache
def environment() -> Any:
    """Return the Jinja environment of the templates."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=ChoiceLoader([PackageLoader(f"tiepoint.{name}", "templates") for name in ("serve", "report")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals.update(url=url, short=short, version=__version__, stamp=_stamp())
    return made


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Render a template and return the HTML response."""
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    prefix = request.scope.get(PREFIX, "")
    common = {"here": asked, "pending": False, "prefix": prefix}
    made = environment().get_template(template).render(common | values)
    # Templates escape quotes in text, so this matches attributes only.
    made = _LINK.sub(rf'\1"{prefix}/', made) if prefix else made
    return HTMLResponse(made, status, {"cache-control": "no-store"})


@cache
def static_text(name: str) -> str:
    """Return the text of a static file."""
    package, path, _ = STATIC[name]
    return (files(package) / "templates" / path).read_text("utf-8")


@cache
def _stamp() -> str:
    """Return a hash of the static files for their URLs, so that browsers never use outdated files."""
    return hashlib.sha256("".join(static_text(n) for n in STATIC).encode()).hexdigest()[:12]


def static_response(request: Request) -> Response:
    """Return the response with a style sheet or a script."""
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404, "this file does not exist")
    return with_etag(request, static_text(name).encode(), STATIC[name][2])


def with_etag(
    request: Request, body: bytes, kind: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response that browsers cache and revalidate by its ETag."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    extra = {"etag": tag, "cache-control": "private, no-cache", **(headers or {})}
    if tag in [t.strip().removeprefix("W/") for t in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=extra)
    return Response(body, media_type=kind, headers=extra)


def figure_response(request: Request, svg: str) -> Response:
    """Return a figure as a separate SVG picture, with dark lines for a white background."""
    if "xmlns=" not in svg[:400]:
        svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    body = svg.replace("currentColor", "#1d2129").encode()
    return with_etag(request, body, "image/svg+xml", headers={"content-security-policy": FIGURE_POLICY})


MAX_PAGE_BYTES = 64 << 20
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
VIEWS = ("", "runs", "paper", "task", "two", "run", "scene", "case", "cameras")


async def endpoint(request: Request) -> Response:
    """Return a page as a standalone HTML file. The parameter `view` has the page's path and query."""
    view = request.query_params.get("view", "/")
    parts = urlsplit(view)
    if not view.startswith("/") or view.startswith("//") or len(view) > 4000 or parts.netloc:
        raise HTTPException(400, "the parameter `view` must be the path of a page, such as /")
    if parts.path.split("/")[1] not in VIEWS or not view.isprintable():
        raise HTTPException(404, "only pages can be saved")
    status, headers, body = await local_response(request, view)
    if status != 200 or not headers.get("content-type", "").startswith("text/html"):
        raise HTTPException(404, "this page does not exist")
    public = request.app.state.public
    base = f"{request.url.scheme}://{request.headers['host']}"
    if public.netloc:
        base = f"{public.scheme}://{public.netloc}{public.prefix}"
    made = await standalone_page(request, body.decode(), base)
    name = re.sub(r"[^A-Za-z0-9]+", "-", parts.path).strip("-") or "home"
    headers = {
        "content-disposition": f'attachment; filename="tiepoint-{name[:80]}.html"',
        "content-security-policy": POLICY,
    }
    return Response(made, media_type="text/html", headers=headers)


async def standalone_page(request: Request, page: str, base: str) -> str:
    """Embed all resources into a page. Links to other pages point to the server."""
    total = 0
    known: dict[str, str] = {}
    for source in dict.fromkeys(re.findall(r'<(?:img|image)[^>]*? (?:src|href)="(/[^"]*)"', page)):
        status, headers, body = await local_response(request, unescape(source))
        total += len(body)
        if total > MAX_PAGE_BYTES:
            raise HTTPException(
                400, "the pictures of this page are too large for one file; save a page with fewer pictures"
            )
        if status == 200:
            kind = headers["content-type"].partition(";")[0]
            known[source] = f"data:{kind};base64,{base64.b64encode(body).decode()}"
    page = re.sub(
        r'(<(?:img|image)[^>]*? (?:src|href)=")(/[^"]*)"', lambda m: f'{m[1]}{known.get(m[2], "")}"', page
    )

    def style(found: re.Match[str]) -> str:
        return f"<style>{static_text(found[1])}</style>" if found[1] in STATIC else ""

    def script(found: re.Match[str]) -> str:
        return f"<script>{static_text(found[1])}</script>" if found[1] in STATIC else ""

    policy = f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY, quote=True)}">'
    page = page.replace('<meta http-equiv="refresh" content="2">', "")
    page = page.replace("<head>", f"<head>\n{policy}", 1)
    page = re.sub(r'<link rel="stylesheet" href="/static/([\w.]+)[^"]*">', style, page)
    page = re.sub(r'<script src="/static/([\w.]+)[^"]*" defer></script>', "", page) + "".join(
        script(m) for m in re.finditer(r'<script src="/static/([\w.]+)[^"]*" defer></script>', page)
    )
    page = re.sub(
        r'(<(?:a|form)[^>]*? (?:href|action)=")(/[^"]*)"', rf'\1{escape(base, quote=True)}\2"', page
    )
    return page.replace("<body", '<body data-saved="1"', 1)


async def local_response(request: Request, view: str) -> tuple[int, dict[str, str], bytes]:
    """Request a path from this application. Return status, headers and body."""
    parts = urlsplit(view)
    path = unquote(parts.path)
    headers = [(b"host", request.headers["host"].encode("latin-1"))]
    scope = dict(request.scope) | {
        "path": path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "method": "GET",
        "headers": headers,
        "path_params": {},
        "root_path": "",
        "state": {},
        INTERNAL: True,
    }
    scope.pop("endpoint", None)
    found: dict[str, Any] = {"status": 500, "headers": {}, "body": bytearray()}

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found["status"] = message["status"]
            found["headers"] = {k.decode().lower(): v.decode() for k, v in message["headers"]}
        elif message["type"] == "http.response.body":
            found["body"] += message.get("body", b"")

    await request.app(scope, receive, send)
    return found["status"], found["headers"], bytes(found["body"])
