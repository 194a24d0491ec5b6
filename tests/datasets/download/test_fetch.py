# SPDX-License-Identifier: BSD-3-Clause
"""A file from one address, by a server that behaves badly in every way that is known."""

import random
import re

import pytest

from tiepoint.datasets.download.allowed_hosts import AddressError
from tiepoint.datasets.download.fetch import FetchOptions, MirrorError, fetch
from tiepoint.datasets.download.partial_file import PartialFile, VersionStamp
from tiepoint.datasets.download.sources import Mirror

DATA = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
HOSTS = ("127.0.0.1",)


class Patient:
    """Fetches without real pauses, and keeps what was told and waited for."""

    def __init__(self, tmp_path):
        self.part = PartialFile(tmp_path / "a.part")
        self.told, self.waits, self.seen = [], [], []

    def __call__(self, url, *, most=1_000_000, hosts=HOSTS, timeout_s=5.0, **known):
        mirror = Mirror(url=url, verified="no: a test", **known)
        options = FetchOptions(
            lambda done, total: self.seen.append((done, total)),
            self.told.append,
            self.waits.append,
            timeout_s=timeout_s,
        )
        fetch(mirror, self.part, hosts, max_bytes=most, options=options)
        return self.part.path.read_bytes()


@pytest.fixture
def get(tmp_path):
    return Patient(tmp_path)


def test_a_file_comes_whole_with_progress(server, thing, get):
    assert get(server.put("/a", thing(DATA))) == DATA
    assert get.seen[-1] == (len(DATA), len(DATA))
    assert server.asked == [("/a", None, None)]


def test_a_slow_server_is_waited_for_and_a_silent_one_is_not(server, thing, get):
    assert get(server.put("/a", thing(DATA, pause_s=0.02))) == DATA
    assert len(get.seen) >= 4
    with pytest.raises(MirrorError, match="connection failed"):
        get(server.put("/b", thing(DATA, pause_s=2.0, etag=None)), timeout_s=0.1)


def test_a_server_that_trickles_is_given_up(server, thing, get):
    ticks = iter(range(0, 10_000, 40))
    options = FetchOptions(None, get.told.append, get.waits.append, clock=lambda: float(next(ticks)))
    mirror = Mirror(
        url=server.put("/a", thing(DATA[:800], pause_s=0.002, ranges=False)), verified="no: a test"
    )
    with pytest.raises(MirrorError, match=r"the server is too slow: [\d,]+ bytes in 80 s"):
        fetch(mirror, get.part, HOSTS, max_bytes=10_000, options=options)
    assert len(server.asked) == 4


def test_a_connection_that_breaks_is_resumed_where_it_was(server, thing, get):
    assert get(server.put("/a", thing(DATA, drop_after=[100_000, 50_000]))) == DATA
    assert server.ranges() == [None, "bytes=100000-", "bytes=150000-"]
    assert server.asked[1][2] == '"one"'
    assert "the connection ended after 100,000 of 300,000 bytes" in get.told[0]


def test_the_time_of_modification_stands_in_for_a_weak_etag(server, thing, get):
    when = "Mon, 02 Jan 2017 00:00:00 GMT"
    assert get(server.put("/a", thing(DATA, etag='W/"x"', modified=when, drop_after=[9]))) == DATA
    assert server.asked[1][1:] == ("bytes=9-", when)


def test_a_later_call_goes_on_from_the_part(server, thing, get):
    url = server.put("/a", thing(DATA, drop_after=[1000] * 4, ranges=False))
    with pytest.raises(MirrorError, match="the connection ended after"):
        get(url)
    assert get.part.length == 1000
    server.asked.clear()
    server.things["/a"] = thing(DATA)
    assert get(url) == DATA
    assert server.ranges() == ["bytes=1000-"]
    assert get(url) == DATA  # whole: nothing is asked
    assert len(server.asked) == 1


def test_without_ranges_or_validators_it_begins_anew(server, thing, get):
    assert get(server.put("/a", thing(DATA, ranges=False, drop_after=[5000]))) == DATA
    assert any("restarts" in words for words in get.told)
    server.asked.clear()
    get.part.drop()
    assert get(server.put("/b", thing(DATA, etag=None, drop_after=[5000]))) == DATA
    assert server.ranges() == [None, None]


def test_a_file_that_changed_meanwhile_is_never_mixed(server, thing, get):
    url = server.put("/a", thing(DATA, drop_after=[1000] * 9, ranges=False))
    with pytest.raises(MirrorError):
        get(url)
    server.put("/a", thing(OTHER, etag='"two"'))
    assert get(url) == OTHER
    get.part.path.write_bytes(DATA[:1000])  # a server that sends the rest of another file
    assert get(server.put("/a", thing(OTHER, etag='"three"', blind=True))) == OTHER
    assert server.ranges()[-2:] == ["bytes=1000-", None]
    get.part.path.write_bytes(DATA[:1000])
    assert get(server.put("/a", thing(OTHER, etag='"three"', bad_range=True))) == OTHER


def test_a_part_that_is_longer_than_the_file_begins_anew(server, thing, get):
    url = server.put("/a", thing(DATA[:500]))
    get.part.begin(VersionStamp(url, '"one"', "", 900))
    get.part.path.write_bytes(DATA[:600])
    assert get(url) == DATA[:500]


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_is_final(server, thing, get, code):
    with pytest.raises(MirrorError, match=f"returned {code}"):
        get(server.put("/a", thing(DATA, codes=[code])))
    assert len(server.asked) == 1


