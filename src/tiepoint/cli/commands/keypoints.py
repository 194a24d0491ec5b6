# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint keypoints``: fixed keypoint sets, to compare descriptors at the same keypoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ...core.errors import InputError
from ...core.formatting import count_text
from ..common import open_store_for_writing, progress_bars, without_effect

app = typer.Typer(help="Keypoint sets: make, intersect, subset, import, export.", no_args_is_help=True)
STORE = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store.")
SET_BY_RECIPE = (
    "mode", "max_features", "min_distance_px", "min_size_px", "max_size_px", "device",
)  # fmt: skip
OVERWRITE = typer.Option(False, "--overwrite", help="Replace a set of the same name.")


def _save(store: str | None, sets: list[Any], overwrite: bool) -> None:
    from ...store.writers import save_keypoint_set

    with open_store_for_writing(store) as opened:
        for keypoints in sets:
            save_keypoint_set(opened, keypoints, overwrite=overwrite)
            counts = [len(k) for k in keypoints.images.values()]
            print(
                f"{keypoints.name}: {count_text(keypoints.total, 'keypoint')} in "
                f"{count_text(len(counts), 'image')} "
                f"({min(counts)} to {max(counts)}), border {keypoints.recipe.get('border_px')} px, "
                f"id {keypoints.id[:12]}"
            )


def _load(store: str | None, *names: str) -> list[Any]:
    from ...store.store import store_root
    from ...store.writers import load_keypoint_set

    return [load_keypoint_set(store_root(store), name) for name in names]


@app.command("make")
def make(
    context: typer.Context,
    name: str = typer.Argument(..., help="Name of the new set, or a recipe: sift_surf_intersection."),
    data: Path = typer.Option(..., "--data", help="Folder of image sequences."),
    detector: str = typer.Option(None, "--detector", help="Detector, e.g. sift or surf?threshold=0.001."),
    mode: str = typer.Option(
        "independent",
        "--mode",
        help="Detect in each image (independent) or project from image 1 (projected).",
    ),
    max_features: int = typer.Option(
        2000, "--max-features", min=0, help="Maximum number of keypoints per image; 0 for all."
    ),
    border_px: float = typer.Option(40.0, "--border-px", help="Width of the border without keypoints."),
    min_distance_px: float = typer.Option(
        None, "--min-distance-px", help="Minimum distance between two keypoints."
    ),
    min_size_px: float = typer.Option(None, "--min-size-px", help="Minimum keypoint size."),
    max_size_px: float = typer.Option(None, "--max-size-px", help="Maximum keypoint size."),
    device: str = typer.Option("cpu", "--device", help="Device of learned detectors."),
    overwrite: bool = OVERWRITE,
    store: str = STORE,
) -> None:
    """Detect keypoints in every image and store them under a name.

    Example: `tiepoint keypoints make sift_8000 --data sequences --detector sift --max-features 8000`
    """
    from ...datasets.image_sequences import ImageSequences
    from ...datasets.keypoint_sets.create import RECIPES, make_keypoint_set, make_recipe

    sequences = ImageSequences(data)
    with progress_bars() as progress:
        if detector is None and name in RECIPES:
            without_effect(context, SET_BY_RECIPE, f"on the recipe {name}, which sets it")
            sets = make_recipe(
                sequences, name, border_px=border_px, progress=lambda d, t: progress(name, d, t)
            )
        else:
            if detector is None:
                raise InputError(
                    f"no detector for the set {name!r}, which is not a recipe ({', '.join(RECIPES)}); "
                    "pass --detector"
                )
            keypoints = make_keypoint_set(
                sequences, name, detector=detector, mode=mode, max_features=max_features or None,
                border_px=border_px, min_distance_px=min_distance_px, min_size_px=min_size_px,
                max_size_px=max_size_px, device=device, progress=lambda d, t: progress(name, d, t),
            )  # fmt: skip
            sets = [keypoints]
    _save(store, sets, overwrite)


@app.command("intersect")
def intersect(
    first: str = typer.Argument(..., metavar="A", help="Keypoint set."),
    second: str = typer.Argument(..., metavar="B", help="Keypoint set of the images of A."),
    out: str = typer.Option(..., "--out", metavar="NAME", help="Prefix of the new sets NAME_a and NAME_b."),
    tolerance_px: float = typer.Option(
        3.0, "--tolerance-px", help="Maximum distance between matched keypoints."
    ),
    overwrite: bool = OVERWRITE,
    store: str = STORE,
) -> None:
    """Match two sets by position and store the mutual nearest neighbours as two sets with paired rows.

    Example: `tiepoint keypoints intersect sift_8000 surf_8000 --out both --tolerance-px 3`
    """
    from ...datasets.keypoint_sets.filters import intersect as intersect_sets

    a, b = _load(store, first, second)
    _save(store, list(intersect_sets(a, b, out, tolerance_px=tolerance_px)), overwrite)


