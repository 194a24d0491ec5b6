# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint sets: create, filter, intersect, import and export."""
