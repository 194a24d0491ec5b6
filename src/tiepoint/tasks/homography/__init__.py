# SPDX-License-Identifier: BSD-3-Clause
"""Task `homography/pairs`, and what it shares with `mmim/homography`."""
