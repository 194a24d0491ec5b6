# SPDX-License-Identifier: BSD-3-Clause
"""What is known of the 2017 release without its files: splits, lengths, hashes of the task files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from ...formats.hpatches.task_lists import Split

_SAME_SCENES = (("i_objects", "i_table"),)


@cache
def _known() -> Any:
    return json.loads(files(__package__).joinpath("release_2017.json").read_text(encoding="utf-8"))


def official_splits() -> dict[str, Split]:
    """The six published splits, test lists in the published order.

    >>> {name: len(split.test) for name, split in official_splits().items()}
    {'a': 40, 'c': 40, 'b': 40, 'illum': 57, 'full': 116, 'view': 59}
    """
    return {
        name: Split(name, tuple(value["test"]), tuple(value["train"]) if "train" in value else None)
        for name, value in _known()["splits"].items()
    }


def official_lengths() -> dict[str, int]:
    """Patches of the 106 sequences whose number is known exactly.

    The numbers were recovered from the random stream of the published lists; ten viewpoint sequences are
    known to a few patches only and are left out (see `open_lengths`). Whoever has the strips has all of them.

    >>> official_lengths()["v_graffiti"], len(official_lengths())
    (1123, 106)
    """
    return {name: v[0] for name, v in _known()["lengths"].items() if len(v) == 1}


def open_lengths() -> dict[str, tuple[int, int]]:
    """Lowest and highest possible number of patches of the ten sequences that are not known exactly."""
    return {name: (v[0], v[1]) for name, v in _known()["lengths"].items() if len(v) == 2}


def same_scenes(sequences: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of sequences that the release cut from one and the same scene, of those that are given.

    >>> same_scenes(["v_wall", "i_table", "i_objects"]), same_scenes(["i_table", "v_wall"])
    ([('i_objects', 'i_table')], [])
    """
    given = set(sequences)
    found = [tuple(s for s in group if s in given) for group in _SAME_SCENES]
    return [group for group in found if len(group) > 1]


def official_sha1(file: str) -> str | None:
    """Git blob SHA-1 of a published task file, None for other names."""
    found = _known()["sha1"].get(file)
    return None if found is None else str(found)


def git_blob_sha1(chunks: Iterable[bytes]) -> str:
    r"""SHA-1 as git names a file: over ``blob SIZE NUL`` and the content.

    >>> git_blob_sha1([b"hello", b"\n"])
    'ce013625030ba8dba906f756967f9e9ca394464a'
    """
    data = list(chunks)
    digest = hashlib.sha1(b"blob %d\0" % sum(map(len, data)), usedforsecurity=False)
    for chunk in data:
        digest.update(chunk)
    return digest.hexdigest()
