# SPDX-License-Identifier: BSD-3-Clause
"""Parse and check store URLs, and format them for display without the password."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from ..core.errors import StoreError
from ..core.formatting import printable

DATABASE = "tiepoint.sqlite"
"""Name of the database in a store folder."""
FORMS = {
    "sqlite": "sqlite:///relative.db or sqlite:////absolute.db",
    "postgresql": "postgresql://USER:PASSWORD@HOST:PORT/DATABASE?files=DIR",
}
"""Expected form of a store URL, by scheme."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/*)")
_SECRET = ("password", "sslpassword", "passfile")
_TELLING = ("host", "hostaddr", "port", "dbname", "user")
"""URL parameters whose values are displayed. For all other parameters only the name is displayed."""
_ESCAPED = "characters such as @ : / ? # in a password are written as %40 %3A %2F %3F %23"


@dataclass(frozen=True)
class StoreUrl:
    """Parsed store URL: database URL, folder for files, and text to display."""

    url: str
    files: Path
    shown: str


def is_url(where: str) -> bool:
    """Return whether a store is given as a URL.

    >>> is_url("postgresql://h/db"), is_url("sqlite:runs.db"), is_url("lab/store"), is_url("C:/store")
    (True, True, False, False)
    """
    found = _SCHEME.match(where)
    if found is None:
        return False
    return len(found[2]) > 1 or found[1].partition("+")[0] in FORMS


def read_url(where: str) -> StoreUrl:
    """Parse a store URL.

    SQLite: ``sqlite:///relative.db``, ``sqlite:////absolute.db``. ``?files=DIR`` sets the folder for files.
    The default is the folder of the database if the database is named ``tiepoint.sqlite``, else
    ``NAME.files`` in that folder. PostgreSQL needs ``?files=DIR``.

    Raises:
        StoreError: Unknown scheme, missing database or invalid port. The message never contains the password.

    >>> read_url("sqlite:///lab/a.db").files.as_posix(), read_url("sqlite:////lab/a.db").url
    ('lab/a.files', 'sqlite:////lab/a.db')
    """
    found = _SCHEME.match(where)
    scheme = "" if found is None else found[1].lower()
    kind = scheme.partition("+")[0]
    if kind == "postgres":
        kind = scheme = "postgresql"
    if kind not in FORMS:
        known = " or ".join(f"{name} ({form})" for name, form in FORMS.items())
        raise StoreError(
            f"a store URL cannot begin with {printable(scheme[:40])}://; use {known}. "
            "Pass a folder as a plain path"
        )
    if found is None or len(found[2]) < 2:
        slashes = "" if found is None else found[2]
        raise StoreError(
            f"the store URL begins with {scheme}:{slashes} and lacks slashes, as after conversion to a path; "
            f"pass the URL as a string: {FORMS[kind]}"
        )
    rest, _, query = where[found.end(1) + 3 :].partition("?")
    if "#" in rest:
        raise StoreError(f"the {kind} URL contains an unescaped #; {_ESCAPED}")
    own = dict(parse_qsl(query, keep_blank_values=True))
    files = own.pop("files", "")
    if kind == "sqlite":
        return _sqlite(scheme, rest, files, own)
    return _server(scheme, rest, files, own, "@" in query)


def _sqlite(scheme: str, rest: str, files: str, query: dict[str, str]) -> StoreUrl:
    slash, path = rest[:1], rest[1:]
    if slash != "/" or path in ("", ":memory:"):
        raise StoreError(
            "a sqlite URL needs three slashes before a relative path and four before an absolute path: "
            f"{FORMS['sqlite']}, not sqlite://{printable(rest)}"
        )
    if query:
        raise StoreError(f"a sqlite URL takes only `files`; remove {', '.join(map(printable, query))}")
    database = Path(path)
    beside = database.parent if database.name == DATABASE else database.with_suffix(".files")
    return StoreUrl(f"{scheme}:///{path}", Path(files) if files else beside, f"sqlite:///{path}")


def _server(scheme: str, rest: str, files: str, query: dict[str, str], stray: bool) -> StoreUrl:
    form = FORMS["postgresql"]
    place, _, name = rest.partition("/")
    user, at, host = place.rpartition("@")
    if "@" in user or "@" in name or (not at and stray):
        raise StoreError(f"the postgresql URL has an unescaped @; {_ESCAPED}: {form}")
    port = re.fullmatch(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?", host)
    if port is None or (port[1] and not 0 < int(port[1][:6]) < 65536):
        # Not shown: a password with a slash or a question mark looks like a port.
        raise StoreError(
            f"the postgresql URL has a port that is not a number from 1 to 65535; expected {form}; {_ESCAPED}"
        )
    shown = (
        f"{scheme}://{user.partition(':')[0] + ':***@' if ':' in user else user + at}{host}/{printable(name)}"
    )
    bare = f"{scheme}://{host}/{printable(name)}"
    if not name and not query.get("dbname"):
        raise StoreError(f"the store URL {bare} names no database; expected {form}")
    if not files:
        raise StoreError(
            f"the store URL {bare} names no folder for files; add the folder for records and features to "
            f"the URL: {bare}?files=DIR"
        )
    open_ = {k: v for k, v in query.items() if k not in _SECRET}
    more = f"?{urlencode(query)}" if query else ""
    parts = [urlencode({k: v if k in _TELLING else ""}).removesuffix("=") for k, v in open_.items()]
    settings = "?" + "&".join(parts) if parts else ""
    return StoreUrl(f"{scheme}://{rest}{more}", Path(files), shown + settings)


def without_secret(message: str, url: str) -> str:
    r"""Return a driver's message on one line, without the password and parameters of the URL.

    >>> without_secret("no entry for s3cret\n  of u", "postgresql://u:s3cret@h/db")
    'no entry for *** of u'
    """
    from urllib.parse import unquote

    text = " ".join(message.split())
    user = url.partition("://")[2].rpartition("@")[0]
    secrets = [user.partition(":")[2]]
    secrets += [v for k, v in parse_qsl(url.partition("?")[2]) if k in _SECRET]
    for value in {v for k, v in parse_qsl(url.partition("?")[2]) if k not in (*_SECRET, *_TELLING)}:
        text = text.replace(f'"{value}"', "***").replace(f"'{value}'", "***")
    for secret in {form for s in secrets for form in (s, unquote(s)) if form}:
        text = text.replace(secret, "***")
    return printable(text)
