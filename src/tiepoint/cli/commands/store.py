# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store check`` and ``migrate``: is a store whole, and is it of today."""

from __future__ import annotations

import json

import typer

from ...core.formatting import printable
from ..asking import STORE
from ..common import notice, progress_bars
from ..shell.flag_names import as_flags


def check_store_command(
    store: str = STORE, json_: bool = typer.Option(False, "--json", help="Print one JSON object.")
) -> int:
    """Verify a store: every file is read and hashed anew, the database rebuilt from the files of the runs.

    Says what is damaged, and what to run again; the exit code is then 2. A store that cannot be written is
    only read. An SQLite database that is damaged or missing is made anew.

    Example: `tiepoint store check --store tiepoint-store`
    """
    return check_and_report(store, json_)


def check_and_report(store: str | None, json_: bool = False) -> int:
    """Verify a store, print what was found, and return the exit code: 0, or 2 if there are problems."""
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
        print(json.dumps({**plain, "problems": problems}, indent=1))
    else:
        print("\n".join(printable(line) for line in as_flags(str(found)).splitlines()))
    return 0 if found.ok else 2


def migrate_command(
    store: str = STORE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say what would be done."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Bring a store of an older version up to date: database, names of runs, scores, scene values.

    The database is copied first. Nothing is extracted, and the command may be stopped and run again.

    Example: `tiepoint store migrate --store tiepoint-store`
    """
    from ...run.migrate import migrate_store

    with progress_bars(not json_) as progress:
        found = migrate_store(store, dry_run=dry_run, progress=progress)
    if json_:
        print(json.dumps(found.to_dict(), indent=1))
        return
    done = "would be " if dry_run else ""
    now = found.to_dict()["now"]
    if found.version == now:
        print(f"{found.store}: the database is up to date (schema {now})")
    else:
        print(f"{found.store}: schema {found.version} {'would become' if dry_run else 'is now'} {now}")
    if found.copy is not None:
        print(f"copy of the database: {found.copy}")
    print(
        f"runs: {found.runs}, {found.renamed} {done}renamed, {found.updated} {done}scored again from records"
    )
    if found.kept:
        print(f"records are missing, so these keep the scores they have: {', '.join(found.kept)}")
    if found.again:
        print("features that have to be made again when these are run the next time:")
        for one in found.again:
            print(f"  {one.run} {printable(one.method)} on {printable(one.task)}: {printable(one.reason)}")
