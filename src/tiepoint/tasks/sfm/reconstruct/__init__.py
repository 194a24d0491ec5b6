# SPDX-License-Identifier: BSD-3-Clause
"""Task `sfm/reconstruct`: run a method through COLMAP's pipeline and score the estimated poses."""
