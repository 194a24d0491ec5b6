# SPDX-License-Identifier: BSD-3-Clause
"""The small file beside a dataset: where it came from, and the hashes of what was fetched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..._version import __version__
from ...core.errors import InputError
from ...formats.file_io import write_bytes
from ...formats.json_yaml import read_json
from ..validation.release import Release
from .mirrors import FetchedFile
from .sources import DatasetSource

ENDING = ".source.json"
_MAX_RECORD_BYTES = 1 << 20


def record_path(folder: Path) -> Path:
    """The file of a dataset's folder, beside it.

    >>> record_path(Path("data/EVD")).name
    'EVD.source.json'
    >>> record_path(Path(".")) == record_path(Path.cwd())
    True
    """
    whole = folder.resolve() if folder.name in ("", "..") else folder
    return whole.parent / f"{whole.name}{ENDING}"


def read_record(folder: Path) -> dict[str, Any]:
    """What is recorded of a folder; nothing where there is no record, or it cannot be read."""
    try:
        found = read_json(record_path(folder), most=_MAX_RECORD_BYTES)
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}


def write_record(
    folder: Path,
    name: str,
    source: DatasetSource,
    release: Release | None,
    files: Sequence[tuple[str, FetchedFile]],
) -> Path:
    """Write the record of a dataset that was got; returns its place."""
    value = {
        "dataset": name,
        "title": source.title,
        "release": None if release is None else {"key": release.key, "have": release.have, "of": release.of},
        "files": [
            {
                "name": file,
                "url": fetched.url or None,
                "bytes": fetched.size,
                "sha256": fetched.sha256,
                "hash_published": fetched.published,
            }
            for file, fetched in files
        ],
        "licence": source.licence.name,
        "licence_page": source.licence.page,
        "cite": source.cite,
        "got": datetime.now(UTC).isoformat(timespec="seconds"),
        "tiepoint": __version__,
    }
    path = record_path(folder)
    write_bytes(path, [(json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()])
    return path


def check_unchanged(folder: Path, name: str, fetched: FetchedFile) -> None:
    """Hold a file against the record of an earlier one: an unpublished hash is trusted once, then pinned.

    Raises:
        InputError: The same address gave another file before.
    """
    files = read_record(folder).get("files")
    for entry in files if isinstance(files, list) else ():
        if not isinstance(entry, dict) or (entry.get("name"), entry.get("url")) != (name, fetched.url):
            continue
        if fetched.url and entry.get("sha256") != fetched.sha256:
            raise InputError(
                f"{fetched.url} gives another file than when it was first fetched: SHA-256 {fetched.sha256}, "
                f"recorded {entry.get('sha256')}; to accept it, remove {record_path(folder)}"
            )
