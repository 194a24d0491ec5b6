# SPDX-License-Identifier: BSD-3-Clause
"""When a flow is known: the one predicate, and the two odd ones of the MATLAB tool."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 1e10
"""Written into both channels where a flow is not known."""

LIMIT = 1e9
"""A component beyond this is not a displacement but a code for unknown."""


def known(flow: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a flow (..., 2) is known: ``|u| <= 1e9 and |v| <= 1e9``; NaN, inf and every larger code are not.

    This is the predicate of the C++ tool of the TSS kit, of our `exact` protocol, of every picture and every
    converter. A component of exactly 1e9 is known.

    >>> known(np.array([[0, 0], [1e10, 0], [0, -1e10], [np.nan, 0], [1e9, 0]])).tolist()
    [True, False, False, False, True]
    """
    return (np.abs(flow[..., 0]) <= LIMIT) & (np.abs(flow[..., 1]) <= LIMIT)


def known_matlab_truth(flow: NDArray[Any]) -> NDArray[np.bool_]:
    """What the MATLAB tool takes for valid ground truth: ``u < 1e9``, v not looked at, no absolute value.

    >>> known_matlab_truth(np.array([[0, 1e10], [-1e10, 0], [1e9, 0]])).tolist()
    [True, True, False]
    """
    valid: NDArray[np.bool_] = flow[..., 0] < LIMIT
    return valid


def known_matlab_resize(flow: NDArray[Any]) -> NDArray[np.bool_]:
    """What the MATLAB tool takes for valid when it resizes an estimate: ``|u| < 1e9 and |v| < 1e9``.

    >>> known_matlab_resize(np.array([[1e9, 0], [-1e8, 0]])).tolist()
    [False, True]
    """
    return (np.abs(flow[..., 0]) < LIMIT) & (np.abs(flow[..., 1]) < LIMIT)


def loop_ready(flow: Any) -> NDArray[Any]:
    """A flow (h, w, 2) as compiled loops need it: native float32 or float64 that lies in one piece.

    float16 and big-endian float32 become float32, everything else that is a real number float64. What fits
    already is returned as it is.

    >>> loop_ready(np.ones((2, 3, 2), ">f4")[:, ::-1]).dtype.name
    'float32'
    """
    values = np.asarray(flow)
    if values.ndim != 3 or values.shape[2] != 2 or values.dtype.kind not in "fiub":
        raise ValueError(f"a flow is (height, width, 2) real numbers, found {values.dtype} {values.shape}")
    small = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return np.require(values, np.float32 if small else np.float64, ["C", "A"])
