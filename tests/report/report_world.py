# SPDX-License-Identifier: BSD-3-Clause
"""Runs for report tests: a small patch set, with names that would break careless output."""

from __future__ import annotations

import itertools
from pathlib import Path
from unittest import mock

import numpy as np

from patch_sets import make_patches
from tiepoint.run.costs import ItemTimes
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store

HOSTILE = (
    '<script>document.title="owned"</script>"\'&amp; \\input{x} $x_1^2$ %#~ [bold red]x[/] [/nothing] | `y` '
    "'; drop table runs; -- 漢字 é ą " + "ä" * 200
)
SCENE = "<b>[red]&'\"$_%漢\\x"


class Odd:
    """A descriptor with a name that would break a careless page."""

    name = HOSTILE

    def describe(self, patches: np.ndarray) -> np.ndarray:
        return patches[:, ::5, ::5].reshape(len(patches), -1).astype(np.float32)


def make_store(root: Path) -> Path:
    """A store of six methods on seven scenes, hostile names among both."""
    scenes = [f"{'iv'[s % 2]}_s{s}" for s in range(6)] + [f"v_{SCENE}"]
    data = make_patches(root, scenes)
    options = {"tasks": str(root)}
    # Times of their own, so that no figure depends on how busy the machine is.
    times = (
        ItemTimes([1e-3 * n * (1 + 0.01 * k) for k in range(5)], largest="i_s0/ref") for n in range(1, 99)
    )
    with (
        Store.open(root / "store") as store,
        mock.patch("tiepoint.run.costs.time_items", side_effect=times),
        mock.patch("tiepoint.run.costs.peak_memory_bytes", side_effect=itertools.count(1 << 20, 1 << 20)),
    ):
        for method in ("pixels", "meanstd", "resize", "constant", "oracle", Odd):
            request = RunRequest(
                method, "hpatches-v1/matching", data, ("exact", "hbench-2016"), options, time=True
            )
            evaluate(request, store)
    return root / "store"
