# SPDX-License-Identifier: BSD-3-Clause
"""Homographies, covisibility, affine frames and their overlap, sampling, flow geometry."""
