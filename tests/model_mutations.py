"""Byte flips and cuts in COLMAP models: what a reader may make of them, and how many of each there were."""

from __future__ import annotations

import shutil
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np

from sfm_models import MODELS
from tiepoint.core.errors import InputError
from tiepoint.datasets.reconstructions.layouts import read_models
from tiepoint.datasets.reconstructions.poses import Poses
from tiepoint.datasets.reconstructions.scenes import EstimatedScene, TrueScene
from tiepoint.tasks.sfm.compare import scene_records

SECONDS = 2.0
EXTRA_BYTES = 4 << 20
"""Memory that reading may take besides a hundred times the size of the model."""
_MEASURED = 20


class Mutations:
    """A model of one form in a folder, of which one file after the other is changed and put back."""

    def __init__(self, form: str, folder: Path) -> None:
        self.form, self.folder = form, folder
        shutil.copytree(MODELS / form, folder)
        folder.chmod(0o755)
        self.files = {p: p.read_bytes() for p in sorted(folder.iterdir())}
        for path in self.files:
            path.chmod(0o644)
        (self.plain,) = read_models(folder)
        zeros = np.zeros(len(self.plain), np.int64)
        self.true = TrueScene("scene", self.plain, zeros)
        self.size = sum(map(len, self.files.values()))

    def run(self, count: int, seed: int = 0) -> Counter[str]:
        """Try a number of flips and as many cuts. Return how often which outcome came."""
        rng = Random(f"{self.form} {seed}")
        found: Counter[str] = Counter()
        for case in range(2 * count):
            path = rng.choices(list(self.files), [len(d) for d in self.files.values()])[0]
            data = bytearray(self.files[path])
            at = rng.randrange(len(data))
            if case % 2:
                del data[at:]
            else:
                data[at] ^= 1 << rng.randrange(8)
            path.write_bytes(bytes(data))
            try:
                found[self._outcome(f"{path.name} {'cut' if case % 2 else 'flip'} {at}", case)] += 1
            finally:
                path.write_bytes(self.files[path])
        return found

    def _outcome(self, what: str, case: int) -> str:
        started = time.process_time()
        measured = case % _MEASURED == 0
        if measured:
            tracemalloc.start()
        try:
            (found,) = read_models(self.folder)
        except InputError:
            return "refused"
        finally:
            if measured:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                assert peak < EXTRA_BYTES + 100 * self.size, f"{what}: {peak} bytes"
            assert time.process_time() - started < SECONDS, what
        words = scene_records(self.true, EstimatedScene((found,))).meta["warnings"]
        self._check(found, words, what, flip="flip" in what)
        return "warned" if words else "read"

    def _check(self, found: Poses, words: list[str], what: str, *, flip: bool) -> None:
        length = np.linalg.norm(found.q, axis=1)
        assert np.all(np.isnan(length) | (abs(length - 1) < 1e-12)), what
        assert (np.isnan(found.q).any(axis=1) == np.isnan(found.t).any(axis=1)).all(), what
        if not words:
            assert found.names == self.plain.names, what
        if len(found) == len(self.plain):
            changed = (found.q != self.plain.q).any(axis=1) | (found.t != self.plain.t).any(axis=1)
            # With rigs the pose of a frame belongs to its images, here two.
            assert changed.sum() <= (1 if "legacy" in self.form else 2) or not flip, what
            if "legacy" not in self.form:
                finite = np.isfinite(found.t).all(axis=1)
                assert np.abs(found.t[finite] - self.plain.t[finite]).max() < 1e-5, what
