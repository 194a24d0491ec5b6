# SPDX-License-Identifier: BSD-3-Clause
"""Partial downloads: received bytes, version on the server, and a lock."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ...core.errors import InputError

_CHUNK = 1 << 20


@dataclass(frozen=True)
class VersionStamp:
    """Version of a remote file, from the headers of a response."""

    url: str
    etag: str = ""
    modified: str = ""
    total: int | None = None

    @classmethod
    def from_headers(cls, url: str, headers: Mapping[str, str], total: int | None) -> VersionStamp:
        """Create the version from the headers of a response."""
        by_name = {name.lower(): value for name, value in headers.items()}
        return cls(url, by_name.get("etag", ""), by_name.get("last-modified", ""), total)

    @property
    def validator(self) -> str:
        """Value of the header ``If-Range``: a strong ETag, else the modification time, else empty."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def same(self, other: VersionStamp) -> bool:
        """Return whether two versions may be the same: every value that both state is equal."""
        pairs = ((self.etag, other.etag), (self.modified, other.modified), (self.total, other.total))
        return all(a == b for a, b in pairs if a and b)


class PartialFile:
    """Partial file ``NAME.part`` and its version in ``NAME.part.json``.

    Both files are retained until the download is complete, even if the process is killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts = path.with_name(path.name + ".json")

    @property
    def length(self) -> int:
        """Number of bytes received."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def stamp(self) -> VersionStamp | None:
        """Return the version of the remote file when the download started. None if unknown."""
        try:
            facts = json.loads(self.facts.read_text(encoding="utf-8"))
            return VersionStamp(facts["url"], facts["etag"], facts["modified"], facts["total"])
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def begin(self, stamp: VersionStamp) -> None:
        """Start an empty partial file for a new version of the remote file.

        The old bytes are removed first, so an interruption never mixes versions.
        """
        self.drop()
        with refusal(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            beside = self.facts.with_name(self.facts.name + ".new")
            beside.write_text(json.dumps(asdict(stamp)), encoding="utf-8", newline="\n")
            os.replace(beside, self.facts)

    def drop(self) -> None:
        """Remove the partial file and its version file."""
        for path in (self.facts, self.path):
            with contextlib.suppress(FileNotFoundError), refusal(path):
                path.unlink()


def hashes(path: Path) -> tuple[str, str]:
    """Return SHA-256 and MD5 of a file, always computed from its content.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a"
    >>> _ = path.write_bytes(b"")
    >>> [digest[:8] for digest in hashes(path)]
    ['e3b0c442', 'd41d8cd9']
    """
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha256.update(chunk)
            md5.update(chunk)
    return sha256.hexdigest(), md5.hexdigest()


@contextlib.contextmanager
def refusal(path: Path) -> Iterator[None]:
    """Convert an OSError in this block to an `InputError`. A FileNotFoundError stays unchanged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as e:
        reason = f"{e.strerror or e}; the downloaded part is retained, choose another `to`"
        raise InputError(f"cannot write {path}: {reason}") from e


@contextlib.contextmanager
def lock_file(path: Path, name: str) -> Iterator[None]:
    """Hold a lock file within this block. Raise an `InputError` if another process holds it.

    The lock file is not removed afterwards.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=0)
    with refusal(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout as e:
            raise InputError(
                f"another process is downloading {name} to {path.parent.parent}; wait for it, "
                "or choose another `to`"
            ) from e
    try:
        yield
    finally:
        lock.release()
