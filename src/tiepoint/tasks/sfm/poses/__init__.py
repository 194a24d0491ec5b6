# SPDX-License-Identifier: BSD-3-Clause
"""Task `sfm/poses`: score finished reconstructions."""
