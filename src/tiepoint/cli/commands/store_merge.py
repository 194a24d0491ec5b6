# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store merge``: copy the runs of other stores into a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ...core.formatting import count_text, format_bytes, printable
from ..common import STORE, dump_json, open_store_for_reading, open_store_for_writing, progress_bars

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ...store.maintenance.merge import MergeConflict, MergedSource, MergeReport
    from ...store.store import Store

SHOWN = 20
"""Maximum number of conflicts printed for each kind and store; ``--json`` prints all."""
NAMES = {
    "records": "record file",
    "values": "scene-value file",
    "transforms": "fitted transform",
    "features": "feature",
}
"""Printed name of one file of each kind."""


def merge(
    others: list[str] = typer.Argument(..., metavar="OTHER...", help="Folders or database URLs of stores."),
    store: str = STORE,
    features: bool = typer.Option(
        True, "--features/--no-features", help="Copy cached features; without them later runs recompute them."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what would be merged; change nothing."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> int:
    """Copy the runs of other stores, with the files they need, into a store.

    Nothing in the store is overwritten, and the other stores are only read. If a run, a file or a keypoint
    set of the same name differs, the store keeps its own, and the exit code is 1. A second merge copies only
    what is missing, so an interrupted merge is resumed by the same command.

    Example: `tiepoint store merge /data/colleague/store --dry-run`
    """
    from ...store.maintenance.merge import merge_stores

    opening = _store_to_compare(store) if dry_run else open_store_for_writing(store)
    with opening as opened, progress_bars(not json_) as progress:
        report = merge_stores(opened, others, features=features, dry_run=dry_run, progress=progress)
    if json_:
        dump_json(report.to_dict())
    else:
        _print(report)
    return 0 if report.ok else 1


def _store_to_compare(store: str | None) -> AbstractContextManager[Store]:
    """Open a store for a dry run. A store that does not exist yet is not created."""
    from ...store.store import store_root

    missing = not store_root(store).exists()
    return open_store_for_writing(store) if missing else open_store_for_reading(store)


def _print(report: MergeReport) -> None:
    for source in report.sources:
        _print_source(source, "would be " * report.dry_run)
    if report.dry_run:
        print("nothing was changed")


def _print_source(source: MergedSource, would: str) -> None:
    print(f"from {printable(source.where)}:")
    print(
        f"  runs: {len(source.added):,} {would}added, {len(source.extended):,} {would}extended by protocols, "
        f"{source.present:,} already there"
    )
    for kind, amount in source.files.items():
        size = format_bytes(amount.size_bytes)
        print(f"  {count_text(amount.files, NAMES[kind])} {would}copied, {size}")
    if source.keypoint_sets:
        print(f"  keypoint sets: {', '.join(map(printable, source.keypoint_sets))} {would}copied")
    _print_conflicts("conflicts, this store keeps its own", source.conflicts)
    _print_conflicts("skipped, not readable there", source.unreadable)


def _print_conflicts(what: str, found: list[MergeConflict]) -> None:
    by_kind: dict[str, list[MergeConflict]] = {}
    for one in found:
        by_kind.setdefault(one.kind, []).append(one)
    for kind, own in by_kind.items():
        print(f"  {what}: {count_text(len(own), NAMES.get(kind, kind))}")
        for one in own[:SHOWN]:
            print(f"    - {printable(one.key)}: {printable(one.reason)}")
        if len(own) > SHOWN:
            print(f"    and {len(own) - SHOWN:,} more (--json lists all)")
