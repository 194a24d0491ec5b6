# SPDX-License-Identifier: BSD-3-Clause
"""Uncertainty of scores: confidence intervals, paired tests, multiple comparisons and ranks."""
