# SPDX-License-Identifier: BSD-3-Clause
"""Result files of 2016 from the records of a run: lists of distances with labels, lists of neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.formatting import path_below
from ...core.records import Features, Records
from ...formats.hpatches_v1.classification import LabelledPairs, write_classification_results
from ...formats.hpatches_v1.matching import NeighbourList, write_matching_results
from .data import WRITTEN, GetArrays
from .matching.matching_compare import listed_neighbours
from .protocols import PROTOCOLS, as_distance, hpatches_v1_rules, printed_classification, printed_matching


def printed_distances(records: Records) -> NDArray[np.float64]:
    """Distances of a classification benchmark as the 2016 tool would print them."""
    return printed_classification(records, records["distance"], hpatches_v1_rules(PROTOCOLS[1]))


def write_lists(folder: Path, made: Iterable[tuple[LabelledPairs, Records]]) -> Iterator[Path]:
    """Write ``LIST.results``, distance and label a line, of every `.pairs` list.

    A list that several benchmarks share is written once.
    """
    written: set[str] = set()
    for pairs, records in made:
        distances = printed_distances(records)
        for name, rows in pairs.slices().items():
            if name not in written:
                written.add(name)
                path = path_below(folder, name, what="the list", ending=".results")
                write_classification_results(path, distances[rows], pairs.labels[rows])
                yield path


def write_neighbours(path: Path, records: Records, arrays: GetArrays | None, wanted: int | str) -> None:
    """Write the first neighbours of every reference patch, as many as `wanted` or as there are.

    More than two are not in the records and are looked for again, in the features that `arrays` gives.
    """
    if wanted != "all" and int(wanted) <= WRITTEN:
        write_matching_results(path, _recorded(records, int(wanted)))
        return
    if arrays is None:
        raise InputError("writing more than two neighbours needs the features of the run")
    write_matching_results(path, _found_again(records, arrays, None if wanted == "all" else int(wanted)))


def _recorded(records: Records, wanted: int) -> Iterator[NeighbourList]:
    """The first one or two neighbours, from the records."""
    rules = hpatches_v1_rules("hbench-2016")
    d1, d2 = (printed_matching(records, records[c], rules) for c in ("d1", "d2"))
    bounds = np.searchsorted(records["pair"], np.arange(len(records.meta["pairs"]) + 1))
    for i, (a, b) in enumerate(records.meta["pairs"]):
        own = slice(bounds[i], bounds[i + 1])
        index = np.stack([records["index"][own], records["index2"][own]]).astype(np.int64)
        k = min(wanted, int(bounds[i + 1] - bounds[i]))
        yield NeighbourList(a, b, index[:k], np.stack([d1[own], d2[own]])[:k])


def _found_again(records: Records, arrays: GetArrays, wanted: int | None) -> Iterator[NeighbourList]:
    """As many neighbours as wanted or as there are, from the features; writing rounds them to six digits."""
    rules = hpatches_v1_rules("hbench-2016")
    features = Features(arrays, str(records.meta["distance"]))
    for a, b in records.meta["pairs"]:
        index, distance = listed_neighbours(features, a, b, wanted)
        yield NeighbourList(a, b, index, as_distance(records, distance, rules))
