# SPDX-License-Identifier: BSD-3-Clause
"""Which release patches, image sequences and flow pairs are of, by names, numbers and lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ...core.amounts import count_text
from ..hpatches.dataset import HPatchesDataset
from ..hpatches.layout import STANDARD_IMAGES
from ..hpatches.release_2017 import official_lengths, official_splits, open_lengths
from ..tss import TssPair
from .release import Release, by_names, releases

_2016 = tuple(name for name in STANDARD_IMAGES if not name.startswith("t"))
_IMAGES = 6


def patches_release(data: HPatchesDataset) -> Release | None:
    """The release of patch strips: that whose lengths agree with more sequences; None without a known name.

    >>> found = patches_release(HPatchesDataset.from_lengths({"v_graffiti": 1123, "i_dc": 1983}))
    >>> (found.key, found.have, found.of, found.differs)
    ('hpatches-2017', 2, 116, False)
    >>> patches_release(HPatchesDataset.from_lengths({"i_dc": 1975, "i_dome": 1667})).key
    'hpatches-2016-train'
    """
    old: Mapping[str, int] = releases()["hpatches-2016-train"]["lengths"]
    lengths, names = data.lengths, sorted(official_splits()["full"].test)
    there = [s for s in names if s in lengths]
    if not there:
        return None
    wrong_new = [s for s in there if not _agrees(s, lengths[s])]
    wrong_old = [s for s in there if lengths[s] != old.get(s)]
    is_old = len(wrong_old) < len(wrong_new)
    key, wrong = ("hpatches-2016-train", wrong_old) if is_old else ("hpatches-2017", wrong_new)
    notes = [
        f"numbers of patches are the published ones in {len(there) - len(wrong)} of "
        + count_text(len(there), "sequence")
        + (f"; not in {_some(wrong)}: these were cut anew, scores do not compare" if wrong else "")
    ]
    own = [s for s in data.sequences if s not in names]
    if own:
        notes.append(f"not of the release: {_some(own)}")
    wanted = _2016 if is_old else STANDARD_IMAGES
    short: list[str] = []
    if data.has_patches:
        lack = {s: [i for i in wanted if i not in data.images(s)] for s in there}
        short = [s for s, images in lack.items() if images]
        if short:
            of = f"{len(short)} of {count_text(len(there), 'sequence lacks', 'sequences lack')} images"
            notes.append(f"{of}: {_some(short)} ({_some(lack[short[0]])})")
    wanted_names = sorted(old) if is_old else names
    return by_names(key, there, wanted_names, notes=tuple(notes), differs=bool(wrong), short=bool(short))


def sequences_release(scenes: Sequence[str], images: Mapping[str, int]) -> Release | None:
    """The release of image sequences, by their names and numbers of images; hashes are not published.

    >>> sequences_release(["v_wall", "mine"], {"v_wall": 6, "mine": 2}).notes
    ('by names and numbers of images; not of the release: mine',)
    """
    names = sorted(official_splits()["full"].test)
    there = [s for s in scenes if s in set(names)]
    if not there:
        return None
    own = [s for s in scenes if s not in set(names)]
    few = [s for s in there if images[s] != _IMAGES]
    notes = "by names and numbers of images" + (f"; not of the release: {_some(own)}" if own else "")
    more = (f"not {_IMAGES} images: {_some(few)}",) if few else ()
    return by_names("hpatches-sequences", there, names, notes=(notes, *more), differs=bool(few))


def tss_release(pairs: Sequence[TssPair]) -> Release | None:
    """TSS by the names of its groups and how many pairs each has; None where no group is known."""
    groups: Mapping[str, int] = releases()["tss"]["groups"]
    counts = Counter(pair.subset for pair in pairs)
    if not set(counts) & set(groups):
        return None
    have = sum(min(counts[name], n) for name, n in groups.items())
    notes = [", ".join(f"{name} {counts[name]} of {n}" for name, n in groups.items())]
    own = sorted(set(counts) - set(groups))
    if own:
        notes.append(f"not of the release: {_some(own)}")
    over = [name for name, n in groups.items() if counts[name] > n]
    return Release("tss", have, sum(groups.values()), (), tuple(notes), bool(over))


def _agrees(sequence: str, length: int) -> bool:
    exact = official_lengths().get(sequence)
    if exact is not None:
        return length == exact
    low, high = open_lengths()[sequence]
    return low <= length <= high


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
