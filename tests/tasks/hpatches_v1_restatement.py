# SPDX-License-Identifier: BSD-3-Clause
"""The 2016 evaluator restated with plain loops from its description. Imports nothing of ours.

Descriptors are a dict image -> list of rows; files are strings. Neighbours that are equally near are taken in
order of their index (the original order of a kd-tree is unspecified).
"""

import math

import numpy as np


def squared(a, b):
    """Squared distance as the tool keeps it: single precision."""
    return float(np.float32(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True))))


def row(descriptors, patch):
    scene, image, index = patch.split(".")
    return descriptors[f"{scene}/{image}"][int(index)]


def sorted_stable(scores, descending=True):
    """Order of MATLAB's sort(..., 'descend'): stable, NaN first."""
    nan = [i for i, s in enumerate(scores) if math.isnan(s)]
    rest = [i for i, s in enumerate(scores) if not math.isnan(s)]
    rest.sort(key=lambda i: -scores[i])
    return nan + rest


def tp_fp(scores, labels):
    order = sorted_stable(scores)
    while order and scores[order[-1]] == -math.inf:
        order.pop()
    return [labels[i] for i in order]


def vl_ap(scores, labels):
    positives = sum(labels)
    if positives == 0:
        return math.nan
    hits, acc = 0, 0.0
    for k, y in enumerate(tp_fp(scores, labels), 1):
        if y:
            hits += 1
            acc += hits / k
    return acc / positives


def vl_auc(scores, labels):
    positives = sum(labels)
    negatives = len(labels) - positives
    hits, area = 0, 0.0
    for y in tp_fp(scores, labels):
        if y:
            hits += 1
        else:
            area += hits / positives / negatives
    return area


def classification(descriptors, pos_pairs, neg_pairs):
    """AUC and AP on the full list and on the balanced one."""
    pairs = [line.split(",") for line in pos_pairs] + [line.split(",") for line in neg_pairs]
    labels = [1] * len(pos_pairs) + [0] * len(neg_pairs)
    text = [f"{squared(row(descriptors, a), row(descriptors, b)):.6f}" for a, b in pairs]
    scores = [-float(t) for t in text]
    cut = 2 * len(pos_pairs)
    return {
        "imbalanced": (vl_auc(scores, labels), vl_ap(scores, labels)),
        "balanced": (vl_auc(scores[:cut], labels[:cut]), vl_ap(scores[:cut], labels[:cut])),
    }


def matlab_d(x):
    return str(int(x)) if x == int(x) else f"{x:e}"


def neighbours(descriptors, a, b, k):
    """Index and squared distance of the k nearest rows of image b for every row of image a."""
    out = []
    for x in descriptors[a]:
        # exact order of the full-precision distance; the printed value is single precision
        full = [sum((float(p) - float(q)) ** 2 for p, q in zip(x, y, strict=True)) for y in descriptors[b]]
        order = sorted(range(len(full)), key=lambda j: (full[j], j))[:k]
        out.append([(j, float(np.float32(full[j]))) for j in order])
    return out


def matching(descriptors, pairs):
    """Mean over image pairs of the AP of first neighbours, by distance and by ratio."""
    by_distance, by_ratio = [], []
    for line in pairs:
        a, b = (name.replace(".", "/") for name in line.split(","))
        found = neighbours(descriptors, a, b, 2)
        valid = [int(f[0][0] == i) for i, f in enumerate(found)]
        d1 = [float(matlab_d(f[0][1])) for f in found]
        d2 = [float(matlab_d(f[1][1])) for f in found]
        ap = vl_ap([-d for d in d1], valid)
        by_distance.append(0.0 if math.isnan(ap) else ap)
        ratios = []
        for x, y in zip(d1, d2, strict=True):
            ratios.append((math.nan if y == 0 else math.inf) if x == 0 else y / x)
        ap = vl_ap(ratios, valid)
        by_ratio.append(0.0 if math.isnan(ap) else ap)
    return sum(by_distance) / len(by_distance), sum(by_ratio) / len(by_ratio)


def retrieval(descriptors, pool, queries):
    """Patch and image mAP with the divisor Q + 1."""
    rows = [(name, i) for name in pool for i in range(len(descriptors[name.replace(".", "/")]))]
    table = [descriptors[name.replace(".", "/")][i] for name, i in rows]
    patch_sum = image_sum = 0.0
    for query in queries:
        name, index = query.rsplit(".", 1)
        own = rows.index((name, int(index)))
        x = table[own]
        full = [sum((float(p) - float(q)) ** 2 for p, q in zip(x, y, strict=True)) for y in table]
        listed = sorted(range(len(full)), key=lambda j: (full[j], j))[:51]
        if own in listed:
            at = listed.index(own)
            listed[0], listed[at] = listed[at], listed[0]
        else:
            listed[0] = own
        scene = name.split(".")[0]
        for kind in ("patch", "image"):
            hits, acc = 0, 0.0
            for k, j in enumerate(listed[1:], 1):
                other, i = rows[j]
                right = other.split(".")[0] == scene and (kind == "image" or i == int(index))
                if right:
                    hits += 1
                    acc += hits / k
            ap = acc / hits if hits else 0.0
            if kind == "patch":
                patch_sum += ap
            else:
                image_sum += ap
    return patch_sum / (len(queries) + 1), image_sum / (len(queries) + 1)
