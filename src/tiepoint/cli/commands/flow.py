# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint flow``: draw, convert and warp flow files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from ...core.errors import FormatError, InputError
from ...core.formatting import count_text, printable
from ..common import notice, progress_bars, without_effect

app = typer.Typer(help="Flow files: pictures, conversion, warping.", no_args_is_help=True)

PICTURES = Path("tiepoint-pictures")
"""Default folder for pictures, below the current folder."""
_BG = typer.Option("000255255", "--bg-color", help="Background of images, RRRGGGBBB or R,G,B.")
_SIZE2 = typer.Option(
    None, "--size2", help="Size WIDTHxHEIGHT of image 2 as the method read it, if it cannot be inferred."
)
_FLOW_BG = typer.Option("128128128", "--flow-bg-color", help="Colour of unknown or masked flow.")


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise InputError(f"cannot write {path}: {e.strerror or e}") from e


@app.command("show")
def show_flow_command(
    context: typer.Context,
    flow: Path = typer.Argument(None, help="Flow file: .flo, KITTI .png, .npy or .npz."),
    out: Path = typer.Option(
        None,
        "--out",
        help=f"Picture to write, or folder for SUBSET/PAIR with --results; by default in {PICTURES}.",
    ),
    truth: Path = typer.Option(
        None, "--truth", help="True flow of any size; adds panels of the true flow and the error."
    ),
    image1: Path = typer.Option(
        None, "--image1", help="Image 1, where the flow starts; adds panels of the image and its foreground."
    ),
    image2: Path = typer.Option(
        None, "--image2", help="Image 2, where the flow ends; adds a panel of the warped image."
    ),
    size2: str = _SIZE2,
    mask: Path = typer.Option(None, "--mask", help="Foreground mask of image 1."),
    plain: bool = typer.Option(False, "--plain", help="Draw only the flow, without scaling and captions."),
    results: Path = typer.Option(None, "--results", help="Results in the TSS layout, instead of FLOW."),
    data: Path = typer.Option(None, "--data", help="TSS dataset for --results."),
    vis_dir: str = typer.Option(
        None,
        "--vis-dir",
        help="With --results: folder for pictures, below the results of each pair (as in the TSS kit) "
        "or a full path with SUBSET/PAIR below.",
    ),
    bg_color: str = _BG,
    flow_bg_color: str = _FLOW_BG,
) -> None:
    """Draw a flow in Middlebury colours, or draw all flows of a results folder as the TSS kit does.

    The picture is a sheet with captions and a colour key: image 1, image 2, flow, true flow, warped image,
    foreground and error, as available. Flow, true flow and images may have different sizes. By default,
    pictures are written to `tiepoint-pictures` in the current folder.

    Examples: `tiepoint flow show flow1.flo --image1 a.png --image2 b.png --truth gt.flo --out sheet.png`,
    `tiepoint flow show --results Results --data Dataset`
    """
    from ...report.pictures.flow import parse_colour

    colours = parse_colour(bg_color), parse_colour(flow_bg_color)
    if results is not None:
        if flow is not None or data is None:
            raise InputError("--results needs --data and excludes FLOW; see tiepoint flow show --help")
        alone = ("truth", "image1", "image2", "size2", "mask", "plain")
        without_effect(context, alone, "with --results, which draws the pictures of the TSS kit")
        if out is not None and vis_dir is not None:
            raise InputError("--out and --vis-dir both set the folder of pictures; pass one of them")
        _show_results(results, data, out or PICTURES, vis_dir, colours)
        return
    if flow is None:
        raise InputError(
            "flow show needs a FLOW file, or --results and --data; see tiepoint flow show --help"
        )
    without_effect(context, ("data", "vis_dir"), "without --results")
    if plain:
        without_effect(context, ("image1", "image2", "mask"), "with --plain, which draws the flow alone")
    if image2 is None and (mask is None or image1 is None):
        without_effect(context, ("bg_color",), "without --image2, or --image1 and --mask")
    if image2 is None:
        without_effect(context, ("size2",), "without --image2")
    _show_one(flow, out, truth, (image1, image2), size2, mask, plain, colours)


