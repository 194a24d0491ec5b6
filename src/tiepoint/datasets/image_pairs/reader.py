# SPDX-License-Identifier: BSD-3-Clause
"""Read image pairs from files and folders of any supported layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import found_in
from ...core.regular_files import regular_file_size
from ...formats.file_io import read_lines
from ...formats.json_yaml import read_json
from . import text_lists
from .builder import NEEDS, PairDraft, build
from .colmap import model_drafts, view_drafts
from .ground_truth import PairSet
from .loftr import megadepth_drafts, scannet_drafts
from .multimodal import multimodal_drafts
from .native_json import is_own, own_drafts
from .problems import PairProblems
from .satellite import satellite_drafts
from .semantic import is_listed, list_drafts, listed_drafts, spair_drafts, willow_drafts
from .text_lists import one_line_drafts, plain_drafts, turned_drafts
from .wide_baseline import clicked_drafts, plane_drafts

Reader = Callable[[Path, PairProblems], list[PairDraft] | None]


def read_pairs(path: str | Path, *, needs: str = "pose", images: str | Path | None = None) -> PairSet:
    """Read the image pairs of a file or folder and report all problems together.

    Args:
        path: A file or folder of any known layout (docs/pairs-data.md lists them).
        needs: Ground truth that each pair must have: `pose` (K0, K1, T_0to1), `corrs`, `homography` (H),
            `keypoints`, `plane` (H or landmarks), or `any` if nothing is required.
        images: Root folder of image names. By default, the folder of the file, then its sub-folder `images`.

    Raises:
        InputError: The path does not exist or has no known layout.
        ProblemsError: All problems of the pairs.
    """
    if needs not in NEEDS:
        raise UnknownNameError("need", needs, NEEDS)
    root = Path(path).expanduser()
    if not root.exists():
        raise InputError(f"{root} does not exist; pass a file or folder of image pairs")
    if not root.is_dir():
        regular_file_size(root)
    folder = root if root.is_dir() else root.parent
    findings = PairProblems(root, (Path(images).expanduser(),) if images else (folder, folder / "images"))
    layout, drafts = detect_layout(root, findings)
    if layout is None:
        raise InputError(unknown(root, needs))
    return build(drafts, findings, needs=needs, what=f"{root}: {layout.name}")


def detect_layout(root: Path, findings: PairProblems) -> tuple[PairLayout | None, list[PairDraft]]:
    """Return the first layout that recognises a path, and its pairs. The layout is None if none does."""
    for layout in LAYOUTS:
        drafts = layout.read(root, findings)
        if drafts is not None:
            return layout, drafts
    return None, []


class PairLayout(NamedTuple):
    """Supported layout: its name, a description for messages, its reader, and its kinds of ground truth."""

    name: str
    shown: str
    read: Reader
    truths: tuple[str, ...] = ("pose",)


def _file(root: Path, suffix: str, *names: str) -> Path | None:
    """Return `root` if it is a file.

    If it is a folder, return its first file that matches a name or pattern.
    """
    if root.is_file():
        return root if root.suffix == suffix else None
    return next((p for name in names for p in sorted(root.glob(name))), None)


def _json(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    file = _file(root, ".json", "pairs.json")
    value = None if file is None else read_json(file)
    return own_drafts(value, findings) if is_own(value) else None


def _listed(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    file = _file(root, ".json", "pairs.json")
    value = None if file is None else read_json(file)
    return listed_drafts(value, findings) if is_listed(value) else None


def _text(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    file = _file(root, ".txt", "pairs_with_gt.txt")
    lines = [] if file is None else read_lines(file)
    return turned_drafts(lines, findings) if _fields(lines) in text_lists.TURNED_FIELDS else None


def _plain(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    file = _file(root, ".txt", "pairs_with_gt.txt", "pairs_calibrated.txt", "pairs.txt")
    lines = [] if file is None else read_lines(file)
    return plain_drafts(lines, findings) if _fields(lines) in text_lists.PLAIN_FIELDS else None


def _csv(root: Path, findings: PairProblems) -> list[PairDraft] | None:
    file = _file(root, ".csv", "test_pairs.csv", "*_pairs.csv", "*test_pairs*.csv")
    return None if file is None else list_drafts(file, findings)


def _fields(lines: list[str]) -> int:
    return next((len(line.split()) for line in lines if line and not line.startswith("#")), 0)


def _of_folder(reader: Reader) -> Reader:
    return lambda root, findings: reader(root, findings) if root.is_dir() else None


POINTS = ("keypoints",)

LAYOUTS = (
    PairLayout(
        "pairs as JSON", "a JSON list of pairs with image0 and image1 (pairs.json)", _json, tuple(NEEDS)
    ),
    PairLayout("pairs as text", "text with 38 fields a line (pairs_with_gt.txt)", _text),
    PairLayout(
        "pairs as text without turns",
        "text with 32, 36 or 11 fields a line (K, R, t or T; H)",
        _plain,
        ("pose", "homography", "plane"),
    ),
    PairLayout("index of ScanNet pairs", "test.npz with intrinsics.npz", scannet_drafts),
    PairLayout("index of MegaDepth pairs", "pickled .npz with pair_infos", megadepth_drafts),
    PairLayout("images with poses", "views.txt with pairs.txt", view_drafts),
    PairLayout("COLMAP model", "a COLMAP model (cameras and images, .bin or .txt)", _of_folder(model_drafts)),
    PairLayout("SPair-71k", "SPair-71k (PairAnnotation/test/*.json)", _of_folder(spair_drafts), POINTS),
    PairLayout("keypoint pairs as JSON", "a JSON list of pairs with source_points", _listed, POINTS),
    PairLayout(
        "clicked correspondences",
        "WxBS (CATEGORY/PAIR/corrs.txt with 01.*, 02.*)",
        _of_folder(clicked_drafts),
        ("corrs",),
    ),
    PairLayout(
        "planes with homographies", "EVD (folders 1, 2, h)", _of_folder(plane_drafts), ("homography", "plane")
    ),
    PairLayout(
        "multimodal pairs",
        "MMIM (Multimodal_Image_Matching_Datasets/*/*/*.mat)",
        _of_folder(multimodal_drafts),
        ("homography", "plane"),
    ),
    PairLayout(
        "astronaut photographs", "SatAst (*.json with query_path, pred_path)", satellite_drafts, POINTS
    ),
    PairLayout("zero-shot pairs", "files of one line with 38 fields each (ZEB)", _of_folder(one_line_drafts)),
    PairLayout("PF pairs", "PF-PASCAL or PF-WILLOW as CSV (test_pairs.csv)", _csv, POINTS),
    PairLayout("PF-WILLOW", "PF-WILLOW (CLASS/*.mat beside images)", _of_folder(willow_drafts), POINTS),
)


def known_layouts(needs: str = "any") -> tuple[str, ...]:
    """Return the descriptions of the supported layouts with this kind of ground truth."""
    return tuple(layout.shown for layout in LAYOUTS if needs == "any" or needs in layout.truths)


def unknown(path: Path, needs: str = "any") -> str:
    """Return an error message for an unknown layout. It has the path's content and the supported layouts."""
    names = ("text with two names a line (.txt)",) if needs == "any" else ()
    known = "; ".join((*known_layouts(needs), *names))
    return f"{path} is not a known dataset of pairs: {found_in(path)}\n  expected one of: {known}"
