# SPDX-License-Identifier: BSD-3-Clause
"""Create the definition files of the 2016 tasks for any patch dataset.

The sequences form the sets `train` and `test` if the dataset has a ``test_set.txt``, else the set `all`. For
each set and noise level (easy, hard), the module writes classification and matching benchmarks and retrieval
files ``SET_NOISE_Ss_SEED``, each with labels. Random samples come from PCG64, seeded by a hash of the given
seed, the numbers of patches and the file name. Retrieval pools of equal size have successive seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, ProblemsError
from ...core.formatting import count_text
from ...core.hashing import hash_json, seeded_generator
from ...formats.file_io import read_lines
from ...formats.hpatches_v1 import definitions as benchmarks
from ...formats.hpatches_v1.classification import PatchPairs, write_classification_labels, write_patch_pairs
from ...formats.hpatches_v1.matching import matching_truth, write_matching_labels
from ...formats.hpatches_v1.retrieval import retrieval_truth, write_retrieval_labels
from .dataset import HPatchesDataset
from .layout import NOISES
from .sampling_2016 import PatchSpace, draw_pairs, draw_retrieval

V1_NOISES = ("easy", "hard")
MATCHING_NAMES = {"i": "illum", "v": "viewpoint", "other": "other"}


@dataclass(frozen=True)
class V1Sizes:
    """Upper limits of the list sizes. The defaults are the published sizes.

    For a smaller dataset, the lists have three positive pairs per location, five negatives per positive pair,
    and a hundred queries per sequence. These are about the published proportions.
    """

    positives: int = 200_000
    negatives: int = 1_000_000
    pools: tuple[tuple[int, int], ...] = ((5, 15), (40, 40))
    """(pool size in sequences, n): one pool for every n sequences of the set, and at least one pool."""
    queries_per_sequence: int = 100
    min_deviation: float = 10.0


@dataclass
class V1Report:
    """Report of the written files: number of rows of each file, and notes."""

    rows: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def write_v1_tasks(
    data: HPatchesDataset,
    out: str | Path,
    *,
    seed: int = 0,
    sizes: V1Sizes | None = None,
    label_column: bool = False,
) -> V1Report:
    """Write the 2016 task files to ``OUT/classification``, ``OUT/matching`` and ``OUT/retrieval``.

    Args:
        data: A dataset with a reference and easy (or hard) images.
        out: Target folder.
        seed: Random seed.
        sizes: Limits of the list sizes.
        label_column: Whether `.pairs` files have the label as a third column, as in the document of 2016.

    Returns:
        The number of rows of each file, and notes on files that are skipped or smaller than published.
    """
    noises = [n for n in V1_NOISES if n in data.noises]
    if not noises:
        raise InputError(
            f"{data.root}: no easy or hard images (e1, … or h1, …); the 2016 tasks need one of these "
            "noise levels"
        )
    if problems := data.missing(data.sequences, ("ref",)):
        raise ProblemsError(f"dataset {data.root}", problems)
    report, root, limits = V1Report(), Path(out), sizes or V1Sizes()
    usable = _usable(data, limits.min_deviation, report)
    for name, sequences in _sets(data).items():
        writer = _SetWriter(data, sequences, name, noises, root, seed, limits, report, label_column)
        writer.classification()
        writer.matching()
        writer.retrieval(usable)
    return report


def _sets(data: HPatchesDataset) -> dict[str, tuple[str, ...]]:
    file = data.root / "test_set.txt" if data.root is not None and data.root.is_dir() else None
    if file is None or not file.is_file():
        return {"all": data.sequences}
    test = [Path(line).name for line in read_lines(file) if line]
    problems = data.missing(test)
    if problems:
        raise ProblemsError(f"{file}", problems)
    sets = {
        "train": tuple(s for s in data.sequences if s not in test),
        "test": tuple(s for s in data.sequences if s in test),
    }
    return {name: sequences for name, sequences in sets.items() if sequences}


def _usable(data: HPatchesDataset, deviation: float, report: V1Report) -> dict[str, NDArray[np.int64]]:
    """Return the numbers of reference patches with enough contrast for a query, by sequence."""
    if not data.has_patches:
        report.notes.append(
            "the dataset has no pixels, so queries were not filtered by contrast; use a dataset with "
            "strips to filter"
        )
        return {s: np.arange(data.count(s)) for s in data.sequences}
    return {s: high_contrast_indices(data.patches(s, "ref"), deviation) for s in data.sequences}


def high_contrast_indices(patches: NDArray[np.uint8], deviation: float) -> NDArray[np.int64]:
    """Return the numbers of patches whose standard deviation exceeds `deviation` grey levels."""
    flat = patches.reshape(len(patches), -1)
    spread = np.concatenate([part.std(axis=1) for part in np.array_split(flat, max(1, len(flat) // 256))])
    return np.flatnonzero(spread > deviation)


@dataclass
class _SetWriter:
    """Writer of the task files for one set of sequences."""

    data: HPatchesDataset
    sequences: tuple[str, ...]
    name: str
    noises: Sequence[str]
    root: Path
    seed: int
    sizes: V1Sizes
    report: V1Report
    label_column: bool

    def _rng(self, file: str, seed: int | None = None) -> np.random.Generator:
        lengths = hash_json({s: self.data.count(s) for s in self.sequences})
        return seeded_generator(self.seed if seed is None else seed, "hpatches-v1", lengths, file)

    def _images(self, noise: str) -> list[str]:
        images = self.data.images(self.sequences[0])
        return ["ref", *(m for m in images if m[0] == NOISES[noise] and m != "ref")]

    def classification(self) -> None:
        """Write lists of positive and negative pairs, and the benchmark files that combine them."""
        folder = self.root / "classification"
        images = {noise: self._images(noise) for noise in self.noises}
        lengths = np.array([self.data.count(s) for s in self.sequences])
        space = PatchSpace(self.sequences, lengths, min(len(m) for m in images.values()))
        n_pos = min(self.sizes.positives, 3 * int(lengths.sum()), max(1, space.available("pos") // 2))
        # As published, all noise levels have the same patch pairs and differ only in the images.
        pairs = draw_pairs(space, "pos", n_pos, images[self.noises[0]], self._rng(f"{self.name}_pos"))
        for noise in self.noises:
            table = tuple(f"{s}.{m}" for s in self.sequences for m in images[noise][: space.n_images])
            file = f"{self.name}_{noise}_pos.pairs"
            self._write_pairs(folder / file, replace(pairs, images=table), positive=True)
            self.report.rows[f"classification/{file}"] = n_pos
        for kind in ("diffseq", "sameseq"):
            n_neg = min(self.sizes.negatives, 5 * n_pos, space.available(kind) // 2)
            if n_neg == 0:
                reason = "because the set has too few sequences or patches"
                self.report.notes.append(f"{self.name}: no {kind} negatives were sampled {reason}")
                continue
            file = f"{self.name}_{kind}_neg"
            pairs = draw_pairs(space, kind, n_neg, images[self.noises[0]], self._rng(file))
            self._write_pairs(folder / f"{file}.pairs", pairs, positive=False)
            self.report.rows[f"classification/{file}.pairs"] = n_neg
            for noise in self.noises:
                path = folder / f"{self.name}_{kind}_{noise}.benchmark"
                benchmarks.write_classification(path, f"{self.name}_{noise}_pos.pairs", f"{file}.pairs")
                truth = np.repeat([True, False], [n_pos, n_neg])
                write_classification_labels(path.with_suffix(".labels"), truth)
                self.report.rows[f"classification/{path.name}"] = n_pos + n_neg
        if n_pos < self.sizes.positives:
            count = count_text(n_pos, "positive pair")
            self.report.notes.append(
                f"{self.name} has {count}, fewer than published, because the dataset is small"
            )

    def _write_pairs(self, path: Path, pairs: PatchPairs, *, positive: bool) -> None:
        labels = np.full(len(pairs), positive) if self.label_column else None
        write_patch_pairs(path, replace(pairs, labels=labels))

    def matching(self) -> None:
        """Write one matching benchmark per noise level and kind of sequence.

        A benchmark pairs the reference image of each sequence with every other image.
        """
        for noise in self.noises:
            for kind, word in MATCHING_NAMES.items():
                sequences = [s for s in self.sequences if self.data.kind(s) == kind]
                if not sequences:
                    continue
                targets = self._images(noise)[1:]
                pairs = tuple((f"{s}.ref", f"{s}.{m}") for s in sequences for m in targets)
                path = self.root / "matching" / f"{self.name}_{noise}_{word}.benchmark"
                benchmarks.write_matching(path, pairs)
                benchmark = benchmarks.MatchingBenchmark(path.stem, pairs)
                truth = matching_truth(benchmark, self.data.counts)
                write_matching_labels(path.with_suffix(".labels"), benchmark, truth)
                self.report.rows[f"matching/{path.name}"] = len(pairs)

    def retrieval(self, usable: Mapping[str, NDArray[np.int64]]) -> None:
        """Write retrieval benchmarks: queries and random pools of several sizes."""
        sizes: dict[int, int] = {}
        for size, per_pool in self.sizes.pools:
            n_sequences = min(size, len(self.sequences))
            sizes.setdefault(n_sequences, max(1, round(len(self.sequences) / per_pool)))
        if len(self.sequences) in sizes:
            sizes[len(self.sequences)] = 1
        candidates = {s: usable[s] for s in self.sequences}
        for noise in self.noises:
            for n_sequences, draws in sizes.items():
                for seed in range(self.seed, self.seed + draws):
                    stem = f"{self.name}_{noise}_{n_sequences}s"
                    file = f"{stem}_{seed}"
                    n_queries = self.sizes.queries_per_sequence * n_sequences
                    images, rng = self._images(noise), self._rng(stem, seed)
                    pool, queries = draw_retrieval(
                        self.sequences, candidates, images, n_sequences, n_queries, rng
                    )
                    if not len(queries):
                        reason = "no patch has enough contrast for a query"
                        self.report.notes.append(f"{file} is skipped because {reason}")
                        continue
                    benchmark = benchmarks.RetrievalBenchmark(file, pool, queries)
                    path = self.root / "retrieval" / f"{file}.benchmark"
                    benchmarks.write_retrieval(path, benchmark)
                    truth = retrieval_truth(benchmark)
                    write_retrieval_labels(path.with_suffix(".labels"), benchmark, truth)
                    self.report.rows[f"retrieval/{path.name}"] = len(queries)
