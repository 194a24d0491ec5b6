# SPDX-License-Identifier: BSD-3-Clause
"""Determine the tasks that can run on a dataset, and the commands to run them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..hpatches.dataset import HPatchesDataset
from ..hpatches.layout import LEVEL_IMAGES, NOISES
from ..hpatches.splits import WHOLE, known_splits, split_problems
from ..image_pairs.ground_truth import PairTruth
from ..image_pairs.planes import plane_problems

_MATCHER = '"sift?matcher=mnn&ratio=0.8"'
Protocols = Callable[[str], Sequence[str]]
"""Type of a function that returns the protocols of a task."""


class UsableTask(NamedTuple):
    """Tasks that can run on a dataset, with an example command and a note."""

    tasks: tuple[str, ...]
    command: str
    note: str = ""

    def lines(self, protocols: Protocols = lambda _task: ()) -> list[str]:
        """Format tasks, protocols, note and command as lines of text.

        >>> UsableTask(("tss",), "tiepoint run dis --task tss --data D").lines(lambda _: ["exact", "kit"])
        ['tss (exact, kit)', '  tiepoint run dis --task tss --data D']
        """
        named = [f"{task} ({', '.join(p)})" if (p := protocols(task)) else task for task in self.tasks]
        heads = [", ".join(named)] if not any(protocols(task) for task in self.tasks) else named
        return [*heads, *([f"  {self.note}"] if self.note else []), f"  {self.command}"]


def _run(method: str, tasks: Sequence[str], root: Path, more: str = "") -> str:
    return f"tiepoint run {method} --task {tasks[0]} --data {shlex.quote(str(root))}{more}"


def patch_uses(root: Path, data: HPatchesDataset) -> list[UsableTask]:
    """Return the tasks that can run on a patch dataset, each with an example command.

    A task can run if all sequences have the images that it needs. The note names the complete splits.
    """
    method = "sift" if data.has_patches else "files:DESCRIPTORS"
    everywhere = set.intersection(*(set(data.images(s)) for s in data.sequences))
    levels = [z for z, c in NOISES.items() if {f"{c}{k}" for k in range(1, LEVEL_IMAGES + 1)} <= everywhere]
    if not data.has_patches:
        levels = list(NOISES)
    found = []
    if len(levels) == len(NOISES):
        splits = known_splits(data)
        complete = [n for n, s in splits.items() if n != WHOLE and not split_problems(data, s)]
        tasks = ("hpatches/matching", "hpatches/verification", "hpatches/retrieval")
        note = f"splits {', '.join(complete)}" if complete else "no published split is complete"
        split = "a" if "a" in complete else (complete or [WHOLE])[0]
        found.append(UsableTask(tasks, _run(method, tasks, root, f" --split {split}"), note))
    if {"easy", "hard"} <= set(levels):
        old = ("hpatches-v1/matching", "hpatches-v1/classification", "hpatches-v1/retrieval")
        note = "after: tiepoint data tasks --suite hpatches-v1 --data … --out TASKS"
        found.append(UsableTask(old, _run(method, old, root, " --tasks TASKS"), note))
    return found


def sequence_uses(root: Path) -> list[UsableTask]:
    """Return the tasks that can run on image sequences with homographies."""
    names = ("ranking", "verification", "matching", "retrieval", "images", "geometry")
    keypoints = tuple(f"keypoints/{name}" for name in names)
    return [
        UsableTask(keypoints, _run("sift", keypoints, root)),
        UsableTask(("dense/flow",), _run("dis", ["dense/flow"], root)),
        UsableTask(("custom patches",), f"tiepoint data cut --data {shlex.quote(str(root))} --out PATCHES"),
    ]


def flow_uses(root: Path, *, images: bool = True) -> list[UsableTask]:
    """Return the tasks that can run on pairs with dense flow.

    Without images, tasks can only score existing results.
    """
    if not images:
        command = f"tiepoint score tss --results RESULTS --data {shlex.quote(str(root))}"
        return [UsableTask(("tss",), command, "images are missing: flows come from files")]
    return [
        UsableTask(("tss",), _run("dis", ["tss"], root)),
        UsableTask(("dense/flow",), _run("dis", ["dense/flow"], root)),
    ]


def pair_uses(root: Path, truths: Sequence[PairTruth]) -> list[UsableTask]:
    """Return the tasks that can run on image pairs.

    A task can run if all pairs have the ground truth that it needs.
    """
    if not truths:
        return []
    have_images = all(truth.pair.has_images() for truth in truths)
    matcher, dense = (_MATCHER, "dense-sift") if have_images else ("files:MATCHES", "files:POINTS")
    note = "" if have_images else "images are missing: matches come from files"
    found = []
    if all(t.T_0to1 is not None and t.K0 is not None and t.K1 is not None for t in truths):
        found.append(UsableTask(("pose/relative",), _run(matcher, ["pose/relative"], root), note))
    dataset = truths[0].pair.dataset
    usable = not plane_problems(truths)
    planes = ("mmim/homography",) if dataset == "mmim" and usable else ()
    own = ("homography/pairs",) if usable else ()
    for keys, method, tasks in (
        ({"corrs"}, matcher, ("wxbs/fundamental", "wxbs/points")),
        ({"H"}, matcher, (*planes, "evd/homography")),
        ({"H", "landmarks"}, matcher, own),
        ({"points0"}, dense, ("satast/points" if dataset == "satast" else "semantic/pck",)),
    ):
        if tasks and all(keys & truth.annotations.keys() for truth in truths):
            found.append(UsableTask(tasks, _run(method, tasks, root), note))
    if have_images and dataset == "pf-willow" and any(root.glob("*/*.mat")):
        found.append(UsableTask(("dense/pck",), _run(dense, ["dense/pck"], root, " -o scale=keypoints")))
    return found
