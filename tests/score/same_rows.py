# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of a result with the scores of a task, to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from tiepoint.core.scores import ScoreRow
from tiepoint.score import Result

Key = tuple[str, str]


def assert_same_rows(found: Result, expected: Iterable[ScoreRow]) -> None:
    """Every score of the result is one of the task, and the headline is that of the task."""
    by = {(row.metric, row.group): row for row in expected if row.protocol == found.protocol}
    assert found.rows
    for row in found.rows:
        own = by[row.metric, row.group]
        assert row == (own if row.chance is not None else replace(own, chance=None)), (row, own)
    head = by[found.metric, "all"]
    assert (found.value, found.low, found.high, found.n) == (head.value, head.low, head.high, head.n)


def image_key(image1: Any, image2: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(image1).tobytes() + image2.tobytes()).hexdigest()


class Recorder:
    """SIFT matches of two images, kept by the content of the images."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def match(self, image1: Any, image2: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sift = cv2.SIFT_create(2000)
        sides = [sift.detectAndCompute(cv2.cvtColor(i, cv2.COLOR_RGB2GRAY), None) for i in (image1, image2)]
        two = cv2.BFMatcher(cv2.NORM_L2).knnMatch(sides[0][1], sides[1][1], k=2)
        found = [first for first, second in two if first.distance < 0.8 * second.distance]
        made = (
            np.array([sides[0][0][m.queryIdx].pt for m in found]),
            np.array([sides[1][0][m.trainIdx].pt for m in found]),
            np.array([1.0 / (1.0 + m.distance) for m in found]),
        )
        self._made[image_key(image1, image2)] = made
        return made

    def of(self, image1: Any, image2: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._made[image_key(image1, image2)]
