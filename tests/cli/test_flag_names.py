"""Messages name settings as in Python; the command line shows the flags of the command that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiepoint.cli.main import run as command
from tiepoint.cli.shell.flag_names import as_flags


def test_settings_of_another_command_stay_as_they_are() -> None:
    assert as_flags("with `split` or `seed=3`", {"seed": "--seed"}) == "with `split` or --seed 3"
    assert as_flags("a dict `config`", {"config": "--config"}) == "a dict `config`"


def test_an_error_shows_the_flag(tmp_path: Path, patches: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["run", "resize", "--task", "hpatches/matching", "--data", str(patches), "--fit-on", str(patches)]
    assert command([*asked, "--store", str(tmp_path / "s")]) == 2
    assert "--fit-on has no effect: resize" in capsys.readouterr().err
