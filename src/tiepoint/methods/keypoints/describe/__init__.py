# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors at given keypoints."""