@app.command("subset")
def subset(
    context: typer.Context,
    source: str = typer.Argument(..., metavar="SET", help="Keypoint set."),
    out: str = typer.Option(..., "--out", metavar="NAME", help="Name of the new set."),
    count: int = typer.Option(None, "--count", help="Number of keypoints to select."),
    scope: str = typer.Option("image", "--scope", help="Apply --count per image or per set."),
    by: str = typer.Option("response", "--by", help="Select by response, size (largest first) or random."),
    seed: int = typer.Option(0, "--seed", help="Seed for --by random."),
    min_size_px: float = typer.Option(None, "--min-size-px", help="Minimum keypoint size."),
    max_size_px: float = typer.Option(None, "--max-size-px", help="Maximum keypoint size."),
    min_distance_px: float = typer.Option(
        None, "--min-distance-px", help="Minimum distance between two keypoints."
    ),
    overwrite: bool = OVERWRITE,
    store: str = STORE,
) -> None:
    """Select keypoints by size and mutual distance, then the strongest, the largest or a random sample.

    Example: `tiepoint keypoints subset sift_8000 --out large --count 500 --scope image --by size`
    """
    from ...datasets.keypoint_sets.filters import subset as subset_of

    if all(v is None for v in (count, min_size_px, max_size_px, min_distance_px)):
        raise InputError("no selection; pass --count, --min-size-px, --max-size-px or --min-distance-px")
    if count is None:
        without_effect(context, ("scope", "by", "seed"), "without --count")
    elif by != "random":
        without_effect(context, ("seed",), "without --by random")
    selected = subset_of(
        _load(store, source)[0], out, count=count, scope=scope, by=by, seed=seed,
        min_size_px=min_size_px, max_size_px=max_size_px, min_distance_px=min_distance_px,
    )  # fmt: skip
    _save(store, [selected], overwrite)


@app.command("import")
def import_(
    folder: Path = typer.Argument(..., metavar="DIR", help="Folder with SCENE/IMAGE.csv."),
    name: str = typer.Option(..., "--name", help="Name of the set."),
    data: Path = typer.Option(..., "--data", help="Image sequences the keypoints belong to."),
    overwrite: bool = OVERWRITE,
    store: str = STORE,
) -> None:
    """Read keypoint CSVs (`1.csv`, or `1ppm.csv` as written by DescriptorWorkbench) into a set.

    Example: `tiepoint keypoints import exported --name theirs --data sequences`
    """
    from ...datasets.image_sequences import ImageSequences
    from ...datasets.keypoint_sets.create import import_keypoints

    _save(store, [import_keypoints(folder, name, ImageSequences(data))], overwrite)


@app.command("export")
def export(
    name: str = typer.Argument(..., metavar="SET", help="Keypoint set."),
    out: Path = typer.Option(..., "--out", help="Folder for SCENE/IMAGE.csv."),
    names: str = typer.Option(
        "number", "--names", help="Names of files: number (1.csv) or workbench (1ppm.csv)."
    ),
    store: str = STORE,
) -> None:
    """Write a set as keypoint CSVs. Importing these files gives the same numbers.

    Example: `tiepoint keypoints export sift_8000 --out csv`
    """
    from ...datasets.keypoint_sets.create import export_keypoints

    print(f"{count_text(export_keypoints(_load(store, name)[0], out, names=names), 'file')} in {out}")


@app.command("list")
def list_(store: str = STORE) -> None:
    """List the keypoint sets of the store.

    Example: `tiepoint keypoints list`
    """
    from ...formats.keypoints.set_folder import read_keypoint_set, sets_below
    from ...store.store import store_root

    root = store_root(store)
    if not root.is_dir():
        raise InputError(f"there is no store at {root}; create a keypoint set with `keypoints make`")
    for name, folder in sets_below(root).items():
        keypoints = read_keypoint_set(folder)
        r = keypoints.recipe
        count = count_text(keypoints.total, "keypoint")
        print(f"{name}: {count}, {r.get('detector')}, {r.get('method')}, id {keypoints.id[:12]}")
