# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store``: verify a store, list and remove runs, free space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ...core.errors import InputError
from ...core.formatting import age_s, count_text, format_bytes, format_seconds, printable, size_bytes
from ..common import (
    STORE,
    confirm,
    dump_json,
    notice,
    open_store_for_reading,
    open_store_for_writing,
    print_plain_table,
    progress_bars,
)
from ..shell.flag_names import as_flags

if TYPE_CHECKING:
    from ...store.maintenance.space import PruneReport

KIND_LABELS = {"kept lists": "cached lists"}
"""Printed names of file kinds whose JSON key is not plain English."""


def check_store_command(
    store: str = STORE, json_: bool = typer.Option(False, "--json", help="Print one JSON object.")
) -> int:
    """Verify every file of a store by its checksum and rebuild the database from the run files.

    If files are corrupt, print them with the runs to repeat, and exit with code 2. A corrupt or missing
    SQLite database is rebuilt. A store without write permission is checked but not changed.

    Example: `tiepoint store check --store tiepoint-store`
    """
    return check_and_report(store, json_)


def check_and_report(store: str | None, json_: bool = False) -> int:
    """Verify a store and print the result. Return 0, or 2 if there are problems."""
    from ...store.maintenance.verify import check_store

    with progress_bars(not json_) as progress:
        found = check_store(store, progress=progress)
    for line in found.notices:
        notice(line)
    if json_:
        problems = [
            {"what": p.what, "path": str(p.path) if p.path else None, "runs": list(p.runs), "again": p.again}
            for p in found.problems
        ]
        plain = {"runs": found.runs, "files": dict(found.files), "bytes": dict(found.sizes)}
        dump_json({**plain, "problems": problems})
    else:
        print("\n".join(printable(line) for line in as_flags(str(found)).splitlines()))
    return 0 if found.ok else 2


def ls(
    method: str = typer.Option(None, "--method", help="Only runs of this method."),
    task: str = typer.Option(None, "--task", help="Only runs of this task."),
    dataset: str = typer.Option(None, "--dataset", help="Only runs on a dataset of this name."),
    store: str = STORE,
    json_: bool = typer.Option(False, "--json", help="Print one JSON list."),
) -> None:
    """List the runs of a store with the size of their files, and the size of files that no other run uses.

    Example: `tiepoint store ls --task hpatches/matching`
    """
    from ...store.maintenance.space import list_runs

    with open_store_for_reading(store) as opened:
        found = list_runs(opened, method=method, task=task, dataset=dataset)
    if json_:
        dump_json([run.to_dict() for run in found])
        return
    if not found:
        print("no runs" + (" match" if method or task or dataset else " yet"))
        return
    columns = ["run", "method", "task", "dataset", "made", "size", "only its own"]
    rows = [
        [r.run, r.method, r.task, r.dataset, r.made, format_bytes(r.size_bytes), format_bytes(r.only_bytes)]
        for r in found
    ]
    print_plain_table(columns, rows, right=2)


