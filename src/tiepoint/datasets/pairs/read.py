# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of any known layout: what lies at a path is recognised, or said together with what is known."""

from __future__ import annotations

from pathlib import Path

from ...formats.text_file import read_lines
from ...model.errors import InputError, UnknownNameError
from .draft import NEEDS, build
from .findings import Findings, listed
from .own_json import is_own, own_drafts, read_json
from .pair import PairSet
from .superglue import FIELDS, turned_drafts

LAYOUTS = (
    "a JSON list of pairs (pairs.json)",
    "pairs with K and T as text (pairs_with_gt.txt)",
)


def read_pairs(path: str | Path, *, needs: str = "pose", images: str | Path | None = None) -> PairSet:
    """The pairs at a path, with all that is wrong with them told at once.

    Args:
        path: A file or folder of any known layout (docs/pairs-data.md has each).
        needs: What each pair must have: `pose` (K0, K1, T_0to1), `corrs`, `homography` (H), `keypoints`, or
            `any` for nothing.
        images: Folder the names of images begin at; by default that of the file, then its folder `images`.

    Raises:
        InputError: No such path, or no known layout.
        ProblemsError: What is wrong with the pairs, all of it.
    """
    if needs not in NEEDS:
        raise UnknownNameError("need", needs, NEEDS)
    root = Path(path).expanduser()
    if not root.exists():
        raise InputError(f"{root} does not exist; give a file or folder of pairs")
    file = root if root.is_file() else _main_file(root)
    folder = file.parent
    folders = (Path(images).expanduser(),) if images else (folder, folder / "images")
    findings = Findings(root, folders)
    if file.suffix == ".json":
        value = read_json(file)
        if is_own(value):
            what = f"{root}: pairs as JSON"
            return build(own_drafts(value, findings), findings, needs=needs, what=what)
    elif file.suffix == ".txt":
        lines = read_lines(file)
        if _fields(lines) in FIELDS:
            what = f"{root}: pairs as text"
            return build(turned_drafts(lines, findings), findings, needs=needs, what=what)
    raise _unknown(root)


def _main_file(folder: Path) -> Path:
    for name in ("pairs.json", "pairs_with_gt.txt"):
        if (folder / name).is_file():
            return folder / name
    raise _unknown(folder)


def _fields(lines: list[str]) -> int:
    return next((len(line.split()) for line in lines if line and not line.startswith("#")), 0)


def _unknown(path: Path) -> InputError:
    if path.is_dir():
        names = sorted(p.name + ("/" if p.is_dir() else "") for p in path.iterdir())
        found = f"the folder has {listed(names, 8)}" if names else "the folder is empty"
    else:
        found = f"a file of {path.stat().st_size} bytes"
    return InputError(f"{path} is no dataset of pairs that is known: {found}; known are {'; '.join(LAYOUTS)}")
