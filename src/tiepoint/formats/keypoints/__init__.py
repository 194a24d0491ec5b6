# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints and annotated points."""
