# SPDX-License-Identifier: BSD-3-Clause
"""Cut patches in the HPatches layout from any folder of image sequences with homographies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...formats.file_io import mark_incomplete
from ...formats.hpatches.patch_strip import write_strip
from ...formats.image.reader import write_image
from ...formats.text.numbers import write_frames, write_homography
from ..image_sequences import ImageSequences
from .sequence import NOISE, CutOptions, CutPatches, cut_sequence

SHEETS = "contact-sheets"
_GAP, _LABEL = 3, 14
_WRITTEN = re.compile(r"(ref|[eht]\d+)\.(png|frames)|H_ref_\d+")


@dataclass(frozen=True)
class CutResult:
    """Result of cutting patches, per sequence and in total: counts after each step, and median overlaps."""

    counts: dict[str, dict[str, int]]
    median_overlap: dict[str, dict[str, float]]
    pooled_overlap: dict[str, float]
    empty: tuple[str, ...]
    sheets: dict[str, Path]

    def __str__(self) -> str:
        """Format a table with the patches, detections and overlaps of every sequence."""
        width = max(len(s) for s in ("sequence", *self.counts))
        lines = [f"{'sequence':{width}}  detected  patches" + "".join(f"  {n:>6}" for n in NOISE)]
        for scene, counts in self.counts.items():
            overlap = "".join(f"  {self.median_overlap[scene][n]:6.3f}" for n in NOISE)
            lines.append(f"{scene:{width}}  {counts['detected']:8d}  {counts['patches']:7d}{overlap}")
        total = sum(c["patches"] for c in self.counts.values())
        pooled = "".join(f"  {self.pooled_overlap[n]:6.3f}" for n in NOISE)
        lines.append(f"{'all':{width}}  {'':8}  {total:7d}{pooled}")
        lines.append("columns easy, hard and tough: median overlap of jittered and detected regions")
        if self.empty:
            lines.append(f"these sequences have no patches and were not written: {', '.join(self.empty)}")
        return "\n".join(lines)


def cut_patches(
    data: str | Path | ImageSequences,
    out: str | Path,
    *,
    options: CutOptions | None = None,
    jobs: int = 1,
    sheets: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> CutResult:
    """Cut patches from image sequences into the HPatches layout.

    For every sequence, the function writes

    * ``OUT/SEQ/IM.png``: strips of ref, e1.., h1.., t1..; number K is image K + 1;
    * ``OUT/SEQ/IM.frames``: the detected regions in that image (see `tiepoint.formats.text.numbers`);
    * ``OUT/SEQ/H_ref_K``: homographies, comma-separated;
    * ``OUT-contact-sheets/SEQ.png``: an overview.

    `cut_sequence` describes the steps. The files of a sequence do not depend on `jobs` or on other sequences.

    Args:
        data: A folder of image sequences, or an `ImageSequences` object.
        out: Folder of the new dataset. Sequences of the same names are replaced. Until all sequences are
            written, the folder is marked as incomplete, and `HPatchesDataset` and `data check` refuse it.
        options: Sizes, seed and thresholds.
        jobs: Number of sequences to process at the same time.
        sheets: Whether to write the contact sheets.
        progress: Called with (processed sequences, all sequences) in the calling thread.

    Raises:
        InputError: No patch could be cut from any sequence, or the folder cannot be written.
    """
    sequences = data if isinstance(data, ImageSequences) else ImageSequences(data)
    options, root = options or CutOptions(), Path(out)
    if options.max_patches < 1 or options.side < 3 or jobs < 1:
        raise InputError(
            "`max_patches`, `jobs` or `side` is too small; `max_patches` and `jobs` must be at least "
            "1, and `side` at least 3"
        )

    def cut_scene(scene: str) -> CutPatches:
        cut = cut_sequence(sequences, scene, options)
        _remove_earlier(root / scene)
        if cut.counts["patches"]:
            _write(root, scene, cut, sheets=sheets)
        return replace(cut, strips={}, frames={})  # 116 sequences would not fit into memory

    done: dict[str, CutPatches] = {}
    with mark_incomplete(root, "data cut"), ThreadPoolExecutor(jobs) as pool:
        for scene, cut in zip(sequences.scenes, pool.map(cut_scene, sequences.scenes), strict=True):
            done[scene] = cut
            if progress is not None:
                progress(len(done), len(sequences.scenes))
    if not any(cut.counts["patches"] for cut in done.values()):
        raise InputError(
            f"{sequences.root}: no patch could be cut; the images of a sequence must share textured regions"
        )
    full = {scene: cut for scene, cut in done.items() if cut.counts["patches"]}
    return CutResult(
        counts={scene: cut.counts for scene, cut in full.items()},
        median_overlap={scene: _medians([cut]) for scene, cut in full.items()},
        pooled_overlap=_medians(list(full.values())),
        empty=tuple(scene for scene in done if scene not in full),
        sheets={scene: _sheet_path(root, scene) for scene in full} if sheets else {},
    )


def _medians(cuts: list[CutPatches]) -> dict[str, float]:
    return {n: float(np.median(np.concatenate([c.overlaps[n].ravel() for c in cuts]))) for n in NOISE}


def _sheet_path(root: Path, scene: str) -> Path:
    # Beside the dataset, because every folder in it is a sequence.
    return root.with_name(f"{root.name}-{SHEETS}") / f"{scene}.png"


def _remove_earlier(folder: Path) -> None:
    """Remove the files of an earlier run, which may have another number of patches."""
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if _WRITTEN.fullmatch(path.name):
            path.unlink()


def _write(root: Path, scene: str, cut: CutPatches, *, sheets: bool) -> None:
    folder = root / scene
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, patches in cut.strips.items():
            write_strip(folder / f"{name}.png", patches)
            write_frames(folder / f"{name}.frames", cut.frames[name])
        for k, h in cut.homographies.items():
            write_homography(folder / f"H_ref_{k}", h, delimiter=",")
        if sheets:
            path = _sheet_path(root, scene)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_image(path, contact_sheet(cut.strips))
    except OSError as e:
        raise InputError(f"cannot write {e.filename or folder}: {e.strerror or e}") from e


def contact_sheet(strips: Mapping[str, NDArray[np.uint8]], *, rows: int = 12) -> NDArray[np.uint8]:
    """Return an image of a sequence's patches, with one row per patch and one column per image.

    Args:
        strips: Patches uint8 (n, side, side) by image name, all of one shape, in the order of the columns.
        rows: Maximum number of patches to show, evenly spaced.

    Returns:
        Grey image uint8 (h, w) with image names on top. Gaps are white, and wider between noise levels.

    >>> contact_sheet({"ref": np.zeros((2, 5, 5), np.uint8), "e1": np.zeros((2, 5, 5), np.uint8)}).shape
    (33, 25)
    """
    from PIL import Image, ImageDraw

    first = next(iter(strips.values()))
    n, side = len(first), first.shape[1]
    shown = np.unique(np.linspace(0, n - 1, min(rows, n)).round().astype(np.int64))
    starts, x = [], _GAP
    names = list(strips)
    for before, name in zip([names[0], *names], names, strict=False):
        x += 2 * _GAP if before[0] != name[0] else 0
        starts.append(x)
        x += side + _GAP
    sheet = np.full((_LABEL + _GAP + len(shown) * (side + _GAP), x), 255, dtype=np.uint8)
    for name, left in zip(names, starts, strict=True):
        for row, k in enumerate(shown):
            top = _LABEL + _GAP + row * (side + _GAP)
            sheet[top : top + side, left : left + side] = strips[name][k]
    picture = Image.fromarray(sheet)
    draw = ImageDraw.Draw(picture)
    for name, left in zip(names, starts, strict=True):
        draw.text((left, 1), name, fill=0)
    return np.array(picture)
