# SPDX-License-Identifier: BSD-3-Clause
"""Two-view geometry: pose errors, epipolar distances, pixel frames, robust estimators, homographies."""
