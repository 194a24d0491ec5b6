# SPDX-License-Identifier: BSD-3-Clause
"""Two views of one scene: pose errors, epipolar distances, pixel frames, robust estimators, homographies."""
