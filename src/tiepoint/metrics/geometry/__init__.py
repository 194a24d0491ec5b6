# SPDX-License-Identifier: BSD-3-Clause
"""Measures of keypoint geometry: repeatability, homographies."""
