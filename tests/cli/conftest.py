"""A small store for commands that read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiepoint.cli.main import run as command
from tiepoint.cli.shell.common_options import start_command

ODD = """
class Odd:
    name, distance = "é…\\x1b[31m", "l2"

    def describe(self, patches):
        return patches[:, ::2, ::2].reshape(len(patches), -1).astype("float32")
"""


@pytest.fixture(autouse=True)
def _default_verbosity() -> None:
    """Forget the ``-q`` of a command in an earlier test."""
    start_command()


@pytest.fixture(scope="session")
def small_store(tmp_path_factory: pytest.TempPathFactory, patches: Path) -> Path:
    """Three patch methods on two tasks; one has a name outside ASCII and with an escape in it."""
    store = tmp_path_factory.mktemp("shell") / "store"
    asked = ["--data", str(patches), "--store", str(store), "--jobs", "1", "-q"]
    both = "hpatches/matching,hpatches/verification"
    assert command(["run", "resize", "meanstd", "--task", both, *asked]) == 0
    (store.parent / "odd.py").write_text(ODD, encoding="utf-8")
    assert command(["run", f"{store.parent}/odd.py:Odd", "--task", "hpatches/matching", *asked]) == 0
    return store
