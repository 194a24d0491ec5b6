# SPDX-License-Identifier: BSD-3-Clause
"""Small data with many ties, drawn at random: everything equals the plain restatement."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiepoint.kernels import first_two, nearest, rank_counts

TIED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
STEPS = st.sampled_from([1.0, 0.1, 1 / 3, 1e30, 1e-30, 7.0])


@st.composite
def problems(draw):
    dim = draw(st.integers(1, 11))
    step, shift = draw(STEPS), draw(st.sampled_from([0, 0, 1000]))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    top = draw(st.integers(1, 3))
    make = lambda n: ((rng.integers(0, top + 1, (n, dim)) + shift) * step).astype(dtype)  # noqa: E731
    queries, pool = make(draw(st.integers(1, 6))), make(draw(st.integers(1, 40)))
    return queries, pool, draw(st.sampled_from(["l2", "l1"])), rng


@TIED
@given(problem=problems())
def test_neighbours(oracle, problem):
    queries, pool, distance, rng = problem
    value = oracle.matrix(queries, pool, distance)
    k = int(rng.integers(1, len(pool) + 1))
    assert np.array_equal(nearest(queries, pool, k, distance=distance).index, oracle.nearest(value, k)[0])
    two = first_two(queries, pool, distance=distance)
    index, d1, ties, d2 = oracle.first_two(value)
    assert np.array_equal(two.index, index)
    assert np.array_equal(two.ties, ties)
    assert np.array_equal(two.d1, oracle.shown(d1, distance))
    assert np.array_equal(two.d2, oracle.shown(d2, distance))


@TIED
@given(problem=problems(), own=st.booleans(), squared=st.booleans())
def test_counts(oracle, problem, own, squared):
    queries, pool, distance, rng = problem
    squared = squared and distance == "l2"
    value = oracle.matrix(queries, pool, distance)
    value = value if squared else oracle.shown(value, distance)
    query, position = rng.integers(0, len(queries), 9), rng.integers(0, len(pool), 9)
    target = value[query, position]
    more = {
        "limits": rng.integers(0, len(pool) + 2, (len(queries), 3)),
        "query_group": rng.integers(0, 3, len(queries)),
        "pool_group": rng.integers(0, 3, len(pool)),
    }
    found = rank_counts(
        queries, pool, query, target, position,
        distance=distance, squared=squared, target_in_pool=own, **more,
    )  # fmt: skip
    expected = oracle.rank_counts(value, query, target, position, own=own, **more)
    assert np.array_equal(found, expected)
