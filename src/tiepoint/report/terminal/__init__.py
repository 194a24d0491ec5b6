# SPDX-License-Identifier: BSD-3-Clause
"""Print tables in the terminal."""