def _show_one(
    flow: Path,
    out: Path | None,
    truth: Path | None,
    images: tuple[Path | None, Path | None],
    size2: str | None,
    mask: Path | None,
    plain: bool,
    colours: tuple[Any, Any],
) -> None:
    from ...formats.flow.reader import read_flow
    from ...formats.image.mask import read_mask
    from ...formats.image.reader import read_image, write_image
    from ...geometry.flow.color import max_motion
    from ...geometry.flow.resize import is_known_flow
    from ...report.pictures.flow_sheet import FlowView, flow_errors, flow_sheet, plain_flow

    values = read_flow(flow)
    true = None if truth is None else read_flow(truth)
    one, two = (None if p is None else read_image(p) for p in images)
    if two is not None and one is None and true is None and size2 is None:
        one = _partner(images[1], two, values)
    shape = None if mask is None else read_mask(mask)
    view = FlowView(values, one, two, shape, true, _size(size2))
    known = is_known_flow(values)
    summary = f"{_wh(values)}, {100 * float(known.mean()):.1f} % known"
    if known.any():
        longest = max_motion(values) if values[known].any() else 0.0
        summary += f", longest {longest:.2f} px"
    if true is not None:
        summary += f"; error {flow_errors(view).text()}"
    if plain:
        picture = plain_flow(view, flow_background=colours[1])
    else:
        picture = flow_sheet(
            [view], title=_title(flow, truth), background=colours[0], flow_background=colours[1]
        )
    target = out or _in_pictures(flow)
    write_image(target, picture)
    typer.echo(f"{printable(str(flow))}: {summary} -> {printable(str(target))}")


def _title(flow: Path, truth: Path | None) -> list[str]:
    """Return the title of a sheet: file names with their folders, because folders often name the pair."""
    names = ["/".join(p.absolute().parts[-4:]) for p in (flow, truth) if p is not None]
    return [printable(" against ".join(names))]


def _in_pictures(flow: Path) -> Path:
    """Return the default output path in the current folder, named after the flow and its folder."""
    with _write_errors(PICTURES):
        PICTURES.mkdir(exist_ok=True)
    parts = [p for p in flow.absolute().parts[-2:] if p not in ("/", flow.anchor)]
    return PICTURES / ("-".join(parts) + ".png")


def _partner(path: Path | None, image: Any, flow: Any) -> Any:
    """Read image 1 from the folder of image 2 if image 2 and the flow differ in size, as in the TSS kit."""
    from ...formats.image.reader import read_image

    if path is None or image.shape[:2] == flow.shape[:2] or path.stem[-1:] not in ("1", "2"):
        return None
    other = path.with_name(f"{path.stem[:-1]}{'2' if path.stem[-1] == '1' else '1'}{path.suffix}")
    if not other.is_file():
        return None
    notice(f"using {printable(str(other))} as image 1; its size determines the scale of the flow")
    return read_image(other)


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) == 2 and all(p.isascii() and p.isdigit() and 0 < int(p) <= 65536 for p in parts):
        return int(parts[1]), int(parts[0])
    raise InputError(
        f"--size2 {printable(text)!r}: not a size; pass width and height in pixels, such as 512x361"
    )


def _wh(array: Any) -> str:
    return f"{array.shape[1]} x {array.shape[0]}"


def _show_results(
    results: Path, data: Path, out: Path, vis_dir: str | None, colours: tuple[Any, Any]
) -> None:
    from ...datasets.tss import TssDataset
    from ...methods.dense.files import check_folders, pair_folder

    beside = None if vis_dir is None or Path(vis_dir).is_absolute() else Path(vis_dir)
    place = out if vis_dir is None else Path(vis_dir)
    if beside is not None and ".." in beside.parts:
        raise InputError(f"--vis-dir {vis_dir} leaves the folder of a pair; pass a sub-folder or a full path")
    dataset = TssDataset(data)
    keys = check_folders(results, [p.key for p in dataset.pairs], dataset.subsets)
    count, drawn = 0, 0
    problems: list[str] = []
    with progress_bars() as progress:
        for k, key in enumerate(keys):
            progress("pictures", k, len(keys))
            folder = pair_folder(results, key)
            target = place / key if beside is None else folder / beside
            pictures = _draw(dataset[key], folder, target, colours, problems)
            count, drawn = count + pictures, drawn + (pictures > 0)
        progress("pictures", len(keys), len(keys))
    for problem in problems:
        notice(problem)
    if not count:
        raise InputError(
            f"{results}: nothing could be drawn for {count_text(len(keys), 'pair')}; see the warnings above"
        )
    where = place / "SUBSET" / "PAIR" if beside is None else results / "SUBSET" / "PAIR" / beside
    total = f"{count_text(count, 'picture')} of {count_text(drawn, 'pair')}"
    typer.echo(f"{total} in {where}; sheet.png shows them with captions")