def test_what_a_server_says_reaches_no_terminal_raw(server, thing, get):
    server.reason = "no\x1b[31m" + "x" * 500
    with pytest.raises(MirrorError, match=r"returned 404 no\\x1b\[31mx{60,80}$"):
        get(server.put("/a", thing(codes=[404])))


@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_trouble_of_a_server_is_tried_again_and_given_up(server, thing, get, code):
    assert get(server.put("/a", thing(DATA, codes=[code, code], headers={"Retry-After": "7"}))) == DATA
    assert get.waits == [7.0, 7.0]
    get.part.drop()
    with pytest.raises(MirrorError, match=f"returned {code}"):
        get(server.put("/b", thing(DATA, codes=[code] * 9)))
    assert get.waits[2:] == [2.0, 4.0, 8.0]


def test_a_pause_that_is_too_long_is_not_waited(server, thing, get):
    with pytest.raises(MirrorError, match="requests a pause of 3600 s"):
        get(server.put("/a", thing(DATA, codes=[429] * 9, headers={"Retry-After": "3600"})))
    assert get.waits == []


def test_an_announced_length_that_is_too_long_ends_in_a_sentence(server, thing, get):
    with pytest.raises(MirrorError, match=r"ended after 300,000 of 300,100 bytes|broke"):
        get(server.put("/a", thing(DATA, length=300_100, ranges=False)))
    with pytest.raises(MirrorError, match=r"has 300,100 bytes instead of the published 300,000"):
        get(server.put("/b", thing(DATA, length=300_100)), size=300_000)


def test_an_announced_length_that_is_too_short_is_seen_where_the_size_is_published(server, thing, get):
    assert get(server.put("/a", thing(DATA, length=1000))) == DATA[:1000]
    with pytest.raises(MirrorError, match="1,000 bytes instead of the published 300,000"):
        get(server.put("/b", thing(DATA, length=1000)), size=300_000)


def test_more_than_expected_is_not_taken(server, thing, get):
    with pytest.raises(MirrorError, match="300,000 bytes; the limit is 1,000"):
        get(server.put("/a", thing(DATA)), most=1000)
    assert get.part.length == 0
    with pytest.raises(MirrorError, match="sends more than the limit of 1,000 bytes"):
        get(server.put("/b", thing(DATA, no_length=True)), most=1000)
    assert get.part.length <= 1000


def test_a_file_without_a_length_comes_to_its_end(server, thing, get):
    assert get(server.put("/a", thing(DATA, no_length=True))) == DATA


def test_what_is_no_archive_is_named(server, thing, get):
    page = b"<!DOCTYPE html><html><title>Log in</title>" + b" " * 5000
    with pytest.raises(MirrorError, match=r"/a: the content is a web page \(HTML\)"):
        get(server.put("/a", thing(page)))
    with pytest.raises(MirrorError, match="Git LFS pointer"):
        get(server.put("/b", thing(b"version https://git-lfs.github.com/spec/v1\nsize 3\n")))
    with pytest.raises(MirrorError, match="an empty file"):
        get(server.put("/c", thing(b"")))
    assert get.part.length == 0


def test_a_body_that_is_packed_unasked_is_refused(server, thing, get):
    with pytest.raises(MirrorError, match="a content encoding that was not requested"):
        get(server.put("/a", thing(DATA, headers={"Content-Encoding": "gzip"})))


def test_redirects_go_to_listed_hosts_only(server, thing, get):
    server.put("/a", thing(DATA))
    assert get(server.put("/to-a", thing(location="/a"))) == DATA
    elsewhere = f"http://localhost:{server.port}/a"
    url = server.put("/away", thing(location=elsewhere))
    get.part.drop()
    with pytest.raises(AddressError, match="redirects to localhost, which is not an allowed host"):
        get(url)
    assert get(url, hosts=("127.0.0.1", "localhost")) == DATA
    with pytest.raises(AddressError, match="its host is not in the list"):
        get(elsewhere)


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/a", "data:,a", "http://u@127.0.0.1/"]
)
def test_redirects_to_other_kinds_of_addresses_are_refused(server, thing, get, location):
    with pytest.raises(AddressError, match="is not allowed"):
        get(server.put("/a", thing(location=location)))


def test_a_circle_of_redirects_ends(server, thing, get):
    server.put("/b", thing(location="/a"))
    with pytest.raises(AddressError, match="more than 8 times"):
        get(server.put("/a", thing(location="/b")))


def test_nobody_there(get):
    with pytest.raises(MirrorError, match="connection failed"):
        get("http://127.0.0.1:1/a")
    assert get.waits == [2.0, 4.0, 8.0]


def test_a_disk_that_refuses_is_told(server, thing, get, monkeypatch):
    from tiepoint.core.errors import InputError

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tiepoint.datasets.download.fetch.os.fsync", full)
    with pytest.raises(
        InputError, match=re.escape("No space left on device; the downloaded part is retained")
    ):
        get(server.put("/a", thing(DATA)))
    assert get.part.length == len(DATA)


def test_proxies_of_the_environment_are_used(server, thing, get, monkeypatch):
    server.put("http://127.0.0.1:9/a", thing(DATA))  # a proxy is asked for whole addresses
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("no_proxy", "")
    assert get("http://127.0.0.1:9/a") == DATA
