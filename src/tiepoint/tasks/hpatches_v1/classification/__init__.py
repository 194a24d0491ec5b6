# SPDX-License-Identifier: BSD-3-Clause
"""Task `hpatches-v1/classification`."""
