# SPDX-License-Identifier: BSD-3-Clause
"""Names of the protocols for reconstructions, and their thresholds."""

from __future__ import annotations

DEGREES = (0.5, 1.0, 5.0, 10.0)
HEADLINE_DEG = 5.0
DISTANCES = (0.02, 0.05, 0.2, 0.5)
"""Thresholds of `colmap-absolute` in units of the truth."""
HEADLINE_DISTANCE = 0.05
SHARES = (0.001, 0.005, 0.01, 0.05)
"""Thresholds of the absolute score under `exact` as shares of the scene's extent."""
HEADLINE_SHARE = 0.01

PROTOCOLS = ("exact", "colmap", "colmap-absolute", "imc2021", "imc2023", "imc2024", "imc2025", "evo")
CENTRES = ("imc2024", "imc2025")
"""Protocols that try the similarity of every triple of images."""
