# SPDX-License-Identifier: BSD-3-Clause
"""DescriptorWorkbench restated in plain loops where numbers are odd: NaN descriptors, and ratios in float32.

Keypoints lie more than 40 px from every border, so that the border rule leaves them all in. Nothing of the
package is used to get an expected value.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

import tiepoint as tp

F = np.float32
SIDE, COUNT, DIM = 240, 40, 3
SHIFTS = {2: (3.0, -2.0), 3: (-5.0, 4.0), 4: (1.0, 1.0)}
SCENES = ("i_one", "v_two", "v_three")
EVEN = [((4, 4, 8), (5, 2, 11)), ((8, 0, 12), (1, 0, 18)), ((4, 0, 16), (4, 3, 20)), ((4, 4, 20), (5, 5, 25))]
"""Vectors whose squared lengths are as 16 to 25: float32 rejects the first two and accepts the others."""


def make_images(root):
    """Three scenes of four images, each with a pixel that says which it is."""
    for s, scene in enumerate(SCENES):
        folder = root / scene
        folder.mkdir(parents=True)
        for k in range(1, 5):
            pixels = np.full((SIDE, SIDE, 3), 40, np.uint8)
            pixels[0, 0] = s, k, 0
            Image.fromarray(pixels).save(folder / f"{k}.png")
            if k > 1:
                h = [[1, 0, SHIFTS[k][0]], [0, 1, SHIFTS[k][1]], [0, 0, 1]]
                np.savetxt(folder / f"H_1_{k}", h, fmt="%.17g")
    return root


def table_of(scene, image, *, holes, top):
    """Positions and descriptors of an image: whole numbers up to `top`, of which sums are exact."""
    rng = np.random.default_rng([scene, 7])
    xy = rng.permutation(100)[:COUNT, None] // np.array([1, 10]) % 10 * 12.0 + 60
    values = rng.integers(0, top, (COUNT, DIM)).astype(F)
    if image > 1:
        own = np.random.default_rng([scene, image])
        xy = xy + np.array(SHIFTS[image]) + own.choice([0, 0.5, 5], (COUNT, 2), p=[0.6, 0.3, 0.1])
        values = np.clip(values + own.integers(-1, 2, values.shape), 0, top).astype(F)
    own = np.random.default_rng([scene, image, 1])
    values[own.random(COUNT) < 0.1] = 0
    if top > 10:
        for c, pair in enumerate(EVEN):
            corner = np.array([1000 * (c + 1), 0, 0])
            if image == 1:
                values[c] = corner
            elif own.random() < 0.6:
                values[2 * c], values[2 * c + 1] = corner + pair[0], corner + pair[1]
    if holes:
        bad = own.random(COUNT) < 0.2
        values[bad, own.integers(0, DIM, COUNT)[bad]] = np.nan
    return xy, values


class Made:
    """A method that knows its features by heart."""

    distance = "l2"

    def __init__(self, holes: bool = True, top: int = 4) -> None:
        self.holes, self.top = holes, top

    def extract(self, image):
        scene, number, _ = (int(v) for v in image[0, 0])
        return table_of(scene, number, holes=self.holes, top=self.top)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("workbench"))


def squared_norm(a, b):
    return sum((float(x) - float(y)) * (float(x) - float(y)) for x, y in zip(a, b, strict=True))


def ranks(scene):
    """Rank of every query of a scene, None where it is excluded."""
    positions, queries = table_of(scene, 1, holes=True, top=4)
    found = []
    for k, (dx, dy) in SHIFTS.items():
        places, pool = table_of(scene, k, holes=True, top=4)
        for (x, y), q in zip(positions, queries, strict=True):
            norm = math.sqrt(sum(float(v) ** 2 for v in q))
            if norm == 0:  # a norm of NaN is not 0
                found.append(None)
                continue
            best, right = math.inf, -1
            for j, (u, v) in enumerate(places):
                away = math.hypot(x + dx - u, y + dy - v)
                if away < best:
                    best, right = away, j
            if best > 3:
                found.append(None)
                continue
            d = [squared_norm(q, row) for row in pool]
            others = [j for j in range(len(d)) if j != right]
            better = sum(d[j] < d[right] for j in others)
            ties = sum(d[j] == d[right] for j in others)
            found.append(1 + better + (ties + 1) // 2)
    return found


@pytest.mark.filterwarnings("ignore:.*descriptors failed")
def test_nan_descriptors_score_as_in_the_tool(root, tmp_path):
    run = tp.evaluate(
        Made(),
        task="keypoints/ranking",
        data=root,
        protocol="workbench",
        on_bad="miss",
        store=tmp_path / "store",
    )
    every, perfect = [], 0
    for s, scene in enumerate(SCENES):
        own = ranks(s)
        every += own
        aps = [1 / r for r in own if r is not None]
        assert run.value("true_map_micro", f"scene={scene}", "workbench") == pytest.approx(
            np.mean(aps), abs=1e-12
        )
        queries = table_of(s, 1, holes=True, top=4)[1]
        for i, r in enumerate(own):
            if r is not None and np.isnan(queries[i % COUNT]).any():
                assert r == 1
                perfect += 1
    known = [r for r in every if r is not None]
    assert perfect > 20
    assert max(known) > 5
    assert run.value("true_map_micro", "all", "workbench") == pytest.approx(
        np.mean([1 / r for r in known]), abs=1e-12
    )
    assert run.value("precision_at_1", "all", "workbench") == pytest.approx(
        np.mean([r == 1 for r in known]), abs=1e-12
    )
    assert run.value("total_queries_processed", "all", "workbench") == len(known)
    assert run.value("total_queries_excluded", "all", "workbench") == len(every) - len(known)


def ratio_matches(queries, pool, *, single):
    """How many queries pass: float32(d1/d2) < 0.8f, or d1 < 0.8 d2 in double."""
    kept = 0
    for q in queries:
        d1, d2 = sorted(squared_norm(q, row) for row in pool)[:2]
        if single:
            first, second = F(math.sqrt(d1)), F(math.sqrt(d2))
            kept += int(second > 0 and F(first / second) < F(0.8))
        else:
            kept += int(math.sqrt(d1) < 0.8 * math.sqrt(d2))
    return kept


def test_the_ratio_test_is_in_single_precision(root, tmp_path):
    top, moved = 40, 0
    run = tp.evaluate(
        Made(holes=False, top=top),
        task="keypoints/images",
        data=root,
        protocol="workbench",
        matching="ratio_test",
        on_bad="keep-zeros",
        store=tmp_path / "store",
    )
    tables = {(s, k): table_of(s, k, holes=False, top=top)[1] for s in range(3) for k in range(1, 5)}
    aps = []
    for s, scene in enumerate(SCENES):
        (record,) = run.unit_records[scene].values()
        counts = {}
        for (t, k), pool in tables.items():
            if (t, k) != (s, 1):
                counts[f"{SCENES[t]}/{k}"] = ratio_matches(tables[s, 1], pool, single=True)
                moved += counts[f"{SCENES[t]}/{k}"] != ratio_matches(tables[s, 1], pool, single=False)
        own = dict(zip(record.meta["images"], record["score"].tolist(), strict=True))
        assert own == counts
        order = sorted(counts, key=lambda key: (-counts[key], *key.split("/")))
        hits, total = 0, 0.0
        for place, key in enumerate(order, 1):
            if key.startswith(f"{scene}/"):
                hits += 1
                total += hits / place
        aps.append(total / hits)
        assert run.value("map", f"scene={scene}", "workbench") == pytest.approx(total / hits, abs=1e-12)
    assert run.value("map", "all", "workbench") == pytest.approx(np.mean(aps), abs=1e-12)
    assert moved > 10
