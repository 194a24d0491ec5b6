# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: D101, D102
"""Custom methods for `equality.py`, which copies this file; it imports nothing of tiepoint."""

import numpy as np


class Small:
    name = "small"
    distance = "l2"

    def __init__(self, step=8):
        self.step = step

    def describe(self, patches):
        rows = patches[:, :: self.step, :: self.step].reshape(len(patches), -1).astype(np.float32)
        return rows - rows.mean(axis=1, keepdims=True)


class SmallL1(Small):
    name, distance = "small-l1", "l1"


class SmallCosine(Small):
    name, distance = "small-cosine", "cosine"


class Bits(Small):
    name, distance = "bits", "hamming"

    def describe(self, patches):
        return super().describe(patches) > 0


class Coarse(Small):
    """Few distinct values, so that distances tie."""

    name = "coarse"

    def describe(self, patches):
        return np.round(patches[:, ::24, ::24].reshape(len(patches), -1) / 64.0)


class Masked(Small):
    name, distance = "masked", "masked_l1"

    def describe(self, patches):
        rows = super().describe(patches)
        return np.hstack([rows, (np.abs(rows) > 4).astype(np.float32)])


class Faulty(Small):
    """Some rows are NaN, some are zero, and some are reported as failed."""

    name = "faulty"

    def describe(self, patches):
        rows = super().describe(patches)
        mean = patches.reshape(len(patches), -1).astype(np.int64).sum(axis=1)
        rows[mean % 13 == 0] = np.nan
        rows[mean % 17 == 0] = 0
        return rows, mean % 11 != 0


class Places:
    """Local maxima of brightness differences."""

    def detect(self, image):
        grey = image.astype(np.float64).sum(axis=2)
        rough = np.zeros_like(grey)
        rough[1:-1, 1:-1] = np.abs(
            4 * grey[1:-1, 1:-1] - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:]
        )
        rough[:12], rough[-12:], rough[:, :12], rough[:, -12:] = 0, 0, 0, 0
        best = np.argsort(-rough, axis=None, kind="stable")[:200]
        y, x = np.unravel_index(best, rough.shape)
        return np.column_stack([x, y, np.full(len(x), 8)]).astype(float)


class Squares:
    """Pixels around a keypoint."""

    name = "squares"

    def describe(self, image, keypoints):
        grey = np.pad(image.astype(np.float32).mean(axis=2), 8, mode="edge")
        at = np.round(np.asarray(keypoints.xy)).astype(int)
        rows = np.array([grey[y : y + 17 : 2, x : x + 17 : 2].ravel() for x, y in at], np.float32)
        rows = rows.reshape(len(at), 81)
        rows = rows - rows.mean(axis=1, keepdims=True) + 1e-3
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Both:
    """Detector and descriptor in one method."""

    name = "both"

    def extract(self, image):
        found = Places().detect(image)

        class At:
            xy = found[:, :2]

        return found, Squares().describe(image, At)


class Median:
    def pool(self, stack, scales):
        return np.median(stack, axis=0)


class Matcher:
    """Nearest neighbours whose distance is below the median."""

    def match(self, a, b):
        if not len(a.xy) or not len(b.xy):
            return np.zeros((0, 2), int)
        x, y = np.asarray(a.values, float), np.asarray(b.values, float)
        d = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)[None] - 2 * x @ y.T
        best = d.argmin(axis=1)
        value = d[np.arange(len(d)), best]
        keep = np.flatnonzero(value <= np.median(value))
        return np.column_stack([keep, best[keep]])


class Shift:
    """Flow that moves every pixel by the difference of the centres of brightness."""

    name = "shift"

    def match(self, image1, image2):
        def centre(image):
            grey = image.astype(np.float64).sum(axis=2)
            y, x = np.mgrid[: grey.shape[0], : grey.shape[1]]
            return np.array([(grey * x).sum(), (grey * y).sum()]) / grey.sum()

        flow = np.zeros((*image1.shape[:2], 2), np.float32) + (centre(image2) - centre(image1))
        return flow.astype(np.float32), image1.mean(axis=2) > image1.mean()
