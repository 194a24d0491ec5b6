# SPDX-License-Identifier: BSD-3-Clause
"""``files:DIR`` for tasks on image pairs: read matches computed by another program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, ProblemsError
from ...core.formatting import found_in
from ...core.hashing import hash_file, hash_json
from ...core.records import Arrays, Item
from ...formats.matches.colmap_database import ColmapDatabase
from ...formats.matches.detect_layout import KNOWN, detect_match_layout, holds_files
from ...formats.matches.source import MatchSource, PairQuery, find_pair
from ...geometry.two_view.scaling import superglue_size
from ..keypoints.files import holds_features

_RESIZE = re.compile(r"(?P<w>\d+)(?:[x,](?P<h>\d+))?")


class MatchFiles:
    """Matches read from files, in any layout that `formats.matches.detect_layout` supports.

    `offset` is added to all coordinates (-0.5 if the first pixel's centre is (0.5, 0.5) in the files). `top`
    selects the matches with the highest confidence. If points are in pixels of resized images, `resize`
    states their size: ``640x480``, ``1600`` (the longer side) or ``none``. Points are rescaled before
    `offset` is added. If the files store a pair in reverse order, its matches are reversed. `verified`
    selects the inliers of the two-view geometries in a COLMAP database.
    """

    def __init__(
        self,
        path: str,
        offset: float = 0.0,
        top: int | None = None,
        resize: str | int | None = "",
        verified: bool = False,
    ) -> None:
        self.root = Path(path).expanduser()
        if not holds_files(self.root):
            raise InputError(f"files:{path}: the folder does not exist\n  expected one of: {KNOWN}")
        found = detect_match_layout(self.root)
        if found is None:
            raise InputError(
                f"files:{path} contains no matches: {found_in(self.root)}\n  expected one of: {KNOWN}"
            )
        if verified:
            if not isinstance(found, ColmapDatabase):
                raise InputError(
                    f"files:{path} contains {found.what}, which has no verified matches; remove `verified`"
                )
            found = ColmapDatabase(found.path, verified=True)
        self.source: MatchSource = found
        self.offset, self.top, self.resize = float(offset), top, parsed_resize(resize)
        if top is not None and (not isinstance(top, int) or top < 1):
            raise InputError(f"files:{path}: `top` is {top!r}; expected a positive integer")
        if found.resized and self.resize is None:
            raise InputError(
                f"files:{path} contains {found.what}, whose points are in pixels of resized images; state "
                "their size with ?resize=640x480, ?resize=1600 (the longer side) or ?resize=none"
            )
        if not found.resized and self.resize is not None:
            raise InputError(
                f"files:{path} contains {found.what}, whose points are in original pixels; remove `resize`"
            )
        said = {"offset": self.offset or None, "top": top, "resize": format_resize(self.resize)}
        said |= {"verified": "true"} if verified else {}
        query = "&".join(f"{k}={v}" for k, v in said.items() if v is not None)
        self.name = f"files:{self.root.name}" + (f"?{query}" if query else "")
        self.warnings: list[str] = []
        self.config: dict[str, Any] = {
            "layout": found.what, "offset": self.offset, "top": top, "resize": self.resize
        }  # fmt: skip

    @cached_property
    def _places(self) -> dict[PairQuery, Any]:
        return {}

    def _find(self, item: Item) -> tuple[Any, bool] | None:
        wanted = pair_query(item)
        if wanted not in self._places:
            self._places[wanted] = find_pair(self.source.pairs, wanted)
        found: tuple[Any, bool] | None = self._places[wanted]
        return found

    def _found(self, item: Item) -> tuple[Any, bool]:
        found = self._find(item)
        if found is None:
            raise InputError(f"{self.root}: the matches of the pair {item.key} are missing; add them")
        return found

    def has_item(self, item: Item) -> bool:
        """Return whether the files have matches for a pair, in either image order."""
        return self._find(item) is not None

    def check_items(self, items: Sequence[Item]) -> None:
        """Raise one error that lists missing pairs, and pairs that would be read from the same matches."""
        absent = [item.key for item in items if not self.has_item(item)]
        problems = [f"no matches for the pair {key}" for key in absent]
        if absent and len(absent) == len(items):
            names = [re.sub(r"\|", "/", name) for name in list(self.source.pairs)[:3]]
            problems.append(
                f"the folder has {self.source.what} for these pairs: {', '.join(names) or 'none'}"
            )
        taken: dict[str, str] = {}
        remarks: dict[str, int] = {}
        for item in items:
            found = self._find(item)
            if found is None:
                continue
            other = taken.setdefault(_shown(found[0]), item.key)
            if other != item.key and not _same_images(item, other, items):
                problems.append(
                    f"{item.key} and {other} are read from the same matches, {_shown(found[0])}; give each "
                    "pair its own"
                )
            for remark in self.source.remarks(found[0]):
                remarks[remark] = remarks.get(remark, 0) + 1
        if problems:
            raise ProblemsError(f"matches in {self.root}", problems)
        self.warnings[:] = [f"{self.root}, {n} of {len(items)} pairs: {what}" for what, n in remarks.items()]

    def item_key(self, item: Item) -> str:
        """Return a hash of a pair's match files and its location in them.

        It includes the image sizes if points are rescaled.
        """
        place, flipped = self._found(item)
        sizes = [list(image.size or ()) for image in item.images] if self.source.resized else []
        files = [hash_file(f) for f in self.source.files(place)]
        return hash_json([files, _shown(place), flipped, sizes])

    def lookup_item(self, item: Item) -> Arrays:
        """Return the matches of a pair from image 0 to image 1, in original pixels."""
        place, flipped = self._found(item)
        arrays = dict(self.source.read(place))
        if flipped:
            arrays = turned_around(arrays, f"{self.root}: {item.key}")
        for side, name in ((0, "points0"), (1, "points1"), (1, "answers")):
            if name in arrays:
                arrays[name] = self._original(arrays[name], item, side, name)
        if self.top is not None and "points0" in arrays:
            if "confidence" not in arrays:
                raise InputError(f"{self.root}: {item.key} has no confidence; add it or remove `top`")
            best = np.sort(np.argsort(-arrays["confidence"], kind="stable")[: self.top])
            arrays |= {k: arrays[k][best] for k in ("points0", "points1", "confidence")}
        return arrays

    def _original(self, points: NDArray[Any], item: Item, side: int, name: str) -> NDArray[np.float64]:
        if points.ndim != 2 or points.shape[1] != 2:
            raise InputError(f"{self.root}: {item.key}: {name} has shape {points.shape}, expected (n, 2)")
        made = points.astype(np.float64)
        if self.source.resized:
            size = item.images[side].size if len(item.images) == 2 else None
            if size is None:
                raise InputError(
                    f"{item.key}: rescaling points needs the size of image {side}, which is unknown; add it "
                    "to the dataset"
                )
            made = made / superglue_size(size, self.resize or (-1,)).scale
        return made + self.offset if self.offset else made


def pair_query(item: Item) -> PairQuery:
    """Return the names under which the matches of a pair are searched in the files."""
    names = [image.name for image in item.images]
    return PairQuery(item.key, (names[0], names[1])) if len(names) == 2 else PairQuery(item.key)


def parsed_resize(given: str | int | None) -> tuple[int, ...] | None:
    """Return the size given by `resize`: (width, height), (longer side,), (-1,) for ``none``, or None.

    >>> parsed_resize("640x480"), parsed_resize(1600), parsed_resize(None), parsed_resize("")
    ((640, 480), (1600,), (-1,), None)
    """
    if given == "":
        return None
    if given is None or given == -1:
        return (-1,)
    found = _RESIZE.fullmatch(str(given))
    if found is None or int(found["w"]) == 0:
        raise InputError(f"`resize` is {given!r}; expected 640x480, 1600 (the longer side) or none")
    return (int(found["w"]),) if found["h"] is None else (int(found["w"]), int(found["h"]))


def format_resize(resize: tuple[int, ...] | None) -> str | None:
    """Format `resize` as it is written in a specification.

    >>> format_resize((640, 480)), format_resize((-1,))
    ('640x480', 'none')
    """
    return None if resize is None else "none" if resize == (-1,) else "x".join(map(str, resize))


def turned_around(arrays: Arrays, where: str) -> dict[str, NDArray[Any]]:
    """Swap the images of a pair's matches. Raise an error for a flow or answers, which cannot be reversed."""
    if {"flow", "answers"} & set(arrays):
        raise InputError(
            f"{where} exists only for the reversed pair, and flows and query points cannot be reversed; "
            "compute it for the pair"
        )
    swapped = {
        "points0": "points1",
        "points1": "points0",
        "keypoints0": "keypoints1",
        "keypoints1": "keypoints0",
    }
    made = {swapped.get(name, name): value for name, value in arrays.items()}
    if "F" in made:
        made["F"] = np.asarray(made["F"]).T
    if "H" in made and np.isfinite(made["H"]).all():
        made["H"] = np.linalg.inv(np.asarray(made["H"], np.float64))
    return made


def _same_images(item: Item, key: str, items: Sequence[Item]) -> bool:
    other = next(i for i in items if i.key == key)
    return bool(item.images) and {i.name for i in item.images} == {i.name for i in other.images}


def _shown(place: Any) -> str:
    """Return the location of a pair's matches for messages, without the folder."""
    return place.name if isinstance(place, Path) else str(place)


def family_of_folder(path: str) -> str:
    """Return the family of a folder: ``pairs`` (matches), ``keypoints`` (features) or ``dense`` (flows)."""
    root = Path(path).expanduser()
    if not holds_files(root) or detect_match_layout(root) is not None:
        return "pairs"
    if holds_features(root):
        return "keypoints"
    return "dense" if next(root.rglob("flow1.flo"), None) is not None else "pairs"
