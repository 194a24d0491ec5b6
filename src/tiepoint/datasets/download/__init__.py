# SPDX-License-Identifier: BSD-3-Clause
"""Published datasets: sources, download, unpacking, verification."""
