# SPDX-License-Identifier: BSD-3-Clause
"""Download sources of datasets, and download plans."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...core.errors import FormatError, InputError, UnknownNameError
from ...core.formatting import format_bytes, path_part
from ...formats.json_yaml import read_json, read_mapping
from .allowed_hosts import checked_url, is_listed

VARIABLE = "TIEPOINT_SOURCES"
"""Environment variable with the path of a custom sources file."""
_MAX_SOURCES_BYTES = 4 << 20
Bytes = Annotated[int, Field(gt=0, le=1 << 44)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]


def _validator(check: Callable[[str], str]) -> AfterValidator:
    """Return a pydantic validator that runs `check` and converts its `InputError` to a ValueError."""

    def validate(text: str) -> str:
        try:
            return check(text)
        except InputError as e:
            raise ValueError(str(e)) from e

    return AfterValidator(validate)


Url = Annotated[Text, _validator(checked_url)]
FileName = Annotated[Text, _validator(lambda name: path_part(name, "the name"))]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mirror(_Strict):
    """URL of a file, with the published `size`, `sha256` and `md5`."""

    url: Url
    size: Bytes | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    md5: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    verified: Text
    """How the mirror was verified, or `no: …` with a reason."""


class SourceFile(_Strict):
    """File of a dataset: an archive to unpack, or a plain file to copy into the dataset folder."""

    name: FileName
    mirrors: Annotated[tuple[Mirror, ...], Field(min_length=1)]
    about_bytes: Bytes
    unpacked_bytes: Bytes | None = None
    unpacked_files: Bytes | None = None
    archive: bool = True
    optional: bool = False

    @property
    def size(self) -> int:
        """Published size of the first mirror, else the expected size."""
        return self.mirrors[0].size or self.about_bytes


class Licence(_Strict):
    """Licence of a dataset: terms, their web page, and whether the owner must be asked first."""

    name: Text
    terms: Text
    page: Text
    verified: Text
    ask: Text | None = None
    """Instructions for the user if the dataset may not be downloaded directly."""


class DatasetSource(_Strict):
    """Source of a dataset: files and mirrors, redirect hosts, licence, citation, expected content."""

    title: Text
    about: Text
    folder: FileName
    release: Text
    licence: Licence
    cite: Text
    page: Text
    hosts: Annotated[tuple[Text, ...], Field(min_length=1)]
    files: tuple[SourceFile, ...]
    verified: Text

    @model_validator(mode="after")
    def _check_hosts(self) -> DatasetSource:
        if not self.files and self.licence.ask is None:
            raise ValueError("the source has no files; add `files`, or in `ask` how to request them")
        for file in self.files:
            for mirror in file.mirrors:
                if not is_listed(mirror.url, self.hosts):
                    raise ValueError(f"the host of {mirror.url} is missing in `hosts` of the source; add it")
        return self

    @property
    def archive_bytes(self) -> int:
        """Number of bytes to download."""
        return sum(file.size for file in self.files)

    @property
    def unpacked_bytes(self) -> int:
        """Expected number of bytes after unpacking. If unknown, three times the archive size."""
        return sum(f.unpacked_bytes or f.size * (3 if f.archive else 1) for f in self.files)


class SourceList(_Strict):
    """Content of a sources file: the source of each dataset."""

    format: Literal[1]
    sources: Annotated[dict[str, DatasetSource], Field(min_length=1)]


def read_sources(path: str | Path | None = None) -> dict[str, DatasetSource]:
    """Read the sources file and return the sources by dataset name.

    The file is `path` if given, else the file that the environment variable `TIEPOINT_SOURCES` names, else
    the file in the package. Its suffix selects JSON or YAML. Unknown keys, URLs that are not http or https,
    and URLs of unlisted hosts are errors.

    >>> sorted(read_sources())[:3]
    ['evd', 'hpatches', 'hpatches-sequences']
    """
    custom = path or os.environ.get(VARIABLE) or None
    file = Path(custom or "sources.json").expanduser()
    if custom is None:
        value = json.loads(files(__package__).joinpath("sources.json").read_bytes())
    elif file.suffix in (".yaml", ".yml"):
        value = read_mapping(file, "is not a mapping; a sources file has `format` and `sources`")
    else:
        value = read_json(file, most=_MAX_SOURCES_BYTES)
    try:
        return SourceList.model_validate(value).sources
    except ValidationError as e:
        first = e.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        more = f"; and {e.error_count() - 1} more" if e.error_count() > 1 else ""
        raise FormatError(file, f"{key or 'the file'}: {first['msg']}{more}") from e


def named_source(sources: dict[str, DatasetSource], name: str) -> DatasetSource:
    """Return the source of a dataset. If the name is unknown, the error lists similar names."""
    if name not in sources:
        raise UnknownNameError("dataset", name, sources)
    return sources[name]


def format_size(size: float) -> str:
    """Format a number of bytes with decimal units.

    >>> format_size(1_279_545_572), format_size(40_000), format_size(12)
    ('1.28 GB', '40 kB', '12 B')
    """
    return format_bytes(size, ".3g")


@dataclass(frozen=True)
class DownloadPlan:
    """Plan of a download: dataset, source, target folder and free bytes on the disk."""

    name: str
    source: DatasetSource
    folder: Path
    free: int

    @property
    def required_bytes(self) -> int:
        """Disk space in bytes that the archives and their unpacked content require."""
        return self.source.archive_bytes + self.source.unpacked_bytes

    def check_room(self, *, fetched: int = 0) -> None:
        """Raise an `InputError` if the disk has too little free space.

        `fetched` is the number of bytes already downloaded.
        """
        needed = self.required_bytes - fetched
        if needed > self.free:
            raise InputError(
                f"{self.folder.parent}: {format_size(self.free)} are free, but {self.name} needs about "
                f"{format_size(needed)} for archives and content; free some space or choose another `to`"
            )

    def __str__(self) -> str:
        source = self.source
        lines = [f"{self.name}: {source.title}", f"  {source.about}", f"  to: {self.folder}"]
        for file in source.files:
            about = "" if file.mirrors[0].size else "about "
            lines.append(
                f"  download {file.name}, {about}{format_size(file.size)}, from the first available:"
            )
            lines += [f"    {i}. {_mirror(m)}" for i, m in enumerate(file.mirrors, 1)]
        if source.files:
            lines.append(f"  unpacked: about {format_size(source.unpacked_bytes)}")
            lines.append(f"  space: {format_size(self.required_bytes)} needed, {format_size(self.free)} free")
        lines.append(f"  licence: {format_licence(source)}")
        if source.licence.ask:
            lines.append(f"  to get it: {source.licence.ask}")
        lines += [f"  cite: {source.cite}", f"  verified: {source.verified}"]
        return "\n".join(lines)


def format_licence(source: DatasetSource) -> str:
    """Format the licence of a dataset as one line."""
    licence = source.licence
    return f"{licence.name}: {licence.terms} ({licence.page}; verified: {licence.verified})"


def _mirror(mirror: Mirror) -> str:
    known = [word for word, value in (("SHA-256", mirror.sha256), ("MD5", mirror.md5)) if value]
    guard = f"{' and '.join(known)} published" if known else "no hash published"
    plain = "" if mirror.url.startswith("https:") else "; not encrypted"
    return f"{mirror.url} ({guard}{plain}; verified: {mirror.verified})"


def plan_for(name: str, source: DatasetSource, to: str | Path) -> DownloadPlan:
    """Return the plan to install a dataset in the folder `to`. The folder may be missing."""
    parent = Path(to).expanduser()
    existing = parent.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        free = shutil.disk_usage(existing).free
    except OSError as e:
        raise InputError(f"cannot access {existing}: {e.strerror or e}; choose another `to`") from e
    return DownloadPlan(name, source, parent / source.folder, free)
