# SPDX-License-Identifier: BSD-3-Clause
"""Geometry of images: homographies, covisibility, affine frames, sampling, flow, and two views."""
