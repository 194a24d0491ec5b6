# SPDX-License-Identifier: BSD-3-Clause
"""Unpack untrusted zip, tar and tar.gz archives: regular files only, with size limits."""

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
_IGNORED = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", "Icon\r"})
"""Names of files that file managers add to archives. They are not unpacked."""


class MemberPaths:
    """Checker of member paths in an archive. Accepted paths are distinct on every file system."""

    def __init__(self, archive: str) -> None:
        self.archive = archive
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def file(self, name: str) -> PurePosixPath | None:
        """Return the path of an archive file relative to the target folder. None if it is not unpacked.

        Raises:
            InputError: The name leads outside the folder, cannot be written on every system, or is a
                duplicate. Names that differ only in case or Unicode normalisation are duplicates.
        """
        parts = self._parts(name)
        if not parts:
            return None
        path = "/".join(parts)
        key = _key(path)
        if key in self._files or key in self._folders:
            raise self._taken(name, key)
        self._files[key] = path
        for end in range(1, len(parts)):
            self._folder("/".join(parts[:end]), name)
        return PurePosixPath(path)

    def folder(self, name: str) -> None:
        """Check the name of an archive member that is a folder.

        Folders are created when their files are written.
        """
        parts = self._parts(name.rstrip("/"))
        for end in range(1, len(parts) + 1):
            self._folder("/".join(parts[:end]), name)

    def _folder(self, path: str, name: str) -> None:
        key = _key(path)
        if key in self._files or self._folders.setdefault(key, path) != path:
            raise self._taken(name, key)

    def _taken(self, name: str, key: str) -> InputError:
        other = self._files.get(key) or self._folders[key]
        return self._refused(name, f"another member has the path {printable(other)}")

    def _parts(self, name: str) -> list[str]:
        if name.startswith("/"):
            raise self._refused(name, "its path is absolute")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if any(part in _IGNORED or part.startswith("._") for part in parts):
            return []
        if ".." in parts:
            raise self._refused(name, "its path leads out of the folder")
        if len(parts) > MAX_PATH_DEPTH:
            raise self._refused(name, f"its path has more than {MAX_PATH_DEPTH} levels")
        try:
            return [path_part(part, "the part") for part in parts]
        except InputError as e:
            raise self._refused(name, str(e)) from e

    def _refused(self, name: str, reason: str) -> InputError:
        short = name if len(name) <= 120 else name[:117] + "…"
        return InputError(f"{self.archive}: the member '{printable(short)}' is refused: {reason}")


