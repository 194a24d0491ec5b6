# SPDX-License-Identifier: BSD-3-Clause
"""The reserved method `oracle` of family `pairs`. The task computes its matches from the ground truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.records import Arrays, Item
from ..methods.base import Method
from ..tasks.capabilities import MakesOracle

ORACLE = "pairs/oracle"


def with_oracle(method: Method, data: Any) -> Method:
    """Return the method. If it is the oracle, attach the features that `data` provides."""
    if method.config.get("method") != ORACLE or not isinstance(data, MakesOracle):
        return method
    noise_px = float(method.config["params"]["noise_px"])

    def extract(item: Item, payload: Any) -> Arrays:
        return data.oracle_features(item, noise_px)

    return replace(method, extract=extract)