def _draw(pair: Any, folder: Path, target: Path, colours: tuple[Any, Any], problems: list[str]) -> int:
    """Write the pictures of a pair. Return the number of pictures. Append unreadable files to `problems`."""
    from ...formats.flow.tss import read_pair_result
    from ...report.pictures.flow import kit_pictures, save_pictures
    from ...report.pictures.flow_sheet import pair_sheet

    result = read_pair_result(folder)
    problems.extend(result.problems)
    errors = pair.problems()
    if not errors:
        try:
            images, truth = pair.images(), pair.truth()
        except FormatError as e:
            errors = [str(e)]
    if errors:
        problems.extend(f"{pair.key} was skipped: {e}" for e in errors)
        return 0
    pictures = kit_pictures(images, result.arrays, truth, background=colours[0], flow_background=colours[1])
    if not pictures:
        problems.append(f"{pair.key} was skipped: {folder} has neither a mask nor both flows")
        return 0
    if ("flow1" in result.arrays) != ("flow2" in result.arrays):
        problems.append(f"{pair.key}: one of the two flows is missing or unreadable; neither was drawn")
    elif "flow1" in result.arrays:
        title = f"{pair.key}: {folder.parent.parent.name or folder} against its truth"
        pictures["sheet"] = pair_sheet(images, result.arrays, truth, printable(title), colours)
    with _write_errors(target):
        return len(save_pictures(target, pictures))


@app.command("convert")
def convert(
    source: Path = typer.Argument(..., help="Flow file: .flo, KITTI .png, .npy or .npz."),
    target: Path = typer.Argument(..., help="Flow file to write; the suffix selects the format."),
) -> None:
    """Convert a flow file to another format. Unknown pixels stay unknown; KITTI PNG rounds to 1/64 px.

    Example: `tiepoint flow convert flow1.flo flow1.png`
    """
    from ...formats.flow.reader import read_flow, write_flow

    with _write_errors(target):
        write_flow(target, read_flow(source))
    typer.echo(f"{source} -> {target}")


@app.command("warp")
def warp(
    image: Path = typer.Argument(..., help="Image the flow points into (image 2)."),
    flow: Path = typer.Argument(..., help="Flow on image 1."),
    out: Path = typer.Option(..., "--out", help="Picture to write: image 2 as seen from image 1."),
    image1: Path = typer.Option(
        None,
        "--image1",
        help="Image 1, needed if sizes differ; by default the file beside image 2.",
    ),
    size2: str = _SIZE2,
    mask: Path = typer.Option(
        None, "--mask", help="Foreground mask of image 1; other pixels get the background colour."
    ),
    bg_color: str = _BG,
) -> None:
    """Warp image 2 back onto image 1: the colour at p + flow(p), or background outside image 2.

    If image 2 and the flow have different sizes, the size of image 1 determines the scale of the flow. If
    image 1 is as large as the flow, the flow is in pixels of image 2. Otherwise image 2 is first resized: to
    the size of the flow if both images have the same size, else by the factor from image 1 to the flow, as in
    the TSS kit.

    Example: `tiepoint flow warp image2.png flow1.flo --out warped1.png`
    """
    from ...formats.flow.reader import read_flow
    from ...formats.image.mask import read_mask
    from ...formats.image.reader import read_image, write_image
    from ...geometry.flow.resize import resize_mask
    from ...geometry.flow.warp import warp_image
    from ...report.pictures.flow import foreground, parse_colour, target_image

    background = parse_colour(bg_color)
    values, two, seen = read_flow(flow), read_image(image), _size(size2)
    one = None if image1 is None else read_image(image1)
    if one is None and seen is None:
        one = _partner(image, two, values)
    read = target_image(two, values, None if one is None else one.shape[:2], seen)
    picture = warp_image(read, values, outside=background)
    if mask is not None:
        shape = read_mask(mask)
        known_size = shape.shape == values.shape[:2] or (one is not None and shape.shape == one.shape[:2])
        if not known_size:
            raise InputError(
                f"the mask {mask} is {_wh(shape)}, but the flow {flow} is {_wh(values)}; "
                "resize the mask to the size of the flow or of image 1"
            )
        picture = foreground(picture, resize_mask(shape, values.shape[:2]), background=background)
    write_image(out, picture)
    scale = "" if read is two else f" (read at {_wh(read)})"
    typer.echo(f"{printable(str(image))}{scale} warped by {printable(str(flow))} -> {printable(str(out))}")