def _key(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


MAX_COMPRESSION_RATIO = 200
"""Limit of unpacked bytes per byte of an archive. Flow files of mostly unknown pixels reach about 100."""
MAX_ARCHIVE_FILES = 500_000
_SLACK = 64 << 20
_CHUNK = 1 << 20
_MAX_READ_BYTES = 8 << 20
"""Limit of a tar header's size, in bytes."""
_ERRORS: tuple[type[Exception], ...] = (*DAMAGED, tarfile.TarError, LookupError, TypeError, AttributeError)
Progress = Callable[[int, int], None]


class _Writer:
    """Writer of unpacked files. It enforces the limits of total size and number of files."""

    def __init__(self, archive: Path, folder: Path, max_bytes: int | None, max_files: int | None) -> None:
        self.archive, self.folder = archive, folder
        size = regular_file_size(archive)
        by_ratio = MAX_COMPRESSION_RATIO * size + _SLACK
        self.max_bytes = by_ratio if max_bytes is None else min(by_ratio, max_bytes + _SLACK)
        self.max_files = max_files or MAX_ARCHIVE_FILES
        self.paths = MemberPaths(archive.name)
        self.bytes = self.files = 0

    def write(self, name: str, source: IO[bytes]) -> None:
        path = self.paths.file(name)
        if path is None:
            return
        self.files += 1
        if self.files > self.max_files:
            raise InputError(
                f"{self.archive}: the archive has more than {self.max_files:,} files and was not unpacked"
            )
        target = self.folder / path
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
        if self.bytes > self.max_bytes:
            reason = f"the content has more than {self.max_bytes:,} bytes, far more than expected"
            raise InputError(f"{self.archive}: {reason}, and was not unpacked")


def unpack(
    archive: Path,
    folder: Path,
    *,
    max_bytes: int | None = None,
    max_files: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Unpack an archive into a new, empty folder. Return the number of files.

    The archive type is detected from the content. The function refuses absolute names, names that lead
    outside the folder, links, devices, encrypted members, duplicate names (ignoring case) and archives above
    the limits. If it raises an error, the caller must remove the folder. File modes and owners are ignored.

    Args:
        archive: A zip, tar or tar.gz file.
        folder: The target.
        max_bytes: Limit of the total unpacked size. None means 200 times the size of the archive.
        max_files: Limit of the number of files. None means 500,000.
        progress: Called with (processed bytes of the archive, total bytes).

    Raises:
        FormatError: The archive is corrupt or of an unknown type.
        InputError: A member is refused, or a limit is exceeded.
    """
    writer = _Writer(archive, folder, max_bytes, max_files)
    with archive.open("rb") as file:
        head = file.read(512)
        file.seek(0)
        try:
            if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
                _unzip(file, writer, progress)
            elif head[:2] == b"\x1f\x8b" or head[257:262] == b"ustar":
                _untar(file, writer, progress, packed=head[:2] == b"\x1f\x8b")
            else:
                otherwise = "is not a zip, tar or tar.gz file" if head else "is empty; download it again"
                raise FormatError(archive, explain_wrong_type(archive, otherwise))
        except TiepointError:
            raise
        except _ERRORS as e:
            reason = " ".join(str(e).split()) or type(e).__name__
            raise FormatError(archive, f"is a corrupt archive ({reason}); download it again") from e
    if not writer.files:
        raise FormatError(archive, "contains no file")
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
                writer.paths.folder(info.filename)
                continue
            if info.flag_bits & 1:
                raise InputError(f"{writer.archive}: the archive is encrypted; unpack it manually")
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
            members.members.clear()  # type: ignore[attr-defined]  # else all stay in memory
            if member.isdir():
                writer.paths.folder(member.name)
                continue
            if not member.isreg() or member.issparse():
                raise _not_plain(writer, member.name)
            source = members.extractfile(member)
            assert source is not None
            with source:
                writer.write(member.name, source)
            if progress is not None:
                progress(min(file.tell(), total), total)
    if stream.last.count(0) != tarfile.BLOCKSIZE:  # tarfile treats a corrupt header as the end
        raise FormatError(writer.archive, "is a corrupt archive (it ends early); download it again")
    while inner.read(_CHUNK):  # gzip verifies the checksum at the end
        pass


class _Bounded:
    """Input stream of a tar archive that refuses oversized headers before memory is allocated."""

    def __init__(self, inner: IO[bytes], writer: _Writer) -> None:
        self.inner, self.writer = inner, writer
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ_BYTES:
            raise InputError(
                f"{self.writer.archive}: the archive has a header of {size:,} bytes and was not unpacked"
            )
        self.last = self.inner.read(size)
        return self.last

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and offset > self.writer.max_bytes + _SLACK + 1024 * self.writer.max_files:
            raise InputError(
                f"{self.writer.archive}: the archive has a file far longer than expected and was not unpacked"
            )
        return self.inner.seek(offset, whence)

    def tell(self) -> int:
        return self.inner.tell()


def _not_plain(writer: _Writer, name: str) -> InputError:
    short = name if len(name) <= 120 else name[:117] + "…"
    return InputError(
        f"{writer.archive}: the member {short!r} is a link, a device or sparse; only files are unpacked"
    )


def _unwritable(path: Path, error: OSError) -> InputError:
    full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    advice = "free some space, or choose another `to`" if full else "choose another `to`"
    return InputError(f"cannot write {path}: {error.strerror or error}; {advice}")
