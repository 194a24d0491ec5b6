# SPDX-License-Identifier: BSD-3-Clause
"""Read text pair lists with one pair per line: names, quarter turns, K0, K1, T_0to1."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...core.errors import FormatError
from ...formats.file_io import read_lines
from .builder import PairDraft
from .problems import PairProblems
from .scenes import dataset_of, known_sizes

TURNED_FIELDS = {38: "names, turns, K0, K1, T_0to1", 4: "names and turns", 2: "names"}


def turned_drafts(lines: Sequence[str], findings: PairProblems) -> list[PairDraft]:
    """Read a pair list with quarter turns: 38 fields per line, or 4 or 2 fields without ground truth.

    The fields are name0 name1 turns0 turns1 K0(9) K1(9) T_0to1(16). Matrices are in row-major order and refer
    to the images before rotation. Comments begin with `#`. Images are rotated with `np.rot90` when they are
    read, and K and T are adjusted.
    """
    drafts = []
    for where, fields, values in rows(lines, TURNED_FIELDS, findings):
        turns = tuple(int(v) if v in (0, 1, 2, 3) else -1 for v in values[:2]) or (0, 0)
        if -1 in turns:
            findings.problems.append(
                f"{where}: fields 3 and 4 must be quarter turns, each 0 to 3, found {fields[2:4]}"
            )
            continue
        truth, names = len(fields) == 38, (fields[0], fields[1])
        drafts.append(
            PairDraft(
                where,
                names,
                turns=(turns[0], turns[1]),
                assumed=known_sizes(names, values[4], values[13]) if truth else (None, None),
                centre=0.5 if dataset_of(None, names) == "megadepth" else 0.0,
                K=(values[2:11], values[11:20]) if truth else (None, None),
                T=values[20:] if truth else None,
            )
        )
    return drafts


def rows(
    lines: Sequence[str], known: Mapping[int, str], findings: PairProblems
) -> Iterator[tuple[str, list[str], list[float]]]:
    """Yield (place, fields, numbers) of each line. Skip comments, which begin with `#`.

    The place is file and line number. `known` maps each valid number of fields to a description. Other
    numbers of fields, and non-numeric fields where numbers are expected, are reported as problems.
    """
    for number, line in enumerate(lines, start=1):
        fields, where = line.split(), f"line {number}"
        if not fields or line.startswith("#"):
            continue
        if len(fields) not in known:
            expected = "; ".join(f"{n} ({what})" for n, what in known.items())
            findings.problems.append(f"{where} has {len(fields)} fields; expected {expected}")
            continue
        values = floats(fields[2:], where, findings)
        if values is not None:
            yield where, fields, values


def floats(words: Sequence[str], where: str, findings: PairProblems) -> list[float] | None:
    """Parse words as finite numbers. Report a problem and return None if a word is invalid."""
    try:
        values = [float(word) for word in words]
    except ValueError as e:
        findings.problems.append(f"{where}: {e}")
        return None
    if not all(math.isfinite(value) for value in values):
        findings.problems.append(f"{where}: a number is not finite; write finite numbers")
        return None
    return values


PLAIN_FIELDS = {32: "names, K0, K1, R, t", 36: "names, K0, K1, T_0to1", 11: "names, H"}


def plain_drafts(lines: Sequence[str], findings: PairProblems) -> list[PairDraft]:
    """Read a pair list without quarter turns: 32 (R and t), 36 (T) or 11 (H) fields per line.

    K puts the centre of the first pixel at (.5, .5), or at (0, 0) for ScanNet. Comments begin with `#`.
    """
    drafts = []
    for where, fields, values in rows(lines, PLAIN_FIELDS, findings):
        names = (fields[0], fields[1])
        if len(values) == 9:
            drafts.append(PairDraft(where, names, truth={"H": np.reshape(values, (3, 3))}))
            continue
        T = values[18:]
        if len(T) == 12:
            T = np.hstack([np.reshape(T[:9], (3, 3)), np.reshape(T[9:], (3, 1))]).ravel().tolist()
        drafts.append(
            PairDraft(
                where,
                names,
                assumed=known_sizes(names, values[2], values[11]),
                K=(values[:9], values[9:18]),
                T=T,
                centre=0.0 if dataset_of(None, names) == "scannet" else 0.5,
            )
        )
    return drafts


def one_line_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read a folder of text files, one per pair, with one line of 38 fields. None if there are no such files.

    The fields are name0 name1 overlap0 overlap1 K0(9) K1(9) T_0to1(16), and the images are in the same
    folder. A pair is named `FOLDER/STEM`. The scene is the folder, unless an image name determines the scene.
    The dataset is `zeb`. `root` may also contain several such folders.
    """
    files = sorted([*root.glob("*.txt"), *root.glob("*/*.txt")])
    drafts: list[PairDraft] = []
    for file in files:
        try:
            lines = [line for line in read_lines(file) if line]
        except FormatError:
            lines = []
        fields = lines[0].split() if lines else []
        if len(lines) != 1 or len(fields) != 38:
            if drafts:
                findings.problems.append(f"{file}: expected one line of 38 fields, found {len(lines)} lines")
                continue
            return None
        values = floats(fields[2:], str(file), findings)
        if values is None:
            continue
        folder = file.parent.absolute()
        drafts.append(
            PairDraft(
                f"{folder.name}/{file.stem}",
                (str(folder / fields[0]), str(folder / fields[1])),
                name=f"{folder.name}/{file.stem}",
                dataset="zeb",
                K=(values[2:11], values[11:20]),
                T=values[20:],
                facts={"overlap": min(values[:2]), "set": folder.name},
            )
        )
    return drafts or None
