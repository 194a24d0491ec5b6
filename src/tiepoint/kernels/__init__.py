# SPDX-License-Identifier: BSD-3-Clause
"""Exact blocked distances, nearest neighbours and rank counts."""

from .pairs import pair_distances, pair_distances_sq
from .results import FirstTwo, Nearest, RankCounts
from .simple import first_two, nearest, rank_counts
from .threads import get_threads, set_threads

__all__ = [
    "FirstTwo",
    "Nearest",
    "RankCounts",
    "first_two",
    "get_threads",
    "nearest",
    "pair_distances",
    "pair_distances_sq",
    "rank_counts",
    "set_threads",
]
