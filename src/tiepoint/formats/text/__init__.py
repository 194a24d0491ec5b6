# SPDX-License-Identifier: BSD-3-Clause
"""Numbers in text files."""
