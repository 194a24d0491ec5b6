# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint flow``: what it writes and what it says."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tiepoint.cli.commands.flow import app
from tiepoint.core.errors import InputError
from tiepoint.formats.flow.reader import read_flow, write_flow
from tiepoint.formats.flow.tss import write_pair_result
from tiepoint.formats.image.mask import write_mask
from tiepoint.formats.image.reader import read_image, write_image
from tiepoint.geometry.flow.reference_resize import resize_u8
from tiepoint.report.pictures.flow import sheet

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
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
    words = call("show", folder / "flow1.flo", "--plain", "--out", folder / "plain.png")
    assert "14 x 10, 90.0 % known, longest 2.00 px" in words
    assert read_image(folder / "plain.png").shape == (10, 14, 3)
    words = call(
        "show", folder / "flow1.flo", "--image1", folder / "image1.png", "--image2", folder / "image2.png",
        "--mask", folder / "mask1.png", "--truth", folder / "flow1.flo", "--out", folder / "sheet.png",
    )  # fmt: skip
    assert "error mean 0.00 px, 100.0 % within 0.7 px" in words
    assert read_image(folder / "sheet.png").shape[1] == 7 * 326 + 6


def test_a_flow_that_does_not_move_and_one_that_is_unknown(folder: Path) -> None:
    for name, value, said in (
        ("still", 0.0, "100.0 % known, longest 0.00 px"),
        ("none", np.nan, "0.0 % known"),
    ):
        np.save(folder / f"{name}.npy", np.full((4, 5, 2), value, np.float32))
        assert f"5 x 4, {said} -> " in call("show", folder / f"{name}.npy", "--out", folder / f"{name}.png")


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_nothing_is_written_beside_the_input(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = whole_results(folder, "a")
    before = everything_in(folder)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    words = call("show", folder / "flow1.flo")
    name = f"{folder.name}-flow1.flo.png"
    assert words.endswith(f"-> {Path('tiepoint-pictures', name)}\n")
    words = call("show", "--results", results, "--data", folder / "data")
    assert words.startswith("7 pictures of 1 pair in tiepoint-pictures/SUBSET/PAIR")
    assert everything_in(folder) == before
    written = {p.as_posix() for p in Path().rglob("*.png")}
    kit = {f"{kind}{i}" for kind in ("flow", "warped", "foreground") for i in (1, 2)} | {"sheet"}
    assert written == {f"tiepoint-pictures/{name}"} | {f"tiepoint-pictures/S/a/{k}.png" for k in kit}
    # Nor where the flow lies in the current folder: pictures have a folder of their own.
    monkeypatch.chdir(folder)
    call("show", "flow1.flo")
    assert {p for p in everything_in(folder) if p not in before} == {f"tiepoint-pictures/{name}"}


def test_truth_of_another_size(folder: Path) -> None:
    """The flow is resized to the truth, as scoring does: twice the size, twice the displacement."""
    truth = np.zeros((20, 28, 2), np.float32)
    truth[..., 0] = 4
    write_flow(folder / "large.flo", truth)
    write_flow(folder / "two.flo", np.repeat(np.array([2, 0], np.float32)[None, None], 10, 0).repeat(14, 1))
    words = call("show", folder / "two.flo", "--truth", folder / "large.flo", "--out", folder / "s.png")
    assert "error mean 0.00 px, 100.0 % within 1.4 px" in words
    write_flow(folder / "wide.flo", truth[:10])
    with pytest.raises(InputError, match=r"14 x 10 and the true flow 28 x 10, with different aspect ratios"):
        call("show", folder / "two.flo", "--truth", folder / "wide.flo", "--out", folder / "s.png")


def test_images_of_two_sizes_at_the_scale_of_the_flow(folder: Path) -> None:
    """As in the kit: image 1 of 28 x 20 was seen at 14 x 10, so image 2 of 28 x 30 at 14 x 15."""
    rng = np.random.default_rng(2)
    one, two = (rng.integers(0, 256, (h, 28, 3)).astype(np.uint8) for h in (20, 30))
    write_image(folder / "b1.png", one)
    write_image(folder / "b2.png", two)
    flow = np.zeros((10, 14, 2), np.float32)
    flow[..., 1] = 5
    write_flow(folder / "down.flo", flow)
    expected = resize_u8(two, 15, 14)[5:]
    # Image 1 is found beside image 2, and that is said.
    said, warned = both("warp", folder / "b2.png", folder / "down.flo", "--out", folder / "w.png")
    assert "read at 14 x 15" in said
    assert "b1.png as image 1" in warned
    assert np.array_equal(read_image(folder / "w.png"), expected)
    (folder / "b1.png").rename(folder / "first.png")
    warp = ("warp", folder / "b2.png", folder / "down.flo", "--out", folder / "w.png")
    with pytest.raises(InputError, match=r"`image1`.*`size2`"):
        call(*warp)
    for more in (("--image1", folder / "first.png"), ("--size2", "14x15")):
        call(*warp, *more)
        assert np.array_equal(read_image(folder / "w.png"), expected)
    # The mask may have the size of image 1, as those of the kit's data have.
    mask = np.zeros((20, 28), bool)
    mask[:, 14:] = True
    write_mask(folder / "m1.png", mask)
    call(*warp, "--image1", folder / "first.png", "--mask", folder / "m1.png")
    masked = read_image(folder / "w.png")
    assert (masked[:, :7] == (0, 255, 255)).all()
    assert np.array_equal(masked[:, 7:], expected[:, 7:])


@pytest.mark.skipif(not (DATA / "tss").is_dir(), reason=f"no TSS sample in {DATA}")
def test_the_kits_own_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flow 512 x 319, images 340 x 212 and 340 x 240, truth 340 x 212: the kit's picture, its score."""
    monkeypatch.chdir(tmp_path)
    data, results = (DATA / "tss" / part / "JODS" / "car_01_02" for part in ("Dataset", "Results"))
    call(
        "warp", data / "image2.png", results / "flow1.flo", "--image1", data / "image1.png",
        "--mask", results / "mask1.png", "--out", "w.png",
    )  # fmt: skip
    assert np.array_equal(read_image("w.png"), read_image(results / "vis" / "warped1.png"))
    show = ("show", results / "flow1.flo", "--truth", data / "flow1.flo", "--out", "s.png")
    images = ("--image1", data / "image1.png", "--image2", data / "image2.png")
    for more in ((), images):  # what `tiepoint score tss` gives this direction: T5 72.72
        assert "error mean 12.29 px, 72.7 % within 17 px (5 % of the larger side)" in call(*show, *more)


def test_colours_of_the_background(folder: Path) -> None:
    call("show", folder / "flow1.flo", "--plain", "--out", folder / "a.png", "--flow-bg-color", "001002003")
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
    out, err = both("show", "--results", results, "--data", folder / "data", "--vis-dir", "vis")
    assert out.startswith("8 pictures of 2 pairs")
    lines = err.splitlines()
    assert len(lines) == 6
    assert all(line.startswith("tiepoint: warning: ") for line in lines)
    assert lines[0].endswith("a/mask1.png: is not a PNG file")
    assert "b/flow1.flo: truncated" in lines[1]
    assert "S/b: one of the two flows" in lines[2]
    assert "S/c was skipped" in lines[3]
    assert "neither a mask nor both flows" in lines[3]
    assert "image2.png: is not an image" in lines[4]
    assert "S/e was skipped: S/e: mask2.png is missing" in lines[5]


def test_nothing_to_draw_is_an_error(folder: Path) -> None:
    results = dataset(folder, "a")
    (results / "S" / "a").mkdir(parents=True)
    with pytest.raises(InputError, match="nothing could be drawn for 1 pair"):
        call("show", "--results", results, "--data", folder / "data")


def test_pairs_do_not_overwrite_each_other(folder: Path) -> None:
    results, place = whole_results(folder, "a", "b"), folder / "pictures"
    words = call("show", "--results", results, "--data", folder / "data", "--vis-dir", place)
    assert words.startswith(f"14 pictures of 2 pairs in {place}/SUBSET/PAIR")
    assert len(list(place.glob("S/?/*.png"))) == 14
    with pytest.raises(InputError, match="leaves the folder of a pair"):
        call("show", "--results", results, "--data", folder / "data", "--vis-dir", "../vis")


def panel(path: Path, k: int) -> np.ndarray:
    """Picture k of a sheet, without its caption: below a title of one line, all pictures 14 x 10."""
    left, height = 6 + 326 * k, round(320 * 10 / 14)
    return read_image(path)[28 : 28 + height, left : left + 320]


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
    small = [resize_u8(image, 10, 14) for image in large]
    assert np.array_equal(panel(folder / "s.png", 3), sheet([[small[1]]], width=320)[4:-4, 4:-4])
    assert np.array_equal(panel(folder / "s.png", 4), sheet([[small[0]]], width=320)[4:-4, 4:-4])
    # A native flow between images of two sizes counts image 2's own pixels.
    call(
        "warp", folder / "large2.png", folder / "zero.flo",
        "--out", folder / "n.png", "--image1", folder / "image1.png",
    )  # fmt: skip
    assert np.array_equal(read_image(folder / "n.png"), large[1][:10, :14])


def test_a_scale_that_cannot_be_known_is_asked_for(folder: Path) -> None:
    write_image(folder / "large.png", np.zeros((20, 28, 3), np.uint8))
    with pytest.raises(
        InputError,
        match=r"the flow is 14 x 10 and image 2 is 28 x 20, so the scale of the flow is unknown",
    ):
        call("warp", folder / "large.png", folder / "flow1.flo", "--out", folder / "w.png")
    with pytest.raises(InputError, match=r"`image1`"):
        call("show", folder / "flow1.flo", "--image2", folder / "large.png")


def test_masked_flow_has_the_colour_of_the_flow_background(folder: Path) -> None:
    write_mask(folder / "none.png", np.zeros((10, 14), bool))
    call(
        "show", folder / "flow1.flo", "--mask", folder / "none.png",
        "--flow-bg-color", "255000000", "--out", folder / "s.png",
    )  # fmt: skip
    masked = panel(folder / "s.png", 1)
    assert (masked == (255, 0, 0)).all()


def test_pictures_of_a_results_folder(folder: Path) -> None:
    results = dataset(folder, "p")
    flow = read_flow(folder / "flow1.flo")
    write_pair_result(results / "S" / "p", {"flow1": flow, "flow2": flow})
    words = call("show", "--results", results, "--data", folder / "data", "--vis-dir", "pictures")
    assert words.startswith("5 pictures of 1 pair")
    names = sorted(p.name for p in (results / "S" / "p" / "pictures").iterdir())
    assert names == ["flow1.png", "flow2.png", "sheet.png", "warped1.png", "warped2.png"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show"], "needs a FLOW"),
        (["show", "x.flo", "--results", "r"], "needs --data"),
        (["show", "x.tif"], "use one of the suffixes .flo"),
        (["show", "nowhere.flo"], "does not exist"),
        (["show", "x.flo", "--bg-color", "red"], "is not a colour"),
        (["show", "x.flo", "--bg-color", "²,1,1"], "is not a colour"),
        (["show", "flow1.flo", "--image2", "image2.png", "--size2", "0x4"], "not a size"),
        (["show", "--results", ".", "--data", ".", "--out", "o", "--vis-dir", "v"], "pass one of them"),
        (["convert", "nowhere.flo", "a.npy"], "does not exist"),
        (["show", "--results", ".", "--data", "nowhere"], "it does not exist"),
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
        call("show", folder / "flow1.flo", "--truth", folder / "small.flo", "--out", folder / "s.png")


def test_every_command_has_an_example() -> None:
    for command in ("show", "convert", "warp"):
        assert "Example" in call(command, "--help")
