# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store size`` and ``prune``: what a store takes, and making it smaller."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from ...core.amounts import age_s, number_of, shown_bytes, shown_seconds, size_bytes
from ...core.formatting import shown
from ..asking import STORE, sure, table
from ..common import reading, writing

if TYPE_CHECKING:
    from ...store.maintenance.prune import Pruned


def size(
    store: str = STORE, json_: bool = typer.Option(False, "--json", help="Print one JSON object.")
) -> None:
    """Say how large a store is, by kind and by method. What methods share is counted once, as shared.

    Example: `tiepoint store size --store tiepoint-store`
    """
    from ...store.maintenance.space import store_size

    with reading(store) as opened:
        found = store_size(opened)
    if json_:
        print(json.dumps(found.to_dict(), indent=1))
        return
    kinds = [[k, f"{a.files:,}", shown_bytes(a.size_bytes)] for k, a in found.kinds.items()]
    table(["kind", "files", "size"], [*kinds, ["all", "", shown_bytes(found.total_bytes)]], right=2)
    if found.methods:
        print()
        rows = [
            [name, f"{m.runs:,}", shown_bytes(m.only_bytes), shown_bytes(m.shared_bytes)]
            for name, m in found.methods.items()
        ]
        table(["method", "runs", "only this method", "shared"], rows, right=3)
    if found.unused_bytes:
        print(f"\nno run needs {shown_bytes(found.unused_bytes)}; `tiepoint store prune` removes it")


def prune(
    older_than: str = typer.Option(None, "--older-than", help="Last used longer ago: 30d, 12h, 8w."),
    larger_than_total: str = typer.Option(
        None, "--larger-than-total", help="Until the store has at most this: 20GB, 500MB."
    ),
    store: str = STORE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say what would be removed."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Remove features that were not used for long, and records that no run needs. Runs and scores stay.

    What was used longest ago goes first. With both options, what is old goes until the store is small enough.

    Example: `tiepoint store prune --older-than 30d --larger-than-total 20GB --dry-run`
    """
    from ...store.maintenance.prune import prune_store

    age = None if older_than is None else age_s(older_than)
    most = None if larger_than_total is None else size_bytes(larger_than_total)
    with reading(store) as opened:
        told = prune_store(opened, older_than_s=age, larger_than_bytes=most, dry_run=True)
    if not json_:
        _tell(told)
    if not dry_run and told.files:
        sure(f"Remove {shown_bytes(told.size_bytes)}?", yes)
        with writing(store, create=False) as opened:
            told = prune_store(opened, older_than_s=age, larger_than_bytes=most)
    if json_:
        print(json.dumps(told.to_dict(), indent=1))
    elif not dry_run and told.files:
        print(f"removed {shown_bytes(told.size_bytes)}")


def _tell(told: Pruned) -> None:
    after = told.before_bytes - told.size_bytes
    if not told.files:
        print(f"nothing to remove: the store has {shown_bytes(told.before_bytes)}")
    for kind, amount in told.files.items():
        print(f"{kind}: {amount.files:,}, {shown_bytes(amount.size_bytes)}")
    if told.files:
        print(f"the store has {shown_bytes(told.before_bytes)}, and {shown_bytes(after)} without them")
    if told.wanted_bytes is not None and after > told.wanted_bytes:
        print(f"that is more than {shown_bytes(told.wanted_bytes)}: nothing else may go")
    if told.in_use:
        print(f"kept, since processes at work may use them: {number_of(told.in_use, 'file')}")
    if told.again:
        print("computed again when these are run again:")
        for one in told.again:
            took = f", {shown_seconds(one.time_s)} of work" if one.time_s else ""
            made = f"{number_of(one.features, 'feature')} of {number_of(one.runs, 'run')}"
            print(f"  {shown(one.method)}: {made}{took}")
