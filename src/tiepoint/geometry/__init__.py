# SPDX-License-Identifier: BSD-3-Clause
"""Homographies, co-visibility, affine frames and their overlap, sampling, flow geometry."""
