# SPDX-License-Identifier: BSD-3-Clause
"""Verification pairs of an official split: the plain NumPy loop and tiepoint, in one run.

Usage: python bench/bench_v2_tasks.py [SPLIT] [--whole]   (without --whole the loop runs on a tenth)
"""

from __future__ import annotations

import os
import platform
import sys
import time

import numpy as np

from tiepoint.datasets.hpatches.sampling_2017 import draw_verification
from tiepoint.datasets.hpatches.splits import git_blob_sha1, official_lengths, official_sha1, official_splits
from tiepoint.formats.hpatches.task_lists import pairs_csv_chunks


def plain(test: tuple[str, ...], lengths: dict[str, int], rows: int) -> None:
    """Sample pairs by the plain recipe: one permutation per row."""
    state = np.random.RandomState(42)
    n = np.array([lengths[s] for s in test])
    seq = state.randint(len(test), size=rows)
    _ = [state.permutation(n[s])[:2] for s in seq]
    _ = [state.permutation(5)[:2] for _ in range(rows)]
    other = state.randint(len(test), size=rows)
    _ = [state.randint(n[s]) for s in other]


def main() -> None:
    name = next((a for a in sys.argv[1:] if not a.startswith("-")), "a")
    split, lengths = official_splits()[name], official_lengths()
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, NumPy {np.__version__}; CPU seconds, split {name}")
    draw_verification(split.test, lengths, rows=10)  # the first call compiles

    rows = 1_000_000 if "--whole" in sys.argv else 100_000
    start = time.process_time()
    plain(split.test, lengths, rows)
    loop = (time.process_time() - start) * (1_000_000 / rows)
    start = time.process_time()
    lists = draw_verification(split.test, lengths)
    ours = time.process_time() - start
    print(
        f"plain loop {loop:.1f} s{'' if rows == 1_000_000 else ' (scaled from 10 %)'}, tiepoint {ours:.2f} s"
    )
    print(f"{loop / ours:.1f} times faster")
    start = time.process_time()
    for table, kind in ((lists.pos, "pos"), (lists.intra, "neg_intra"), (lists.inter, "neg_inter")):
        same = git_blob_sha1(pairs_csv_chunks(table)) == official_sha1(f"verif_{kind}_split-{name}.csv")
        print(f"verif_{kind}_split-{name}.csv: {'equal to' if same else 'DIFFERENT FROM'} the published file")
    print(f"text and hash of the three files {time.process_time() - start:.2f} s")


if __name__ == "__main__":
    main()
