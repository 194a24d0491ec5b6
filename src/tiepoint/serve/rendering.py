# SPDX-License-Identifier: BSD-3-Clause
"""Templates and static files: every text is escaped, every file is one of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from .._version import __version__
from ..report.figures.figure import short
from .params import url

STATIC: Mapping[str, tuple[str, str, str]] = {
    "report.css": ("tiepoint.report", "report.css", "text/css"),
    "serve.css": ("tiepoint.serve", "serve.css", "text/css"),
    "tables.js": ("tiepoint.report", "tables.js", "text/javascript"),
    "serve.js": ("tiepoint.serve", "serve.js", "text/javascript"),
    "viewer.js": ("tiepoint.serve", "viewer.js", "text/javascript"),
}
FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""A figure is a document of its own; its colours are in `style` attributes, and nothing in it can run."""


@cache
def environment() -> Any:
    """The templates of these pages."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("tiepoint.serve", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals.update(url=url, short=short, version=__version__, stamp=_stamp())
    return made


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A page; `request` tells what it is called."""
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    made = environment().get_template(template).render({"here": asked, "pending": False} | values)
    return HTMLResponse(made, status, {"cache-control": "no-store"})


@cache
def static_text(name: str) -> str:
    """A static file."""
    package, path, _ = STATIC[name]
    return (files(package) / "templates" / path).read_text("utf-8")


@cache
def _stamp() -> str:
    """Changes with the static files, so that a browser never keeps old ones."""
    return hashlib.sha256("".join(static_text(n) for n in STATIC).encode()).hexdigest()[:12]


def static_response(request: Request) -> Response:
    """A style sheet or a script."""
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404, "there is no such file")
    return with_etag(request, static_text(name).encode(), STATIC[name][2])


def with_etag(
    request: Request, body: bytes, kind: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that the browser keeps and asks about by its hash (ETag)."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    extra = {"etag": tag, "cache-control": "private, no-cache", **(headers or {})}
    if tag in [t.strip().removeprefix("W/") for t in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=extra)
    return Response(body, media_type=kind, headers=extra)


def figure_response(request: Request, svg: str) -> Response:
    """A figure as a picture of its own; its ink is dark, and the page puts it on white."""
    if "xmlns=" not in svg[:400]:
        svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    body = svg.replace("currentColor", "#1d2129").encode()
    return with_etag(request, body, "image/svg+xml", headers={"content-security-policy": FIGURE_POLICY})
