# SPDX-License-Identifier: BSD-3-Clause
"""Write the cached matches or keypoints of a run in the layouts that ``files:DIR`` reads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from ..core.errors import InputError, UnknownNameError
from ..core.formatting import count_text, first_few, path_below
from ..core.records import Arrays, Item
from ..formats.keypoints.features import write_hloc_features
from ..formats.matches.native import NAMES, write_matches
from ..formats.matches.source import flat_name
from ..formats.matches.write import FEATURES, write_glue_factory, write_hloc_matches
from ..store.store import Store
from ..store.stored_run import StoredRun
from ..tasks import stored_task
from ..tasks.capabilities import WritesModels
from .recompare import ReopenedRun, reopen

MODELS = "colmap"
EXPORT_FORMS = ("npz", "hloc", "glue-factory", MODELS)
_POINTS = frozenset({"points0", "points1", "confidence", "keypoints0", "keypoints1"})


@dataclass(frozen=True)
class ExportedFeatures:
    """Exported files: their folder, the number of pairs or images, and the method that reads them."""

    folder: Path
    count: int
    what: str
    method: str

    def __str__(self) -> str:
        return f"wrote {count_text(self.count, self.what)} to {self.folder}"


def export_features(store: Store, run: StoredRun, folder: str | Path, form: str = "npz") -> ExportedFeatures:
    """Write the matches of a run on image pairs, or the features of a run on images, to a new folder.

    Running the returned method on the same data gives the same points, in the same order, and so the same
    scores. The features come from the cache of the store; nothing is computed.

    Args:
        store: Store with the run.
        run: The run.
        folder: Folder to create. It may exist if it is empty.
        form: ``npz`` (one file per pair or image), ``hloc`` or ``glue-factory`` (HDF5). ``colmap`` writes the
            databases and models of a run of `sfm/reconstruct`.

    Raises:
        InputError: The features, the dataset or the method are missing, the folder is not empty, or the form
            cannot express the features.
    """
    if form not in EXPORT_FORMS:
        raise UnknownNameError("form", form, EXPORT_FORMS)
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} exists and is not an empty folder; choose another `out`")
    if form == MODELS:
        return _export_models(store, run, target)
    opened = reopen(run, store.root)
    items = opened.context.items
    opened.check_features(items)
    first = opened.features.arrays(next(iter(items)))
    if {"keypoints", "values"} <= set(first):
        what, write = "image", _write_images
    elif set(first) <= set(NAMES):
        what, write = "pair", _write_pairs
    else:
        raise InputError(
            f"run {run.id} of {run.task} has neither matches of pairs nor keypoints; `describe` writes "
            "descriptors of patches"
        )
    with _whole(target) as temporary:
        write(temporary, opened, form)
    return ExportedFeatures(target, len(items), what, _method(target, opened, what))


def _export_models(store: Store, run: StoredRun, target: Path) -> ExportedFeatures:
    """Write the databases and models of a run in which COLMAP reconstructed scenes."""
    task = stored_task(run.task)
    if not isinstance(task, WritesModels):
        raise InputError(f"{run.task} has no reconstructions of COLMAP; use another `form`")
    records = [store.records.get(key) for by in run.manifest.units.values() for key in by.values()]
    with _whole(target) as temporary:
        files = task.write_models(records, temporary)
    return ExportedFeatures(target, len(files), "file", "")


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to `target` after all files were written."""
    temporary = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        temporary.mkdir(parents=True)
    except OSError as e:
        raise InputError(f"cannot write {target}: {e.strerror or e}; choose another `out`") from e
    try:
        yield temporary
        if target.exists():
            target.rmdir()
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_pairs(folder: Path, opened: ReopenedRun, form: str) -> None:
    items = list(opened.context.items.values())
    if form == "npz":
        _check_unique([flat_name(item.key) for item in items], form)
        for item, arrays in _read(opened, items):
            write_matches(folder, item.key, **arrays)
        return
    names = _image_names(items)
    _check_unique(["|".join(map(flat_name, pair)) for pair in names], form)

    def pairs() -> Iterator[tuple[tuple[str, str], Arrays]]:
        for two, (item, arrays) in zip(names, _read(opened, items), strict=True):
            other = sorted(set(arrays) - _POINTS)
            if other:
                raise InputError(
                    f"{item.key} has {', '.join(other)}, which {form} cannot express; use `form=npz`"
                )
            yield two, arrays

    (write_hloc_matches if form == "hloc" else write_glue_factory)(folder, pairs())


def _write_images(folder: Path, opened: ReopenedRun, form: str) -> None:
    items = list(opened.context.items.values())
    if form == "glue-factory":
        raise InputError("predictions of glue-factory are matches of pairs; use `form=hloc` or `form=npz`")
    found = _read(opened, items)
    if form == "hloc":
        _check_unique([flat_name(item.key) for item in items], form)
        write_hloc_features(folder / FEATURES, ((item.key, arrays) for item, arrays in found))
        return
    for item, arrays in found:
        scene, _, image = item.key.rpartition("/")
        file = path_below(folder, scene, image, what="the export: the image", ending=".npz")
        file.parent.mkdir(parents=True, exist_ok=True)
        named = {"keypoints": arrays["keypoints"], "descriptors": arrays["values"], "valid": arrays["valid"]}
        np.savez(file, **{name: np.asarray(array) for name, array in named.items()})  # type: ignore[arg-type]


def _read(opened: ReopenedRun, items: Iterable[Item]) -> Iterator[tuple[Item, Arrays]]:
    features = opened.features
    return ((item, features.arrays(item.key)) for item in items)


def _check_unique(names: Sequence[str], form: str) -> None:
    double = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if double:
        raise InputError(f"{first_few(double, 3)} would be stored twice as {form}; use another `form`")


def _image_names(items: Sequence[Item]) -> list[tuple[str, str]]:
    """Return the names of both images of each pair, relative to the folder that contains all images."""
    nameless = [item.key for item in items if len(item.images) != 2]
    if nameless:
        raise InputError(f"the images of {first_few(nameless, 3)} have no names; use `form=npz`")
    paths = [[PurePosixPath(Path(image.name).as_posix()) for image in item.images] for item in items]
    folders = [path.parent for pair in paths for path in pair]
    shared = PurePosixPath(os.path.commonpath(folders)) if all(f.is_absolute() for f in folders) else None
    plain = [[str(p if shared is None else p.relative_to(shared)) for p in pair] for pair in paths]
    return [(first, second) for first, second in plain]


def _method(target: Path, opened: ReopenedRun, what: str) -> str:
    """Return the specification of the method that reads the files."""
    distance = opened.context.method.distance
    query = f"?distance={distance}" if what == "image" and distance != "l2" else ""
    return f"files:{target}{query}"
