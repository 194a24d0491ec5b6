# SPDX-License-Identifier: BSD-3-Clause
"""Pages of ``tiepoint serve`` as values and words of a snapshot of `equality.py`."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import quote

from equality_masks import json_parts, mask
from equality_outputs import STORE
from equality_pages import page_parts, picture
from equality_snapshot import Cell, FailedError, Place, digest

LINK = re.compile(r"""(?:href|src)=["']([^"'#]+)""")
STATIC = ("report.css", "serve.css", "serve.js", "viewer.js", "tables.js")
HEADERS = (
    "content-type", "content-security-policy", "x-content-type-options", "referrer-policy", "x-frame-options",
    "cross-origin-resource-policy", "cross-origin-opener-policy", "content-disposition",
    "cache-control", "location",
)  # fmt: skip
TOKEN = "a-long-enough-token"
LIMIT_S = 60.0


@dataclass(frozen=True)
class Answer:
    """Status, headers and body of a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")


def fetch(port: int, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
    """Send one request to the server on this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        given = {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request(method, path, body, given)
        response = connection.getresponse()
        found = {k.lower(): v for k, v in response.getheaders()}
        if "event-stream" in found.get("content-type", ""):
            return Answer(response.status, found, b"")
        return Answer(response.status, found, response.read())
    except OSError as e:  # a page that does not answer is a difference; the others are still visited
        return Answer(0, {}, type(e).__name__.encode())
    finally:
        connection.close()


@contextmanager
def server(place: Place, *options: str) -> Iterator[tuple[int, Callable[[], int]]]:
    """Start ``tiepoint serve`` on a free port; yield the port and a function that stops it.

    Standard error goes to a file: an unread pipe fills up with tracebacks, and the server then blocks.
    """
    line = [sys.executable, "-m", "tiepoint", "serve", "--port", "0", "--store", place.full(STORE), *options]
    environment = os.environ | {"TIEPOINT_CACHE": str(place.work / "serve-cache")}
    log = place.work / "serve.log"
    with log.open("w") as file:
        process = subprocess.Popen(line, cwd=place.work, stderr=file, env=environment)

    def stop() -> int:
        process.send_signal(signal.SIGINT)
        return process.wait(30)

    try:
        while (found := re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text())) is None:
            if process.poll() is not None:
                raise FailedError("the server did not start", process.returncode)
            time.sleep(0.1)
        yield int(found[1]), stop
    finally:
        process.kill()
        process.wait()


def settled(port: int, path: str) -> Answer:
    """Fetch a page until its comparison has been computed."""
    end = time.monotonic() + LIMIT_S
    while True:
        found = fetch(port, path)
        if 'http-equiv="refresh"' not in found.text or time.monotonic() > end:
            return found
        time.sleep(0.5)


@dataclass
class Crawl:
    """Pages visited until now, by URL."""

    place: Place
    port: int
    values: dict[str, Any] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)

    def visit(self, path: str, **headers: str) -> Answer:
        """Fetch a page and record its structure."""
        found = fetch(self.port, path, **headers) if headers else settled(self.port, path)
        name = path + (f" {headers}" if headers else "")
        self.values[name], self.words[name] = answer_parts(self.place, path, found)
        return found

    def links(self, answer: Answer) -> list[str]:
        """Return the local links of a page, in order."""
        found = [unescape(m) for m in LINK.findall(answer.text)]
        return list(dict.fromkeys(x for x in found if x.startswith("/") and not x.startswith("//")))


