# SPDX-License-Identifier: BSD-3-Clause
"""What tells runs of one method apart: split, origin, data, options."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...run.importers.result import NOT_KNOWN
from ...run.result import Run


def is_imported(run: Run) -> bool:
    """Whether the run holds finished numbers of another tool."""
    return run.manifest.imported


def split_of(run: Run) -> str | None:
    """Name of the split a run was made on; None for tasks that have none, and where it is not known."""
    return run.manifest.split


def _split(run: Run) -> str:
    found = split_of(run)
    return f"split {NOT_KNOWN if found is None else found}"


def _origin(run: Run) -> str:
    return "imported" if is_imported(run) else "own run"


def _dataset(run: Run) -> str:
    return f"on {run.manifest.dataset.name}"


def _data(run: Run) -> str:
    return f"data {run.manifest.dataset.hash[:8]}"


def _options(run: Run) -> str:
    given = {k: v for k, v in run.manifest.options.items() if k not in ("split", "tasks")}
    return " ".join(f"{k}={v}" for k, v in sorted(given.items())) or "default options"


def _lists(run: Run) -> str:
    return f"lists {run.manifest.lists[:8]}"


_WAYS: tuple[Callable[[Run], str], ...] = (_split, _origin, _dataset, _options, _data, _lists, lambda r: r.id)


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """Method names; where runs share one, what differs stands behind it: ``sift (split a)``.

    Split, origin (imported or not), dataset, options, data and lists are tried in this order, each only if it
    tells more of the runs apart; the run's id is the last resort.
    """
    names = [r.method for r in runs]
    found = list(names)
    for name in {n for n in names if names.count(n) > 1}:
        at = [i for i, n in enumerate(names) if n == name]
        labels: list[tuple[str, ...]] = [() for _ in at]
        for way in _WAYS:
            tried = [(*old, way(runs[i])) for old, i in zip(labels, at, strict=True)]
            if len(set(tried)) > len(set(labels)):
                labels = tried
            if len(set(labels)) == len(at):
                break
        for i, label in zip(at, labels, strict=True):
            found[i] = f"{name} ({', '.join(label)})"
    return found


def some(names: Sequence[str], shown: int = 4) -> str:
    """The first names of a list, and how many more there are.

    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
