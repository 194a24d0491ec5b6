# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the 2017 verification task, computed from its records under given scoring rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....core.scores import PooledBins, Score, group_name
from ....datasets.hpatches.layout import NOISES
from ....kernels import get_threads
from ....metrics.ranking.chance import chance_average_precision
from ....metrics.ranking.curves import precision_recall_curve, roc_curve
from ....metrics.ranking.from_counts import (
    average_precision_from_counts,
    fpr_at_recall_from_counts,
    roc_auc_from_counts,
)
from ....metrics.ranking.roc import needed_positives
from ....metrics.ranking.sorting import count_nearer, sort_ascending
from ...cases import Cases, Floats, QueryCase, side_shares
from ...pooled_bins import distance_cells, fast_bins
from ..data import replay_pair
from ..protocols import HPatchesRules, floored_area, is_imported, scored_as_imported, without_numbers
from .compare import PairPlan

METRICS = ("auc", "ap", "fpr95")
NEGATIVES = ("inter", "intra")
SHARE = 5
"""The imbalanced list contains the first 1/`SHARE` of the positives in file order, and all negatives."""


LISTS = {"pos": "same patch", "intra": "other patch of the sequence", "inter": "patch of another sequence"}


@dataclass(frozen=True)
class RankedPairs:
    """Sorted distances of one pair list: all positives, the first fifth of the positives, and negatives."""

    positives: Floats
    fifth: Floats
    negatives: Floats


def as_ranked(records: Records, rules: HPatchesRules) -> Floats:
    """Convert the recorded distances to those that the rules rank.

    For l2, the rules rank by the sum of squares or by its root; this affects ties. Values, differences (l2)
    and sums (l1) may be in single precision. A failure ranks last (infinite) or first.
    """
    kept = np.asarray(records["distance"], np.float64)
    failed = np.isinf(kept)
    if records.meta["squared"] and rules.rooted:
        kept = np.sqrt(kept)
    if rules.single_precision and not (rules.double_stays and records.meta.get("double")):
        with np.errstate(over="ignore"):
            single = kept.astype(np.float32)
        rounded = rules.single_differences and rules.rooted if records.meta["squared"] else rules.single_sums
        if rounded and "steps" in records.columns:
            single = (single.view(np.int32) + records["steps"]).view(np.float32)
        kept = single.astype(np.float64)
    if rules.nan_first and failed.any():
        kept = np.where(failed, -np.inf, kept)
    return kept


def verification_stop_reason(records: Sequence[Records], rules: HPatchesRules) -> str | None:
    """Return why the original tool computes no score from these records. None if it does.

    The tool rejects NaN and infinity under l2.
    """
    if not rules.stops_at_failures or not records[0].meta["squared"]:
        return None
    pairs = sum(int(np.isinf(r["distance"]).sum()) for r in records)
    if not pairs:
        return None
    return f"the Python tool stops at a descriptor with NaN or infinity, and {pairs} pairs have one"


def list_slices(records: Records) -> dict[str, slice]:
    """Return the slices of the lists pos, intra and inter in the record columns."""
    rows = records.meta["rows"]
    edges = np.cumsum([0, rows["pos"], rows["intra"], rows["inter"]]).tolist()
    return {name: slice(edges[i], edges[i + 1]) for i, name in enumerate(("pos", "intra", "inter"))}


@dataclass(frozen=True)
class NoiseLists:
    """Sorted pair lists of one noise level, by kind of negatives. `distances` are in file order."""

    records: Records
    lists: dict[str, RankedPairs]
    distances: Floats

    @property
    def noise(self) -> str:
        """Name of the noise level."""
        return str(self.records.meta["noise"])


