# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint flow``: show, convert and warp."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from ..model.errors import FormatError, InputError
from .common import notice, progress_bars, without_effect

app = typer.Typer(help="Flow files: pictures, conversion, warping.", no_args_is_help=True)

_BG = typer.Option("000255255", "--bg-color", help="Background of images, RRRGGGBBB or R,G,B.")
_FLOW_BG = typer.Option("128128128", "--flow-bg-color", help="Colour of unknown or masked flow.")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise InputError(f"cannot write {path}: {e.strerror or e}") from e


@app.command("show")
def show(
    context: typer.Context,
    flow: Path = typer.Argument(None, help="Flow file: .flo, KITTI .png, .npy or .npz."),
    out: Path = typer.Option(None, "--out", help="Picture to write; default FLOW.color.png."),
    truth: Path = typer.Option(None, "--truth", help="True flow; adds an error map, sets the colour scale."),
    image1: Path = typer.Option(
        None, "--image1", help="Image that the flow starts from; adds it, and its foreground."
    ),
    image2: Path = typer.Option(None, "--image2", help="Image the flow points into; adds the warped image."),
    mask: Path = typer.Option(None, "--mask", help="Foreground mask of image 1."),
    results: Path = typer.Option(None, "--results", help="Results in the TSS layout, instead of FLOW."),
    data: Path = typer.Option(None, "--data", help="TSS dataset for --results."),
    vis_dir: str = typer.Option(
        "vis",
        "--vis-dir",
        help="Sub-folder of each pair for its pictures; or a full path, which gets SUBSET/PAIR.",
    ),
    bg_color: str = _BG,
    flow_bg_color: str = _FLOW_BG,
) -> None:
    """Draw a flow in the Middlebury colours, or all pictures of a results folder as the TSS kit draws them.

    With images, truth or a mask the picture is a sheet: image 1, image 2, flow, warped image, foreground,
    error map, as far as there is something to show. Images of another size than the flow are resized to it.

    Examples: `tiepoint flow show flow1.flo --image1 a.png --image2 b.png --truth gt.flo --out sheet.png`,
    `tiepoint flow show --results Results --data Dataset --vis-dir vis`
    """
    from ..report.flow_pictures import parse_colour

    colours = parse_colour(bg_color), parse_colour(flow_bg_color)
    if results is not None:
        if flow is not None or data is None:
            raise InputError("--results needs --data and no FLOW; see tiepoint flow show --help")
        alone = ("out", "truth", "image1", "image2", "mask")
        without_effect(context, alone, "with --results, whose pictures are drawn as the TSS kit draws them")
        _show_results(results, data, vis_dir, colours)
        return
    if flow is None:
        raise InputError("show needs a FLOW file, or --results and --data; see tiepoint flow show --help")
    without_effect(context, ("data", "vis_dir"), "without --results")
    if image2 is None and (mask is None or image1 is None):
        without_effect(context, ("bg_color",), "without --image2, or --image1 and --mask")
    _show_one(flow, out, truth, image1, image2, mask, colours)


def _show_one(
    flow: Path,
    out: Path | None,
    truth: Path | None,
    image1: Path | None,
    image2: Path | None,
    mask: Path | None,
    colours: tuple[Any, Any],
) -> None:
    from ..formats.flow.by_suffix import read_flow
    from ..formats.image.read import read_image, write_image
    from ..geometry.flow.color import flow_color, max_motion
    from ..geometry.flow.rules import known
    from ..geometry.flow.warp import warp_image
    from ..report.flow_pictures import error_map, sheet, target_image

    values = read_flow(flow)
    true = None if truth is None else read_flow(truth)
    if true is not None and true.shape != values.shape:
        raise InputError(f"{truth} is {true.shape[1]} x {true.shape[0]}, {flow} is {_wh(values)}")
    longest = max_motion(values if true is None else true)
    coloured = flow_color(values, longest=longest, background=colours[1])
    images = [None if p is None else read_image(p) for p in (image1, image2)]
    row = [image for image in images if image is not None] + [coloured]
    if images[1] is not None:
        own = None if images[0] is None else images[0].shape[:2]
        row.append(warp_image(target_image(images[1], values, own), values, outside=colours[0]))
    if mask is not None:
        row.append(_masked(mask, images[0], coloured, colours))
    if true is not None:
        row.append(error_map(values, true, longest_px=0.1 * max(values.shape[:2])))
    target = out or flow.with_name(f"{flow.name}.color.png")
    write_image(target, row[0] if len(row) == 1 else sheet([row], width=320))
    share = float(known(values).mean())
    typer.echo(
        f"{flow}: {_wh(values)}, {100 * share:.1f} % known, longest {max_motion(values):.2f} px -> {target}"
    )


def _masked(mask: Path, image1: Any, coloured: Any, colours: tuple[Any, Any]) -> Any:
    """The foreground of image 1, resized to the mask as in the kit; of the coloured flow without an image."""
    from ..formats.image.mask import read_mask
    from ..geometry.flow.interpolation import resize_u8
    from ..report.flow_pictures import foreground

    shape = read_mask(mask)
    if image1 is not None:
        return foreground(resize_u8(image1, *shape.shape), shape, background=colours[0])
    if shape.shape != coloured.shape[:2]:
        raise InputError(f"{mask} is {_wh(shape)}, the flow it masks is {_wh(coloured)}")
    return foreground(coloured, shape, background=colours[1])


