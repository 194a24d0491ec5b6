# SPDX-License-Identifier: BSD-3-Clause
"""Compare methods: differences, significance tests, groups and rank ranges."""
