# SPDX-License-Identifier: BSD-3-Clause
"""Which splits of the 2017 suite a dataset has, and what it lacks for one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import first_few
from ...formats.hpatches.task_lists import Split, read_splits
from .dataset import HPatchesDataset

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


WHOLE = "all"
"""Name of the split of every sequence of a dataset."""
NAMES_SHOWN = 20


def known_splits(data: HPatchesDataset, path: Path | None = None) -> dict[str, Split]:
    """Splits by name: those of a ``splits.json``, or else the published ones; always `all`.

    A dataset that shares no sequence with the release has `full`, and `illum` and `view` where it has
    sequences of the kind, of its own instead of the published ones.

    >>> own = HPatchesDataset.from_lengths({"i_a": 3, "i_b": 2})
    >>> {name: split.test for name, split in known_splits(own).items()}
    {'all': ('i_a', 'i_b'), 'full': ('i_a', 'i_b'), 'illum': ('i_a', 'i_b')}
    """
    whole = {WHOLE: Split(WHOLE, data.sequences)}
    if path is not None:
        return whole | read_splits(path)
    if not shares_release(data):
        kinds = {"illum": "i", "view": "v"}
        chosen = {n: tuple(s for s in data.sequences if data.kind(s) == k) for n, k in kinds.items()}
        own = {n: Split(n, test) for n, test in chosen.items() if test}
        return whole | {"full": Split("full", data.sequences), **own}
    return whole | official_splits()


def shares_release(data: HPatchesDataset) -> bool:
    """Whether a dataset has any sequence of the release."""
    return not set(official_splits()["full"].test).isdisjoint(data.sequences)


def named_split(known: Mapping[str, Split], name: str) -> Split:
    """The split of a name, or an error with the names there are.

    Raises:
        InputError: It is a published one, of which the dataset has no sequence.
        UnknownNameError: There is none of this name.
    """
    if name in known:
        return known[name]
    if name in official_splits():
        raise InputError(
            f"split {name!r} is a published split of HPatches, but the dataset has none of its sequences and "
            f"no splits.json defines it; known splits are {', '.join(known)}"
        )
    raise UnknownNameError("split", name, known)


def split_problems(data: HPatchesDataset, split: Split, images: Sequence[str] = ()) -> list[str]:
    """What a dataset lacks for a split, in words; many sequences of one trouble make one sentence.

    >>> some = HPatchesDataset.from_lengths({"i_a": 3}, unsure={"v_b": (2, 4)})
    >>> for problem in split_problems(some, Split("mine", ("i_a", "v_b", "i_c"))):
    ...     print(problem)
    split 'mine': the exact number of patches is not known of v_b (2 to 4); give one number for each
    split 'mine': unknown sequence 'i_c'; did you mean 'i_a'?
    """
    absent = [s for s in split.test if s not in data.lengths]
    ranges = dict(data.open_lengths)
    if not data.has_patches and set(absent) <= set(open_lengths()):
        ranges = open_lengths() | ranges  # the whole release as it is known without its strips
    unsure = [s for s in absent if s in ranges]
    gone = [s for s in absent if s not in ranges]
    problems = []
    if unsure:
        shown = ", ".join(f"{s} ({ranges[s][0]} to {ranges[s][1]})" for s in unsure)
        problems.append(f"the exact number of patches is not known of {shown}; give one number for each")
    if len(gone) > NAMES_SHOWN // 2:
        shown = first_few(gone, NAMES_SHOWN)
        problems.append(
            f"the dataset lacks {len(gone)} of its {len(split.test)} sequences ({shown}); "
            f"the split {WHOLE!r} is every sequence it has"
        )
        gone = []
    there = [s for s in split.test if s in data.lengths]
    problems += data.missing([*there, *gone], images)
    return [f"split {split.name!r}: {p}" for p in problems]


def scene_groups(data: HPatchesDataset, split: Split) -> list[tuple[str, ...]]:
    """Groups of sequences of a split that are one scene: those known of the release, and equal strips.

    >>> scene_groups(HPatchesDataset.from_lengths({"i_objects": 3, "i_table": 3, "v_b": 2}),
    ...     Split("mine", ("i_table", "v_b", "i_objects")))
    [('i_table', 'i_objects')]
    """
    scene = {s: data.item(s, "ref").content if data.has_patches else s for s in split.test}
    for first, *others in same_scenes(split.test):
        for other in others:
            scene = {s: scene[first] if of == scene[other] else of for s, of in scene.items()}
    groups: dict[str, list[str]] = {}
    for name, of in scene.items():
        groups.setdefault(of, []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def excluded_note(data: HPatchesDataset) -> list[str]:
    """A note about sequences that a dataset of lengths names without an exact number of patches."""
    if not data.open_lengths:
        return []
    names = ", ".join(data.open_lengths)
    return [f"left out, since their number of patches is not known exactly: {names}"]
