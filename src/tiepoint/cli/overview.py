# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint list`` alone: what there is at a glance, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap
from typing import Any

from .shell.helptext import columns
from .shell.names import PROTOCOLS, datasets


def overview(store: str | None) -> dict[str, Any]:
    """Names of tasks and methods by family, of protocols and published datasets; counts of the store."""
    from ..methods.names import METHODS
    from ..tasks import TASKS

    protocols = dict.fromkeys(p for known in PROTOCOLS.values() for p in known)
    return {
        "tasks": _by_family((e.family, e.name) for e in TASKS),
        "methods": _by_family((e.family, e.name.split(":")[-1]) for e in METHODS),
        "protocols": list(protocols),
        "datasets": list(datasets()),
        "store": _store(store),
    }


def _by_family(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for family, name in pairs:
        found.setdefault(family, []).append(name)
    return found


def _store(store: str | None) -> dict[str, Any] | None:
    """What a store has; None where there is none and none was named."""
    from ..store.store import default_store, store_root

    where = store or default_store()
    if store is None and not store_root(where).exists():
        return None
    from ..store.run_heads import load_heads
    from .common import reading

    with reading(where) as opened:
        heads = load_heads(opened)
        counts = {k: len({getattr(h, k) for h in heads}) for k in ("method", "task", "dataset")}
        return {"path": str(opened.root), "runs": len(heads), **counts}


def text(found: dict[str, Any]) -> str:
    """The overview in lines that fit the terminal."""
    width = columns()
    lines: list[str] = []
    for title, by_family in (("Tasks", found["tasks"]), ("Methods", found["methods"])):
        lines.append(f"{title}:")
        for family, names in by_family.items():
            lines += _names(f"  {family:<10}", names, width)
    lines += ["", *_names("Protocols: ", found["protocols"], width)]
    if found["datasets"]:
        lines += _names("Datasets: ", found["datasets"], width)
    lines += ["", *_next(found["store"])]
    return "\n".join(lines)


def _names(head: str, names: Iterable[str], width: int) -> list[str]:
    return wrap(
        ", ".join(dict.fromkeys(names)),
        width,
        initial_indent=head,
        subsequent_indent=" " * (len(head) if width > 50 else 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _next(store: dict[str, Any] | None) -> list[str]:
    about = [
        "  tiepoint list methods|tasks   what each of them is",
        "  tiepoint run --help           score a method",
    ]
    if store is None or not store["runs"]:
        first = "No store here yet." if store is None else f"Store {store['path']}: no runs yet."
        return [first, "Next:", "  tiepoint demo                 everything once", *about]
    runs = [f"{store[k]} {k}{'' if store[k] == 1 else 's'}" for k in ("method", "task", "dataset")]
    count = f"{store['runs']} run{'' if store['runs'] == 1 else 's'}"
    return [
        f"Store {store['path']}: {count}, {', '.join(runs)}.",
        "Next:",
        "  tiepoint list runs|datasets   what the store has",
        "  tiepoint compare --task TASK  which method is better",
        *about,
    ]
