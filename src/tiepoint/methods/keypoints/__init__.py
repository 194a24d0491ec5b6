# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint methods: detectors, descriptors at keypoints, and methods that detect and describe."""
