# SPDX-License-Identifier: BSD-3-Clause
"""Published datasets: which one a folder is, what is missing from it, what it is good for."""
