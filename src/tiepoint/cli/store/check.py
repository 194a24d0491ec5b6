# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint store check``, which ``tiepoint data check --store`` is another name for."""

from __future__ import annotations

import json

import typer

from ...model.plain_names import shown
from ..common import progress_bars, writing
from ..words import as_flags
from .asking import STORE


def check(
    store: str = STORE, json_: bool = typer.Option(False, "--json", help="Print one JSON object.")
) -> int:
    """Verify a store: every file is read and hashed anew, the database rebuilt from the files of the runs.

    Says what is damaged, and what to run again. The exit code is 2 if there are problems.

    Example: `tiepoint store check --store tiepoint-store`
    """
    return check_and_tell(store, json_)


def check_and_tell(store: str | None, json_: bool = False) -> int:
    """Verify a store, print what was found, and return the exit code: 0, or 2 if there are problems."""
    from ...store.upkeep.changes import tidy
    from ...store.upkeep.check import check_store

    with writing(store, create=False) as opened, progress_bars(not json_) as progress:
        tidy(opened)
        found = check_store(opened, progress=progress, rebuild=True)
    if json_:
        problems = [
            {"what": p.what, "path": str(p.path) if p.path else None, "runs": list(p.runs), "again": p.again}
            for p in found.problems
        ]
        plain = {"runs": found.runs, "files": dict(found.files), "bytes": dict(found.sizes)}
        print(json.dumps({**plain, "problems": problems}, indent=1))
    else:
        print("\n".join(shown(line) for line in as_flags(str(found)).splitlines()))
    return 0 if found.ok else 2
