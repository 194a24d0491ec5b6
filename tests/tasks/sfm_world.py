"""Cameras around random points, projected without pixels: matches of which the poses are known."""

from __future__ import annotations

import numpy as np

from tiepoint.datasets.reconstructions.image_scenes import SceneCamera
from tiepoint.tasks.sfm.pipeline.matches import SceneMatches

FOCAL, SIZE = 500.0, (640, 480)
CAMERA = SceneCamera("PINHOLE", SIZE, (FOCAL, FOCAL, 320.0, 240.0))


def poses(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """World-to-camera poses (R, t) on an arc around the origin, radius 4, looking at it."""
    found = []
    for k in range(count):
        angle = np.deg2rad(-30 + 60 * k / (count - 1))
        R = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
        centre = np.array([4 * np.sin(angle), 0.1 * (k % 3), -4 * np.cos(angle)])
        found.append((R, -R @ centre))
    return found


def world(count: int = 5, points: int = 250, seed: int = 0, noise_px: float = 0.2):
    """Cameras by name and matches: point p is keypoint p of every image. Pixel centres are integers."""
    rng = np.random.default_rng(seed)
    cloud = rng.uniform(-1, 1, (points, 3))
    keypoints = []
    for R, t in poses(count):
        seen = cloud @ R.T + t
        pixel = FOCAL * seen[:, :2] / seen[:, 2:] + [320.0, 240.0]
        keypoints.append(pixel - 0.5 + noise_px * rng.standard_normal(pixel.shape))
    pairs = np.array([(i, j) for i in range(count) for j in range(i + 1, count)])
    rows = tuple(np.repeat(np.arange(points)[:, None], 2, axis=1) for _ in pairs)
    names = [f"view_{k:03d}.png" for k in range(count)]
    return dict.fromkeys(names, CAMERA), SceneMatches(tuple(keypoints), pairs, rows)
