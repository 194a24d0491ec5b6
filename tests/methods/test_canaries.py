# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np

from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve


def values(name, key, rows, content="c"):
    return resolve(name, family="patches").extract(Item(key, content, rows), None)["values"]


def test_oracle_is_equal_for_a_patch_and_apart_for_others():
    sequences = {
        s: [values("oracle", f"{s}/{im}", 300) for im in ("ref", "e1", "t5")] for s in ("v_a", "v_b")
    }
    for images in sequences.values():
        for other in images[1:]:
            np.testing.assert_array_equal(images[0], other)
    everything = np.concatenate([images[0] for images in sequences.values()]).astype(float)
    apart = np.sqrt(((everything[:, None] - everything[None]) ** 2).sum(-1))
    same = np.add.outer(np.arange(600) // 300, -(np.arange(600) // 300)) == 0
    assert apart[same & ~np.eye(600, dtype=bool)].min() > 4  # nobody is near another patch
    assert apart[same].max() <= 16
    assert apart[~same].min() >= 32  # other sequences are farther than any patch of the own one


def test_oracle_does_not_depend_on_how_many_patches_there_are():
    np.testing.assert_array_equal(values("oracle", "v_a/ref", 5), values("oracle", "v_a/e1", 9)[:5])


def test_constant_is_constant_and_no_zero_row():
    found = resolve("constant", family="patches").extract(
        Item("v_a/ref", "c", 3), np.zeros((3, 65, 65), np.uint8)
    )
    assert (found["values"] == 1).all()
    assert "valid" not in found


def test_random_is_repeatable_and_independent_between_images():
    first = values("random", "v_a/ref", 400)
    np.testing.assert_array_equal(first, values("random", "v_a/ref", 400))
    for other in (values("random", "v_a/e1", 400), values("random", "v_a/ref", 400, content="d")):
        # 51,200 independent products of unit variance: five standard errors
        assert abs((first * other).mean()) < 5 / np.sqrt(first.size)


def test_keys_of_lookups_change_with_the_item():
    method = resolve("oracle", family="patches")
    keys = {method.key(Item(k, "same", n)) for k, n in (("v_a/ref", 3), ("v_b/ref", 3), ("v_a/ref", 4))}
    assert len(keys) == 3
    assert None not in keys
    assert method.needs_payload is False
