# SPDX-License-Identifier: BSD-3-Clause
"""Published splits and numbers of patches of HPatches 2017, and the splits of a dataset."""

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
    """Return the six published splits. Test sequences are in the published order.

    >>> {name: len(split.test) for name, split in official_splits().items()}
    {'a': 40, 'c': 40, 'b': 40, 'illum': 57, 'full': 116, 'view': 59}
    """
    return {
        name: Split(name, tuple(value["test"]), tuple(value["train"]) if "train" in value else None)
        for name, value in _known()["splits"].items()
    }


def official_lengths() -> dict[str, int]:
    """Return the exact number of patches of 106 sequences of the published release.

    The numbers were recovered from the random stream of the published lists. Those of the other ten sequences
    are known only as intervals (see `open_lengths`). The strips contain the exact numbers.

    >>> official_lengths()["v_graffiti"], len(official_lengths())
    (1123, 106)
    """
    return {name: v[0] for name, v in _known()["lengths"].items() if len(v) == 1}


def open_lengths() -> dict[str, tuple[int, int]]:
    """Return the lowest and highest possible number of patches, for ten sequences of the published release.

    Their exact numbers can only be read from the strips.
    """
    return {name: (v[0], v[1]) for name, v in _known()["lengths"].items() if len(v) == 2}


def same_scenes(sequences: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups of the given sequences that show the same scene in the published release.

    >>> same_scenes(["v_wall", "i_table", "i_objects"]), same_scenes(["i_table", "v_wall"])
    ([('i_objects', 'i_table')], [])
    """
    given = set(sequences)
    found = [tuple(s for s in group if s in given) for group in _SAME_SCENES]
    return [group for group in found if len(group) > 1]


def official_sha1(file: str) -> str | None:
    """Return the Git blob SHA-1 of a published task file. None for other names."""
    sha1 = _known()["sha1"].get(file)
    return None if sha1 is None else str(sha1)


def git_blob_sha1(chunks: Iterable[bytes]) -> str:
    r"""Return the Git blob SHA-1 of a file's content: the hash of ``blob SIZE NUL`` and the content.

    >>> git_blob_sha1([b"hello", b"\n"])
    'ce013625030ba8dba906f756967f9e9ca394464a'
    """
    data = list(chunks)
    digest = hashlib.sha1(b"blob %d\0" % sum(map(len, data)), usedforsecurity=False)
    for chunk in data:
        digest.update(chunk)
    return digest.hexdigest()


WHOLE = "all"
"""Name of the split that contains all sequences of a dataset."""
_MAX_LISTED = 20


def known_splits(data: HPatchesDataset, path: Path | None = None) -> dict[str, Split]:
    """Return the splits of a dataset by name.

    The splits come from a ``splits.json`` file if given, else from the published release. The split `all`
    always exists. A dataset that shares no sequence with the release has a split `full` of its own, and
    `illum` and `view` if it has illumination or viewpoint sequences.

    >>> own = HPatchesDataset.from_lengths({"i_a": 3, "i_b": 2})
    >>> {name: split.test for name, split in known_splits(own).items()}
    {'all': ('i_a', 'i_b'), 'full': ('i_a', 'i_b'), 'illum': ('i_a', 'i_b')}
    """
    everything = {WHOLE: Split(WHOLE, data.sequences)}
    if path is not None:
        return everything | read_splits(path)
    if shares_release(data):
        return everything | official_splits()
    kinds = {"illum": "i", "view": "v"}
    tests = {n: tuple(s for s in data.sequences if data.kind(s) == k) for n, k in kinds.items()}
    own = {n: Split(n, test) for n, test in tests.items() if test}
    return everything | {"full": Split("full", data.sequences), **own}


def shares_release(data: HPatchesDataset) -> bool:
    """Return whether a dataset has any sequence of the published release."""
    return not set(official_splits()["full"].test).isdisjoint(data.sequences)


def named_split(known: Mapping[str, Split], name: str) -> Split:
    """Return the split with a given name.

    Raises:
        InputError: The name is a published split, but the dataset has none of its sequences.
        UnknownNameError: There is no split of this name.
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
    """Return a message for each problem of a split: sequences or images that the dataset lacks.

    One message covers all sequences with the same problem.

    >>> some = HPatchesDataset.from_lengths({"i_a": 3}, unsure={"v_b": (2, 4)})
    >>> for problem in split_problems(some, Split("mine", ("i_a", "v_b", "i_c"))):
    ...     print(problem)
    split 'mine': the number of patches of v_b (2 to 4) is known only as an interval; state one number each
    split 'mine': unknown sequence 'i_c'; did you mean 'i_a'?
    """
    absent = [s for s in split.test if s not in data.lengths]
    ranges = dict(data.open_lengths)
    if not data.has_patches and set(absent) <= set(open_lengths()):
        ranges = open_lengths() | ranges  # intervals of the release
    unsure = [s for s in absent if s in ranges]
    unknown = [s for s in absent if s not in ranges]
    problems = []
    if unsure:
        names = ", ".join(f"{s} ({ranges[s][0]} to {ranges[s][1]})" for s in unsure)
        problems.append(
            f"the number of patches of {names} is known only as an interval; state one number each"
        )
    if len(unknown) > _MAX_LISTED // 2:
        names = first_few(unknown, _MAX_LISTED)
        problems.append(
            f"the dataset lacks {len(unknown)} of the split's {len(split.test)} sequences ({names}); "
            f"use the split {WHOLE!r}, which has all sequences of the dataset"
        )
        unknown = []
    present = [s for s in split.test if s in data.lengths]
    problems += data.missing([*present, *unknown], images)
    return [f"split {split.name!r}: {p}" for p in problems]


def scene_groups(data: HPatchesDataset, split: Split) -> list[tuple[str, ...]]:
    """Return groups of sequences in a split that show the same scene.

    Sequences are in one group if the release shows the same scene in both, or if their reference strips are
    equal.

    >>> scene_groups(HPatchesDataset.from_lengths({"i_objects": 3, "i_table": 3, "v_b": 2}),
    ...     Split("mine", ("i_table", "v_b", "i_objects")))
    [('i_table', 'i_objects')]
    """
    scene = {s: data.item(s, "ref").content if data.has_patches else s for s in split.test}
    for first, *others in same_scenes(split.test):
        for other in others:
            scene = {s: scene[first] if key == scene[other] else key for s, key in scene.items()}
    groups: dict[str, list[str]] = {}
    for name, key in scene.items():
        groups.setdefault(key, []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def excluded_note(data: HPatchesDataset) -> list[str]:
    """Return a note about sequences without an exact number of patches. Empty if there are none."""
    names = ", ".join(data.open_lengths)
    return [f"excluded, since their number of patches is not known exactly: {names}"] if names else []
