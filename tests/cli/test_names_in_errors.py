"""Messages about wrong metrics, groups, tasks and runs list what is near first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiepoint.cli.main import run as command

M = "hpatches/matching"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "--task", M, "--metric", "maap"), "did you mean 'map"),
        (("compare", "--task", M, "--group", "noise=hrad"), "did you mean 'noise=hard'"),
        (("compare", "--task", "hpatches/mathcing"), "hpatches/matching"),
        (("compare", "--task", M, "--protocol", "exakt"), "did you mean 'exact'"),
        (("compare", "rezise", "--task", M), "did you mean 'resize'? Known: resize, meanstd"),
        (("show", "menastd"), "did you mean 'meanstd'? Known: meanstd"),
        (("plot", "socres"), "did you mean 'scores'"),
        (("report", "--format", "htlm"), "did you mean 'html"),
    ],
)
def test_what_is_near_comes_first(
    small_store: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert command([*arguments, "--store", str(small_store)]) == 2
    assert said in capsys.readouterr().err
