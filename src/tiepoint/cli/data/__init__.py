# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint data``: get, make, cut, draw task files, pack, check."""
