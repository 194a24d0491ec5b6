# SPDX-License-Identifier: BSD-3-Clause
"""Open URLs of allowed hosts: http and https only, no redirect from https to http."""

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
    """Raised if a URL may not be opened."""


def checked_url(url: str) -> str:
    """Check a URL and return it. Raise an `AddressError` if it is malformed or not http or https.

    >>> checked_url("https://a.org/x")
    'https://a.org/x'
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as e:
        raise AddressError(f"{printable(url)} is not a URL ({e}); correct the source") from e
    if parts.scheme not in ("http", "https"):
        raise AddressError(f"{printable(url)} is not allowed: the URL must begin with http or https")
    if not host or parts.username is not None or any(c.isspace() or not c.isprintable() for c in url):
        raise AddressError(f"{printable(url)} is not allowed: it needs a host, no user name and no spaces")
    return url


def is_listed(url: str, hosts: Sequence[str]) -> bool:
    """Return whether `hosts` contains the host of a URL.

    An entry `*.name` matches all sub-domains of `name`.

    >>> is_listed("https://cdn.a.org/x", ["*.a.org"]), is_listed("https://a.org.evil.net/x", ["a.org"])
    (True, False)
    """
    host = (urlsplit(url).hostname or "").lower().rstrip(".")
    return any(host == h.lower() or (h.startswith("*.") and host.endswith(h[1:].lower())) for h in hosts)


def next_url(url: str, location: str, hosts: Sequence[str]) -> str:
    """Return the target of a redirect from `url`.

    Raises:
        AddressError: The target is not http or https, leads from https to http, or its host is not listed.
    """
    try:
        target = checked_url(urljoin(url, location))
    except ValueError as e:
        raise AddressError(
            f"{printable(url)} redirects to an invalid URL ({e}); download the file manually"
        ) from e
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
        raise AddressError(
            f"{printable(url)} redirects to http, which is not encrypted; download the file manually"
        )
    if not is_listed(target, hosts):
        host = urlsplit(target).hostname
        raise AddressError(
            f"{printable(url)} redirects to {host}, which is not an allowed host; download the file manually"
        )
    return target


class _Plain(urllib.request.HTTPErrorProcessor):
    """Response handler that returns responses unchanged.

    `open_url` follows redirects, and its caller handles error statuses.
    """

    def http_response(self, request: Any, response: Any) -> Any:
        return response

    https_response = http_response


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener for http and https only, with the proxies of the environment."""
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
    """Open a URL and follow the redirects that `next_url` allows. Return the last URL and its response.

    Raises:
        AddressError: A redirect is not allowed, or there are too many.
        OSError: The server does not respond.
    """
    if not is_listed(checked_url(url), hosts):
        raise AddressError(f"{printable(url)} is not allowed: its host is not in the list of this dataset")
    opener = _opener()
    headers = {"User-Agent": f"tiepoint/{__version__}", "Accept-Encoding": "identity", **headers}
    for _ in range(MAX_REDIRECTS):
        response: Any = opener.open(urllib.request.Request(url, headers=headers), timeout=timeout_s)
        if response.status not in (301, 302, 303, 307, 308):
            return url, response
        location = response.headers.get("Location", "")
        response.close()
        url = next_url(url, location, hosts)
    raise AddressError(
        f"{printable(url)} redirects more than {MAX_REDIRECTS} times; download the file manually"
    )
