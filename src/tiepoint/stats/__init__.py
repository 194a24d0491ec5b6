# SPDX-License-Identifier: BSD-3-Clause
"""Uncertainty of scores: intervals, paired tests, families, ranks. Pure functions on scene tables."""
