# SPDX-License-Identifier: BSD-3-Clause
"""Behind a reverse proxy: every link stays below the prefix, and the proxy says who is let in."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from visitors import visitor

pytest.importorskip("starlette", reason="the extra [serve] is not installed")
from tiepoint.cli.main import run
from tiepoint.core.errors import InputError
from tiepoint.serve.app import application
from tiepoint.serve.auth import PAGES, AccessPolicy, PublicUrl
from tiepoint.serve.run_index import RunIndex

PREFIX = "/lab/tie-point"
PUBLIC = PublicUrl.parse(f"https://lab.example.org{PREFIX}/")
TOKEN = "correct horse battery"
LINK = re.compile(r'<[a-z]+ [^>]*?(?<=\s)(?:href|src|action)="([^"]*)"')


@pytest.fixture
def behind(library: RunIndex) -> Iterator[Any]:
    with visitor(application(library, AccessPolicy(public=PUBLIC))) as here:
        yield here


def _crawl(client: Any, first: str, limit: int) -> dict[str, str]:
    """Follow links; returns the HTML pages by path. Each link must lead below the prefix."""
    seen, todo, pages = {first}, [first], dict[str, str]()
    kinds: dict[str, int] = {}
    while todo:
        path = todo.pop(0)
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text[:200])
        if not answer.headers["content-type"].startswith("text/html") or "attachment" in str(answer.headers):
            continue
        pages[path] = answer.text
        for found in map(unescape, LINK.findall(answer.text)):
            if found.startswith(("data:", "#")):
                continue
            assert found.startswith(f"{PREFIX}/"), (path, found)
            kind = found[len(PREFIX) :].split("/")[1].partition("?")[0]
            kinds[kind] = kinds.get(kind, 0) + 1
            if found not in seen and kinds[kind] <= limit:
                seen.add(found)
                todo.append(found)
    return pages


@pytest.mark.slow
def test_every_link_stays_below_prefix_and_answers(behind: Any) -> None:
    pages = _crawl(behind, f"{PREFIX}/", limit=4)
    visited = {path[len(PREFIX) :] for path in pages}
    for kind in ("/runs", "/task/", "/two/", "/scene/", "/case/", "/run/"):
        assert any(path.startswith(kind) for path in visited), kind
    assert f'data-prefix="{PREFIX}"' in pages[f"{PREFIX}/"]


def test_proxy_that_strips_prefix_gets_same_pages(behind: Any) -> None:
    for path in ("/", "/runs", "/task/hpatches-v1/matching"):
        assert behind.get(path).text == behind.get(PREFIX + path).text
    assert behind.get(PREFIX).status_code == 200
    assert behind.get(f"{PREFIX}x/").status_code == 404


def test_saved_page_links_to_public_address(behind: Any) -> None:
    saved = behind.get(f"{PREFIX}/save?view=/runs")
    assert saved.status_code == 200
    links = [link for link in map(unescape, LINK.findall(saved.text)) if not link.startswith(("data:", "#"))]
    assert links
    assert all(link.startswith(f"https://lab.example.org{PREFIX}/") for link in links)
    assert "<style>" in saved.text


def test_event_stream_below_prefix_is_not_buffered(behind: Any) -> None:
    answer = behind.get(f"{PREFIX}/events?once=1")
    assert answer.text.startswith("data: {")
    assert answer.headers["x-accel-buffering"] == "no"


def test_public_host_is_accepted_and_others_are_not(behind: Any) -> None:
    for host, status in (("lab.example.org", 200), ("LAB.example.org:443", 200), ("evil.example", 421)):
        assert behind.get("/runs", headers={"host": host}).status_code == status


def test_login_below_prefix_sets_secure_cookie_for_prefix(library: RunIndex) -> None:
    door = AccessPolicy(token=TOKEN, public=PUBLIC)
    with visitor(application(library, door), "https://lab.example.org") as guest:
        answer = guest.get(f"{PREFIX}/runs")
        assert (answer.status_code, answer.headers["location"]) == (303, f"{PREFIX}/login")
        assert f'action="{PREFIX}/login"' in guest.get(f"{PREFIX}/login").text
        # The proxy passes its own host name on, the browser sends the origin that it sees.
        from_browser = {"origin": "https://lab.example.org", "host": "127.0.0.1:8765"}
        answer = guest.post(f"{PREFIX}/login", data={"token": TOKEN}, headers=from_browser)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{PREFIX}/")
        cookie = answer.headers["set-cookie"]
        assert f"Path={PREFIX};" in cookie
        assert "Secure" in cookie
        assert guest.get(f"{PREFIX}/runs", headers={"cookie": cookie.partition(";")[0]}).status_code == 200
        elsewhere = {"origin": "https://evil.example"}
        assert guest.post(f"{PREFIX}/login", data={"token": TOKEN}, headers=elsewhere).status_code == 403


def test_token_in_authorization_header_lets_in(library: RunIndex) -> None:
    with visitor(application(library, AccessPolicy("0.0.0.0", TOKEN)), "http://10.1.2.3:8765") as guest:
        for given, status in (
            (f"Bearer {TOKEN}", 200),
            (f"bearer {TOKEN}", 200),
            (f"Bearer {TOKEN}x", 401),
            ("Bearer ", 401),
            (f"Basic {TOKEN}", 303),
        ):
            assert guest.get("/runs", headers={"authorization": given}).status_code == status, given
        saved = guest.get("/save?view=/runs", headers={"authorization": f"Bearer {TOKEN}"})
        assert saved.status_code == 200


def test_user_header_from_proxy_lets_in(library: RunIndex) -> None:
    door = AccessPolicy(public=PUBLIC, user_header="X-Remote-User")
    with visitor(application(library, door)) as guest:
        for headers, status in (
            ({"x-remote-user": "ada"}, 200),
            ({"x-remote-user": " "}, 403),
            ({}, 403),
            ({"authorization": "Bearer "}, 403),
        ):
            assert guest.get(f"{PREFIX}/runs", headers=headers).status_code == status, headers
        twice = [("x-remote-user", "ada"), ("x-remote-user", "eve")]
        assert guest.get("/runs", headers=twice).status_code == 403


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lab.example.org", "expected the address"), ("ftp://lab.example.org", "expected the address"),
        ("https://", "expected the address"), ("https://lab.example.org/a?b", "expected the address"),
        ("https://lab.example.org/a b", "expected the address"), ("https://u:p@lab", "expected the address"),
        ("https://lab.example.org:99999", "expected the address"), ("https://lab.org/run", "path of a page"),
        ("https://lab.example.org/static/x", "path of a page"),
    ],
)  # fmt: skip
def test_public_url_wrong_raises(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        PublicUrl.parse(text)


def test_public_url_refuses_the_path_of_every_page(library: RunIndex) -> None:
    app = application(library, AccessPolicy())
    assert {route.path.split("/")[1] for route in app.routes} - {""} == set(PAGES)


def test_user_header_reachable_by_others_raises(odd_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="send X-User themselves"):
        AccessPolicy("0.0.0.0", TOKEN, user_header="X-User")
    with pytest.raises(InputError, match="expected a name like"):
        AccessPolicy(user_header="X User:")
    assert run(["serve", "--store", str(odd_store), "--public-url", "lab"]) == 2
    assert "--public-url" in capsys.readouterr().err


class Proxy(BaseHTTPRequestHandler):
    """A reverse proxy that removes the prefix and adds the name of the user."""

    port = 0

    def do_GET(self) -> None:
        if not self.path.startswith(f"{PREFIX}/"):
            self.send_error(404)
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        upstream.request("GET", self.path[len(PREFIX) :], headers={"X-Remote-User": "ada"})
        answer = upstream.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.slow
def test_command_behind_a_real_proxy(odd_store: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "tiepoint", "serve", "--store", str(odd_store), "--port", "0",
        "--public-url", f"https://lab.example.org{PREFIX}", "--user-header", "X-Remote-User",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TIEPOINT_CACHE": str(tmp_path)}
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert process.stderr is not None
        told = process.stderr.readline()
        assert f"published by a proxy at https://lab.example.org{PREFIX}/" in told
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", told)
        assert found is not None
        Proxy.port = int(found[1])
        direct = http.client.HTTPConnection("127.0.0.1", Proxy.port, timeout=30)
        direct.request("GET", "/runs")
        assert direct.getresponse().status == 403
        outside = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        outside.request("GET", f"{PREFIX}/runs")
        answer = outside.getresponse()
        text = answer.read().decode()
        assert answer.status == 200
        links = [x for x in LINK.findall(text) if not x.startswith(("data:", "#"))]
        assert all(link.startswith(f"{PREFIX}/") for link in links)
        for link in [x for x in links if "/static/" in x]:
            outside.request("GET", link)
            static = outside.getresponse()
            assert (static.status, bool(static.read())) == (200, True)
    finally:
        server.shutdown()
        process.kill()
        process.wait()
