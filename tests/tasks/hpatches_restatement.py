# SPDX-License-Identifier: BSD-3-Clause
"""The two 2017 tools restated with plain loops from their description. Imports nothing of ours.

Descriptors are a dict "SEQ/IM" -> rows. A failed descriptor is a row of NaN. Distances are summed in double
precision; `single` rounds the result as the tools keep it. The Python tool subtracts float32 rows in float32
where it compares pair by pair (verification), and adds them in float32 for l1. Where it stops with an error
no number exists: None. It counts at least 1e-10 right items (`eps`), so before the first one the precision
is not zero.
"""

import math

import numpy as np


def dist(a, b, metric="l2"):
    """Squared Euclidean, l1, cosine, masked l1, or differing bits of packed bytes."""
    if metric == "hamming":
        return float(sum(bin(int(x) ^ int(y)).count("1") for x, y in zip(a, b, strict=True)))
    if metric == "masked_l1":
        h = len(a) // 2
        return sum(abs(float(a[i] * a[h + i]) - float(b[i] * b[h + i])) for i in range(h))
    pairs = [(float(x), float(y)) for x, y in zip(a, b, strict=True)]
    if metric == "cosine":
        norms = math.sqrt(sum(x * x for x, _ in pairs)) * math.sqrt(sum(y * y for _, y in pairs))
        return 1 - sum(x * y for x, y in pairs) / norms
    if metric == "l1":
        return sum(abs(x - y) for x, y in pairs)
    return sum((x - y) ** 2 for x, y in pairs)


def root(d, metric):
    return math.sqrt(d) if metric == "l2" else d


def single(d):
    return float(np.float32(d))


def numpy_order(distances):
    """Stable, ascending, NaN last and then cut off with what is infinitely far."""
    kept = [i for i, d in enumerate(distances) if not math.isnan(d) and d != math.inf]
    return sorted(kept, key=lambda i: distances[i])


def matlab_order(distances):
    """Stable, ascending distance, NaN first; infinitely far ones are cut off."""
    nan = [i for i, d in enumerate(distances) if math.isnan(d)]
    rest = [i for i, d in enumerate(distances) if not math.isnan(d) and d != math.inf]
    return nan + sorted(rest, key=lambda i: distances[i])


def trapezoid_ap(labels, numpos, eps=1e-10):
    hits, area, recall, precision = 0, 0.0, 0.0, 1.0
    for k, y in enumerate(labels, 1):
        hits += y
        q = max(hits, eps) / k
        area += (hits / numpos - recall) * (precision + q) / 2
        recall, precision = hits / numpos, q
    return area


def trec_ap(labels, numpos):
    hits, acc = 0, 0.0
    for k, y in enumerate(labels, 1):
        if y:
            hits += 1
            acc += hits / k
    return acc / numpos


def staircase_auc(labels, positives, negatives):
    hits, area = 0, 0.0
    for y in labels:
        if y:
            hits += 1
        else:
            area += hits / positives / negatives
    return area


def image_of(t, z):
    return "ref" if t == 0 else f"{z}{t}"


def scipy_euclidean(a, b):
    """Rows of float32: differences in float32, squares and sum in double, root in float32. float64: double.

    None where a difference is NaN or infinite: the function refuses it.
    """
    total = 0.0
    for x, y in zip(a, b, strict=True):
        difference = x - y  # NumPy numbers: float32 minus float32 is float32
        if not math.isfinite(difference):
            return None
        total += float(difference) * float(difference)
    return math.sqrt(total) if a.dtype == np.float64 else single(math.sqrt(total))


def scipy_cityblock(a, b, metric):
    """Rows of float32: products with the mask, differences and their sum in float32. float64: double."""
    if metric == "masked_l1":
        h = len(a) // 2
        a, b = a[:h] * a[h:], b[:h] * b[h:]
    return float(np.abs(a - b).sum())


def pair_distance(desc, row, z, tool, metric):
    s1, t1, i1, s2, t2, i2 = row
    a, b = desc[f"{s1}/{image_of(t1, z)}"][i1], desc[f"{s2}/{image_of(t2, z)}"][i2]
    if tool == "python" and metric == "l2" and a.dtype.kind == "f":
        return scipy_euclidean(a, b)
    if tool == "python" and metric in ("l1", "masked_l1") and a.dtype.kind == "f":
        return scipy_cityblock(a, b, metric)
    d = dist(a, b, metric)
    return single(root(d, metric)) if tool == "python" else single(d)


