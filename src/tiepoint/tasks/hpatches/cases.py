# SPDX-License-Identifier: BSD-3-Clause
"""Cases of the 2017 tasks: patches and pairs of patches, from records; and one of them made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Features, Records
from ...datasets.hpatches.layout import NOISES
from ...kernels import pair_distances, value_table
from ...metrics.ranking.average_precision import average_precision
from ..cases import Candidate, Cases, Floats, QueryCase, nearest_candidates, ratio_of, side_shares
from .data import DatasetSplit, descriptor_rows
from .imported import is_imported
from .matching.score import neighbour_distances_and_validity
from .protocols import HPatchesRules
from .retrieval.score import query_values
from .verification.compare import PairPlan
from .verification.score import list_slices

FAILED = "the descriptor of the query failed"
LISTS = {"pos": "same patch", "intra": "other patch of the sequence", "inter": "patch of another sequence"}


def matching_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Reference patches in every image, image after image; how probably the nearest one is right."""
    own = [r for r in records if not is_imported([r]) and scene in r.meta["scenes"]]
    if not own:
        return None
    (r,) = own
    images, n = r.meta["images"], int(r.meta["patches"])
    _, _, valid = neighbour_distances_and_validity(r, HPatchesRules())
    sure = ratio_of(r["d1"], r["d2"], squared=r.meta["squared"])

    def words(key: str) -> str:
        image, patch = divmod(int(key), n)
        return f"patch {patch} in {images[image]}"

    return Cases(np.arange(valid.size), valid.ravel(), sure, words)


def matching_answer(
    setting: DatasetSplit, scene: str, key: str, features: Features | None
) -> QueryCase | None:
    """A reference patch among the patches of another image of its sequence."""
    image, patch = divmod(int(key), setting.data.count(scene))
    there, query = f"{scene}/{setting.images[image]}", f"{scene}/ref#{patch}"
    if features is None:
        return QueryCase(query, (), (_unknown(f"{there}#{patch}"),))
    values = distances_to(features, f"{scene}/ref", patch, [(there, None)])
    chosen, right = nearest_candidates(
        values, [patch], f"{there}#{{}}".format, squared=features.distance == "l2"
    )
    return QueryCase(query, chosen, right, first_share(values, [patch]), _note(values))


def retrieval_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Queries of a sequence at each noise level; average precision among all distractors."""
    if not records or is_imported(records):
        return None
    (r,) = records
    if scene not in r.meta["scenes"]:
        return None
    noises = r.meta["noises"]
    rows = np.flatnonzero(r["scene"] == r.meta["scenes"].index(scene))
    own = Records(r.kind, {name: column[rows] for name, column in r.columns.items()}, r.meta)
    last = len(r.meta["pools"]) - 1
    score = np.stack([query_values(own, z, last, HPatchesRules()) for z in range(len(noises))], axis=1)
    keys = rows[:, None] * len(noises) + np.arange(len(noises))
    patches = np.asarray(r["index"])

    def words(key: str) -> str:
        query, noise = divmod(int(key), len(noises))
        return f"patch {patches[query]}, {noises[noise]}"

    return Cases(keys.ravel(), score.ravel(), None, words)


def retrieval_answer(
    setting: DatasetSplit, lists: Any, every: bool, scene: str, key: str, features: Features | None
) -> QueryCase | None:
    """A query among its views at a noise level and the distractors of other sequences."""
    number, noise = divmod(int(key), len(setting.noises))
    queries, distractors = lists()
    patch = int(queries.index[number])
    query, level = f"{scene}/ref#{patch}", setting.images[noise * setting.levels :][: setting.levels]
    right = [f"{scene}/{image}#{patch}" for image in level]
    if features is None:
        return QueryCase(query, (), tuple(_unknown(p) for p in right))
    one = np.array([patch])
    places: list[tuple[str, NDArray[Any] | None]] = [(f"{scene}/{image}", one) for image in level]
    others = [s for s in setting.split.test if s != scene]
    if every:
        places += [(f"{s}/{m}", None) for s in others for m in ("ref", *setting.images)]
    else:
        number_of = {s: i for i, s in enumerate(distractors.sequences)}
        listed = {s: distractors.index[distractors.seq == number_of[s]] for s in others if s in number_of}
        places += [(f"{s}/ref", index) for s, index in listed.items() if len(index)]
    values = distances_to(features, f"{scene}/ref", patch, places)
    sizes = [setting.data.count(key.split("/")[0]) if rows is None else len(rows) for key, rows in places]
    ends = np.cumsum(sizes)

    def picture(row: int) -> str:
        part = int(np.searchsorted(ends, row, side="right"))
        item, rows = places[part]
        at = row - int(ends[part] - sizes[part])
        return f"{item}#{at if rows is None else int(rows[at])}"

    rows = list(range(len(level)))
    chosen, found = nearest_candidates(
        values, rows, picture, squared=features.distance == "l2", most=len(level)
    )
    labels = np.arange(len(values)) < len(level)
    return QueryCase(query, chosen, found, average_precision(values, labels), _note(values))


def verification_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Pairs of patches whose first one is of the sequence, noise after noise in the order of the lists.

    The score of a pair of the same patch is the share of different pairs that are farther, the mean over both
    lists of them; that of a different pair the share of same pairs that are nearer. Half of a tie counts.
    """
    if not records or is_imported(records) or scene not in records[0].meta["scenes"]:
        return None
    keys: list[NDArray[np.int64]] = []
    scores: list[Floats] = []
    names, edges, total = list(NOISES), list(list_slices(records[0]).items()), len(records[0])
    for r in records:
        own = np.flatnonzero(r["scene_a"] == r.meta["scenes"].index(scene))
        lists = {name: np.sort(r["distance"][at]) for name, at in list_slices(r).items()}
        value = np.empty(len(own))
        for name, at in list_slices(r).items():
            here = (own >= at.start) & (own < at.stop)
            distance = r["distance"][own[here]]
            if name == "pos":
                both = [side_shares(distance, lists[k], nearer=True) for k in ("intra", "inter")]
                value[here] = (both[0] + both[1]) / 2
            else:
                value[here] = side_shares(distance, lists["pos"], nearer=False)
        keys.append(names.index(r.meta["noise"]) * total + own)
        scores.append(value)

    def words(key: str) -> str:
        noise, row = divmod(int(key), total)
        name, at = next((name, at) for name, at in edges if row < at.stop)
        return f"{LISTS[name]}, {names[noise]}, pair {row - at.start}"

    return Cases(np.concatenate(keys), np.concatenate(scores), None, words)


