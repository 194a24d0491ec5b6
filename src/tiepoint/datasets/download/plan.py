# SPDX-License-Identifier: BSD-3-Clause
"""What getting a dataset would do: files, addresses, sizes, room, licence; said before anything is done."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ...core.amounts import format_bytes
from ...core.errors import InputError
from .sources import DatasetSource, Mirror


def format_size(size: float) -> str:
    """Bytes for people, in powers of ten.

    >>> format_size(1_279_545_572), format_size(40_000), format_size(12)
    ('1.28 GB', '40 kB', '12 B')
    """
    return format_bytes(size, ".3g")


@dataclass(frozen=True)
class DownloadPlan:
    """A dataset, where it would go, and how much room is there."""

    name: str
    source: DatasetSource
    folder: Path
    free: int

    @property
    def required_bytes(self) -> int:
        """Bytes for the archives and what is in them, at the same time."""
        return self.source.archive_bytes + self.source.unpacked_bytes

    def check_room(self, *, fetched: int = 0) -> None:
        """Raise an `InputError` where the disk is too small; `fetched` bytes are there already."""
        needed = self.required_bytes - fetched
        if needed > self.free:
            raise InputError(
                f"{self.folder.parent} has {format_size(self.free)} free, {self.name} needs about "
                f"{format_size(needed)} (archives and what is in them); make room or choose another `to`"
            )

    def __str__(self) -> str:
        source = self.source
        lines = [f"{self.name}: {source.title}", f"  {source.about}", f"  to: {self.folder}"]
        for file in source.files:
            known = "" if file.mirrors[0].size else "about "
            lines.append(
                f"  fetch {file.name}, {known}{format_size(file.size)}, from the first that gives it:"
            )
            lines += [f"    {i}. {_mirror(m)}" for i, m in enumerate(file.mirrors, 1)]
        if source.files:
            lines.append(f"  unpacked: about {format_size(source.unpacked_bytes)}")
            lines.append(f"  room: {format_size(self.required_bytes)} needed, {format_size(self.free)} free")
        lines.append(f"  licence: {format_licence(source)}")
        if source.licence.ask:
            lines.append(f"  to get it: {source.licence.ask}")
        lines += [f"  cite: {source.cite}", f"  verified: {source.verified}"]
        return "\n".join(lines)


def format_licence(source: DatasetSource) -> str:
    """The licence of a dataset in one line."""
    licence = source.licence
    return f"{licence.name}: {licence.terms} ({licence.page}; verified: {licence.verified})"


def _mirror(mirror: Mirror) -> str:
    known = [word for word, value in (("SHA-256", mirror.sha256), ("MD5", mirror.md5)) if value]
    guard = f"{' and '.join(known)} published" if known else "no hash published"
    plain = "" if mirror.url.startswith("https:") else "; not encrypted"
    return f"{mirror.url} ({guard}{plain}; verified: {mirror.verified})"


def plan_for(name: str, source: DatasetSource, to: str | Path) -> DownloadPlan:
    """The plan to get a dataset into a folder, which need not be there yet."""
    parent = Path(to).expanduser()
    there = parent.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        free = shutil.disk_usage(there).free
    except OSError as e:
        raise InputError(f"cannot look at {there}: {e.strerror or e}; choose another `to`") from e
    return DownloadPlan(name, source, parent / source.folder, free)
