# SPDX-License-Identifier: BSD-3-Clause
"""The commands that `data check` prints are accepted by the program, on real data and on small sets."""

import os
import shlex
from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run
from tiepoint.datasets.hpatches.layout import STANDARD_IMAGES
from tiepoint.datasets.validation.dataset import check_dataset
from tiepoint.formats.hpatches.patch_strip import write_strip

REAL = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))


def accepted(report, tmp_path, capsys):
    """Every command of a report that needs no files of others, as a dry run."""
    commands = [use.command for use in report.uses]
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "tiepoint"
        if words[1] == "run" and not any(w.startswith("files:") or w == "TASKS" for w in words):
            code = run([*words[1:], "--dry-run", "--store", str(tmp_path / "store")])
            assert code == 0, capsys.readouterr().err
    return commands


@pytest.mark.skipif(not REAL.is_dir(), reason="needs real data (TIEPOINT_TEST_DATA)")
@pytest.mark.parametrize(
    "place",
    ["sequences", "tss", "pf_willow", "wxbs", "evd", "spair_sample", "scannet_sample", "megadepth_sample"],
)
def test_commands_for_real_data_are_accepted(place, tmp_path, capsys):
    assert accepted(check_dataset((REAL / place).resolve(), deep=False), tmp_path, capsys)


def strips(root, images):
    for k, sequence in enumerate(("i_a", "v_b")):
        for i, image in enumerate(images):
            patches = np.random.default_rng([k, i]).integers(0, 255, (4, 65, 65)).astype(np.uint8)
            write_strip(root / sequence / f"{image}.png", patches)
    return root


def test_commands_for_patches_are_accepted(tmp_path, capsys):
    root = strips(tmp_path / "with blank", STANDARD_IMAGES)
    commands = accepted(check_dataset(root), tmp_path, capsys)
    assert len(commands) == 2
    assert "'" in commands[0]


def test_patches_of_2016_are_for_the_tasks_of_2016(tmp_path, capsys):
    root = strips(tmp_path / "old", [i for i in STANDARD_IMAGES if not i.startswith("t")])
    (use,) = check_dataset(root).uses
    assert use.tasks[0] == "hpatches-v1/matching"
    assert (
        run(["data", "tasks", "--suite", "hpatches-v1", "--data", str(root), "--out", str(tmp_path / "d")])
        == 0
    )
    command = [str(tmp_path / "d") if w == "TASKS" else w for w in shlex.split(use.command)]
    assert run([*command[1:], "--dry-run", "--store", str(tmp_path / "store")]) == 0, capsys.readouterr().err