def pair_lists(records: Sequence[Records], rules: HPatchesRules) -> list[NoiseLists]:
    """Return the pair lists of each noise level, sorted by ascending distance in parallel threads."""
    with ThreadPoolExecutor(get_threads()) as pool:
        ranked = list(pool.map(lambda r: as_ranked(r, rules), records))
        pieces = [piece for r, d in zip(records, ranked, strict=True) for piece in _pieces(r, d)]
        done = list(pool.map(sort_ascending, pieces))
    found = []
    for i, (r, d) in enumerate(zip(records, ranked, strict=True)):
        inter, intra, pos, fifth = done[4 * i : 4 * i + 4]
        lists = {"inter": RankedPairs(pos, fifth, inter), "intra": RankedPairs(pos, fifth, intra)}
        found.append(NoiseLists(r, lists, d))
    return found


def _pieces(records: Records, distances: Floats) -> list[Floats]:
    at = list_slices(records)
    few = max(1, records.meta["rows"]["pos"] // SHARE)
    pos = distances[at["pos"]]
    return [distances[at["inter"]], distances[at["intra"]], pos, pos[:few]]


def tie_rule(rules: HPatchesRules) -> str:
    """Return the tie rule by which the metrics rank equal distances."""
    if rules.negatives_first:
        return "pessimistic"
    return "optimistic" if rules.positives_first else "expected"


def values(pairs: RankedPairs, rules: HPatchesRules) -> dict[str, float]:
    """Compute AUC and FPR95 of the balanced list, and AP of the imbalanced list."""
    ties = tie_rule(rules)
    negatives = len(pairs.negatives)
    lt, eq = count_nearer(pairs.positives, pairs.negatives)
    found = pairs.positives < np.inf
    reachable = int(np.searchsorted(pairs.negatives, np.inf)) if rules.roc_stops else negatives
    auc = roc_auc_from_counts(lt, eq, reachable, retrieved=found, ties=ties)[0] if reachable else 0.0
    few_lt, few_eq = count_nearer(pairs.fifth, pairs.negatives)
    flavour = "trapezoid" if rules.trapezoid else "trec"
    retrieved = pairs.fifth < np.inf
    ap = average_precision_from_counts(few_lt, few_eq, retrieved=retrieved, ties=ties, flavour=flavour)
    if rules.precision_floor and retrieved.any():
        ap += floored_area(few_lt[0] + few_eq[0] * rules.negatives_first, len(retrieved))
    return {
        "auc": float(auc) * reachable / negatives,
        "ap": float(ap[0]),
        "fpr95": fpr_at_recall_from_counts(lt, eq, negatives, retrieved=found, ties=ties),
    }


def chances(pairs: RankedPairs, rules: HPatchesRules) -> dict[str, float]:
    """Return the chance level of each metric: its value for a random order."""
    p, k, n = len(pairs.positives), len(pairs.fifth), len(pairs.negatives)
    flavour = "trapezoid" if rules.trapezoid else "trec"
    return {
        "auc": 0.5,
        "ap": chance_average_precision(n + k, k, flavour=flavour),
        "fpr95": needed_positives(p, 0.95) / (p + 1.0),
    }


def score(
    records: Sequence[Records], rules: HPatchesRules, protocol: str, *, bins: bool = True
) -> list[Score]:
    """Return every metric by negatives and noise, and the mean over these combinations."""
    found: dict[str, list[Score]] = {m: [] for m in METRICS}
    every = [(level, name) for level in pair_lists(records, rules) for name in NEGATIVES]
    with ThreadPoolExecutor(get_threads()) as pool:
        value = list(pool.map(lambda at: values(at[0].lists[at[1]], rules), every))
        pooled = list(pool.map(lambda at: _bins(*at), every)) if bins else [{}] * len(every)
    for (level, negatives), own, counts in zip(every, value, pooled, strict=True):
        pairs = level.lists[negatives]
        chance = chances(pairs, rules)
        group = group_name(negatives=negatives, noise=level.noise)
        for metric in METRICS:
            n = len(pairs.fifth if metric == "ap" else pairs.positives) + len(pairs.negatives)
            kept = counts.get(metric)
            found[metric].append(
                Score(metric, group, own[metric], n, protocol, pooled=kept, chance=chance[metric])
            )
    every_score = [s for cells_ in found.values() for s in (*cells_, mean_of(cells_))]
    return without_numbers(every_score, verification_stop_reason(records, rules))


def _bins(level: NoiseLists, negatives: str) -> dict[str, PooledBins]:
    r, at = level.records, list_slices(level.records)
    pos, neg = at["pos"], at[negatives]
    return fast_bins(
        distance_cells(level.distances[pos]),
        distance_cells(level.distances[neg]),
        r["scene_a"][pos],
        r["scene_a"][neg],
        r["scene_b"][neg],
        max(1, r.meta["rows"]["pos"] // SHARE),
        r.meta["scenes"],
        r.meta["kinds"],
    )


def mean_of(cells: Sequence[Score]) -> Score:
    """Compute the mean of scores over noise levels and kinds of negatives.

    Its confidence interval resamples scenes jointly.
    """
    first = cells[0]
    pooled = [s.pooled for s in cells if s.pooled is not None]
    together = None
    if len(pooled) == len(cells) and len({p.scenes for p in pooled}) == 1:
        together = replace(pooled[0], also=tuple(pooled[1:]))
    chance = [s.chance for s in cells if s.chance is not None]
    return Score(
        first.metric,
        "all",
        float(np.mean([s.value for s in cells])),
        sum(s.n for s in cells),
        first.protocol,
        pooled=together,
        chance=float(np.mean(chance)) if len(chance) == len(cells) else None,
    )


def curves(records: Sequence[Records], rules: HPatchesRules) -> Iterator[tuple[str, str, Any, Any]]:
    """Compute ROC (balanced) and precision-recall (imbalanced) points: (group, curve, x, y)."""
    flavour = "trapezoid" if rules.trapezoid else "trec"
    for level in pair_lists(records, rules):
        for negatives, pairs in level.lists.items():
            group = group_name(negatives=negatives, noise=level.noise)
            roc = roc_curve(*_together(pairs.positives, pairs.negatives), ties=tie_rule(rules))
            yield group, "roc", roc.x, roc.y
            both = _together(pairs.fifth, pairs.negatives)
            pr = precision_recall_curve(*both, ties=tie_rule(rules), flavour=flavour)
            yield group, "pr", pr.x, pr.y


def _together(positives: Floats, negatives: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    labels = np.zeros(len(positives) + len(negatives), bool)
    labels[: len(positives)] = True
    return np.concatenate([positives, negatives]), labels


def score_imported(records: Sequence[Records], protocol: str) -> list[Score] | None:
    """Compute the scores of imported verification results. None if the records contain distances instead.

    Imported records have one row per combination of noise and negatives, with `noise` and `negatives`
    (indices into the meta) and each metric of the files. There are no scenes and therefore no intervals.
    `pairs` of the meta is the number of pairs, if known.
    """
    if not scored_as_imported(records, protocol):
        return None
    found = []
    pairs = dict(records[0].meta.get("pairs", {}))
    for metric in ("auc", "ap", "fpr95"):
        values = []
        for r in records:
            if metric not in r.columns:
                continue
            for z, k, value in zip(r["noise"], r["negatives"], r[metric], strict=True):
                group = group_name(negatives=r.meta["negatives"][k], noise=r.meta["noises"][z])
                values.append(float(value))
                found.append(Score(metric, group, float(value), pairs.get(metric, 0), protocol))
        if values:
            n = len(values) * pairs.get(metric, 0)
            found.append(Score(metric, "all", float(np.mean(values)), n, protocol))
    return found


def cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Return the pairs whose first patch belongs to a sequence, by noise, in list order.

    The score of a positive pair is the share of negative pairs with a larger distance, averaged over both
    lists of negatives. The score of a negative pair is the share of positive pairs with a smaller distance.
    Ties count half.
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


def replay(plan: Callable[[], PairPlan], scene: str, key: str, features: Features | None) -> QueryCase | None:
    """Recompute a pair of patches as a query (first patch) with one candidate (second patch)."""
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
    return replay_pair(items, rows, pictures, row < made.rows["pos"], features)
