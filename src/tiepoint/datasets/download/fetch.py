# SPDX-License-Identifier: BSD-3-Clause
"""One file from one address: resumed where it stopped, from the start where it changed, bounded in length."""

from __future__ import annotations

import http.client
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import InputError
from ...core.formatting import printable
from ...formats.sniff import HEAD_BYTES, sniff
from .allowed_hosts import TIMEOUT_S, open_url
from .partial_file import PartialFile, VersionStamp, refusal
from .sources import Mirror

_CHUNK = 1 << 18
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_FRUIT = 8192
"""Bytes that a try must bring to count, and a server must send while one is patient."""
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers that may be another one a little later."""
Progress = Callable[[int, int | None], None]


class MirrorError(InputError):
    """An address that did not give the file, and why."""


class _AgainError(Exception):
    """What is worth another try, after a pause."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


@dataclass(frozen=True)
class FetchOptions:
    """How to fetch: what to call while waiting and when something is to be told, and how patient to be."""

    progress: Progress | None = None
    tell: Callable[[str], None] = field(default=lambda _words: None)
    wait: Callable[[float], None] = time.sleep
    timeout_s: float = TIMEOUT_S
    tries: int = 4
    max_tries: int = 60
    max_pause_s: float = 120.0
    stall_timeout_s: float = 60.0
    clock: Callable[[], float] = time.monotonic
    allow_http: bool = False
    """Whether addresses that are not encrypted are asked where no hash is published."""


def fetch(
    mirror: Mirror, part: PartialFile, hosts: Sequence[str], *, most: int, manner: FetchOptions
) -> VersionStamp:
    """Fetch a file into its part, which is then whole.

    A part of the same version is continued (``Range`` with ``If-Range``); a server without ranges, a file
    that has changed, and a part whose version cannot be told begin anew. A connection that breaks or stalls
    is tried again, with pauses, as long as it brings something new.

    Args:
        mirror: The address, with its published size.
        part: Where the bytes go; it stays where this is stopped.
        hosts: Hosts that may be asked.
        most: Bytes that are taken at most.
        manner: See `FetchOptions`.

    Raises:
        MirrorError: The address does not give the file.
    """
    fruitless = 0
    for tried in range(manner.max_tries):
        before = part.length
        try:
            return _once(mirror, part, hosts, most, manner)
        except _AgainError as e:
            reason, pause = str(e), e.pause_s
        except InputError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as e:
            reason, pause = _words(e), None
        fruitless = 0 if part.length - before > _FRUIT and before else fruitless + 1
        if fruitless >= manner.tries or tried + 1 == manner.max_tries:
            raise MirrorError(f"{mirror.url}: {reason}")
        seconds = 2.0 ** min(fruitless, 5) if pause is None else pause
        if seconds > manner.max_pause_s:
            raise MirrorError(f"{mirror.url}: {reason}; it asks to wait {seconds:.0f} s")
        manner.tell(f"{reason}; trying again in {seconds:.0f} s")
        manner.wait(seconds)
    raise AssertionError


def _once(
    mirror: Mirror, part: PartialFile, hosts: Sequence[str], most: int, manner: FetchOptions
) -> VersionStamp:
    """One request; returns when the part is whole."""
    have, before = part.length, part.stamp()
    known = before is not None and before.url == mirror.url
    if not known or not ((before and before.validator) or mirror.sha256 or mirror.md5):
        have = 0  # nothing would tell whether what follows belongs to it
    if have and before is not None and before.total == have:
        return before
    headers = {"Range": f"bytes={have}-"} if have else {}
    if have and before is not None and before.validator:
        headers["If-Range"] = before.validator
    url, answer = open_url(mirror.url, headers, hosts, manner.timeout_s)
    with answer:
        if answer.status == 416 and have:
            part.drop()
            raise _AgainError("the file is not what it was when it was begun", 0.0)
        if answer.status not in (200, 206) or (answer.status == 206 and not have):
            _refused(url, answer)
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise MirrorError(f"{url} sends the file packed in a way that was not asked for")
        stamp = _stamp(mirror, answer, have)
        if answer.status == 206 and (before is None or stamp is None or not stamp.same(before)):
            part.drop()
            raise _AgainError("the file is not what it was when it was begun", 0.0)
        assert stamp is not None
        _check_total(url, mirror, stamp.total, most)
        if answer.status == 200:
            if have:
                manner.tell("the server begins anew: it has no ranges, or the file has changed")
            part.begin(stamp)
        _receive(url, answer, part, stamp.total, most, manner)
    return stamp


def _refused(url: str, answer: http.client.HTTPResponse) -> None:
    reason = f"{url} answered {answer.status} {printable(answer.reason[:80])}".rstrip()
    if answer.status in _AGAIN:
        stated = answer.headers.get("Retry-After", "")
        raise _AgainError(reason, float(stated) if re.fullmatch(r"\d{1,6}", stated) else None)
    raise MirrorError(reason)


def _stamp(mirror: Mirror, answer: http.client.HTTPResponse, have: int) -> VersionStamp | None:
    """The version an answer is of; None where it does not continue what is there."""
    if answer.status == 206:
        place = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if place is None or int(place[1]) != have:
            return None
        total = int(place[2]) if place[2] != "*" else None
    else:
        total = answer.length
    return VersionStamp.of(mirror.url, dict(answer.headers), total)


def _check_total(url: str, mirror: Mirror, total: int | None, most: int) -> None:
    if total is not None and mirror.size is not None and total != mirror.size:
        raise MirrorError(f"{url} has {total:,} bytes, {mirror.size:,} are published: it is another file")
    if total is not None and total > most:
        raise MirrorError(f"{url} has {total:,} bytes, at most {most:,} are expected")


def _receive(
    url: str,
    answer: http.client.HTTPResponse,
    part: PartialFile,
    total: int | None,
    most: int,
    manner: FetchOptions,
) -> None:
    """Append what comes to the part, up to the end."""
    have = part.length
    since, at = manner.clock(), have
    with refusal(part.path):
        file: Any = part.path.open("ab", buffering=0)
    with file:
        while chunk := answer.read1(_CHUNK):
            if have < HEAD_BYTES and (other := _named(part, have, chunk)):
                part.drop()
                raise MirrorError(f"{url}: what it gives {other}")
            have += len(chunk)
            if have > most:
                raise MirrorError(f"{url} sends more than {most:,} bytes")
            with refusal(part.path):
                file.write(chunk)
            if manner.progress is not None:
                manner.progress(have, total)
            now = manner.clock()
            if now - since > manner.stall_timeout_s:
                if have - at < _FRUIT:
                    raise _AgainError(f"it sent {have - at:,} bytes in {now - since:.0f} s")
                since, at = now, have
        if total is not None and have < total:
            raise _AgainError(f"the connection ended after {have:,} of {total:,} bytes")
        with refusal(part.path):
            os.fsync(file.fileno())
    if not have:
        part.drop()
        raise MirrorError(f"{url} gives an empty file")


def _named(part: PartialFile, have: int, chunk: bytes) -> str | None:
    with part.path.open("rb") as file:
        return sniff(file.read(have) + chunk[:HEAD_BYTES])


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    said = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
    return f"no connection, or it broke: {printable(' '.join(str(said).split())[:200])}"
