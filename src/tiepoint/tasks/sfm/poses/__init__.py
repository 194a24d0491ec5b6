# SPDX-License-Identifier: BSD-3-Clause
"""Task `sfm/poses`: score the camera poses of finished reconstructions."""
