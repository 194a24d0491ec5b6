# SPDX-License-Identifier: BSD-3-Clause
"""What every layout of match files offers: which pairs it has, and the matches of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ...core.units import Arrays

FLOAT16_EXACT_PX = 1024
"""From here on a float16 holds whole pixels only."""


class MatchSource(Protocol):
    """Match files of one layout below a folder.

    `pairs` has the places of all pairs by names as `naming` makes them. `resized` says that points are in
    pixels of resized images, whose size the files do not tell.
    """

    what: str
    resized: bool

    @property
    def pairs(self) -> Mapping[str, Any]:
        """Places of all pairs by name; a place is a text, or has one."""

    def files(self, place: Any) -> Sequence[Path]:
        """Files that the matches of a place come from."""

    def read(self, place: Any) -> Arrays:
        """`points0`, `points1` and perhaps `confidence`, `keypoints0`, `keypoints1`; or `flow`, `answers`."""

    def remarks(self, place: Any) -> list[str]:
        """What the user should know about a place, in words that are the same for all places."""


@dataclass(frozen=True)
class IndexedSource:
    """Matches as indices: keypoints of both images, and for each of the first its partner or -1."""

    keypoints: tuple[NDArray[Any], NDArray[Any]]
    partner: NDArray[Any]
    scores: NDArray[Any] | None = None
    where: str = ""
    path: Path = field(default_factory=Path)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The matched points, in order of the first image.

        Raises:
            FormatError: if shapes differ, an index names no keypoint, or their type cannot name them all.
        """
        first, second = self.keypoints
        for array in (first, second, *([] if self.scores is None else [self.scores])):
            if array.dtype.kind not in "biuf":
                raise FormatError(self.path, f"{self.where}: {array.dtype} where numbers are expected")
        for side, points in enumerate(self.keypoints):
            if points.ndim != 2 or points.shape[1] < 2:
                raise FormatError(
                    self.path, f"{self.where}: keypoints{side} has shape {points.shape}, not (n, 2)"
                )
        if self.partner.shape != (len(first),):
            raise FormatError(
                self.path,
                f"{self.where}: matches have shape {self.partner.shape} for {len(first)} keypoints; "
                "expected one a keypoint",
            )
        if self.partner.dtype.kind not in "iu":
            raise FormatError(self.path, f"{self.where}: matches are {self.partner.dtype}, expected integers")
        if len(second) - 1 > (most := np.iinfo(self.partner.dtype).max):
            raise FormatError(
                self.path,
                f"{self.where}: {self.partner.dtype} matches cannot name {len(second)} keypoints, those "
                f"above {most} have wrapped around; write them as int32",
            )
        partner = self.partner.astype(np.int64)
        beyond = (partner >= len(second)) | (partner < -1)
        if beyond.any():
            i = int(np.argmax(beyond))
            raise FormatError(
                self.path, f"{self.where}: match {i} names keypoint {partner[i]} of {len(second)}"
            )
        rows = np.flatnonzero(partner >= 0)
        out: dict[str, NDArray[Any]] = {
            "points0": first[rows, :2].astype(np.float64),
            "points1": second[partner[rows], :2].astype(np.float64),
        }
        if self.scores is not None:
            if self.scores.shape != self.partner.shape:
                raise FormatError(
                    self.path, f"{self.where}: {self.scores.shape} scores for {self.partner.shape} matches"
                )
            out["confidence"] = self.scores[rows].astype(np.float64)
        out["keypoints0"], out["keypoints1"] = (np.array([len(k)], np.int64) for k in self.keypoints)
        return out


def float16_remarks(*points: Any) -> list[str]:
    """A sentence where float16 coordinates are coarse: 1 px from 1024 on, 0.5 px from 512.

    >>> float16_remarks(np.array([[1500.0, 3.0]], np.float16))
    ['keypoints are float16 and lie beyond 1024 px, where it holds whole pixels only; write float32']
    """
    for array in points:
        if array.dtype == np.float16 and bool((np.abs(array) > FLOAT16_EXACT_PX).any()):
            return [
                f"keypoints are float16 and lie beyond {FLOAT16_EXACT_PX} px, where it holds whole pixels "
                "only; write float32"
            ]
    return []
