# SPDX-License-Identifier: BSD-3-Clause
"""Detect the layout of a folder of match files."""

from __future__ import annotations

from pathlib import Path

from ...core.errors import InputError
from ...core.regular_files import is_file, is_folder
from .. import hdf5
from ..npy import read_npz
from .benchmark_dumps import ENDING, NAME, GlueFactoryFiles, LoftrFiles, SuperGlueFiles
from .colmap_database import SUFFIX, ColmapDatabase, is_colmap_database
from .hloc import HlocFiles
from .native import ALONE, AnswerFiles, OwnFiles
from .source import MatchSource
from .table import MatchTables, is_match_table

KNOWN = (
    "matches: PAIR.npz with points0 and points1, a CSV or Parquet table with x0, y0, x1, y1, hloc "
    f"HDF5 features with matches, glue-factory predictions.h5, SuperGlue *{ENDING}, {NAME}, a COLMAP "
    "database (*.db), or predicted points as JSON; features of images: npz, CSV or HDF5 with keypoints and "
    "descriptors; flows: SUBSET/PAIR/flow1.flo"
)


def holds_files(root: Path) -> bool:
    """Return whether a path is a folder or a database file, either of which may contain matches."""
    return is_folder(root) or (root.suffix == SUFFIX and is_file(root))


def detect_match_layout(root: Path) -> MatchSource | None:
    """Return the match source of a folder or database. None if it contains no matches.

    Raises:
        InputError: The folder matches several layouts, or a file cannot be opened.
    """
    if not is_folder(root):
        if not is_colmap_database(root):
            raise InputError(
                f"{root}: not a COLMAP database, because it is not an SQLite file; pass a database"
            )
        return ColmapDatabase(root)
    names = sorted(p for p in root.iterdir() if p.is_file() and not p.name.startswith("."))
    found: list[MatchSource] = []
    dumps = [p for p in names if p.name.endswith(ENDING)]
    arrays = [p for p in names if p.suffix == ".npz" and p not in dumps]
    if dumps:
        found.append(SuperGlueFiles(root))
    elif arrays:
        array_names = set(read_npz(arrays[0]))
        if {"points0", "points1"} <= array_names or ALONE & array_names:
            found.append(OwnFiles(root))
    if (root / NAME).is_file():
        found.append(LoftrFiles(root / NAME))
    found += _hdf5([p for p in names if p.suffix in hdf5.SUFFIXES])
    found += [ColmapDatabase(p) for p in names if is_colmap_database(p)]
    tables = [p for p in names if is_match_table(p)]
    if tables:
        found.append(MatchTables(tables))
    json_files = [p for p in names if p.suffix == ".json"]
    if json_files and not found:
        found.append(AnswerFiles(json_files))
    if len(found) > 1:
        kinds = " and ".join(s.what for s in found)
        raise InputError(f"files:{root} mixes {kinds}; put each into its own folder")
    return found[0] if found else None


def _hdf5(paths: list[Path]) -> list[MatchSource]:
    features, matches, predictions = [], [], []
    for path in paths:
        with hdf5.open_hdf5(path) as file:
            if hdf5.groups_with(file, ("keypoints0", "keypoints1", "matches0")):
                predictions.append(path)
            elif hdf5.groups_with(file, ("matches0",)):
                matches.append(path)
            elif hdf5.groups_with(file, ("keypoints",)):
                features.append(path)
    sources: list[MatchSource] = [GlueFactoryFiles(path) for path in predictions]
    if matches and not features:
        raise InputError(
            f"{matches[0]} has hloc matches without keypoints; put the features file into the same folder"
        )
    if matches and (len(matches) > 1 or len(features) > 1):
        several = ", ".join(p.name for p in [*features, *matches])
        folder = matches[0].parent
        raise InputError(
            f"{folder} has several hloc files: {several}; keep one features and one matches file"
        )
    return [*sources, HlocFiles(features[0], matches[0])] if matches else sources
