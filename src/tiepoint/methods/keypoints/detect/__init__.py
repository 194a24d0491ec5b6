# SPDX-License-Identifier: BSD-3-Clause
"""Detectors of keypoints."""
