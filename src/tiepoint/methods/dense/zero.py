# SPDX-License-Identifier: BSD-3-Clause
"""`zero`: nothing moves. The canary every dense method has to beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Zero:
    """Flow 0 everywhere; everything is foreground.

    >>> Zero().match(np.zeros((2, 3, 3), np.uint8), np.zeros((2, 3, 3), np.uint8))[0].shape
    (2, 3, 2)
    """

    name = "zero"

    def match(
        self, image1: NDArray[np.uint8], image2: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Flow and mask on image 1."""
        size = image1.shape[:2]
        return np.zeros((*size, 2), np.float32), np.ones(size, bool)
