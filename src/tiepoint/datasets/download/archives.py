# SPDX-License-Identifier: BSD-3-Clause
"""Archives of strangers: zip, tar and tar.gz into a new folder, plain files only, bounded while unpacking."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ...core.errors import FormatError, InputError, TiepointError
from ...core.formatting import path_part, printable
from ...core.regular_files import regular_file_size
from ...formats.file_io import DAMAGED
from ...formats.sniff import explain_wrong_type

MAX_PATH_DEPTH = 16
_LEAVINGS = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", "Icon\r"})
"""What file managers leave in archives."""


class MemberPaths:
    """The places that the members of one archive take; no two take one, on no file system."""

    def __init__(self, archive: str) -> None:
        self.archive = archive
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def file(self, name: str) -> PurePosixPath | None:
        """Where a file goes, below the folder; None for what file managers leave.

        Raises:
            InputError: The name leads outside, cannot be written on every system, or is taken, also by one
                that differs only in case or in how its letters are composed.
        """
        parts = self._parts(name)
        if not parts:
            return None
        place = "/".join(parts)
        key = _key(place)
        if key in self._files or key in self._folders:
            other = self._files.get(key) or self._folders[key]
            raise self._refused(name, f"another member has the place {printable(other)}")
        self._files[key] = place
        for end in range(1, len(parts)):
            self._folder("/".join(parts[:end]), name)
        return PurePosixPath(place)

    def folder(self, name: str) -> None:
        """Check the name of a folder; folders are made where files need them."""
        parts = self._parts(name.rstrip("/"))
        for end in range(1, len(parts) + 1):
            self._folder("/".join(parts[:end]), name)

    def _folder(self, place: str, name: str) -> None:
        key = _key(place)
        if key in self._files or self._folders.setdefault(key, place) != place:
            other = self._files.get(key) or self._folders[key]
            raise self._refused(name, f"another member has the place {printable(other)}")

    def _parts(self, name: str) -> list[str]:
        if name.startswith("/"):
            raise self._refused(name, "it is absolute")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if any(part in _LEAVINGS or part.startswith("._") for part in parts):
            return []
        if ".." in parts:
            raise self._refused(name, "it leads outside")
        if len(parts) > MAX_PATH_DEPTH:
            raise self._refused(name, f"it is more than {MAX_PATH_DEPTH} folders deep")
        try:
            return [path_part(part, "the part") for part in parts]
        except InputError as e:
            raise self._refused(name, str(e)) from e

    def _refused(self, name: str, why: str) -> InputError:
        short = name if len(name) <= 120 else name[:117] + "…"
        return InputError(f"{self.archive}: the member '{printable(short)}' is refused: {why}")


def _key(place: str) -> str:
    return unicodedata.normalize("NFC", place).casefold()


MAX_COMPRESSION_RATIO = 200
"""Bytes that a byte of an archive may become; true flows of mostly unknown pixels come to about 100."""
MAX_ARCHIVE_FILES = 500_000
_SLACK = 64 << 20
_CHUNK = 1 << 20
_MAX_READ_BYTES = 8 << 20
"""Bytes that a header of a tar may have."""
_DAMAGE: tuple[type[Exception], ...] = (*DAMAGED, tarfile.TarError, LookupError, TypeError, AttributeError)
Progress = Callable[[int, int], None]


class _Writer:
    """Writes members below a folder and counts; every bound is held while writing."""

    def __init__(self, archive: Path, folder: Path, most_bytes: int | None, most_files: int | None) -> None:
        self.archive, self.folder = archive, folder
        size = regular_file_size(archive)
        by_ratio = MAX_COMPRESSION_RATIO * size + _SLACK
        self.most_bytes = by_ratio if most_bytes is None else min(by_ratio, most_bytes + _SLACK)
        self.most_files = most_files or MAX_ARCHIVE_FILES
        self.places = MemberPaths(archive.name)
        self.bytes = self.files = 0

    def write(self, name: str, source: IO[bytes]) -> None:
        place = self.places.file(name)
        if place is None:
            return
        self.files += 1
        if self.files > self.most_files:
            raise InputError(f"{self.archive}: has more than {self.most_files:,} files; it is not unpacked")
        target = self.folder / place
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            file = os.fdopen(os.open(target, flags, 0o666), "wb")
        except OSError as e:
            raise _unwritable(target, e) from e
        with file:
            while chunk := source.read(_CHUNK):
                self.count(len(chunk))
                try:
                    file.write(chunk)
                except OSError as e:
                    raise _unwritable(target, e) from e

    def count(self, more: int) -> None:
        self.bytes += more
        if self.bytes > self.most_bytes:
            raise InputError(
                f"{self.archive}: unpacks to more than {self.most_bytes:,} bytes, far more than expected; "
                "it is not unpacked"
            )


def unpack(
    archive: Path,
    folder: Path,
    *,
    most_bytes: int | None = None,
    most_files: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Unpack an archive into a folder that is new and empty; returns the number of files.

    Its kind is told by its content. Names that lead outside, absolute names, links, devices, encrypted
    members, names taken twice (also in another case) and more than the bounds are refused, and what was
    written so far is for the caller to remove. Modes and owners of the archive are not taken over.

    Args:
        archive: A zip, tar or tar.gz.
        folder: Where to.
        most_bytes: Bytes that all files may have together; else 200 times the archive.
        most_files: How many files there may be; else 500,000.
        progress: Called with (bytes of the archive done, all).

    Raises:
        FormatError: No archive that is known, or a damaged one.
        InputError: A member is refused, or a bound is passed.
    """
    writer = _Writer(archive, folder, most_bytes, most_files)
    with archive.open("rb") as file:
        head = file.read(512)
        file.seek(0)
        try:
            if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
                _unzip(file, writer, progress)
            elif head[:2] == b"\x1f\x8b" or head[257:262] == b"ustar":
                _untar(file, writer, progress, packed=head[:2] == b"\x1f\x8b")
            else:
                otherwise = "is no zip, tar or tar.gz" if head else "is empty; fetch it again"
                raise FormatError(archive, explain_wrong_type(archive, otherwise))
        except TiepointError:
            raise
        except _DAMAGE as e:
            said = " ".join(str(e).split()) or type(e).__name__
            raise FormatError(archive, f"is a damaged archive ({said}); fetch it again") from e
    if not writer.files:
        raise FormatError(archive, "has no file in it")
    return writer.files


