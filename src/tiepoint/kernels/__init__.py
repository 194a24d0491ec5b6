# SPDX-License-Identifier: BSD-3-Clause
"""Exact blocked distances, nearest neighbours and rank counts, on the CPU or on a GPU.

Import from this package, not from its modules. Results do not depend on the device.
"""

from .group_ranks import group_rank_counts, group_rows
from .nearest import FirstTwo, Nearest, first_two, first_two_aligned, nearest
from .pair_distances import fit_across, pair_distances, pair_distances_across, pair_distances_sq, value_table
from .pooled_counts import PooledCounts, rank_counts_across
from .rank_counts import RankCounts, rank_counts
from .threads import ThreadTeam, get_threads, one_blas_thread, set_threads
from .torch_backend.device import get_device, set_device, upload_ahead

__all__ = [
    "FirstTwo",
    "Nearest",
    "PooledCounts",
    "RankCounts",
    "ThreadTeam",
    "first_two",
    "first_two_aligned",
    "fit_across",
    "get_device",
    "get_threads",
    "group_rank_counts",
    "group_rows",
    "nearest",
    "one_blas_thread",
    "pair_distances",
    "pair_distances_across",
    "pair_distances_sq",
    "rank_counts",
    "rank_counts_across",
    "set_device",
    "set_threads",
    "upload_ahead",
    "value_table",
]
