# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of images with sparse truth: poses, homographies, clicked correspondences, keypoints."""
