# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint flow``: what it writes and what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tiepoint.cli.flow import app
from tiepoint.formats.flow.by_suffix import read_flow, write_flow
from tiepoint.formats.flow.tss_results import write_pair_result
from tiepoint.formats.image.mask import write_mask
from tiepoint.formats.image.read import read_image, write_image
from tiepoint.geometry.flow.interpolation import resize_u8
from tiepoint.model.errors import InputError
from tiepoint.report.flow_pictures import sheet

ROOT = typer.Typer()
ROOT.add_typer(app, name="flow")


def both(*arguments: object) -> tuple[str, str]:
    """What a call says on standard output and on standard error."""
    result = CliRunner().invoke(ROOT, ["flow", *map(str, arguments)])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def call(*arguments: object) -> str:
    return both(*arguments)[0]


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


FILES = ("image1.png", "image2.png", "mask1.png", "mask2.png", "flow1.flo", "flow2.flo")


def dataset(folder: Path, *pairs: str) -> Path:
    """A dataset ``FOLDER/data`` of equal pairs in the subset S; the results are to go to what it returns."""
    for pair in pairs:
        data = folder / "data" / "S" / pair
        data.mkdir(parents=True)
        for name in FILES:
            (data / name).write_bytes((folder / name).read_bytes())
    return folder / "results"


def whole_results(folder: Path, *pairs: str) -> Path:
    results = dataset(folder, *pairs)
    for pair in pairs:
        (results / "S" / pair).mkdir(parents=True)
        for name in FILES[2:]:
            (results / "S" / pair / name).write_bytes((folder / name).read_bytes())
    return results


def test_unreadable_results_are_named(folder: Path) -> None:
    results = whole_results(folder, "a", "b", "c", "d", "e")
    (results / "S" / "a" / "mask1.png").write_bytes(b"\x89PNG")
    (results / "S" / "b" / "flow1.flo").write_bytes(b"")
    for name in FILES[2:]:
        (results / "S" / "c" / name).unlink()
    (folder / "data" / "S" / "d" / "image2.png").write_bytes(b"no")
    (folder / "data" / "S" / "e" / "mask2.png").unlink()
    out, err = both("show", "--results", results, "--data", folder / "data")
    assert out.startswith("7 pictures of 2 pairs")
    lines = err.splitlines()
    assert len(lines) == 6
    assert all(line.startswith("tiepoint: warning: ") for line in lines)
    assert lines[0].endswith("a/mask1.png: not a PNG file")
    assert "b/flow1.flo: truncated" in lines[1]
    assert "S/b: one of the two flows" in lines[2]
    assert "S/c is left out" in lines[3]
    assert "neither a mask nor both flows" in lines[3]
    assert "image2.png: this is not an image" in lines[4]
    assert "S/e is left out: S/e: mask2.png is missing" in lines[5]


def test_nothing_to_draw_is_an_error(folder: Path) -> None:
    results = dataset(folder, "a")
    (results / "S" / "a").mkdir(parents=True)
    with pytest.raises(InputError, match="nothing could be drawn of the 1 pairs"):
        call("show", "--results", results, "--data", folder / "data")


def test_pairs_do_not_overwrite_each_other(folder: Path) -> None:
    results, place = whole_results(folder, "a", "b"), folder / "pictures"
    words = call("show", "--results", results, "--data", folder / "data", "--vis-dir", place)
    assert words.startswith(f"12 pictures of 2 pairs in {place}/SUBSET/PAIR")
    assert len(list(place.glob("S/?/*.png"))) == 12
    with pytest.raises(InputError, match="leaves the folder of a pair"):
        call("show", "--results", results, "--data", folder / "data", "--vis-dir", "../vis")


def test_images_of_another_size_are_resized_to_the_flow(folder: Path) -> None:
    """The kit does so; a flow that is zero then shows image 2 as the flow's grid sees it."""
    rng = np.random.default_rng(1)
    large = [rng.integers(0, 256, (20, 28, 3)).astype(np.uint8) for _ in range(2)]
    for i in (0, 1):
        write_image(folder / f"large{i + 1}.png", large[i])
    write_flow(folder / "zero.flo", np.zeros((10, 14, 2)))
    images = ["--image1", folder / "large1.png"]
    call("warp", folder / "large2.png", folder / "zero.flo", "--out", folder / "w.png", *images)
    assert np.array_equal(read_image(folder / "w.png"), resize_u8(large[1], 10, 14))
    show = ["show", folder / "zero.flo", "--out", folder / "s.png"]
    call(*show, *images, "--image2", folder / "large2.png", "--mask", folder / "mask1.png")
    panels = [read_image(folder / "s.png")[:, 4 + 324 * k : 324 * (k + 1)] for k in range(5)]
    small = [resize_u8(image, 10, 14) for image in large]
    assert np.array_equal(panels[3], sheet([[small[1]]], width=320)[:, 4:-4])
    assert np.array_equal(panels[4], sheet([[small[0]]], width=320)[:, 4:-4])
    # A native flow between images of two sizes counts image 2's own pixels.
    call(
        "warp", folder / "large2.png", folder / "zero.flo",
        "--out", folder / "n.png", "--image1", folder / "image1.png",
    )  # fmt: skip
    assert np.array_equal(read_image(folder / "n.png"), large[1][:10, :14])


def test_a_scale_that_cannot_be_known_is_asked_for(folder: Path) -> None:
    write_image(folder / "large.png", np.zeros((20, 28, 3), np.uint8))
    with pytest.raises(InputError, match=r"the flow is 14 x 10 and image 2 is 28 x 20; give image 1 too"):
        call("warp", folder / "large.png", folder / "flow1.flo", "--out", folder / "w.png")
    with pytest.raises(InputError, match="`image1`"):
        call("show", folder / "flow1.flo", "--image2", folder / "large.png")


def test_masked_flow_has_the_colour_of_the_flow_background(folder: Path) -> None:
    write_mask(folder / "none.png", np.zeros((10, 14), bool))
    call(
        "show", folder / "flow1.flo", "--mask", folder / "none.png",
        "--flow-bg-color", "255000000", "--out", folder / "s.png",
    )  # fmt: skip
    masked = read_image(folder / "s.png")[4:-4, 4 + 324 : 648]
    assert (masked == (255, 0, 0)).all()


def test_pictures_of_a_results_folder(folder: Path) -> None:
    results = dataset(folder, "p")
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
        (["show", "nowhere.flo"], "does not exist"),
        (["show", "x.flo", "--bg-color", "red"], "cannot read the colour"),
        (["show", "x.flo", "--bg-color", "²,1,1"], "cannot read the colour"),
        (["convert", "nowhere.flo", "a.npy"], "does not exist"),
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
