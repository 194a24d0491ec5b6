# SPDX-License-Identifier: BSD-3-Clause
"""Options of the dense tasks, read from Python values or from text: yes or no, numbers, names, `missing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...model.errors import InputError, Together, UnknownNameError
from ..info import MetricInfo

ENDPOINT_ERROR = MetricInfo(
    "mean distance from the true place of the pixels where both flows are known", unit="px", better="lower"
)
MISSING = ("error", "skip", "zero")
"""What to do about what is missing: stop, leave it out of the means, count it 0."""

_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def flag(name: str, value: Any) -> bool:
    """The value of an option that is on or off: a bool, 0 or 1, or a word for it in upper or lower case.

    >>> flag("auto_flip", "False"), flag("auto_flip", "ON"), flag("auto_flip", 1)
    (False, True, True)
    >>> flag("auto_flip", "maybe")
    Traceback (most recent call last):
    tiepoint.model.errors.InputError: auto_flip is on or off, found 'maybe'; write auto_flip=true or ...
    """
    word = str(value).strip().lower() if isinstance(value, str | int | np.bool_) else ""
    if word not in _WORDS:
        raise InputError(
            f"{name} is on or off, found {value!r}; write {name}=true or {name}=false "
            "(yes, no, on, off, 1 and 0 do too)"
        )
    return _WORDS[word]


def numbers(value: Any) -> tuple[float, ...]:
    """Positive numbers given as a list or as text with commas, ascending, each once.

    >>> numbers("5,1,5"), numbers([0.1]), numbers(3)
    ((1.0, 5.0), (0.1,), (3.0,))
    """
    parts = value.split(",") if isinstance(value, str) else list(value) if np.iterable(value) else [value]
    try:
        found = tuple(sorted({float(p) for p in parts}))
    except (TypeError, ValueError):
        raise InputError(f"expected numbers separated by commas, found {value!r}") from None
    if not found or not all(np.isfinite(f) and f > 0 for f in found):
        raise InputError(f"expected positive numbers, found {value!r}")
    return found


def names(value: Any) -> tuple[str, ...]:
    """Names given as a list or as text with commas.

    >>> names("JODS, PASCAL"), names(())
    (('JODS', 'PASCAL'), ())
    """
    parts = value.split(",") if isinstance(value, str) else [str(v) for v in value]
    return tuple(p.strip() for p in parts if p.strip())


def with_defaults(
    task: str, options: Mapping[str, Any], defaults: Mapping[str, Any], checks: Together
) -> dict[str, Any]:
    """All options with their values; unknown names and values of `missing` are left with `checks`."""
    known = {"missing": "error", **defaults}
    for name in options:
        if name not in known:
            checks.errors.append(UnknownNameError(f"option of {task}", name, known))
    full = {**known, **{k: v for k, v in options.items() if v is not None and k in known}}
    if full["missing"] not in MISSING:
        checks.errors.append(UnknownNameError("value of missing", str(full["missing"]), MISSING))
    return full


def left_out(problems: Sequence[str], *, shown: int = 5) -> list[str]:
    """Warnings about pairs left out because of their ground truth; many become few and a count.

    >>> left_out(["a: x is missing", "b: x is missing"], shown=1)
    ['pair left out: a: x is missing', 'and 1 more problem of ground truth']
    """
    rest = len(problems) - shown
    more = [f"and {rest} more problem{'s' if rest > 1 else ''} of ground truth"] if rest > 0 else []
    return [*(f"pair left out: {p}" for p in problems[:shown]), *more]