def _wh(array: Any) -> str:
    return f"{array.shape[1]} x {array.shape[0]}"


def _show_results(results: Path, data: Path, vis_dir: str, colours: tuple[Any, Any]) -> None:
    from ..datasets.tss import TssDataset
    from ..methods.dense.files import check_folders, pair_folder

    place = Path(vis_dir)
    if ".." in place.parts:
        raise InputError(f"--vis-dir {vis_dir} leaves the folder of a pair; name a sub-folder or a full path")
    dataset = TssDataset(data)
    keys = check_folders(results, [p.key for p in dataset.pairs], dataset.subsets)
    count, drawn = 0, 0
    problems: list[str] = []
    with progress_bars() as progress:
        for k, key in enumerate(keys):
            progress("pictures", k, len(keys))
            folder = pair_folder(results, key)
            target = place / key if place.is_absolute() else folder / place
            made = _draw(dataset[key], folder, target, colours, problems)
            count, drawn = count + made, drawn + (made > 0)
        progress("pictures", len(keys), len(keys))
    for problem in problems:
        notice(problem)
    if not count:
        raise InputError(f"nothing could be drawn of the {len(keys)} pairs in {results}")
    where = place / "SUBSET" / "PAIR" if place.is_absolute() else results / "SUBSET" / "PAIR" / place
    typer.echo(f"{count} pictures of {drawn} pairs in {where}")


def _draw(pair: Any, folder: Path, target: Path, colours: tuple[Any, Any], problems: list[str]) -> int:
    """Write the pictures of a pair and say how many; what cannot be read goes to `problems`."""
    from ..formats.flow.tss_results import read_pair_result
    from ..report.flow_pictures import kit_pictures, save_pictures

    result = read_pair_result(folder)
    problems.extend(result.problems)
    wrong = pair.problems()
    if not wrong:
        try:
            images, truth = pair.images(), pair.truth()
        except FormatError as e:
            wrong = [str(e)]
    if wrong:
        problems.extend(f"{pair.key} is left out: {w}" for w in wrong)
        return 0
    made = kit_pictures(images, result.arrays, truth, background=colours[0], flow_background=colours[1])
    if not made:
        problems.append(f"{pair.key} is left out: {folder} has neither a mask nor both flows")
        return 0
    if ("flow1" in result.arrays) != ("flow2" in result.arrays):
        problems.append(f"{pair.key}: one of the two flows is not there or not readable, so none is drawn")
    with _writing(target):
        return len(save_pictures(target, made))


@app.command("convert")
def convert(
    source: Path = typer.Argument(..., help="Flow file: .flo, KITTI .png, .npy or .npz."),
    target: Path = typer.Argument(..., help="Flow file to write; its ending chooses the format."),
) -> None:
    """Convert a flow file; unknown pixels stay unknown, KITTI png rounds to 1/64 px.

    Example: `tiepoint flow convert flow1.flo flow1.png`
    """
    from ..formats.flow.by_suffix import read_flow, write_flow

    with _writing(target):
        write_flow(target, read_flow(source))
    typer.echo(f"{source} -> {target}")


@app.command("warp")
def warp(
    image: Path = typer.Argument(..., help="Image the flow points into (image 2)."),
    flow: Path = typer.Argument(..., help="Flow on image 1."),
    out: Path = typer.Option(..., "--out", help="Picture to write: image 2 as seen from image 1."),
    image1: Path = typer.Option(None, "--image1", help="Image the flow starts from, if sizes differ."),
    mask: Path = typer.Option(None, "--mask", help="Foreground mask of image 1; the rest is background."),
    bg_color: str = _BG,
) -> None:
    """Warp image 2 back onto image 1: the colour at p + flow(p), background where that is outside.

    Where image 2 and the flow have different sizes, the size of image 1 tells in which scale the flow counts:
    in image 2's own pixels if image 1 is as large as the flow; else both images, which must then be of one
    size, are resized to the flow.

    Example: `tiepoint flow warp image2.png flow1.flo --out warped1.png`
    """
    from ..formats.flow.by_suffix import read_flow
    from ..formats.image.mask import read_mask
    from ..formats.image.read import read_image, read_size, write_image
    from ..geometry.flow.warp import warp_image
    from ..report.flow_pictures import foreground, parse_colour, target_image

    background = parse_colour(bg_color)
    values = read_flow(flow)
    own = None if image1 is None else read_size(image1)[::-1]
    picture = warp_image(target_image(read_image(image), values, own), values, outside=background)
    if mask is not None:
        shape = read_mask(mask)
        if shape.shape != values.shape[:2]:
            raise InputError(f"{mask} is {_wh(shape)}, {flow} is {_wh(values)}: they must have one size")
        picture = foreground(picture, shape, background=background)
    write_image(out, picture)
    typer.echo(f"{image} warped by {flow} -> {out}")
