# SPDX-License-Identifier: BSD-3-Clause
"""Folders `1`, `2` and `h`: two views of a plane and the homography between them, as EVD has them."""

from __future__ import annotations

from pathlib import Path

from ...core.errors import FormatError
from ...formats.image.reader import SUFFIXES
from ...formats.text.matrices import read_homography
from .builder import PairDraft
from .problems import PairProblems


def plane_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Pairs `1/NAME.png`, `2/NAME.png`, `h/NAME.txt`, sorted by name; None where these folders are not.

    H maps image 1 to image 2 and is divided by its last number. The folder may be one level up (`EVD`).
    """
    base = next((b for b in (root, root / "EVD", root / "evd") if all((b / d).is_dir() for d in "12h")), None)
    if base is None:
        return None
    names = {p.stem for p in (base / "h").glob("*.txt")}
    names |= {p.stem for side in "12" for p in (base / side).iterdir() if p.suffix.lower() in SUFFIXES}
    drafts = []
    for name in sorted(names):
        images = [_evd_image(base / side, name) for side in "12"]
        lost = [f"{side}/{name}" for side, path in zip("12", images, strict=True) if path is None]
        try:
            H = read_homography(base / "h" / f"{name}.txt")
            if H[2, 2] == 0:
                raise FormatError(base / "h" / f"{name}.txt", "the last number is 0, it cannot be divided by")
        except FormatError as e:
            findings.problems.append(str(e))
            continue
        findings.problems += [f"{base}: the image {path}.png is not there" for path in lost]
        if not lost:
            truth = {"H": H / H[2, 2]}
            two = (str(images[0]), str(images[1]))
            drafts.append(PairDraft(name, two, name=name, scene=name, dataset="evd", truth=truth))
    return drafts


def _evd_image(folder: Path, name: str) -> Path | None:
    return next((p.absolute() for s in SUFFIXES if (p := folder / f"{name}{s}").is_file()), None)