def rm(
    runs: list[str] = typer.Argument(
        ..., metavar="RUN...", help="Ids of runs or of races; a unique prefix is enough."
    ),
    store: str = STORE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what would be deleted; change nothing."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Skip the confirmation."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Delete runs, and the records, scene values and features that no other run uses. Or delete races.

    Files that running processes may use are retained. Records of a deleted race stay until `store prune`.

    Example: `tiepoint store rm 3f9a12 --dry-run`
    """
    from ...store.maintenance.edit_runs import remove_runs

    if _remove_races(runs, store, dry_run=dry_run, yes=yes, as_json=json_):
        return
    with open_store_for_reading(store) as opened:
        report = remove_runs(opened, runs, dry_run=True)
    if not json_:
        for run, method, task in report.runs:
            print(f"{run}  {printable(method)} on {printable(task)}")
        parts = [
            f"{count_text(a.files, kind.removesuffix('s'))} ({format_bytes(a.size_bytes)})"
            for kind, a in report.files.items()
        ]
        print("used by no other run: " + (", ".join(parts) or "nothing"))
        if report.kept:
            print(f"{count_text(report.kept, 'file')} retained: running processes may use them")
    if not dry_run:
        confirm(f"Delete {count_text(len(report.runs), 'run')}?", yes)
        with open_store_for_writing(store, create=False) as opened:
            report = remove_runs(opened, [run for run, _, _ in report.runs])
    if json_:
        dump_json(report.to_dict())
    elif not dry_run:
        print(f"deleted {count_text(len(report.runs), 'run')}, {format_bytes(report.size_bytes)}")


def _remove_races(ids: list[str], store: str | None, *, dry_run: bool, yes: bool, as_json: bool) -> bool:
    """Delete races. Return False if none of the ids is that of a race."""
    from ...store.maintenance.edit_runs import remove_races
    from ...store.races import find_race

    with open_store_for_reading(store) as opened:
        found = {text: find_race(opened.root, text) for text in ids}
    races = [race for race in found.values() if race is not None]
    if not races:
        return False
    if len(races) < len(found):
        named = next(text for text, race in found.items() if race is None)
        raise InputError(f"{named} is not a race, but {races[0].id} is; delete runs and races separately")
    for race in races if not as_json else ():
        methods = printable(", ".join(m.name for m in race.question.methods))
        print(f"{race.id}  race of {methods} on {printable(race.question.task)}")
    if not dry_run:
        confirm(f"Delete {count_text(len(races), 'race')}?", yes)
        with open_store_for_writing(store, create=False) as opened:
            remove_races(opened, [race.id for race in races])
    if as_json:
        dump_json({"races": [race.id for race in races], "dry_run": dry_run})
    elif not dry_run:
        print(f"deleted {count_text(len(races), 'race')}; `store prune` removes records that nothing needs")
    return True


def rename(
    old: str = typer.Argument(..., help="Current name of a method."),
    new: str = typer.Argument(..., help="New name."),
    store: str = STORE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what would be renamed; change nothing."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Rename a method in all its runs. Scores stay the same. Run ids change, because they depend on the name.

    Example: `tiepoint store rename my_net MyNet-v2`
    """
    from ...store.maintenance.edit_runs import rename_method

    if dry_run:
        with open_store_for_reading(store) as opened:
            found = rename_method(opened, old, new, dry_run=True)
    else:
        with open_store_for_writing(store, create=False) as opened:
            found = rename_method(opened, old, new)
    if json_:
        dump_json(found.to_dict())
        return
    for before, after in found.ids.items():
        print(f"{before} -> {after}")
    would = "would be" if dry_run else "is now"
    print(f"{printable(old)} {would} called {printable(new)} in {count_text(len(found.ids), 'run')}")
    if any(a != b for a, b in found.ids.items()):
        notice(f"the new run ids are those of `tiepoint run … --name '{printable(new)}'`")


def size(
    store: str = STORE, json_: bool = typer.Option(False, "--json", help="Print one JSON object.")
) -> None:
    """Print the size of a store by kind and by method. Files that methods share count once.

    Example: `tiepoint store size --store tiepoint-store`
    """
    from ...store.maintenance.space import store_size

    with open_store_for_reading(store) as opened:
        found = store_size(opened)
    if json_:
        dump_json(found.to_dict())
        return
    kinds = [
        [KIND_LABELS.get(k, k), f"{a.files:,}", format_bytes(a.size_bytes)] for k, a in found.kinds.items()
    ]
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
        print(f"\n{format_bytes(found.unused_bytes)} used by no run; `tiepoint store prune` removes it")


def prune(
    older_than: str = typer.Option(
        None, "--older-than", help="Remove features that were not used for this time: 30d, 12h, 8w."
    ),
    larger_than_total: str = typer.Option(
        None,
        "--larger-than-total",
        help="Remove features until the store has at most this size: 20GB, 500MB.",
    ),
    store: str = STORE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what would be removed; change nothing."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Skip the confirmation."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Remove features that were not used recently, and records that no run uses. Runs and scores stay.

    The least recently used features are removed first. With both `--older-than` and `--larger-than-total`,
    only features of that age are removed, until the store has the requested size.

    Example: `tiepoint store prune --older-than 30d --larger-than-total 20GB --dry-run`
    """
    from ...store.maintenance.space import prune_store

    age = None if older_than is None else age_s(older_than)
    most = None if larger_than_total is None else size_bytes(larger_than_total)
    with open_store_for_reading(store) as opened:
        report = prune_store(opened, older_than_s=age, larger_than_bytes=most, dry_run=True)
    if not json_:
        _print_prune(report)
    if not dry_run and report.files:
        confirm(f"Remove {format_bytes(report.size_bytes)}?", yes)
        with open_store_for_writing(store, create=False) as opened:
            report = prune_store(opened, older_than_s=age, larger_than_bytes=most)
    if json_:
        dump_json(report.to_dict())
    elif not dry_run and report.files:
        print(f"removed {format_bytes(report.size_bytes)}")


def _print_prune(report: PruneReport) -> None:
    after = report.before_bytes - report.size_bytes
    if not report.files:
        print(f"nothing to remove: the size of the store is {format_bytes(report.before_bytes)}")
    for kind, amount in report.files.items():
        print(f"{KIND_LABELS.get(kind, kind)}: {amount.files:,}, {format_bytes(amount.size_bytes)}")
    if report.files:
        print(f"size of the store: {format_bytes(report.before_bytes)}, {format_bytes(after)} afterwards")
    if report.wanted_bytes is not None and after > report.wanted_bytes:
        print(f"still above {format_bytes(report.wanted_bytes)}: nothing else can be removed")
    if report.in_use:
        print(f"{count_text(report.in_use, 'file')} retained: running processes may use them")
    if report.again:
        print("a rerun of these methods recomputes:")
        for one in report.again:
            took = f", {format_seconds(one.time_s)} of computation" if one.time_s else ""
            lost = f"{count_text(one.features, 'feature')} of {count_text(one.runs, 'run')}"
            print(f"  {printable(one.method)}: {lost}{took}")
