# SPDX-License-Identifier: BSD-3-Clause
"""Comparing methods: differences, tests, groups, rank intervals."""
