# SPDX-License-Identifier: BSD-3-Clause
"""Task `homography/pairs`, and code that it shares with `mmim/homography`."""
