# SPDX-License-Identifier: BSD-3-Clause
"""Read and write JSON pair lists: the native layout, and MegaDepth-1500 as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...formats.file_io import read_bytes, write_bytes
from ...geometry.two_view.scaling import turned_pose
from .builder import PairDraft, rotated_camera
from .ground_truth import PairTruth
from .pair import Matrix, Size
from .problems import PairProblems

TRUTH = (
    "corrs",
    "landmarks",
    "H",
    "points0",
    "points1",
    "ids",
    "visible0",
    "visible1",
    "box0",
    "box1",
    "crossval",
)
_KNOWN = {
    "name", "image0", "image1", "K0", "K1", "T_0to1", "T_1to0", "scene", "scene_id", "dataset",
    "dataset_name", "centre", "size0", "size1", "size0_hw", "size1_hw", "scale0", "scale1", "pair_names",
    "turns", "pair_id", "key", "megadepth0", "megadepth1", "H_0to1", *TRUTH,
}  # fmt: skip


def is_own(value: Any) -> bool:
    """Return whether a JSON value is a pair list in tiepoint's or MegaDepth-1500's JSON layout."""
    entries = value.get("pairs") if isinstance(value, dict) else value
    if not isinstance(entries, list) or not entries:
        return False
    first = entries[0]
    return isinstance(first, dict) and ({"image0", "image1"} <= set(first) or "pair_names" in first)


def own_drafts(value: Any, findings: PairProblems) -> list[PairDraft]:
    """Read the pairs of a JSON list of objects. The list may be the value of a key `pairs`.

    Keys of a pair:

    * `image0`, `image1`: paths below the folder of the file, or below its folder `images`;
    * `K0`, `K1`, `T_0to1`, `centre`, `size0`, `size1` ([width, height]);
    * `name`, `scene`, `dataset`, `turns`;
    * as ground truth: `corrs` (or the name of a text file of four columns), `H` or `H_0to1`, `landmarks` (as
      `corrs`), `points0`, `points1`, `ids`, `visible0`, `visible1`, `box0`, `box1`.

    Other plain values are properties by which scores can be grouped. With `H_0to1` or `landmarks`, the
    default of `scene` is the folder of `image0`.

    MegaDepth-1500 has `pair_names` and `scene_id`. Its `size0_hw` is (height, width) of a resized image, and
    the original image is `scale0` times as large.
    """
    entries = value["pairs"] if isinstance(value, dict) else value
    drafts = []
    for i, entry in enumerate(entries, start=1):
        where = f"entry {i}"
        if not isinstance(entry, dict):
            findings.problems.append(
                f"{where}: the pair has no image0 or image1; write a JSON object with both"
            )
            continue
        drafts.append(_draft(entry, where, findings))
    return drafts


def _draft(entry: Mapping[str, Any], where: str, findings: PairProblems) -> PairDraft:
    names = entry.get("pair_names") or (entry.get("image0"), entry.get("image1"))
    images = _two_names(names, where, findings)
    if entry.get("name"):
        where = f"{where} ({entry['name']})"
    dataset = entry.get("dataset") or entry.get("dataset_name")
    if dataset is None and "megadepth0" in entry:
        dataset = "megadepth"
    scene = entry.get("scene")
    if scene is None and isinstance(entry.get("scene_id"), str):
        scene = entry["scene_id"].partition("_")[0]  # "0015_0" is part 0 of the model 0015
    if scene is None and images[0] is not None and ("H_0to1" in entry or "landmarks" in entry):
        scene = folder_of(images[0], findings.place)
    truth = {key: _truth(entry[key], findings) for key in TRUTH if key in entry}
    if "H_0to1" in entry:
        if "H" in entry:
            findings.problems.append(f"{where} has both H and H_0to1; remove one")
        truth["H"] = entry["H_0to1"]
    twin = "size0_hw" in entry
    return PairDraft(
        where,
        images,
        name=str(entry["name"]) if entry.get("name") else None,
        scene=None if scene is None else str(scene),
        dataset=None if dataset is None else str(dataset),
        sizes=(_size(entry, 0, where, findings), _size(entry, 1, where, findings)),
        K=(entry.get("K0"), entry.get("K1")),
        T=entry.get("T_0to1"),
        centre=_centre(
            entry.get("centre", 0.5 if twin and str(dataset).lower() == "megadepth" else 0.0), where, findings
        ),
        turns=_turns(entry.get("turns", (0, 0)), where, findings),
        truth=truth,
        facts={k: v for k, v in entry.items() if k not in _KNOWN and isinstance(v, str | int | float | bool)},
    )


def folder_of(image: str, place: Path) -> str:
    r"""Return the folder of an image name. If the name has none, return the name of the list's folder.

    >>> folder_of("alps\\a.png", Path("x/pairs.json")), folder_of("a.png", Path("/x/pairs.json"))
    ('alps', 'x')
    """
    folder = image.replace("\\", "/").rpartition("/")[0]
    return folder or (place if place.is_dir() else place.absolute().parent).name


def _two_names(names: Any, where: str, findings: PairProblems) -> tuple[str | None, str | None]:
    two = list(names) if isinstance(names, list | tuple) else []
    if len(two) != 2 or any(n is not None and not isinstance(n, str) for n in two):
        findings.problems.append(f"{where}: image0 and image1 must be file names")
        return None, None
    return two[0], two[1]


def _size(entry: Mapping[str, Any], side: int, where: str, findings: PairProblems) -> Size | None:
    """Return (width, height) of image `side` as stated in an entry. None if it is not stated.

    MegaDepth-1500 states the size of a resized image, which is multiplied by the stated scale.
    """
    stated = entry.get(f"size{side}")
    if stated is None and f"size{side}_hw" in entry:
        hw = findings.numbers(entry[f"size{side}_hw"], (2,), f"{where}, size{side}_hw")
        scale = findings.numbers(entry.get(f"scale{side}", [1, 1]), (2,), f"{where}, scale{side}")
        if hw is None or scale is None:
            return None
        stated = np.rint(hw[::-1] * scale).tolist()
    if stated is None:
        return None
    return findings.integer_size(stated, f"{where}, size{side}")


def _centre(value: Any, where: str, findings: PairProblems) -> float:
    if value not in (0, 0.5) or isinstance(value, bool):
        findings.problems.append(
            f"{where}: `centre` is {value!r}; write 0 or 0.5, the position of the first pixel's centre in K"
        )
        return 0.0
    return float(value)


def _turns(value: Any, where: str, findings: PairProblems) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2 or any(v not in (0, 1, 2, 3) for v in value):
        findings.problems.append(
            f"{where}: `turns` must be two numbers of quarter turns, each 0 to 3, found {value!r}"
        )
        return 0, 0
    return int(value[0]), int(value[1])


def _truth(value: Any, findings: PairProblems) -> Any:
    """Return the numbers in a text file if `value` is its name. Return other values unchanged."""
    if not isinstance(value, str):
        return value
    from ...formats.text.numbers import parse_table

    file = findings.image(value)
    try:
        return parse_table(read_bytes(file), path=file, dtype=np.float64)
    except InputError as e:
        findings.problems.append(str(e))
        return None


def write_pairs(path: str | Path, truths: Sequence[PairTruth]) -> None:
    """Write pairs as a JSON list, one pair per line. `read_pairs` restores them exactly.

    Image paths below the folder of the file are relative, others absolute. Rotated images are stored as
    quarter turns, with K, T and sizes before the rotation.
    """
    if inner := [truth.pair.name for truth in truths if any(truth.pair.members)]:
        raise InputError(f"{inner[0]}: the images are in a MATLAB file; save them as image files first")
    folder = Path(path).absolute().parent
    lines = ",\n".join(json.dumps(_entry(truth, folder)) for truth in truths)
    write_bytes(path, [f"[\n{lines}\n]\n".encode()])


def _entry(truth: PairTruth, folder: Path) -> dict[str, Any]:
    pair = truth.pair
    entry: dict[str, Any] = {"name": pair.name, "scene": pair.scene}
    if pair.dataset:
        entry["dataset"] = pair.dataset
    sides = ((pair.image0, pair.size0, truth.K0), (pair.image1, pair.size1, truth.K1))
    for side, (image, size, K) in enumerate(sides):
        back = -pair.turns[side] % 4
        entry[f"image{side}"] = None if image is None else _name(image, folder)
        if size is not None:
            if K is not None:
                entry[f"K{side}"] = _upright(K, size, back, truth.centre)
            entry[f"size{side}"] = list(size if back % 2 == 0 else size[::-1])
    if truth.T_0to1 is not None:
        before = turned_pose(truth.T_0to1, -pair.turns[0] % 4, -pair.turns[1] % 4)
        entry["T_0to1"] = np.asarray(before if any(pair.turns) else truth.T_0to1).tolist()
    if truth.K0 is not None:
        entry["centre"] = truth.centre
    if any(pair.turns):
        entry["turns"] = list(pair.turns)
    entry |= {key: truth.annotations[key].tolist() for key in TRUTH if key in truth.annotations}
    return entry | {key: value for key, value in pair.facts.items() if key not in entry}


def _upright(K: Matrix, size: Size, back: int, centre: float) -> Any:
    return (rotated_camera(K, size, back, centre) if back else K).tolist()


def _name(image: Path, folder: Path) -> str:
    path = image.absolute()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()
