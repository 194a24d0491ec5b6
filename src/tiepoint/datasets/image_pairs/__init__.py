# SPDX-License-Identifier: BSD-3-Clause
"""Image pairs with sparse ground truth: poses, homographies, clicked correspondences, keypoints."""
