# SPDX-License-Identifier: BSD-3-Clause
"""The keypoint protocols in plain loops, from their definitions. Imports nothing of the package."""

from __future__ import annotations

import itertools
import math

INF = float("inf")


def project(h, p):
    x, y = p
    z = h[2][0] * x + h[2][1] * y + h[2][2]
    if abs(z) < 1e-12:
        return (INF, INF)
    return ((h[0][0] * x + h[0][1] * y + h[0][2]) / z, (h[1][0] * x + h[1][1] * y + h[1][2]) / z)


def squared(a, b):
    return sum((float(u) - float(v)) ** 2 for u, v in zip(a, b, strict=True))


def hamming(a, b):
    return sum(bin(int(u) ^ int(v)).count("1") for u, v in zip(a, b, strict=True))


def two_bit_cells(a, b):
    total = 0
    for u, v in zip(a, b, strict=True):
        x = int(u) ^ int(v)
        total += sum(((x >> s) & 3) != 0 for s in (0, 2, 4, 6))
    return total


def distinct(points):
    """Positions in order of first appearance, and the rows of each."""
    found = {}
    for i, p in enumerate(points):
        found.setdefault(tuple(p), []).append(i)
    return list(found), list(found.values())


def in_image(p, size):
    return -0.5 <= p[0] <= size[0] - 0.5 and -0.5 <= p[1] <= size[1] - 0.5


def expected_ap(items, relevant_total):
    """Mean over all orders of tied items; items are (distance, right?), infinite ones never retrieved."""
    items = sorted((d, bool(r)) for d, r in items if d < INF)
    total, before, right_before = 0.0, 0, 0
    for _, tie in itertools.groupby(items, key=lambda it: it[0]):
        tie = list(tie)
        r = sum(right for _, right in tie)
        orders = list(itertools.combinations(range(len(tie)), r)) if r else [()]
        total += sum(
            sum((right_before + i + 1) / (before + place + 1) for i, place in enumerate(places))
            for places in orders
        ) / len(orders)
        before, right_before = before + len(tie), right_before + r
    return total / relevant_total if relevant_total else math.nan


def expected_ap_closed(items):
    """The same for long ties: place by place, the expected precision of a random order."""
    right_total = sum(bool(r) for _, r in items)
    items = sorted((d, bool(r)) for d, r in items if d < INF)
    total, before, right_before = 0.0, 0, 0
    for _, tie in itertools.groupby(items, key=lambda it: it[0]):
        tie = [right for _, right in tie]
        m, r = len(tie), sum(tie)
        for place in range(m):
            if r:
                inside = place * (r - 1) / (m - 1) if m > 1 else 0
                total += r / m * (right_before + 1 + inside) / (before + place + 1)
        before, right_before = before + m, right_before + r
    return total / right_total


def stable_ap(items):
    """AP of a list sorted stably by distance; 0 without a right item."""
    hits, total = 0, 0.0
    for k, (_, right) in enumerate(sorted(items, key=lambda it: it[0]), start=1):
        if right:
            hits += 1
            total += hits / k
    return total / hits if hits else 0.0


def step_ap(items):
    """AP where a tie is one step of the curve (scikit-learn's rule)."""
    positives = sum(r for _, r in items)
    seen = hits = 0
    total = 0.0
    for _, tie in itertools.groupby(sorted(items), key=lambda it: it[0]):
        tie = [bool(r) for _, r in tie]
        seen, new = seen + len(tie), sum(tie)
        hits += new
        total += new / positives * hits / seen
    return total


# keypoints/ranking, exact


