# SPDX-License-Identifier: BSD-3-Clause
"""The C++ kit of TSS, restated pixel by pixel from its description: resized flows, masks from flows, counts.

Every float32 operation of the kit is one `np.float32` operation here; its factors are Python floats (double).
Nothing of the package is used to get an expected value.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tss_world import score_results

from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.image.mask import write_mask
from tiepoint.geometry.flow.resize import resize_flow_pair
from tiepoint.tasks.dense.protocols import RULES
from tiepoint.tasks.tss.task import TASK

F = np.float32
UNKNOWN = F(1e10)
KIT = RULES["tss-cpp"]


def valid(pixel):
    return abs(pixel[0]) <= F(1e9) and abs(pixel[1]) <= F(1e9)


def tap(d, old, new, *, across):
    """First and second source index, and the weight of the second, of output index d."""
    scale = 1.0 / (float(new) / float(old))
    f = F((d + 0.5) * scale - 0.5)
    s = math.floor(f)
    f = F(f - F(s))
    if across:
        if s < 0:
            s, f = 0, F(0)
        if s >= old - 1:
            s, f = old - 1, F(0)
    return min(max(s, 0), old - 1), min(max(s + 1, 0), old - 1), f


def sample(values, ys, xs):
    """Horizontal pass first, then vertical, all in float32."""
    (y0, y1, g), (x0, x1, f) = ys, xs
    lines = [F(F(values[y][x0] * F(F(1) - f)) + F(values[y][x1] * f)) for y in (y0, y1)]
    return F(F(lines[0] * F(F(1) - g)) + F(lines[1] * g))


def resized(flow, size, old_other, other):
    """One flow on a new size; sizes are (height, width)."""
    (h, w), (new_h, new_w) = flow.shape[:2], size
    known = [[F(1) if valid(flow[y][x]) else F(0) for x in range(w)] for y in range(h)]
    out = np.zeros((new_h, new_w, 2), F)
    for y in range(new_h):
        ys = tap(y, h, new_h, across=False)
        for x in range(new_w):
            xs = tap(x, w, new_w, across=True)
            if sample(known, ys, xs) != F(1):
                out[y, x] = UNKNOWN
                continue
            for c, (p, old, new, from_other, to_other) in enumerate(
                ((x, w, new_w, old_other[1], other[1]), (y, h, new_h, old_other[0], other[0]))
            ):
                r = sample(flow[..., c], ys, xs)
                place = F(p * (old / new))  # double product, then float32
                moved = F(r + place)
                moved = F(float(moved) * (to_other / from_other))
                out[y, x, c] = F(moved - F(p))
    return out


def resized_pair(flow1, flow2, size1, size2):
    old1, old2 = flow1.shape[:2], flow2.shape[:2]
    if (old1, old2) == (size1, size2):
        return flow1, flow2
    return resized(flow1, size1, old2, size2), resized(flow2, size2, old1, size1)


def met(back, x, y):
    """The other flow at a position, in steps of 1/32 px; outside it is 1e10."""
    h, w = back.shape[:2]
    if not (abs(x) < 1e6 and abs(y) < 1e6):
        return np.array([UNKNOWN, UNKNOWN])
    at_x, at_y = round(32 * float(x)), round(32 * float(y))  # half to even
    (x0, ax), (y0, ay) = divmod(at_x, 32), divmod(at_y, 32)
    out = []
    for c in (0, 1):
        total = F(0)
        for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weight = F(F(ay if dy else 32 - ay) / F(32)) * F(F(ax if dx else 32 - ax) / F(32))
            inside = 0 <= y0 + dy < h and 0 <= x0 + dx < w
            total = F(total + F((back[y0 + dy, x0 + dx, c] if inside else UNKNOWN) * weight))
        out.append(total)
    return np.array(out)


def foreground(flow, back):
    """Where there and back ends within 20 px; unknown on both sides is left as computed."""
    mask = np.zeros(flow.shape[:2], bool)
    for y in range(flow.shape[0]):
        for x in range(flow.shape[1]):
            here = flow[y, x]
            there = met(back, F(F(x) + here[0]), F(F(y) + here[1]))
            a, b = F(here[0] + there[0]), F(here[1] + there[1])
            with np.errstate(over="ignore"):
                error = F(np.sqrt(F(F(a * a) + F(b * b))))
            if valid(here) != valid(there):
                error = F(1000)
            mask[y, x] = error < F(20)
    return mask


def accuracies(flow, truth, side):
    """T1 to T50, at most counts as right."""
    errors = []
    for here, true in zip(flow.reshape(-1, 2), truth.reshape(-1, 2), strict=True):
        if valid(true):
            a, b = F(here[0] - true[0]), F(here[1] - true[1])
            errors.append(F(np.sqrt(F(F(a * a) + F(b * b)))) if valid(here) else F(1000))
    return [1 - sum(e > F(t / 100 * side) for e in errors) / len(errors) for t in range(1, 51)]


def smooth(rng, size, holes=0):
    y, x = np.mgrid[: size[0], : size[1]]
    flow = np.stack([0.07 * x - 0.03 * y, 0.05 * y + 0.02 * x], axis=2) + rng.normal(0, 1.5, (*size, 2))
    flow = flow.astype(F)
    for _ in range(holes):
        flow[rng.integers(size[0]), rng.integers(size[1])] = 1e10
    return flow


SIZES = {
    "larger": ((17, 23), (19, 21), (29, 37), (31, 34)),
    "smaller": ((31, 37), (33, 41), (17, 23), (19, 21)),
    "one side only": ((18, 26), (22, 24), (18, 26), (31, 34)),
    "one larger, one smaller": ((17, 23), (33, 41), (29, 37), (19, 21)),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_every_component_of_a_resized_flow(sizes):
    old1, old2, new1, new2 = sizes
    rng = np.random.default_rng(3)
    flows = smooth(rng, old1, holes=4), smooth(rng, old2, holes=4)
    expected = resized_pair(*flows, new1, new2)
    for own, plain in zip(resize_flow_pair(*flows, new1, new2, rule=KIT), expected, strict=True):
        assert own.dtype == F
        np.testing.assert_array_equal(own.view(np.uint32), plain.view(np.uint32))


def test_float32_factors_would_give_other_numbers():
    """The test above can fail: with factors of single precision a tenth of the components move at least."""
    old, new, old_other, other = (17, 23), (29, 37), (19, 21), (31, 34)
    flow = smooth(np.random.default_rng(3), old)
    moved = 0
    right = resized(flow, new, old_other, other)
    for x in range(new[1]):
        for y in range(new[0]):
            r = sample(
                flow[..., 0], tap(y, old[0], new[0], across=False), tap(x, old[1], new[1], across=True)
            )
            place = F(F(F(x) * F(old[1])) / F(new[1]))
            u = F(F(F(F(r + place) * F(other[1])) / F(old_other[1])) - F(x))
            moved += int(u != right[y, x, 0])
    assert moved > 0.1 * new[0] * new[1]


def write_case(root, truths, masks, flows):
    """One pair of a subset, its truth and a result without masks; returns (results, data)."""
    rng = np.random.default_rng(0)
    data, results = root / "data" / "S" / "p", root / "results" / "S" / "p"
    data.mkdir(parents=True)
    results.mkdir(parents=True)
    for i in (0, 1):
        write_flo(data / f"flow{i + 1}.flo", truths[i])
        write_mask(data / f"mask{i + 1}.png", np.where(masks[i], 255, 0).astype(np.uint8))
        write_mask(data / f"image{i + 1}.png", rng.integers(0, 256, masks[i].shape).astype(np.uint8))
        write_flo(results / f"flow{i + 1}.flo", flows[i])
    (data / "flip_gt.txt").write_text("0")
    return root / "results", root / "data"


def scores(where):
    (record,), _ = score_results(*where, "tss-cpp")
    found = {(s.metric, s.group): s.value for s in TASK.score([record], "tss-cpp")}
    return found, np.asarray(record["correct"]) / np.asarray(record["valid"])[:, None]


def check(found, shares, truths, masks, flows):
    """IoU and T1 to T50 of both directions."""
    now = resized_pair(*flows, truths[0].shape[:2], truths[1].shape[:2])
    for i, name in enumerate(("1to2", "2to1")):
        estimate = foreground(now[i], now[1 - i])
        iou = (estimate & masks[i]).sum() / (estimate | masks[i]).sum()
        assert found["iou", f"direction={name},pair=S/p"] == pytest.approx(iou, abs=1e-12)
        side = max(truths[1 - i].shape[:2])
        assert shares[i] == pytest.approx(accuracies(now[i], truths[i], side), abs=1e-12)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_scores_where_every_error_stands_at_a_threshold(tmp_path, sizes):
    """The truth is the resized estimate moved by whole percents: one rounding more and a pixel goes wrong."""
    old1, old2, _, _ = sizes
    new1, new2 = (25, 100), (50, 40)
    rng = np.random.default_rng(7)
    flows = smooth(rng, old1, holes=2), smooth(rng, old2, holes=2)
    masks = rng.random(new1) < 0.5, rng.random(new2) < 0.5
    truths = []
    for flow, mask, side in zip(resized_pair(*flows, new1, new2), masks, (50, 100), strict=True):
        truth = flow.copy()
        truth[..., 0] -= (rng.integers(1, 6, mask.shape) * side / 100).astype(F)
        truth[~mask | (np.abs(flow[..., 0]) > 1e9)] = UNKNOWN
        truths.append(truth)
    check(*scores(write_case(tmp_path, truths, masks, flows)), truths, masks, flows)


def test_unknown_on_both_sides_is_left_as_computed(tmp_path):
    """(-1e10, -1e10) leaves the image, meets the border of +1e10, and ends where it began: foreground."""
    rng = np.random.default_rng(1)
    size = (14, 16)
    flows = smooth(rng, size), smooth(rng, size)
    codes = [(-1e10, -1e10), (1e10, 1e10), (-1e10, 1e10), (1e10, -1e10), (-1e10, 0), (0, -1e10), (2e9, 2e9)]
    for k, code in enumerate(codes):
        flows[0][2 * k % 14, k : k + 3] = code
    flows[1][5:9, 4:12] = -1e10
    expected = foreground(*flows), foreground(*flows[::-1])
    assert expected[0][0, 0:3].all()
    assert expected[1][5:9, 4:12].all()
    for k in range(1, len(codes)):
        assert not expected[0][2 * k % 14, k : k + 3].any()
    masks = rng.random(size) < 0.5, rng.random(size) < 0.5
    truths = [np.where(m[..., None], smooth(rng, size), UNKNOWN).astype(F) for m in masks]
    check(*scores(write_case(tmp_path, truths, masks, flows)), truths, masks, flows)