def answer_parts(place: Place, path: str, answer: Answer) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return status, headers and the structure of a body as values, its text as words."""
    kind = answer.headers.get("content-type", "")
    kept = {k: mask(answer.headers[k]) for k in HEADERS if k in answer.headers}
    values: dict[str, Any] = {"status": answer.status, "headers": kept}
    if kind.startswith("text/html"):
        found, words = page_parts(place, answer.text)
        return values | found, words
    if kind.startswith("image/"):
        made = picture(answer.body, kind) if answer.body else ""
        return values | {"pixels": [made]}, {}
    if "json" in kind:
        found, words = json_parts(place.plain_tree(json.loads(answer.text)))
        return values | {"json": found}, {"json": words}
    if "javascript" in kind or "css" in kind:
        return values, {"scripts": [digest(answer.body)[:16]]}
    if "csv" in kind or "parquet" in kind or "octet" in kind:
        return values | {"bytes": len(answer.body) > 0}, {}
    return values, {"texts": [place.words(answer.text)]}


def first(links: list[str], start: str, count: int = 1) -> list[str]:
    """Return the first links that begin with a text."""
    return [x for x in links if x.startswith(start)][:count]


def visit_task(crawl: Crawl, task: str) -> None:
    """Visit every kind of page below a task."""
    page = crawl.visit(f"/task/{task}")
    links = crawl.links(page)
    for path in first(links, "/figure/", 12):
        crawl.visit(path)
    crawl.visit(f"/task/{task}?steps=1")
    curves = crawl.visit(f"/task/{task}?curves=1")
    for path in [x for x in first(crawl.links(curves), "/figure/", 20) if x not in crawl.values][:3]:
        crawl.visit(path)
    runs = first(links, "/run/")
    for path in runs:
        card = crawl.visit(path)
        for file in ("scores.csv", "scores.json", "scores.parquet", "manifest.json"):
            crawl.visit(f"{path}/{file}")
        scenes = first(crawl.links(card), "/scene/")
        for scene in scenes:
            visit_scene(crawl, scene)
    for two in first(links, "/two/"):
        both = crawl.visit(two)
        for scene in first(crawl.links(both), "/scene/"):
            visit_scene(crawl, scene)


def visit_scene(crawl: Crawl, path: str) -> None:
    """Visit a scene in its orders, its first case and the pictures of that case."""
    page = crawl.visit(path)
    links = crawl.links(page)
    for other in [x for x in links if x.startswith("/scene/") and "by=" in x][:3]:
        crawl.visit(other)
    for case in first(links, "/case/"):
        shown = crawl.visit(case)
        for image in first(crawl.links(shown), "/picture/", 12):
            crawl.visit(image)


def wrong_requests(crawl: Crawl, task: str) -> None:
    """Send requests that the server refuses."""
    for path in (
        "/nothing", "/run/nothing", "/two/a/b", "/scene/nothing/x", "/case/nothing/x?key=1", "/task/nothing",
        f"/task/{task}?method=nobody", f"/task/{task}?protocol=none", f"/figure/none/{task}",
        "/static/none.css", "/picture/nothing/x?key=1&part=image-0", "/save?view=http://elsewhere/",
        "/runs?page=999", "/../etc/passwd",
    ):  # fmt: skip
        crawl.visit(path)
    crawl.visit("/", Host="elsewhere.example")
    found = fetch(crawl.port, "/", "POST")
    crawl.values["POST /"] = {"status": found.status}


def pages(place: Place) -> dict[str, Any]:
    """Visit every kind of page once."""
    import tiepoint as tp

    with server(place) as (port, stop):
        crawl = Crawl(place, port)
        for task in tp.list_tasks():  # every comparison is computed before the pages that show several
            settled(port, f"/task/{quote(task)}")
        crawl.visit("/")
        crawl.visit("/runs")
        crawl.visit("/runs?method=sift")
        for name in STATIC:
            crawl.visit(f"/static/{name}")
        for task in tp.list_tasks():
            visit_task(crawl, quote(task))
        crawl.visit("/task/hpatches/matching?protocol=hpatches-python&method=sift%20orb")
        crawl.visit("/save?view=/task/hpatches/matching")
        crawl.visit("/login")
        crawl.values["/events"] = {"status": fetch(port, "/events").status}
        wrong_requests(crawl, "hpatches/matching")
        code = stop()
    found = {"page count": len(crawl.values), "exit code": code, "pages": crawl.values}
    return {"values": found, "words": {"pages": crawl.words}}


def with_token(place: Place) -> dict[str, Any]:
    """Send requests without a token, with a wrong one and with the right one."""
    values: dict[str, Any] = {}
    words: dict[str, Any] = {}
    form = {"content_type": "application/x-www-form-urlencoded"}
    with server(place, "--token", TOKEN) as (port, stop):
        for name, answer in (
            ("without", fetch(port, "/")),
            ("picture without", fetch(port, "/figure/intervals/tss")),
            ("static", fetch(port, "/static/serve.css")),
            ("form", fetch(port, "/login")),
            ("wrong", fetch(port, "/login", "POST", "token=wrong-token", **form)),
            ("right", login := fetch(port, "/login", "POST", f"token={TOKEN}", **form)),
            ("cookie", fetch(port, "/runs", Cookie=login.headers.get("set-cookie", "").split(";")[0])),
            ("bad cookie", fetch(port, "/runs", Cookie="tiepoint=none")),
        ):
            values[name], words[name] = answer_parts(place, "/", answer)
        cookie = login.headers.get("set-cookie", "")
        values["cookie form"] = re.sub(r"=[0-9a-f]{64}", "=TICKET", cookie)
        values["exit code"] = stop()
    return {"values": {"token": values}, "words": {"token": words}}


def serve_cells() -> Iterator[Cell]:
    """Visit the pages of the small store."""
    yield Cell("serve", "serve | every kind of page", pages)
    yield Cell("serve", "serve | token", with_token)