def verification(desc, lists, z, tool, metric="l2"):
    """{inter, intra: (balanced AUC, imbalanced AP)} for one noise letter; None where the tool stops."""
    every = [r for rows in ("pos", "neg_inter", "neg_intra") for r in lists[rows]]
    if tool == "python" and any(pair_distance(desc, r, z, tool, metric) is None for r in every):
        return None
    pos = [pair_distance(desc, r, z, tool, metric) for r in lists["pos"]]
    found = {}
    for name in ("inter", "intra"):
        neg = [pair_distance(desc, r, z, tool, metric) for r in lists[f"neg_{name}"]]
        few = pos[: len(pos) // 5]
        if tool == "python":
            d, y = neg + pos, [0] * len(neg) + [1] * len(pos)
            auc = staircase_auc([y[i] for i in numpy_order(d)], len(pos), len(neg))
            d, y = neg + few, [0] * len(neg) + [1] * len(few)
            ap = trapezoid_ap([y[i] for i in numpy_order(d)], len(few))
        else:
            d, y = pos + neg, [1] * len(pos) + [0] * len(neg)
            auc = staircase_auc([y[i] for i in matlab_order(d)], len(pos), len(neg))
            d, y = few + neg, [1] * len(few) + [0] * len(neg)
            ap = trec_ap([y[i] for i in matlab_order(d)], len(few))
        found[name] = (auc, ap)
    return found


def argmin_numpy(row):
    for j, d in enumerate(row):
        if math.isnan(d):
            return j
    return min(range(len(row)), key=lambda j: (row[j], j))


def match_image(ref, target, tool, metric="l2"):
    """(AP, success rate) of one image pair; None where the tool stops, as no distance is finite."""
    n = len(ref)
    nearest, scores = [], []
    for x in ref:
        row = [dist(x, y, metric) for y in target]
        if tool == "python":
            j = argmin_numpy([root(d, metric) for d in row])
            nearest.append(j)
            scores.append(root(row[j], metric))
        else:
            row = [math.inf if math.isnan(d) else d for d in row]
            j = min(range(n), key=lambda k: (row[k], k))
            nearest.append(j if row[j] < math.inf else None)
            scores.append(single(row[j]))
    valid = [int(nearest[i] == i) for i in range(n)]
    if tool == "python" and not numpy_order(scores):
        return None
    if tool == "python":
        return trapezoid_ap([valid[i] for i in numpy_order(scores)], n), sum(valid) / n
    return trec_ap([valid[i] for i in matlab_order(scores)], n), sum(valid) / n


def matlab_ratio_ap(ref, target, metric="l2"):
    """AP of matches by second over first distance, NaN (0/0) first; alone NaN is not retrieved, AP 0."""
    n = len(ref)
    valid, ratios = [], []
    for i, x in enumerate(ref):
        row = [single(dist(x, y, metric)) for y in target]
        order = sorted(range(n), key=lambda k: (row[k], k))
        first, second = row[order[0]], row[order[1]]
        valid.append(int(order[0] == i))
        if first == 0:
            ratios.append(math.nan if second == 0 else math.inf)
        else:
            ratios.append(second / first)
    nan = [i for i in range(n) if math.isnan(ratios[i])]
    rest = sorted((i for i in range(n) if not math.isnan(ratios[i])), key=lambda i: -ratios[i])
    return trec_ap([valid[i] for i in nan + rest], n) if rest else 0.0


def matching(desc, sequences, tool, metric="l2"):
    """{(sequence, letter, k): (AP, success rate)}."""
    return {
        (s, z, k): match_image(desc[f"{s}/ref"], desc[f"{s}/{z}{k}"], tool, metric)
        for s in sequences
        for z in "eht"
        for k in range(1, 6)
    }


def matching_mean(values, tool):
    """The one number: over sequences, or over six cells."""
    if tool == "python":
        levels = []
        for z in "eht":
            own = [v[0] for (_, y, _), v in values.items() if y == z]
            levels.append(sum(own) / len(own))
        return sum(levels) / 3
    cells = []
    for z in "eht":
        for kind in "iv":
            own = [v[0] for (s, y, _), v in values.items() if y == z and s[0] == kind]
            cells.append(sum(own) / len(own))
    return sum(cells) / len(cells)


def retrieval_python(desc, queries, distractors, sizes, metric="l2", eps=1e-10):
    """{(letter, size): mAP}; a size counts the five right ones too. None where a list has nothing finite."""
    found = {(z, k): [] for z in "eht" for k in sizes}
    for s, i in queries:
        x = desc[f"{s}/ref"][i]
        far = [root(dist(x, desc[f"{t}/ref"][j], metric), metric) for t, j in distractors if t != s]
        for z in "eht":
            near = [root(dist(x, desc[f"{s}/{z}{k}"][i], metric), metric) for k in range(1, 6)]
            d, y = near + far, [1] * 5 + [0] * len(far)
            for k in sizes:
                labels = [y[m] for m in numpy_order(d[:k])]
                if not labels:
                    return None
                found[z, k].append(trapezoid_ap(labels, 5, eps))
    return {c: sum(v) / len(v) for c, v in found.items()}


def retrieval_matlab(desc, queries, distractors, num_neg, metric="l2"):
    """{letter: mAP} with the first `num_neg` distractors, cut before the query's sequence is left out."""
    found = {z: [] for z in "eht"}
    for s, i in queries:
        x = desc[f"{s}/ref"][i]
        kept = distractors if num_neg is None else distractors[:num_neg]
        far = [dist(x, desc[f"{t}/ref"][j], metric) for t, j in kept if t != s]
        for z in "eht":
            near = [dist(x, desc[f"{s}/{z}{k}"][i], metric) for k in range(1, 6)]
            d, y = near + far, [1] * 5 + [0] * len(far)
            found[z].append(trec_ap([y[m] for m in matlab_order(d)], 5))
    return {z: sum(v) / len(v) for z, v in found.items()}
