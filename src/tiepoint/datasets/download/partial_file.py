# SPDX-License-Identifier: BSD-3-Clause
"""A file that is being fetched: the bytes so far, what the server said, and one process at a time."""

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
    """What tells one version of a remote file from another."""

    url: str
    etag: str = ""
    modified: str = ""
    total: int | None = None

    @classmethod
    def of(cls, url: str, headers: Mapping[str, str], total: int | None) -> VersionStamp:
        """The stamp of an answer's headers."""
        by_name = {name.lower(): value for name, value in headers.items()}
        return cls(url, by_name.get("etag", ""), by_name.get("last-modified", ""), total)

    @property
    def validator(self) -> str:
        """What ``If-Range`` may carry: a strong ETag, else the time of modification, else nothing."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def same(self, other: VersionStamp) -> bool:
        """Whether both may be the same version: nothing that both state differs."""
        pairs = ((self.etag, other.etag), (self.modified, other.modified), (self.total, other.total))
        return all(a == b for a, b in pairs if a and b)


class PartialFile:
    """``NAME.part`` with ``NAME.part.json`` beside it; both outlive a kill and go when the file is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts = path.with_name(path.name + ".json")

    @property
    def length(self) -> int:
        """Bytes so far."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def stamp(self) -> VersionStamp | None:
        """What was said about the file when it was begun; None where that is lost."""
        try:
            found = json.loads(self.facts.read_text(encoding="utf-8"))
            return VersionStamp(found["url"], found["etag"], found["modified"], found["total"])
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def begin(self, stamp: VersionStamp) -> None:
        """An empty part of this version. The old bytes go before the new facts come: a kill mixes nothing."""
        self.drop()
        with refusal(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            beside = self.facts.with_name(self.facts.name + ".new")
            beside.write_text(json.dumps(asdict(stamp)), encoding="utf-8", newline="\n")
            os.replace(beside, self.facts)

    def drop(self) -> None:
        """Forget what was fetched."""
        for path in (self.facts, self.path):
            with contextlib.suppress(FileNotFoundError), refusal(path):
                path.unlink()


def hashes(path: Path) -> tuple[str, str]:
    """SHA-256 and MD5 of a file as it lies there now, neither remembered nor trusted.

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
    """The system's refusal to write, as a sentence; a missing file stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as e:
        raise InputError(
            f"cannot write {path}: {e.strerror or e}; what was fetched so far stays, choose another `to`"
        ) from e


@contextlib.contextmanager
def lock_file(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file. Raises `InputError` at once if another process holds it; the file stays."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=0)
    with refusal(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout as e:
            raise InputError(
                f"another process is getting {what} into {path.parent.parent}; wait for it, "
                "or choose another `to`"
            ) from e
    try:
        yield
    finally:
        lock.release()
