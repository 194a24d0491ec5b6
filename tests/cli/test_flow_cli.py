# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint flow``: what it writes and what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tiepoint.cli.flow import app
from tiepoint.formats.flow_file import read_flow, write_flow
from tiepoint.formats.image import read_image, write_image
from tiepoint.formats.mask import write_mask
from tiepoint.formats.tss_results import write_pair_result
from tiepoint.model.errors import InputError

ROOT = typer.Typer()
ROOT.add_typer(app, name="flow")


def call(*arguments: object) -> str:
    result = CliRunner().invoke(ROOT, ["flow", *map(str, arguments)])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    flow = np.zeros((10, 14, 2), np.float32)
    flow[..., 0] = 2
    flow[0] = 1e10
    for i in (1, 2):
        write_image(tmp_path / f"image{i}.png", rng.integers(0, 256, (10, 14, 3)).astype(np.uint8))
        write_flow(tmp_path / f"flow{i}.flo", flow)
        write_mask(tmp_path / f"mask{i}.png", np.ones((10, 14), bool))
    return tmp_path


def test_convert_there_and_back(folder: Path) -> None:
    call("convert", folder / "flow1.flo", folder / "k.png")
    call("convert", folder / "k.png", folder / "k.npy")
    call("convert", folder / "k.npy", folder / "back.flo")
    assert np.array_equal(read_flow(folder / "back.flo"), read_flow(folder / "flow1.flo"))


def test_show_one_picture_and_a_sheet(folder: Path) -> None:
    words = call("show", folder / "flow1.flo")
    assert "14 x 10, 90.0 % known, longest 2.00 px" in words
    assert read_image(folder / "flow1.flo.color.png").shape == (10, 14, 3)
    call(
        "show", folder / "flow1.flo", "--image1", folder / "image1.png", "--image2", folder / "image2.png",
        "--mask", folder / "mask1.png", "--truth", folder / "flow1.flo", "--out", folder / "sheet.png",
    )  # fmt: skip
    assert read_image(folder / "sheet.png").shape[1] == 6 * 324 + 4


def test_colours_of_the_background(folder: Path) -> None:
    call("show", folder / "flow1.flo", "--out", folder / "a.png", "--flow-bg-color", "001002003")
    assert read_image(folder / "a.png")[0, 0].tolist() == [1, 2, 3]
    call(
        "warp", folder / "image2.png", folder / "flow1.flo", "--out", folder / "w.png", "--bg-color", "9,8,7"
    )
    warped = read_image(folder / "w.png")
    assert warped[5, 13].tolist() == [9, 8, 7]
    assert np.array_equal(warped[1:, :12], read_image(folder / "image2.png")[1:, 2:])


def test_pictures_of_a_results_folder(folder: Path) -> None:
    data, results = folder / "data" / "S" / "p", folder / "results"
    data.mkdir(parents=True)
    for name in ("image1.png", "image2.png", "mask1.png", "mask2.png", "flow1.flo", "flow2.flo"):
        (data / name).write_bytes((folder / name).read_bytes())
    flow = read_flow(folder / "flow1.flo")
    write_pair_result(results / "S" / "p", {"flow1": flow, "flow2": flow})
    words = call("show", "--results", results, "--data", folder / "data", "--vis-dir", "pictures")
    assert words.startswith("4 pictures of 1 pairs")
    names = sorted(p.name for p in (results / "S" / "p" / "pictures").iterdir())
    assert names == ["flow1.png", "flow2.png", "warped1.png", "warped2.png"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show"], "needs a FLOW"),
        (["show", "x.flo", "--results", "r"], "needs --data"),
        (["show", "x.tif"], "ends in .flo"),
        (["show", "nowhere.flo"], "No such file"),
        (["show", "x.flo", "--bg-color", "red"], "cannot read the colour"),
        (["convert", "nowhere.flo", "a.npy"], "No such file"),
        (["show", "--results", ".", "--data", "nowhere"], "is not a folder"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], words: str, folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=words):
        call(*arguments)


def test_sizes_must_agree(folder: Path) -> None:
    write_mask(folder / "small.png", np.ones((3, 3), bool))
    write_flow(folder / "small.flo", np.zeros((3, 3, 2)))
    with pytest.raises(InputError, match="3 x 3"):
        call(
            "warp",
            folder / "image2.png",
            folder / "flow1.flo",
            "--out",
            folder / "w.png",
            "--mask",
            folder / "small.png",
        )
    with pytest.raises(InputError, match="3 x 3"):
        call("show", folder / "flow1.flo", "--truth", folder / "small.flo")


def test_every_command_has_an_example() -> None:
    for command in ("show", "convert", "warp"):
        assert "Example" in call(command, "--help")
