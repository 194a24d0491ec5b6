# SPDX-License-Identifier: BSD-3-Clause
"""Read folders of image pairs with annotated correspondences (WxBS) or homographies (EVD)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from ...core.errors import FormatError, InputError
from ...core.hashing import hash_file
from ...formats.file_io import read_bytes
from ...formats.image.reader import SUFFIXES
from ...formats.text.numbers import parse_table, read_homography
from .builder import PairDraft
from .problems import PairProblems, first_names

CATEGORIES = ("WGABS", "WGALBS", "WGBS", "WGLBS", "WGSBS", "WLABS")
VALIDATION = ("kyiv_dolltheater2", "petrzin")
"""Names of the WxBS pairs of the split `val`. All other pairs are `test`."""
_ENDINGS = (".png", *(s for s in SUFFIXES if s != ".png"))  # 01.png is tried first


def clicked_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read WxBS pairs `[CATEGORY/]PAIR/{01.*, 02.*, corrs.txt}`. None if there is no corrs.txt.

    `corrs.txt` has rows x1 y1 x2 y2 in pixels of the original images, with integer pixel centres. If an image
    is missing, as for one pair of the published copy, the pair is skipped with a warning. Pairs that share an
    image file are one scene. Pairs have the property `category`, and in the WxBS dataset `split`, which
    depends on the name of the pair.
    """
    files = [p for pattern in ("*", "*/*", "*/*/*") for p in root.glob(f"{pattern}/corrs.txt")]
    folders = sorted({p.parent for p in files}, key=lambda p: p.relative_to(root).parts[-2:])
    if not folders:
        return None
    known = any(folder.parent.name in CATEGORIES for folder in folders)
    drafts, missing = [], []
    for folder in folders:
        category = folder.parent.name if folder.parent != root else ""
        name = f"{category}/{folder.name}" if category else folder.name
        images = [_wxbs_image(folder, number) for number in ("01", "02")]
        lost = [number for number, path in zip(("01", "02"), images, strict=True) if path is None]
        if lost:
            missing.append(f"{name} ({' and '.join(lost)})")
            continue
        facts = {"category": category, "split": "val" if folder.name in VALIDATION else "test"}
        drafts.append(
            PairDraft(
                name,
                (str(images[0]), str(images[1])),
                name=name,
                dataset="wxbs" if known else None,
                truth=_numbers(folder, findings),
                facts={k: v for k, v in facts.items() if v and (known or k != "split")},
            )
        )
    if missing:
        findings.warnings.append(
            f"{len(missing)} of {len(folders)} pairs lack an image and are skipped: "
            f"{first_names(missing, 10)}"
        )
    _join_scenes(drafts, findings)
    return drafts


def _wxbs_image(folder: Path, number: str) -> Path | None:
    return next((p.absolute() for s in _ENDINGS if (p := folder / f"{number}{s}").is_file()), None)


def _numbers(folder: Path, findings: PairProblems) -> dict[str, object]:
    truth: dict[str, object] = {}
    for file, key, columns in (("corrs.txt", "corrs", 4), ("crossval_errors.txt", "crossval", 1)):
        path = folder / file
        if file != "corrs.txt" and not path.is_file():
            continue
        try:
            found = parse_table(read_bytes(path), path=path, dtype=np.float64, columns=columns)
            truth[key] = found if columns > 1 else found[:, 0]
        except InputError as e:
            findings.problems.append(str(e))
    return truth


def _join_scenes(drafts: list[PairDraft], findings: PairProblems) -> None:
    """Merge the scenes of pairs that share an image with equal content.

    The merged scene has the name of the first scene.
    """
    by_content: dict[str, list[PairDraft]] = defaultdict(list)
    for draft in drafts:
        for image in draft.images:
            by_content[hash_file(str(image))].append(draft)
    for draft in drafts:
        draft.scene = draft.name
    for group in by_content.values():
        scenes = {str(d.scene) for d in group}
        if len(scenes) > 1:
            first = min(scenes)
            for draft in drafts:
                draft.scene = first if draft.scene in scenes else draft.scene
            findings.warnings.append(
                f"{first_names(sorted(scenes))} share an image file and count as one scene"
            )


def plane_drafts(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    """Read EVD pairs: `1/NAME.png`, `2/NAME.png` and `h/NAME.txt`. None for other folders.

    The matrix in `h/NAME.txt` maps image 1 to image 2 and is divided by its last element. `root` may also be
    the parent of the folder `EVD`.
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
                raise FormatError(
                    base / "h" / f"{name}.txt",
                    "the last element of H is 0, so H cannot be normalised; correct the file",
                )
        except FormatError as e:
            findings.problems.append(str(e))
            continue
        findings.problems += [f"{base}: the image {path}.png is missing" for path in lost]
        if not lost:
            truth = {"H": H / H[2, 2]}
            two = (str(images[0]), str(images[1]))
            drafts.append(PairDraft(name, two, name=name, scene=name, dataset="evd", truth=truth))
    return drafts


def _evd_image(folder: Path, name: str) -> Path | None:
    return next((p.absolute() for s in SUFFIXES if (p := folder / f"{name}{s}").is_file()), None)
