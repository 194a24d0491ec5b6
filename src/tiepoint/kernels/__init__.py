# SPDX-License-Identifier: BSD-3-Clause
"""Exact blocked distances, nearest neighbours and rank counts."""

from .nearest import first_two, nearest
from .pairs import fit_across, pair_distances, pair_distances_across, pair_distances_sq
from .ranks import rank_counts
from .results import FirstTwo, Nearest, RankCounts
from .threads import get_threads, set_threads

__all__ = [
    "FirstTwo",
    "Nearest",
    "RankCounts",
    "first_two",
    "fit_across",
    "get_threads",
    "nearest",
    "pair_distances",
    "pair_distances_across",
    "pair_distances_sq",
    "rank_counts",
    "set_threads",
]
