# SPDX-License-Identifier: BSD-3-Clause
"""Which addresses are opened: http and https only, listed hosts only, never from https down to http."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import urljoin, urlsplit

from ..._version import __version__
from ...core.errors import InputError
from ...core.formatting import printable

MAX_REDIRECTS = 8
TIMEOUT_S = 30.0


class AddressError(InputError):
    """An address that is not opened, and why."""


def checked_url(url: str) -> str:
    """The address, if it is one of the kind that is opened.

    >>> checked_url("file:///etc/passwd")
    Traceback (most recent call last):
    tiepoint.datasets.download.allowed_hosts.AddressError: file:///etc/passwd is not opened: only http and https are
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as e:
        raise AddressError(f"{printable(url)} is not an address ({e})") from e
    if parts.scheme not in ("http", "https"):
        raise AddressError(f"{printable(url)} is not opened: only http and https are")
    if not host or parts.username is not None or any(c.isspace() or not c.isprintable() for c in url):
        raise AddressError(f"{printable(url)} is not opened: it needs a host, no user and no blanks")
    return url


def is_listed(url: str, hosts: Sequence[str]) -> bool:
    """Whether the host of an address is one of these; `*.name` stands for hosts below a name.

    >>> is_listed("https://cdn.a.org/x", ["*.a.org"]), is_listed("https://a.org.evil.net/x", ["a.org"])
    (True, False)
    """
    host = (urlsplit(url).hostname or "").lower().rstrip(".")
    return any(host == h.lower() or (h.startswith("*.") and host.endswith(h[1:].lower())) for h in hosts)


def next_url(url: str, location: str, hosts: Sequence[str]) -> str:
    """Where a redirect from `url` leads, if it may be followed.

    Raises:
        AddressError: It leads to another kind of address, from https to http, or to a host not listed.
    """
    try:
        target = checked_url(urljoin(url, location))
    except ValueError as e:
        raise AddressError(f"{printable(url)} redirects to what is not an address ({e})") from e
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
        raise AddressError(
            f"{printable(url)} redirects to http, which is not encrypted; that is not followed"
        )
    if not is_listed(target, hosts):
        host = urlsplit(target).hostname
        raise AddressError(
            f"{printable(url)} redirects to the host {host}, which is not listed for this dataset"
        )
    return target


class _Plain(urllib.request.HTTPErrorProcessor):
    """Answers as they are: redirects are followed by `open_url`, other codes are told there."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response

    https_response = http_response


def _opener() -> urllib.request.OpenerDirector:
    """An opener of http and https alone, with the proxies of the environment: no files, no ftp, no data."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        _Plain(),
    ):
        opener.add_handler(handler)
    return opener


def open_url(
    url: str, headers: dict[str, str], hosts: Sequence[str], timeout_s: float = TIMEOUT_S
) -> tuple[str, http.client.HTTPResponse]:
    """The last address and its answer, whatever its code; redirects are followed as `next_url` allows.

    Raises:
        AddressError: A redirect that is not followed, or too many.
        OSError: No answer.
    """
    if not is_listed(checked_url(url), hosts):
        raise AddressError(f"{printable(url)} is not opened: its host is not listed for this dataset")
    opener = _opener()
    sent = {"User-Agent": f"tiepoint/{__version__}", "Accept-Encoding": "identity", **headers}
    for _ in range(MAX_REDIRECTS):
        answer: Any = opener.open(urllib.request.Request(url, headers=sent), timeout=timeout_s)
        if answer.status not in (301, 302, 303, 307, 308):
            return url, answer
        location = answer.headers.get("Location", "")
        answer.close()
        url = next_url(url, location, hosts)
    raise AddressError(f"{printable(url)} redirects more than {MAX_REDIRECTS} times")
