# SPDX-License-Identifier: BSD-3-Clause
"""Where datasets come from: a reviewed file in the package, or one of the user's in its place."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ...core.errors import FormatError, InputError, UnknownNameError
from ...core.formatting import format_bytes, path_part
from ...formats.json_yaml import read_json, read_mapping
from .allowed_hosts import checked_url, is_listed

VARIABLE = "TIEPOINT_SOURCES"
"""Environment variable that names a file of sources to use in place of the package's."""
_MAX_SOURCES_BYTES = 4 << 20
Bytes = Annotated[int, Field(gt=0, le=1 << 44)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mirror(_Strict):
    """One address of a file; `size`, `sha256` and `md5` are as published for what lies there."""

    url: Text
    size: Bytes | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    md5: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    verified: Text
    """How it is known, or `no: …`."""

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        return _value(checked_url, url)


class SourceFile(_Strict):
    """A file of a dataset: an archive that is unpacked, or a plain one that is put beside what it holds."""

    name: Text
    mirrors: Annotated[tuple[Mirror, ...], Field(min_length=1)]
    about_bytes: Bytes
    unpacked_bytes: Bytes | None = None
    unpacked_files: Bytes | None = None
    archive: bool = True
    optional: bool = False

    @field_validator("name")
    @classmethod
    def _part(cls, name: str) -> str:
        return _value(lambda n: path_part(n, "the file"), name)

    @property
    def size(self) -> int:
        """Bytes of the first mirror where they are published, else about how many."""
        return self.mirrors[0].size or self.about_bytes


class Licence(_Strict):
    """What a dataset may be used for, where that is written, and whether its owner must be asked first."""

    name: Text
    terms: Text
    page: Text
    verified: Text
    ask: Text | None = None
    """What to ask for and where, if it may not be downloaded directly."""


class DatasetSource(_Strict):
    """A dataset: its files and mirrors, hosts that redirects may lead to, licence, citation, expectations."""

    title: Text
    about: Text
    folder: Text
    release: Text
    licence: Licence
    cite: Text
    page: Text
    hosts: Annotated[tuple[Text, ...], Field(min_length=1)]
    files: tuple[SourceFile, ...]
    verified: Text

    @field_validator("folder")
    @classmethod
    def _part(cls, name: str) -> str:
        return _value(lambda n: path_part(n, "the folder"), name)

    @model_validator(mode="after")
    def _fits(self) -> DatasetSource:
        if not self.files and self.licence.ask is None:
            raise ValueError("a source has files, or says whom to ask")
        for file in self.files:
            for mirror in file.mirrors:
                if not is_listed(mirror.url, self.hosts):
                    raise ValueError(f"the host of {mirror.url} is not among the hosts of the source")
        return self

    @property
    def archive_bytes(self) -> int:
        """Bytes to fetch."""
        return sum(file.size for file in self.files)

    @property
    def unpacked_bytes(self) -> int:
        """Bytes after unpacking: as expected, or three times the archives."""
        return sum(f.unpacked_bytes or f.size * (3 if f.archive else 1) for f in self.files)


class SourceList(_Strict):
    """A whole file of sources."""

    format: Literal[1]
    sources: Annotated[dict[str, DatasetSource], Field(min_length=1)]


def read_sources(path: str | Path | None = None) -> dict[str, DatasetSource]:
    """Sources by name: of a file, else of the one `TIEPOINT_SOURCES` names, else of the package.

    A file is JSON, or YAML where its name ends so. Unknown keys, addresses that are neither http nor https,
    and hosts that are not listed are errors.

    >>> sorted(read_sources())[:3]
    ['evd', 'hpatches', 'hpatches-sequences']
    """
    given = path or os.environ.get(VARIABLE) or None
    where = "sources.json" if given is None else Path(given).expanduser()
    if given is None:
        value = json.loads(files(__package__).joinpath("sources.json").read_bytes())
    elif str(where).endswith((".yaml", ".yml")):
        value = read_mapping(Path(where), "is no mapping; a file of sources has `format` and `sources`")
    else:
        value = read_json(where, most=_MAX_SOURCES_BYTES)
    try:
        return SourceList.model_validate(value).sources
    except ValidationError as e:
        first = e.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        more = f"; and {e.error_count() - 1} more" if e.error_count() > 1 else ""
        raise FormatError(where, f"{place or 'the file'}: {first['msg']}{more}") from e


def named_source(sources: dict[str, DatasetSource], name: str) -> DatasetSource:
    """The source of a name; an unknown one is an error with the near ones."""
    if name not in sources:
        raise UnknownNameError("dataset", name, sources)
    return sources[name]


def _value(check: Any, text: str) -> str:
    """Input errors as what pydantic collects."""
    try:
        return str(check(text))
    except InputError as e:
        raise ValueError(str(e)) from e


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
