# SPDX-License-Identifier: BSD-3-Clause
"""Who is let in, and that no request makes a page fail."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from visitors import visitor

pytest.importorskip("starlette", reason="the extra [serve] is not installed")
from tiepoint.core.errors import InputError
from tiepoint.serve.app import application
from tiepoint.serve.auth import COOKIE, AccessPolicy
from tiepoint.serve.run_index import RunIndex

TOKEN = "correct horse battery"
PATHS = ("/task/", "/two/", "/run/", "/figure/", "/static/", "/scene/", "/case/", "/picture/")
NASTY = (
    "", "..", "../..", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "\\..\\x", "-1", "0",
    "NaN", "inf", "1e309", "9" * 400, "\x00", "😀", "'", '"', "<script>", "%00",
    "%ff%fe", "a" * 5000, "{{7*7}}", "%s%n", "１２", "null", "[]", "a,b,c", ",", ",,,,", "=", "&", ";",
)  # fmt: skip
TASK = "/task/hpatches-v1/matching"
PARAMETERS = {
    TASK: ("method", "protocol", "score", "split", "dataset", "steps", "curves"),
    "/runs": ("page", "method"),
    "/save": ("view",),
    "/scene/RUN/i_s0": ("by", "page"),
    "/case/RUN/i_s0": ("key", "by"),
    "/picture/RUN/i_s0": ("key", "part"),
}
NAMES = sorted({name for names in PARAMETERS.values() for name in names})
FINE = (200, 303, 307, 400, 404)


def test_every_answer_has_a_strict_policy(client: Any) -> None:
    for path in ("/", "/nothing", "/static/serve.css", "/run/none"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    text = client.get("/").text
    assert "<style" not in text
    assert " style=" not in text
    assert " onclick" not in text
    assert client.get("/").headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("host", "let"),
    [
        ("127.0.0.1:8765", True), ("localhost", True), ("[::1]:8765", True), ("evil.example", False),
        ("127.0.0.1.evil.example", False), ("127.0.0.1:x", False), ("", False), ("[::1", False),
        ("192.168.0.7", False), ("127.0.0.1/", False), ("evil@127.0.0.1", False),
    ],
)  # fmt: skip
def test_the_host_header_is_checked(client: Any, host: str, let: bool) -> None:
    assert (client.get("/", headers={"host": host}).status_code == 200) is let


@pytest.mark.slow
def test_others_need_a_token(library: RunIndex) -> None:
    with pytest.raises(InputError, match="token"):
        AccessPolicy("0.0.0.0")
    with pytest.raises(InputError, match="8 characters"):
        AccessPolicy("0.0.0.0", "short")
    guest = visitor(application(library, AccessPolicy("0.0.0.0", TOKEN)), "http://10.1.2.3:8765")
    for path in ("/", "/runs", TASK, "/events", "/save?view=/", f"/?token={TOKEN}"):
        answer = guest.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert guest.get("/login").status_code == 200
    assert guest.get("/static/serve.css").status_code == 200
    for wrong in ({}, {"token": ""}, {"token": TOKEN + "x"}, {"token": TOKEN[:-1]}, {"other": TOKEN}):
        answer = guest.post("/login", data=wrong)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    elsewhere = {"origin": "http://evil.example"}
    assert guest.post("/login", data={"token": TOKEN}, headers=elsewhere).status_code == 403
    assert guest.post("/login", content=b"token=" + b"x" * 100_000).status_code == 403
    entered = guest.post("/login", data={"token": TOKEN})
    cookie = entered.headers["set-cookie"]
    assert entered.status_code == 303
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    assert guest.get("/").status_code == 200
    assert guest.get("/save?view=/").status_code == 200
    other = visitor(application(library, AccessPolicy("0.0.0.0", TOKEN)), "http://10.1.2.3:8765")
    other.cookies.set(COOKIE, guest.cookies[COOKIE])
    assert other.get("/").status_code == 303


def test_pages_can_only_be_read(client: Any) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/").status_code == 405
    assert client.post("/login", data={"token": "x"}).status_code == 303


@pytest.mark.parametrize("path", PATHS)
def test_nasty_paths_are_no_failures(client: Any, library: RunIndex, path: str) -> None:
    run = library.snapshot().runs[0].id
    places = [path + quote(n, safe="%/") for n in NASTY]
    places += [f"{path}{run}/{quote(n, safe='%/')}" for n in NASTY[::2]]
    for place in places:
        answer = client.get(place)
        assert answer.status_code in FINE, place
        assert "root:x:" not in answer.text


@pytest.mark.parametrize("path", PARAMETERS)
def test_nasty_parameters_are_no_failures(client: Any, library: RunIndex, path: str) -> None:
    place = path.replace("RUN", library.snapshot().runs[0].id)
    for name in PARAMETERS[path]:
        for value in NASTY:
            assert client.get(place, params={name: value}).status_code in FINE, (path, name, value)


@given(st.text(max_size=60), st.dictionaries(st.sampled_from(NAMES), st.text(max_size=40), max_size=3))
@settings(max_examples=40)
def test_no_url_makes_a_page_fail(client: Any, path: str, query: dict[str, str]) -> None:
    clean = {k: v.encode("utf-8", "replace") for k, v in query.items()}
    answer = client.get("/" + quote(path.encode("utf-8", "replace")), params=clean)
    assert answer.status_code < 500
