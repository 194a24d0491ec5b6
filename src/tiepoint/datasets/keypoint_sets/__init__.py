# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint sets: made, filtered, intersected, read."""