def verification_answer(
    plan: Callable[[], PairPlan], scene: str, key: str, features: Features | None
) -> QueryCase | None:
    """A pair of patches: the first is the query, the second its only candidate, right if it is the same."""
    made = plan()
    noise, row = divmod(int(key), len(made.order))
    letter = NOISES[list(NOISES)[noise]]
    at = int(np.flatnonzero(made.order == row)[0])

    def place(image: int) -> str:
        sequence, number = made.images[image]
        return f"{sequence}/{f'{letter}{number}' if number else 'ref'}"

    items = place(int(made.image_a[at])), place(int(made.image_b[at]))
    rows = int(made.row_a[at]), int(made.row_b[at])
    pictures = [f"{item}#{patch}" for item, patch in zip(items, rows, strict=True)]
    return pair_answer(items, rows, pictures, row < made.rows["pos"], features)


def pair_answer(
    items: tuple[str, str],
    rows: tuple[int, int],
    pictures: Sequence[str],
    same: bool,
    features: Features | None,
) -> QueryCase:
    """A pair of patches, with its distance where there are features and none of the two failed."""
    distance: float | None = None
    if features is not None:
        (a, good_a), (b, good_b) = (descriptor_rows(features, item) for item in items)
        if good_a[rows[0]] and good_b[rows[1]]:
            distance = float(pair_distances(a, b, rows[:1], rows[1:], distance=features.distance)[0])
    other = Candidate(pictures[1], None, distance, same)
    note = "a pair of the same patch" if same else "a pair of different patches"
    return QueryCase(pictures[0], (other,), (other,) if same else (), None, note)


def distances_to(
    features: Features, item: str, row: int, places: Sequence[tuple[str, NDArray[Any] | None]]
) -> Floats:
    """Values that decide the order (squared l2) of rows of images, one after another; None for all of one.

    Infinite where a descriptor failed.
    """
    values, valid = descriptor_rows(features, item)
    query = np.ascontiguousarray(values[row : row + 1])
    found = []
    for place, chosen in places:
        pool, usable = descriptor_rows(features, place)
        pool, usable = (pool, usable) if chosen is None else (pool[chosen], usable[chosen])
        own = np.full(len(pool), np.inf)
        if valid[row] and usable.any():
            rows = pool if usable.all() else pool[usable]
            own[usable] = value_table(query, np.ascontiguousarray(rows), distance=features.distance)[0]
        found.append(own)
    return np.concatenate(found) if found else np.empty(0)


def first_share(values: Floats, right: Sequence[int]) -> float:
    """Share of right ones among the nearest; 0 without any."""
    at = np.flatnonzero(np.isfinite(values) & (values == values.min(initial=np.inf)))
    return float(np.isin(at, list(right)).mean()) if len(at) else 0.0


def _unknown(picture: str) -> Candidate:
    return Candidate(picture, None, None, True)


def _note(values: Floats) -> str:
    return "" if np.isfinite(values).any() else FAILED
