# SPDX-License-Identifier: BSD-3-Clause
"""One case made again from cached features: what each method chose, its matches, or its flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...run.result import Run
from ...tasks.base import OpenTask
from ...tasks.cases import Answered
from ...tasks.matched import MatchedPair

Image = NDArray[np.uint8]
Kind = Literal["query", "pair", "dense", "unknown"]


@dataclass(frozen=True)
class DenseView:
    """A flow of image 1 onto image 2, all pictures (h, w, 3) of one size.

    `flow` is in colour, `warped` is image 2 pulled back onto image 1, `error` and `true_flow` are None where
    there is no truth. `flows` (h, w, 2) and `errors_px` (h, w) are the numbers behind them, NaN if unknown.
    """

    flow: Image
    warped: Image | None
    error: Image | None
    true_flow: Image | None
    flows: NDArray[np.float64]
    errors_px: NDArray[np.float64] | None
    longest_px: float
    """What is white in the error map."""


@dataclass(frozen=True)
class MethodView:
    """What one run has of a case; `missing` says in a sentence why there is less, and what makes it."""

    run: Run
    score: float | None
    confidence: float | None
    answered: Answered | None = None
    matched: MatchedPair | None = None
    dense: DenseView | None = None
    missing: str = ""


@dataclass(frozen=True)
class CaseDetail:
    """A case as each run has it.

    `query` and `right` are references to pictures (``SEQUENCE/IMAGE#INDEX``, ``SCENE/IMAGE@x,y``) that
    `picture` reads; `images` are both images of a pair. `missing` says why pictures are not at hand: the
    dataset is gone, moved or changed.
    """

    task: str
    scene: str
    key: str
    label: str
    kind: Kind
    views: tuple[MethodView, ...]
    query: str = ""
    right: tuple[str, ...] = ()
    images: tuple[Image, Image] | None = None
    opened: OpenTask | None = None
    missing: str = ""


def detail(runs: Sequence[Run], scene: str, key: str, *, data: Path | None = None) -> CaseDetail | None:
    """One case of runs of one task, made again; None where no run has such a case.

    Nothing raises for what is not at hand: `missing` of the case or of a method says it.

    Args:
        runs: Of one task and one dataset.
        scene: As the scores call it.
        key: Of `Cases`, as text.
        data: Where the dataset lies now, if it was moved.
    """
    raise NotImplementedError


def picture(case: CaseDetail, reference: str) -> Image | None:
    """The patch, or the part of an image, that a reference names; None where the dataset is not at hand."""
    raise NotImplementedError
