# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint flow``: show, convert and warp."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from ..model.errors import InputError
from .common import progress_bars

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
    flow: Path = typer.Argument(None, help="Flow file: .flo, KITTI .png, .npy or .npz."),
    out: Path = typer.Option(None, "--out", help="Picture to write; default FLOW.color.png."),
    truth: Path = typer.Option(None, "--truth", help="True flow: adds an error map, sets the colour scale."),
    image1: Path = typer.Option(
        None, "--image1", help="Image the flow lives on: adds it and its foreground."
    ),
    image2: Path = typer.Option(None, "--image2", help="Image the flow points into: adds the warped image."),
    mask: Path = typer.Option(None, "--mask", help="Foreground mask of image 1."),
    results: Path = typer.Option(None, "--results", help="Results in the TSS layout, instead of FLOW."),
    data: Path = typer.Option(None, "--data", help="TSS dataset for --results."),
    vis_dir: str = typer.Option("vis", "--vis-dir", help="Sub-folder of each pair for its pictures."),
    bg_color: str = _BG,
    flow_bg_color: str = _FLOW_BG,
) -> None:
    """Draw a flow in the Middlebury colours, or all pictures of a results folder as the TSS kit draws them.

    With images, truth or a mask the picture is a sheet: image 1, image 2, flow, warped image, foreground,
    error map, as far as there is something to show.

    Examples: `tiepoint flow show flow1.flo --image1 a.png --image2 b.png --truth gt.flo --out sheet.png`,
    `tiepoint flow show --results Results --data Dataset --vis-dir vis`
    """
    from ..report.flow_pictures import parse_colour

    colours = parse_colour(bg_color), parse_colour(flow_bg_color)
    if results is not None:
        if flow is not None or data is None:
            raise InputError("--results needs --data and no FLOW; see tiepoint flow show --help")
        _show_results(results, data, vis_dir, colours)
        return
    if flow is None:
        raise InputError("show needs a FLOW file, or --results and --data; see tiepoint flow show --help")
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
    from ..formats.flow_file import read_flow
    from ..formats.image import read_image, write_image
    from ..formats.mask import read_mask
    from ..geometry.flow_color import flow_color, max_motion
    from ..geometry.flow_validity import known
    from ..geometry.flow_warp import warp_image
    from ..report.flow_pictures import error_map, foreground, sheet

    values = read_flow(flow)
    true = None if truth is None else read_flow(truth)
    if true is not None and true.shape != values.shape:
        raise InputError(f"{truth} is {true.shape[1]} x {true.shape[0]}, {flow} is {_wh(values)}")
    longest = max_motion(values if true is None else true)
    coloured = flow_color(values, longest=longest, background=colours[1])
    row = [read_image(p) for p in (image1, image2) if p is not None] + [coloured]
    if image2 is not None:
        row.append(warp_image(read_image(image2), values, outside=colours[0]))
    if mask is not None:
        shape = read_mask(mask)
        base = coloured if image1 is None else read_image(image1)
        if shape.shape != base.shape[:2]:
            raise InputError(f"{mask} is {_wh(shape)}, the picture it masks is {_wh(base)}")
        row.append(foreground(base, shape, background=colours[0]))
    if true is not None:
        row.append(error_map(values, true, longest_px=0.1 * max(values.shape[:2])))
    target = out or flow.with_name(f"{flow.name}.color.png")
    write_image(target, row[0] if len(row) == 1 else sheet([row], width=320))
    share = float(known(values).mean())
    typer.echo(
        f"{flow}: {_wh(values)}, {100 * share:.1f} % known, longest {max_motion(values):.2f} px -> {target}"
    )


def _wh(array: Any) -> str:
    return f"{array.shape[1]} x {array.shape[0]}"


def _show_results(results: Path, data: Path, vis_dir: str, colours: tuple[Any, Any]) -> None:
    from ..datasets.tss import TssDataset
    from ..formats.tss_results import read_pair_result
    from ..methods.dense_layout import check_layout, pair_folder
    from ..report.flow_pictures import kit_pictures, save_pictures

    found = TssDataset(data).pairs
    check_layout(results, [p.key for p in found])
    pairs = [p for p in found if pair_folder(results, p.key).is_dir() and not p.problems()]
    if not pairs:
        raise InputError(f"{results} has no folder for any pair of {data}; expected SUBSET/PAIR/flow1.flo, …")
    count = 0
    with progress_bars() as progress:
        for k, pair in enumerate(pairs):
            progress("pictures", k, len(pairs))
            folder = pair_folder(results, pair.key)
            made = kit_pictures(
                pair.images(),
                read_pair_result(folder).arrays,
                pair.truth(),
                background=colours[0],
                flow_background=colours[1],
            )
            with _writing(folder / vis_dir):
                count += len(save_pictures(folder / vis_dir, made))
        progress("pictures", len(pairs), len(pairs))
    typer.echo(f"{count} pictures of {len(pairs)} pairs in {results}/SUBSET/PAIR/{vis_dir}")


@app.command("convert")
def convert(
    source: Path = typer.Argument(..., help="Flow file: .flo, KITTI .png, .npy or .npz."),
    target: Path = typer.Argument(..., help="Flow file to write; its suffix is the format."),
) -> None:
    """Convert a flow file; unknown pixels stay unknown, KITTI png rounds to 1/64 px.

    Example: `tiepoint flow convert flow1.flo flow1.png`
    """
    from ..formats.flow_file import read_flow, write_flow

    with _writing(target):
        write_flow(target, read_flow(source))
    typer.echo(f"{source} -> {target}")


@app.command("warp")
def warp(
    image: Path = typer.Argument(..., help="Image the flow points into (image 2)."),
    flow: Path = typer.Argument(..., help="Flow on image 1."),
    out: Path = typer.Option(..., "--out", help="Picture to write: image 2 as seen from image 1."),
    mask: Path = typer.Option(None, "--mask", help="Foreground mask of image 1; the rest is background."),
    bg_color: str = _BG,
) -> None:
    """Warp image 2 back onto image 1: the colour at p + flow(p), background where that is outside.

    Example: `tiepoint flow warp image2.png flow1.flo --out warped1.png`
    """
    from ..formats.flow_file import read_flow
    from ..formats.image import read_image, write_image
    from ..formats.mask import read_mask
    from ..geometry.flow_warp import warp_image
    from ..report.flow_pictures import foreground, parse_colour

    background = parse_colour(bg_color)
    values = read_flow(flow)
    picture = warp_image(read_image(image), values, outside=background)
    if mask is not None:
        shape = read_mask(mask)
        if shape.shape != values.shape[:2]:
            raise InputError(f"{mask} is {_wh(shape)}, {flow} is {_wh(values)}: they must have one size")
        picture = foreground(picture, shape, background=background)
    write_image(out, picture)
    typer.echo(f"{image} warped by {flow} -> {out}")
