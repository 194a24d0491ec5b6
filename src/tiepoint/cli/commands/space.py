# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store size`` and ``prune``: what a store takes, and making it smaller."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from ...core.amounts import age_s, count_text, format_bytes, format_seconds, size_bytes
from ...core.formatting import printable
from ..asking import STORE, confirm, print_plain_table
from ..common import open_store_for_reading, open_store_for_writing

if TYPE_CHECKING:
    from ...store.maintenance.prune import PruneReport


def size(
    store: str = STORE, json_: bool = typer.Option(False, "--json", help="Print one JSON object.")
) -> None:
    """Say how large a store is, by kind and by method. What methods share is counted once, as shared.

    Example: `tiepoint store size --store tiepoint-store`
    """
    from ...store.maintenance.space import store_size

    with open_store_for_reading(store) as opened:
        found = store_size(opened)
    if json_:
        print(json.dumps(found.to_dict(), indent=1))
        return
    kinds = [[k, f"{a.files:,}", format_bytes(a.size_bytes)] for k, a in found.kinds.items()]
    print_plain_table(
        ["kind", "files", "size"], [*kinds, ["all", "", format_bytes(found.total_bytes)]], right=2
    )
    if found.methods:
        print()
        rows = [
            [name, f"{m.runs:,}", format_bytes(m.only_bytes), format_bytes(m.shared_bytes)]
            for name, m in found.methods.items()
        ]
        print_plain_table(["method", "runs", "only this method", "shared"], rows, right=3)
    if found.unused_bytes:
        print(f"\nno run needs {format_bytes(found.unused_bytes)}; `tiepoint store prune` removes it")


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
    with open_store_for_reading(store) as opened:
        told = prune_store(opened, older_than_s=age, larger_than_bytes=most, dry_run=True)
    if not json_:
        _tell(told)
    if not dry_run and told.files:
        confirm(f"Remove {format_bytes(told.size_bytes)}?", yes)
        with open_store_for_writing(store, create=False) as opened:
            told = prune_store(opened, older_than_s=age, larger_than_bytes=most)
    if json_:
        print(json.dumps(told.to_dict(), indent=1))
    elif not dry_run and told.files:
        print(f"removed {format_bytes(told.size_bytes)}")


def _tell(told: PruneReport) -> None:
    after = told.before_bytes - told.size_bytes
    if not told.files:
        print(f"nothing to remove: the store has {format_bytes(told.before_bytes)}")
    for kind, amount in told.files.items():
        print(f"{kind}: {amount.files:,}, {format_bytes(amount.size_bytes)}")
    if told.files:
        print(f"the store has {format_bytes(told.before_bytes)}, and {format_bytes(after)} without them")
    if told.wanted_bytes is not None and after > told.wanted_bytes:
        print(f"that is more than {format_bytes(told.wanted_bytes)}: nothing else may go")
    if told.in_use:
        print(f"kept, since processes at work may use them: {count_text(told.in_use, 'file')}")
    if told.again:
        print("computed again when these are run again:")
        for one in told.again:
            took = f", {format_seconds(one.time_s)} of work" if one.time_s else ""
            made = f"{count_text(one.features, 'feature')} of {count_text(one.runs, 'run')}"
            print(f"  {printable(one.method)}: {made}{took}")
