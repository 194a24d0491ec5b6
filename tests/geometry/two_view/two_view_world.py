"""Two cameras and the points they see."""

from __future__ import annotations

import numpy as np

K0 = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
K1 = np.array([[700.0, 0, 400], [0, 690, 300], [0, 0, 1]])
T = np.array([[0.96, 0, 0.28, 1], [0, 1, 0, 0.1], [-0.28, 0, 0.96, 0.2], [0, 0, 0, 1]])


def seen(n, *, noise_px=0.0, outliers=0, depth=5.0, seed=0):
    """Matches (n, 2), (n, 2) of random points about `depth` away; the first `outliers` are random."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (n, 3)) * np.array([1.5, 1.0, 1.5]) * depth / 5 + np.array([0, 0, depth])
    there = points @ T[:3, :3].T + T[:3, 3]
    x0, x1 = ((p @ K.T)[:, :2] / p[:, 2:] for p, K in ((points, K0), (there, K1)))
    x1 = x1 + rng.normal(0, noise_px, (n, 2)) if noise_px else x1
    x1[:outliers] = rng.uniform(0, 700, (outliers, 2))
    return x0, x1
