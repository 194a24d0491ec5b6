# SPDX-License-Identifier: BSD-3-Clause
"""Informative subsets: estimate the score of a complete benchmark from some of its units."""
