# SPDX-License-Identifier: BSD-3-Clause
"""Drop-in replacements for older tools."""