def exact_queries(h, source, target, size, tau, policy, distance, gallery=None):
    """Per co-visible query: AP or None (not re-detected); `gallery` is (size, order of the locations).

    `source` and `target` are (positions, descriptors, valid). Returns (aps, out of view).
    """
    places, rows = distinct(source[0])
    spots, columns = distinct(target[0])
    aps, away = [], 0
    for place, mine in zip(places, rows, strict=True):
        z = h[2][0] * place[0] + h[2][1] * place[1] + h[2][2]
        p = project(h, place)
        if z <= 0 or not in_image(p, size):
            away += 1
            continue
        near = [j for j, s in enumerate(spots) if math.dist(p, s) <= tau]
        if policy == "nearest" and near:
            near = [min(near, key=lambda j: (math.dist(p, spots[j]), j))]
        if not near:
            aps.append(None)
            continue
        items = []
        chosen = range(len(spots))
        if gallery is not None:
            if len(spots) < gallery[0] or len(near) >= gallery[0]:
                continue
            wrong = [j for j in gallery[1] if j not in near][: gallery[0] - len(near)]
            chosen = [*near, *wrong]
        for j in chosen:
            d = [
                distance(source[1][a], target[1][b])
                for a in mine
                for b in columns[j]
                if source[2][a] and target[2][b]
            ]
            items.append((min(d, default=INF), j in near))
        aps.append(expected_ap(items, len(near)))
    return aps, away


# keypoints/ranking, workbench


def workbench_queries(h, source, target, tau=3.0, bound=2000.0):
    """Ranks of the queries of one pair, None where excluded; whole pair skipped when a side is empty."""
    positions, values = source[:2]
    if len(positions) == 0 or len(target[0]) == 0:
        return []
    ranks = []
    for p, v in zip(positions, values, strict=True):
        if all(float(x) == 0 for x in v):
            ranks.append(None)
            continue
        q = project(h, p)
        if not all(math.isfinite(c) for c in q) or abs(q[0]) > bound or abs(q[1]) > bound:
            ranks.append(None)
            continue
        best, best_d = -1, INF
        for j, t in enumerate(target[0]):
            d = math.dist(q, t)
            if d < best_d:
                best, best_d = j, d
        if best < 0 or best_d > tau:
            ranks.append(None)
            continue
        d = [squared(v, w) for w in target[1]]
        better = sum(d[j] < d[best] for j in range(len(d)) if j != best)
        ties = sum(d[j] == d[best] for j in range(len(d)) if j != best)
        ranks.append(1 + better + (ties + 1) // 2)
    return ranks


# keypoints/verification and retrieval, workbench


def workbench_correct(h, p, targets, round32, tau=3.0):
    """Which targets are correct for a query at p: within tau, none nearer by more than 1e-6."""
    z = h[2][0] * p[0] + h[2][1] * p[1] + h[2][2]
    if z == 0:
        return [False] * len(targets)
    q = (round32((h[0][0] * p[0] + h[0][1] * p[1] + h[0][2]) / z),
         round32((h[1][0] * p[0] + h[1][1] * p[1] + h[1][2]) / z))  # fmt: skip
    d = [math.dist(q, t) for t in targets]
    return [dj <= tau and not any(dk < dj - 1e-6 for dk in d) for dj in d]


def workbench_pooled(homographies, source, targets, distractors, round32, tau=3.0):
    """(AP, labels) of one scene: every query with every target keypoint, and its drawn distractors.

    `distractors[q]` lists descriptors. Labels count +1, 0 and -1.
    """
    items, labels = [], {1: 0, 0: 0, -1: 0}
    for q, (p, v) in enumerate(zip(source[0], source[1], strict=True)):
        for h, target in zip(homographies, targets, strict=True):
            for j, right in enumerate(workbench_correct(h, p, target[0], round32, tau)):
                items.append((math.sqrt(squared(v, target[1][j])), right))
                labels[1 if right else 0] += 1
        for w in distractors[q]:
            items.append((math.sqrt(squared(v, w)), False))
            labels[-1] += 1
    return stable_ap(items), labels


# the original protocol


def bojanic_nearest(v, values, distance):
    """(index, distance) of the nearest row, the first of equals."""
    best, best_d = -1, INF
    for j, w in enumerate(values):
        d = distance(v, w)
        if d < best_d:
            best, best_d = j, d
    return best, best_d


def bojanic_right(h, p, targets, j):
    """Whether no target keypoint is strictly nearer to the image of p than keypoint j."""
    q = project(h, p)
    mine = math.dist(q, targets[j])
    return not any(math.dist(q, t) < mine for t in targets)
