# SPDX-License-Identifier: BSD-3-Clause
"""Requests for runs of several methods under several kinds of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import InputError, UnknownNameError
from ..datasets.stress_kinds import KINDS
from ..tasks.stress.score import METRICS
from .request import RunRequest


def stress_requests(
    methods: Sequence[Any],
    images: Path,
    *,
    kinds: Sequence[str] = (),
    metric: str = METRICS[0],
    options: Mapping[str, Any],
    seed: int | None = None,
    device: str = "cpu",
    jobs: int = 1,
    on_cluster: bool = False,
) -> list[RunRequest]:
    """Return one request per kind and method. `seed` affects only the kind `noise`.

    Raises:
        InputError: There is no method, a kind or metric is unknown, or an option does not fit the kinds.
    """
    if not methods:
        raise InputError("stress needs at least one method; add a method")
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownNameError("kind of change", kind, KINDS)
    if metric not in METRICS:
        raise UnknownNameError("metric of stress curves", metric, METRICS)
    chosen = [kind for kind in KINDS if not kinds or kind in kinds]
    if options.get("levels") is not None and len(chosen) > 1:
        raise InputError("option levels: every kind has its own levels; select one kind")
    if seed is not None and "noise" not in chosen:
        raise InputError("`seed` affects only the kind noise; remove it")
    how = {"on_bad": "error", "device": device}
    return [
        RunRequest(
            method,
            f"stress/{kind}",
            images,
            (),
            {**options, **({"seed": seed} if seed is not None and kind == "noise" else {})},
            how,
            jobs,
            None,
            on_cluster=on_cluster,
        )
        for kind in chosen
        for method in methods
    ]
