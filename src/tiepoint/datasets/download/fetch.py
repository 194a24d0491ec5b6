# SPDX-License-Identifier: BSD-3-Clause
"""One file from one address: resumed where it stopped, from the start where it changed, bounded in length."""

from __future__ import annotations

import http.client
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...core.errors import InputError, ProblemsError
from ...core.formatting import printable
from ...formats.sniff import HEAD_BYTES, sniff
from .allowed_hosts import TIMEOUT_S, AddressError, open_url
from .partial_file import PartialFile, VersionStamp, hashes, refusal
from .sources import Mirror, SourceFile

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


_SLACK = 64 << 20
_HERE = ("localhost", "127.0.0.1", "::1")


class FetchedFile(NamedTuple):
    """A whole file: where it lies, where it came from, its hash, and whether that is the published one."""

    path: Path
    url: str
    size: int
    sha256: str
    published: bool


def max_bytes(file: SourceFile) -> int:
    """Bytes that a file may have where no size is published: twice of what is expected."""
    return max(m.size or 0 for m in file.mirrors) or 2 * file.about_bytes + _SLACK


def is_guarded(mirror: Mirror) -> bool:
    """Whether nobody on the way can change the file unseen: encrypted, a published hash, or this machine."""
    parts = urlsplit(mirror.url)
    return parts.scheme == "https" or bool(mirror.sha256 or mirror.md5) or parts.hostname in _HERE


def fetch_file(file: SourceFile, folder: Path, hosts: Sequence[str], manner: FetchOptions) -> FetchedFile:
    """Try the mirrors of a file in order; parts lie in `folder`, one a mirror, and stay if this is stopped.

    Raises:
        ProblemsError: No mirror gave it, with the reason of each.
    """
    reasons = []
    for i, mirror in enumerate(file.mirrors):
        part = PartialFile(folder / f"{file.name}.{i}.part")
        if not (manner.allow_http or is_guarded(mirror)):
            reasons.append(
                f"{mirror.url}: is not encrypted and has no published hash, so anybody on the way could "
                "change it; `allow_http` uses it all the same"
            )
            continue
        try:
            manner.tell(f"fetching {mirror.url}")
            fetch(mirror, part, hosts, most=max_bytes(file), manner=manner)
            return verify_file(mirror, part)
        except (MirrorError, AddressError) as e:
            reasons.append(str(e))
            manner.tell(str(e))
    by_hand = f"fetch it by hand from one of the addresses above and give it as `from_file`: {file.name}"
    raise ProblemsError(f"no mirror gave {file.name}", [*reasons, by_hand])


def verify_file(mirror: Mirror, part: PartialFile) -> FetchedFile:
    """The whole file, if its size and hashes are the published ones; else the part goes.

    Raises:
        MirrorError: They are not.
    """
    try:
        sha256, md5 = hashes(part.path)
    except OSError as e:
        raise InputError(f"cannot read {part.path}: {e.strerror or e}") from e
    size = part.length
    checks = (
        ("bytes", mirror.size, size),
        ("SHA-256", mirror.sha256, sha256),
        ("MD5", mirror.md5, md5),
    )
    for what, published, found in checks:
        if published is not None and published != found:
            part.drop()
            raise MirrorError(
                f"{mirror.url}: the file is damaged or another one: {what} {found}, published {published}"
            )
    return FetchedFile(part.path, mirror.url, size, sha256, bool(mirror.sha256 or mirror.md5))
