# SPDX-License-Identifier: BSD-3-Clause
"""Optical flow: known pixels, resizing, consistency, warping, colour code."""
