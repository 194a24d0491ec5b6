# SPDX-License-Identifier: BSD-3-Clause
"""Tasks on keypoints of image sequences."""
