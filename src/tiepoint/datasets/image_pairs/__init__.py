# SPDX-License-Identifier: BSD-3-Clause
"""Image pairs with poses, homographies, annotated correspondences or keypoints."""