def _unzip(file: IO[bytes], writer: _Writer, progress: Progress | None) -> None:
    with zipfile.ZipFile(file) as members:
        infos = members.infolist()
        total = sum(info.compress_size for info in infos)
        done = 0
        for info in infos:
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _not_plain(writer, info.filename)
            if info.is_dir():
                writer.places.folder(info.filename)
                continue
            if info.flag_bits & 1:
                raise InputError(f"{writer.archive}: is encrypted; it is not unpacked")
            with members.open(info) as source:
                writer.write(info.filename, source)
            done += info.compress_size
            if progress is not None:
                progress(done, total)


def _untar(file: IO[bytes], writer: _Writer, progress: Progress | None, *, packed: bool) -> None:
    total = os.fstat(file.fileno()).st_size
    inner: Any = gzip.GzipFile(fileobj=file, mode="rb") if packed else file
    stream: Any = _Bounded(inner, writer)
    with tarfile.open(fileobj=stream, mode="r:") as members:
        while (member := members.next()) is not None:
            members.members.clear()  # type: ignore[attr-defined]  # else it keeps them all
            if member.isdir():
                writer.places.folder(member.name)
                continue
            if not member.isreg() or member.issparse():
                raise _not_plain(writer, member.name)
            source = members.extractfile(member)
            assert source is not None
            with source:
                writer.write(member.name, source)
            if progress is not None:
                progress(min(file.tell(), total), total)
    if stream.last.count(0) != tarfile.BLOCKSIZE:  # a damaged header would pass for the end
        raise FormatError(writer.archive, "is a damaged archive (it ends early); fetch it again")
    while inner.read(_CHUNK):  # the checksum stands at the end
        pass


class _Bounded:
    """What a tar is read through: a header that asks for too much is refused before memory is taken."""

    def __init__(self, inner: IO[bytes], writer: _Writer) -> None:
        self.inner, self.writer = inner, writer
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ_BYTES:
            raise InputError(f"{self.writer.archive}: has a header of {size:,} bytes; it is not unpacked")
        self.last = self.inner.read(size)
        return self.last

    def seek(self, place: int, whence: int = 0) -> int:
        if whence == 0 and place > self.writer.most_bytes + _SLACK + 1024 * self.writer.most_files:
            raise InputError(f"{self.writer.archive}: has a member far longer than expected")
        return self.inner.seek(place, whence)

    def tell(self) -> int:
        return self.inner.tell()


def _not_plain(writer: _Writer, name: str) -> InputError:
    short = name if len(name) <= 120 else name[:117] + "…"
    return InputError(
        f"{writer.archive}: the member {short!r} is a link, a device or sparse; only files are unpacked"
    )


def _unwritable(path: Path, error: OSError) -> InputError:
    full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    advice = "make room, or choose another `to`" if full else "choose another `to`"
    return InputError(f"cannot write {path}: {error.strerror or error}; {advice}")
