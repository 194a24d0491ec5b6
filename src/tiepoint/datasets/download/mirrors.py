# SPDX-License-Identifier: BSD-3-Clause
"""A file from the first of several mirrors that gives it, held against what is published about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ...core.errors import InputError, ProblemsError
from .allowed_hosts import AddressError
from .fetch import FetchOptions, MirrorError, fetch
from .partial_file import PartialFile, hashes
from .sources import Mirror, SourceFile

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
