# SPDX-License-Identifier: BSD-3-Clause
"""Score descriptors and distances in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.records import Features, Records
from ..core.scores import scene_kind
from ..methods.output_checks import check_descriptors, check_on_bad, output_array
from ..tasks.hpatches_v1.classification import task as classification
from ..tasks.hpatches_v1.data import base_meta
from ..tasks.hpatches_v1.matching import compare as neighbours
from ..tasks.hpatches_v1.matching.task import TASK as MATCHING
from ..tasks.keypoints.retrieval.task import TASK as RETRIEVAL
from .inputs import (
    check_lengths,
    check_protocol,
    distance_vector,
    label_vector,
    scene_labels,
    split_arrays,
    vector,
)
from .result import Result, score_records

RETRIEVAL_PROTOCOLS = ("exact", "bojanic")
"""Protocols of retrieval from ranked lists. `workbench` defines its own pools and cannot be applied."""
BENCHMARK = "arrays"


def matching(
    desc_a: Any,
    desc_b: Any,
    truth: Any,
    *,
    distance: str = "l2",
    on_bad: str = "error",
    scenes: Any = None,
    protocol: str = "exact",
) -> Result:
    """Score nearest-neighbour matches of descriptors, as `hpatches-v1/matching` does.

    Args:
        desc_a: Descriptors (n, d) of the first image; or a list, one array for each image pair.
        desc_b: Descriptors (m, d) of the second image; or a list.
        truth: (n,) row of `desc_b` that corresponds to each row of `desc_a`; or a list.
        distance: ``l2``, ``l1``, ``cosine``, ``hamming`` or ``masked_l1``.
        on_bad: Treatment of NaN, infinite or zero descriptors: ``error``, ``miss`` or ``keep-zeros``.
        scenes: Scene label of each image pair. Six or more scenes give an interval.
        protocol: ``exact`` or ``hbench-2016``.

    Returns:
        A `Result` with the metric `ap`. `ap_ratio`, `success_rate` and `map_query` are in ``values``.

    >>> eye = np.eye(3, dtype=np.float32)
    >>> matching(eye, eye[[2, 0, 1]], [1, 2, 0]).value
    1.0
    """
    check_protocol("matching", protocol, MATCHING.protocols)
    check_on_bad(on_bad, distance, "score.matching")
    several = any(isinstance(d, list | tuple) for d in (desc_a, desc_b))
    first, second = split_arrays(desc_a, 2), split_arrays(desc_b, 2)
    targets = split_arrays(truth, 1) if several or len(first) > 1 else [truth]
    count = check_lengths("matching", {"desc_a": first, "desc_b": second, "truth": targets}, "image pair")
    labels = scene_labels("matching", scenes, count, "image pair")
    rows, answers = [], []
    for i in range(count):
        where = "score.matching" if count == 1 else f"score.matching, pair {i}"
        both = [
            _descriptors(array, distance, on_bad, f"{where}: {name}")
            for name, array in (("desc_a", first[i]), ("desc_b", second[i]))
        ]
        if both[0][0].shape[1] != both[1][0].shape[1]:
            shapes = f"desc_a has shape {both[0][0].shape} and desc_b {both[1][0].shape}"
            raise InputError(f"{where}: {shapes}; pass descriptors with the same number of columns")
        rows.append(both)
        target = _targets(targets[i], len(both[0][0]), len(both[1][0]), where)
        answers.append(neighbours.MatchingTruth(target, None))
    names = list(dict.fromkeys(labels))
    meta = base_meta(MATCHING.name, BENCHMARK, names, Features(lambda key: {}, distance))
    meta |= {
        "pairs": [[f"a{i}", f"b{i}"] for i in range(count)],
        "pair_scenes": [names.index(s) for s in labels],
    }
    records = neighbours.compare_descriptors(rows, answers, distance, meta)
    return score_records(MATCHING, [records], protocol, by_scene=scenes is not None)


def _descriptors(value: Any, distance: str, on_bad: str, where: str) -> neighbours.Rows:
    """Return checked descriptors (n, d) and whether each is valid (n,)."""
    found = output_array(value, where, "rows differ in length; pass an array of shape (n, d)")
    rows = len(found) if found.ndim else 0
    arrays = check_descriptors(found, rows=rows, distance=distance, where=where, on_bad=on_bad, keep_nan=True)
    if not rows:
        raise InputError(f"{where}: found no descriptors; pass at least one row")
    return arrays["values"], arrays.get("valid", np.ones(rows, bool))


def _targets(value: Any, rows: int, targets: int, where: str) -> NDArray[np.int64]:
    found = vector(value, f"{where}: truth")
    if found.shape != (rows,) or found.dtype.kind not in "iu":
        raise InputError(
            f"{where}: truth is {found.dtype} {found.shape}; expected integers of shape ({rows},), one for "
            "every row of desc_a"
        )
    outside = (found < 0) | (found >= targets)
    if outside.any():
        i = int(outside.argmax())
        raise InputError(
            f"{where}: truth[{i}] is {found[i]}, but desc_b has {targets} rows; remove rows of desc_a "
            "without a counterpart"
        )
    return found.astype(np.int64)


def verification(distances: Any, labels: Any, *, scenes: Any = None, protocol: str = "exact") -> Result:
    """Score how well distances separate correct from incorrect pairs, as `hpatches-v1/classification` does.

    Distances are ranked as they are. To reproduce `hbench-2016`, pass the numbers of its result files.

    Args:
        distances: (n,) distance of each pair. Infinity is a failed comparison, which ranks last.
        labels: (n,) True for correct pairs.
        scenes: (n,) scene label of each pair, or (n, 2) labels of both sides. Six or more scenes give an
            interval.
        protocol: ``exact`` or ``hbench-2016``.

    Returns:
        A `Result` with the metric `ap` of all pairs. ``values`` has `auc` and `fpr95` of a list with as many
        correct as incorrect pairs; ``auc[balance=imbalanced]`` and ``fpr95[balance=imbalanced]`` use all
        pairs.

    >>> verification([0.1, 0.2, 0.7, 0.9], [True, True, False, False]).value
    1.0
    """
    task = classification.TASK
    check_protocol("verification", protocol, task.protocols)
    ranked = distance_vector(distances, "score.verification: distances")
    right = label_vector(labels, "score.verification: labels")
    count = check_lengths("verification", {"distances": ranked, "labels": right}, "pair")
    if right.all() or not right.any():
        raise InputError(
            f"score.verification: labels has {int(right.sum())} correct and {int((~right).sum())} incorrect "
            "pairs; pass at least one of each"
        )
    sides = _sides(scenes, count)
    names = list(dict.fromkeys(label for side in sides for label in side))
    place = {name: i for i, name in enumerate(names)}
    code = [np.array([place[label] for label in side], np.int64) for side in sides]
    columns = {"distance": ranked, "label": right, "scene_a": code[0], "scene_b": code[1]}
    meta = base_meta(task.name, BENCHMARK, names, None)
    return score_records(task, [Records("pair", columns, meta)], protocol)


def _sides(scenes: Any, count: int) -> tuple[list[str], list[str]]:
    """Return the scene labels of both sides of each pair."""
    if scenes is None or isinstance(scenes, str) or np.ndim(scenes) != 2:
        one = scene_labels("verification", scenes, count, "pair")
        return one, one
    table = np.asarray(scenes)
    if table.shape != (count, 2):
        raise InputError(
            f"score.verification: scenes has shape {table.shape}; expected ({count},) or ({count}, 2)"
        )
    first, second = (scene_labels("verification", table[:, k], count, "pair") for k in (0, 1))
    return first, second


def retrieval(distances: Any, relevant: Any, *, scenes: Any = None, protocol: str = "exact") -> Result:
    """Score ranked lists of candidates, one for each query, as `keypoints/retrieval` does.

    A query without a relevant candidate has no average precision. It is counted in `queries_unanswered`.

    Args:
        distances: (q, n) distance of each query to each candidate; or a list of q arrays. Infinity is a
            failed comparison, which ranks last.
        relevant: Array or list of the same shape, True for relevant candidates.
        scenes: Scene label of each query. Six or more scenes give an interval.
        protocol: ``exact`` or ``bojanic``.

    Returns:
        A `Result` with the metric `map`.

    >>> retrieval([[0.1, 0.5, 0.9]], [[True, False, True]]).value
    0.8333333333333333
    """
    check_protocol("retrieval", protocol, RETRIEVAL_PROTOCOLS)
    lists, answers = split_arrays(distances, 1), split_arrays(relevant, 1)
    count = check_lengths("retrieval", {"distances": lists, "relevant": answers}, "query")
    labels = scene_labels("retrieval", scenes, count, "query")
    parts: dict[str, list[tuple[NDArray[np.float64], NDArray[np.bool_]]]] = {s: [] for s in labels}
    for i, scene in enumerate(labels):
        ranked = distance_vector(lists[i], f"score.retrieval: distances[{i}]")
        right = label_vector(answers[i], f"score.retrieval: relevant[{i}]")
        if len(ranked) != len(right):
            raise InputError(
                f"score.retrieval: distances[{i}] has length {len(ranked)} and relevant[{i}] "
                f"{len(right)}; pass one distance and one label for every candidate"
            )
        parts[scene].append((ranked, right))
    records = [_ranked_lists(scene, queries) for scene, queries in parts.items()]
    if not any(len(r) for r in records):
        raise InputError("score.retrieval: no query has a relevant candidate; check `relevant`")
    by_scene = scenes is not None
    return score_records(RETRIEVAL, records, protocol, by_scene=by_scene, chance=False)


def _ranked_lists(scene: str, queries: list[tuple[NDArray[np.float64], NDArray[np.bool_]]]) -> Records:
    """Return the records of the queries of a scene that have a relevant candidate."""
    used = [(ranked, right) for ranked, right in queries if right.any()]
    sizes = [len(ranked) for ranked, _ in used]
    columns: dict[str, NDArray[Any]] = {
        "iteration": np.zeros(sum(sizes), np.int16),
        "query": np.repeat(np.arange(len(used), dtype=np.int32), sizes),
        "distance": np.concatenate([ranked for ranked, _ in used]) if used else np.empty(0),
        "right": np.concatenate([right for _, right in used]).astype(np.int8)
        if used
        else np.empty(0, np.int8),
    }
    meta = {"scene": scene, "kind": scene_kind(scene), "unanswered": len(queries) - len(used), "searched": []}
    return Records("pair", columns, meta)
