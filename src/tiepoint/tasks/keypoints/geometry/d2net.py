# SPDX-License-Identifier: BSD-3-Clause
"""Mean matching accuracy as D2-Net computes it, and the same mean over the pairs there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....core.scores import Score, group_name
from ....geometry.two_view.homography_errors import map_points
from ....metrics.repeatability import matching_accuracy
from ...scene_means import with_protocol
from .protocols import HEADLINE_PX, LEFT_OUT
from .score import format_threshold

NAME = "d2net"
LIMITS_PX = tuple(range(1, 16))
PAIRS = 5
"""Of a sequence."""
SEQUENCES: Mapping[str, Mapping[str, int]] = {
    "108": {"i": 52, "v": 56, "": 108},
    "116": {"i": 57, "v": 59, "": 116},
}
"""Numbers of sequences that sums are divided by, whatever is there."""


def dot_product_matches(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows (m,), (m,) of descriptors (n, d) whose dot products are the largest for each other.

    Descriptors are taken as they are; the first of equals wins. D2-Net's are of unit length, others favour
    long vectors.

    >>> [rows.tolist() for rows in dot_product_matches(np.eye(2), np.array([[0.0, 3.0], [1.0, 0.0]]))]
    [[0, 1], [1, 0]]
    """
    if not len(a) or not len(b):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    x, y = (v if np.issubdtype(v.dtype, np.floating) else v.astype(np.float64) for v in (a, b))
    similar = x @ y.T
    there, back = similar.argmax(axis=1), similar.argmax(axis=0)
    first = np.flatnonzero(back[there] == np.arange(len(x)))
    return first, there[first]


def d2net_records(opened: Any, scene: str, features: Features, *, exact: bool = False) -> Records:
    """Shares of matches within each limit of the truth, a row a pair; 0 where there is no match.

    Args:
        opened: the open task.
        scene: name of the sequence.
        features: of the method.
        exact: with the matches of `exact` instead.
    """
    sequences = opened.sequences
    _, *others = sequences.images(scene)
    limits = d2net_thresholds(opened.options.settings())
    counts, shares = [], []
    for k in others:
        if exact:
            given = opened.matches(features, scene, k, exact=True)
            x0, x1 = given.points0, given.points1
        else:
            x0, x1 = opened.d2net_matches(features, scene, k)
        away = np.linalg.norm(map_points(sequences.homography(scene, k), x0) - x1, axis=1)
        counts.append(len(x0))
        shares.append(matching_accuracy(np.nan_to_num(away, nan=np.inf), np.array(limits)))
    columns: dict[str, NDArray[Any]] = {
        "matches": np.array(counts, np.int32),
        "accuracy": np.array(shares, np.float64),
    }
    meta = {
        "scene": scene, "kind": sequences.kind(scene), "images": others, "protocol": NAME,
        "options": opened.options.settings(),
    }  # fmt: skip
    return Records("pair", columns, meta)


def d2net_thresholds(options: Mapping[str, Any]) -> list[float]:
    """1 to 15 px and what the options add."""
    return sorted({*LIMITS_PX, *options.get("tau_px", ())})


def counted_records(records: Sequence[Records]) -> tuple[list[Records], str]:
    """The records that count, and which list of sequences is meant."""
    which = str(records[0].meta["options"].get("sequences") or "108") if records else "108"
    return [r for r in records if which == "116" or r.meta["scene"] not in LEFT_OUT], which


def score_d2net(records: Sequence[Records]) -> list[Score]:
    """`mma` by the constants of D2-Net, `mma_of_pairs` over the pairs there are."""
    if not records:
        return []
    return with_protocol(list(_scores(*counted_records(records))), NAME)


def _scores(records: Sequence[Records], which: str) -> Iterator[Score]:
    limits = d2net_thresholds(records[0].meta["options"]) if records else []
    for kind, sequences in SEQUENCES[which].items():
        # whatever does not begin with i is a viewpoint sequence there
        own = [r for r in records if not kind or (str(r.meta["scene"])[0] == "i") == (kind == "i")]
        pairs = sum(len(r) for r in own)
        sums = np.sum([r["accuracy"].sum(axis=0) for r in own], axis=0) if own else np.zeros(len(limits))
        parts: dict[str, Any] = {"kind": kind} if kind else {}
        note = None
        if pairs != sequences * PAIRS:
            note = f"divided by {sequences * PAIRS} pairs; there are {pairs}"
        for at, px in enumerate(limits):
            constant = Score(
                "mma",
                group_name(**parts, tau_px=format_threshold(px)),
                float(sums[at]) / (sequences * PAIRS),
                pairs,
                note=note,
            )
            mean = float(sums[at] / pairs) if pairs else float("nan")
            found = [constant, Score("mma_of_pairs", constant.group, mean, pairs)]
            yield from found
            if px == HEADLINE_PX:
                for score in found:
                    yield Score(score.metric, group_name(**parts), score.value, pairs, note=score.note)
        matches = [float(n) for r in own for n in r["matches"]]
        mean = float(np.mean(matches)) if matches else float("nan")
        yield Score("putative_matches", group_name(**parts), mean, pairs)
