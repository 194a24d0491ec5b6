# SPDX-License-Identifier: BSD-3-Clause
"""Dense pairs bound to their data: what `dense/flow` and `dense/pck` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..datasets.dense_pairs import DensePair, find_pairs
from ..formats.tss_results import PairResult
from ..geometry.flow_resize import resize_flow_pair
from ..model.errors import InputError, UnknownNameError
from ..model.hashing import hash_json
from ..model.records import Records
from ..model.units import Features, Item, Unit

MISSING = ("error", "skip", "zero")
Flow = NDArray[Any]
Compare = Callable[[DensePair, Flow | None, Mapping[str, Any]], Records]


class OpenDense:
    """Items are image pairs, units are directed pairs with the truth a task needs.

    Options: `missing` (``error``, ``skip``: left out of the means, ``zero``: all wrong), `kinds` (subsets or
    classes to keep), and those of the task in `defaults`.
    """

    def __init__(
        self,
        data: Path,
        options: Mapping[str, Any],
        task: str,
        needs: str,
        defaults: Mapping[str, Any],
        compare: Compare,
    ) -> None:
        self.options = checked_options(task, options, defaults)
        self._compare = compare
        found = find_pairs(data)
        self.pairs = [p for p in found if getattr(p, needs) is not None]
        if not self.pairs:
            raise InputError(f"{task}: no pair in {data} has {needs} as ground truth")
        kinds = sorted({p.kind for p in self.pairs})
        for kind in self.options["kinds"]:
            if kind not in kinds:
                raise UnknownNameError("kind", kind, kinds)
        if self.options["kinds"]:
            self.pairs = [p for p in self.pairs if p.kind in self.options["kinds"]]
        self._items = {p.item: p for p in self.pairs}
        self._units = {p.key: p for p in self.pairs}
        self.warnings: list[str] = []

    @cached_property
    def items(self) -> Sequence[Item]:
        """One per image pair."""
        return [Item(key, pair.content()) for key, pair in self._items.items()]

    @cached_property
    def units(self) -> Sequence[Unit]:
        """One per directed pair."""
        options = {k: v for k, v in self.options.items() if k != "kinds"}
        return [
            Unit(p.key, (p.item,), hash_json([p.truth_content, p.direction, p.content(), options]))
            for p in self.pairs
        ]

    @cached_property
    def data_hash(self) -> str:
        """Hash of all images and all truth."""
        return hash_json([[p.key, p.content(), p.truth_content] for p in self.pairs])

    def read(self, item: str) -> Any:
        """Both images of a pair, RGB uint8."""
        return self._items[item].images()

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Records of one directed pair."""
        pair = self._units[unit.key]
        flow = oriented_flow(
            pair, PairResult.from_arrays(features.arrays(unit.items[0])), self.options["missing"]
        )
        return self._compare(pair, flow, self.options)


def checked_options(task: str, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """All options with their values; unknown names are errors with near ones."""
    known = {"missing": "error", "kinds": (), **defaults}
    for name in options:
        if name not in known:
            raise UnknownNameError(f"option of {task}", name, known)
    full = {**known, **{k: v for k, v in options.items() if v is not None}}
    if full["missing"] not in MISSING:
        raise UnknownNameError("value of missing", str(full["missing"]), MISSING)
    kinds = full["kinds"]
    full["kinds"] = tuple(kinds.split(",")) if isinstance(kinds, str) else tuple(kinds)
    return full


def numbers(value: Any) -> tuple[float, ...]:
    """Numbers given as a list or as text with commas, ascending.

    >>> numbers("5,1"), numbers([0.1])
    ((1.0, 5.0), (0.1,))
    """
    parts = value.split(",") if isinstance(value, str) else list(value) if np.iterable(value) else [value]
    try:
        found = tuple(sorted(float(p) for p in parts))
    except (TypeError, ValueError):
        raise InputError(f"expected numbers separated by commas, found {value!r}") from None
    if not found or not all(np.isfinite(f) and f > 0 for f in found):
        raise InputError(f"expected positive numbers, found {value!r}")
    return found


def oriented_flow(pair: DensePair, result: PairResult, missing: str) -> Flow | None:
    """The flow of a pair's direction at the size of its source image; None where there is none."""
    own, other = f"flow{pair.direction}", f"flow{3 - pair.direction}"
    if result.problems or own not in result.arrays:
        if missing == "error":
            why = "; ".join(result.problems) or f"{own} is missing"
            raise InputError(f"{pair.item}: {why}; allow it with missing=skip or missing=zero")
        if own not in result.arrays:
            return None
    source, target = pair.sizes()
    flow = result.arrays[own]
    if flow.shape[:2] == source:
        return flow
    # Without the other flow the method's size of the target is not known: the same scale is assumed.
    back = result.arrays.get(other)
    if back is None:
        scale = flow.shape[1] / source[1]
        back = np.zeros((max(1, round(target[0] * scale)), max(1, round(target[1] * scale)), 2))
    return resize_flow_pair(flow, back, source, target)[0]


def meta_of(pair: DensePair, options: Mapping[str, Any], **extra: Any) -> dict[str, Any]:
    """What scoring must know about a pair."""
    base = {"scene": pair.scene, "kind": pair.kind, "pair": pair.key, "missing": options["missing"]}
    return {**base, **extra}
