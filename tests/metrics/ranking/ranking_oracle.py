# SPDX-License-Identifier: BSD-3-Clause
"""Plain-loop restatements of the ranking measures, and enumeration of tie orders. Imports nothing of ours."""

from itertools import groupby, permutations, product

import numpy as np


def ap_of_order(labels, total, flavour="trec", cutoff=None):
    """Sum of precisions over an ordered list of 0/1 labels, divided by total (None: the retrieved)."""
    if cutoff is not None:
        labels = labels[:cutoff]
    hits, acc, before = 0, 0.0, 1.0
    for k, y in enumerate(labels, 1):
        hits += y
        at = hits / k
        if y:
            acc += at if flavour == "trec" else (before + at) / 2
        before = at
    by = hits if total is None else total
    return acc / by if by else float("nan")


def auc_of_order(labels, positives, negatives):
    """Staircase area of an ordered list, stopping at its end."""
    tp, area = 0, 0.0
    for y in labels:
        if y:
            tp += 1
        else:
            area += tp / positives / negatives
    return area


def fpr_of_order(labels, positives, negatives, recall):
    """Rate at the first place where the recall is reached; 1 if never."""
    tp = fp = 0
    for y in labels:
        tp += y
        fp += 1 - y
        if tp / positives >= recall:
            return fp / negatives
    return 1.0


def stable_labels(distances, labels):
    """Labels in stable order of finite distance."""
    kept = [(d, y) for d, y in zip(distances, labels, strict=True) if d < float("inf")]
    return [y for _, y in sorted(kept, key=lambda t: t[0])]


def all_orders(distances, labels):
    """Label lists of every order of the tied items (each order once per permutation)."""
    kept = sorted(
        [(d, y) for d, y in zip(distances, labels, strict=True) if d < float("inf")], key=lambda t: t[0]
    )
    groups = [[y for _, y in g] for _, g in groupby(kept, key=lambda t: t[0])]
    for parts in product(*(list(permutations(g)) for g in groups)):
        yield [y for part in parts for y in part]


def mean_over_orders(distances, labels, measure):
    values = [measure(order) for order in all_orders(distances, labels)]
    return float(np.mean(values))
