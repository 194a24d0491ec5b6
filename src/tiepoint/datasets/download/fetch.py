# SPDX-License-Identifier: BSD-3-Clause
"""Download files from mirrors with resume, retries and size limits."""

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
_MIN_PROGRESS_BYTES = 8192
"""Minimum number of bytes per attempt, or per stall interval, that counts as progress."""
_RETRY_STATUSES = (408, 425, 429, 500, 502, 503, 504)
Progress = Callable[[int, int | None], None]


class MirrorError(InputError):
    """Raised if a URL does not deliver the file."""


class _RetryError(Exception):
    """Raised for a temporary failure that is retried after a pause."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


@dataclass(frozen=True)
class FetchOptions:
    """Options of a download: callbacks, retries and timeouts.

    `allow_http` permits http URLs of files without a published hash.
    """

    progress: Progress | None = None
    report: Callable[[str], None] = field(default=lambda _message: None)
    wait: Callable[[float], None] = time.sleep
    timeout_s: float = TIMEOUT_S
    tries: int = 4
    max_tries: int = 60
    max_pause_s: float = 120.0
    stall_timeout_s: float = 60.0
    clock: Callable[[], float] = time.monotonic
    allow_http: bool = False


def fetch(
    mirror: Mirror, part: PartialFile, hosts: Sequence[str], *, max_bytes: int, options: FetchOptions
) -> VersionStamp:
    """Download a URL into a partial file until it is complete.

    If the remote file has the same version as before, the download resumes (``Range`` with ``If-Range``). It
    restarts if the server does not support ranges, the remote file has changed, or the version of the partial
    file is unknown. A broken or stalled connection is retried with pauses, as long as each attempt makes
    progress.

    Args:
        mirror: The URL, with its published size.
        part: The partial file. It is retained if the download is interrupted.
        hosts: Allowed hosts.
        max_bytes: Size limit.
        options: See `FetchOptions`.

    Raises:
        MirrorError: The URL does not deliver the file.
    """
    failures = 0
    for tried in range(options.max_tries):
        before = part.length
        try:
            return _once(mirror, part, hosts, max_bytes, options)
        except _RetryError as e:
            reason, pause = str(e), e.pause_s
        except InputError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as e:
            reason, pause = _connection_error(e), None
        failures = 0 if part.length - before > _MIN_PROGRESS_BYTES and before else failures + 1
        if failures >= options.tries or tried + 1 == options.max_tries:
            raise MirrorError(f"{mirror.url}: {reason}")
        seconds = 2.0 ** min(failures, 5) if pause is None else pause
        if seconds > options.max_pause_s:
            raise MirrorError(
                f"{mirror.url}: {reason}; the server requests a pause of {seconds:.0f} s, so retry later"
            )
        options.report(f"{reason}; retrying in {seconds:.0f} s")
        options.wait(seconds)
    raise AssertionError


def _once(
    mirror: Mirror, part: PartialFile, hosts: Sequence[str], max_bytes: int, options: FetchOptions
) -> VersionStamp:
    """Request the missing bytes of the partial file once. Return the version of the remote file."""
    have, before = part.length, part.stamp()
    known = before is not None and before.url == mirror.url
    if not known or not ((before and before.validator) or mirror.sha256 or mirror.md5):
        have = 0  # cannot check that the server has the same version
    if have and before is not None and before.total == have:
        return before
    headers = {"Range": f"bytes={have}-"} if have else {}
    if have and before is not None and before.validator:
        headers["If-Range"] = before.validator
    url, response = open_url(mirror.url, headers, hosts, options.timeout_s)
    with response:
        if response.status == 416 and have:
            part.drop()
            raise _RetryError("the file on the server has changed since the download started", 0.0)
        if response.status not in (200, 206) or (response.status == 206 and not have):
            _refused(url, response)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise MirrorError(f"{url} sends a content encoding that was not requested")
        stamp = _stamp(mirror, response, have)
        if response.status == 206 and (before is None or stamp is None or not stamp.same(before)):
            part.drop()
            raise _RetryError("the file on the server has changed since the download started", 0.0)
        assert stamp is not None
        total = stamp.total
        if total is not None and mirror.size is not None and total != mirror.size:
            raise MirrorError(
                f"{url} has {total:,} bytes instead of the published {mirror.size:,}, so it is another file"
            )
        if total is not None and total > max_bytes:
            raise MirrorError(f"{url} has {total:,} bytes; the limit is {max_bytes:,}")
        if response.status == 200:
            if have:
                options.report("the download restarts: the server cannot resume it, or the file has changed")
            part.begin(stamp)
        _receive(url, response, part, total, max_bytes, options)
    return stamp


def _refused(url: str, response: http.client.HTTPResponse) -> None:
    reason = f"{url} returned {response.status} {printable(response.reason[:80])}".rstrip()
    if response.status in _RETRY_STATUSES:
        pause = response.headers.get("Retry-After", "")
        raise _RetryError(reason, float(pause) if re.fullmatch(r"\d{1,6}", pause) else None)
    raise MirrorError(reason)


def _stamp(mirror: Mirror, response: http.client.HTTPResponse, have: int) -> VersionStamp | None:
    """Return the file version that a response states.

    None if the response does not continue the partial file.
    """
    if response.status == 206:
        content = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if content is None or int(content[1]) != have:
            return None
        total = int(content[2]) if content[2] != "*" else None
    else:
        total = response.length
    return VersionStamp.from_headers(mirror.url, dict(response.headers), total)


def _receive(
    url: str,
    response: http.client.HTTPResponse,
    part: PartialFile,
    total: int | None,
    max_bytes: int,
    options: FetchOptions,
) -> None:
    """Append the body of a response to the partial file."""
    have = part.length
    since, at = options.clock(), have
    with refusal(part.path):
        file: Any = part.path.open("ab", buffering=0)
    with file:
        while chunk := response.read1(_CHUNK):
            if have < HEAD_BYTES and (problem := sniff(part.path.read_bytes()[:have] + chunk[:HEAD_BYTES])):
                part.drop()
                raise MirrorError(f"{url}: the content {problem}")
            have += len(chunk)
            if have > max_bytes:
                raise MirrorError(f"{url} sends more than the limit of {max_bytes:,} bytes")
            with refusal(part.path):
                file.write(chunk)
            if options.progress is not None:
                options.progress(have, total)
            now = options.clock()
            if now - since > options.stall_timeout_s:
                if have - at < _MIN_PROGRESS_BYTES:
                    raise _RetryError(f"the server is too slow: {have - at:,} bytes in {now - since:.0f} s")
                since, at = now, have
        if total is not None and have < total:
            raise _RetryError(f"the connection ended after {have:,} of {total:,} bytes")
        with refusal(part.path):
            os.fsync(file.fileno())
    if not have:
        part.drop()
        raise MirrorError(f"{url} delivers an empty file")


def _connection_error(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    text = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
    return f"connection failed: {printable(' '.join(str(text).split())[:200])}"


_SLACK = 64 << 20
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class FetchedFile(NamedTuple):
    """Downloaded file: its path, URL, size and hash, and whether it matches a published hash."""

    path: Path
    url: str
    size: int
    sha256: str
    published: bool


def size_limit(file: SourceFile) -> int:
    """Return the size limit of a file: its published size, or twice its expected size."""
    return max(m.size or 0 for m in file.mirrors) or 2 * file.about_bytes + _SLACK


def is_guarded(mirror: Mirror) -> bool:
    """Return whether a download is protected against changes: by https, a published hash, or a local URL."""
    parts = urlsplit(mirror.url)
    return parts.scheme == "https" or bool(mirror.sha256 or mirror.md5) or parts.hostname in _LOCAL_HOSTS


def fetch_file(file: SourceFile, folder: Path, hosts: Sequence[str], options: FetchOptions) -> FetchedFile:
    """Download a file from the first mirror that delivers it.

    Each mirror has its own partial file in `folder`, which is retained after an interrupt.

    Raises:
        ProblemsError: No mirror delivered the file. The error lists the reason for each mirror.
    """
    reasons = []
    for i, mirror in enumerate(file.mirrors):
        part = PartialFile(folder / f"{file.name}.{i}.part")
        if not (options.allow_http or is_guarded(mirror)):
            reason = "not encrypted and no hash is published, so the file could be altered in transit"
            reasons.append(f"{mirror.url}: {reason}; pass `allow_http` to use it anyway")
            continue
        try:
            options.report(f"downloading {mirror.url}")
            fetch(mirror, part, hosts, max_bytes=size_limit(file), options=options)
            return verify_file(mirror, part)
        except (MirrorError, AddressError) as e:
            reasons.append(str(e))
            options.report(str(e))
    advice = f"download it manually from one of the URLs above and pass it as `from_file`: {file.name}"
    raise ProblemsError(f"no mirror delivered {file.name}", [*reasons, advice])


def verify_file(mirror: Mirror, part: PartialFile) -> FetchedFile:
    """Compare a downloaded file with its published size and hashes. Remove the file if any differs.

    Raises:
        MirrorError: The size or a hash differs from the published value.
    """
    try:
        sha256, md5 = hashes(part.path)
    except OSError as e:
        raise InputError(f"cannot read {part.path}: {e.strerror or e}") from e
    size = part.length
    checks = (("bytes", mirror.size, size), ("SHA-256", mirror.sha256, sha256), ("MD5", mirror.md5, md5))
    for kind, published, found in checks:
        if published is not None and published != found:
            part.drop()
            reason = f"the file is corrupt or has changed: {kind} {found}, published {published}"
            raise MirrorError(f"{mirror.url}: {reason}")
    return FetchedFile(part.path, mirror.url, size, sha256, bool(mirror.sha256 or mirror.md5))
