# SPDX-License-Identifier: BSD-3-Clause
"""Scenes for reconstruction: images with the intrinsics of their cameras and, if known, their true poses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ...core.errors import ErrorCollector, FormatError, InputError
from ...core.formatting import count_text, first_few
from ...core.hashing import hash_file, hash_json
from ...core.regular_files import exists, is_folder
from ...formats.colmap.model import read_model
from ...formats.colmap.tables import ModelCamera
from ...formats.image.reader import SUFFIXES, read_orientation, read_size
from .layouts import has_models, model_folders, read_models
from .names import match_names
from .own_json import read_json_scenes
from .scenes import TrueScene, check_truth, scene_file, true_scene, truth_of_file

IMAGES = "images"
"""Sub-folder of a scene that has its images. If it is missing, the images are in the scene's folder."""
UNREAD = (".heic", ".heif", ".avif", ".dng")
"""Suffixes of photos that phones write and tiepoint does not read."""
MIN_IMAGES = 3
FOCAL_SHARE = 1.2
"""Focal length of an image without EXIF data, relative to its longer side, as COLMAP assumes."""
GIVEN, EXIF, ASSUMED = "given", "EXIF", "assumed"


@dataclass(frozen=True)
class SceneCamera:
    """Camera of one or several images, with the centre of the first pixel at (0.5, 0.5).

    `source` is the origin of the focal length: `given`, `EXIF` or `assumed`.
    """

    model: str
    size: tuple[int, int]
    params: tuple[float, ...]
    source: str = GIVEN


@dataclass(frozen=True)
class ImageScene:
    """A scene for reconstruction: its images by name, sorted.

    `given` has the cameras that the data states, by image name. `truth` is None if no true pose is known.
    `unread` has the names of photos in formats that are not read.
    """

    name: str
    images: Mapping[str, Path]
    given: Mapping[str, SceneCamera] = field(default_factory=dict)
    truth: TrueScene | None = None
    unread: tuple[str, ...] = ()

    @cached_property
    def contents(self) -> dict[str, str]:
        """Hash of each image file, by image name."""
        return {name: hash_file(path) for name, path in self.images.items()}

    @cached_property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Width and height of each image, by image name."""
        return {name: read_size(path) for name, path in self.images.items()}

    @cached_property
    def orientations(self) -> dict[str, int]:
        """EXIF orientation of the images that are not upright. Only drawings of the cameras use it."""
        found = {name: read_orientation(path) for name, path in self.images.items()}
        return {name: value for name, value in found.items() if value != 1}

    def definition(self) -> str:
        """Hash of the images and true poses. The task adds the cameras in use."""
        truth = None if self.truth is None else self.truth.definition()
        return hash_json([self.name, list(self.contents.items()), truth])


def read_image_scenes(path: str | Path) -> tuple[ImageScene, ...]:
    """Read the scenes of a folder: the folder itself if it has images, else its sub-folders with images.

    Raises:
        InputError: The folder has no images, a scene has fewer than three, or its true poses name other
            images.
    """
    root = Path(path).expanduser()
    if not exists(root):
        raise InputError(f"{root} does not exist; pass a folder of images, or of scenes with images")
    if not is_folder(root):
        raise InputError(f"{root} is a file; pass a folder of images, or of scenes with images")
    places = {root.resolve().name: root} if _images(root) else {}
    if not places:
        places = {
            p.name: p
            for p in sorted(root.iterdir())
            if not p.name.startswith(".") and p.is_dir() and p.name != "sparse_gt" and _images(p)
        }
    if not places:
        if unread := _images(root, UNREAD):
            raise InputError(f"{root}: {unread_photos(list(unread))}")
        endings = ", ".join(SUFFIXES)
        raise InputError(
            f"{root} has no images ({endings}), neither itself nor in sub-folders; pass a folder of images"
        )
    shared = scene_file(root)
    known = {} if shared is None else {scene.name: scene for scene in truth_of_file(shared)}
    errors = ErrorCollector()
    found = [errors.call(_scene, name, place, known.get(name), shared) for name, place in places.items()]
    errors.raise_all()
    return tuple(scene for scene in found if scene is not None)


def _images(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> dict[str, Path]:
    """Return the images of a scene by name, sorted: those below `images`, or else those in the folder.

    Hidden files are skipped: macOS writes ``._NAME.jpg`` beside photos on other disks.
    """
    below = folder / IMAGES
    root = below if below.is_dir() else folder
    found = below.rglob("*") if below.is_dir() else folder.iterdir()
    files = [p for p in sorted(found) if p.suffix.lower() in suffixes and p.is_file()]
    return {p.relative_to(root).as_posix(): p for p in files if not p.name.startswith(".")}


def _scene(name: str, place: Path, truth: TrueScene | None, shared: Path | None) -> ImageScene:
    images = dict(sorted(_images(place).items()))
    if len(images) < MIN_IMAGES:
        raise InputError(
            f"{place}: a reconstruction needs at least {MIN_IMAGES} images, found {len(images)}; for the "
            "motion between two images use pose/relative"
        )
    file = scene_file(place)
    if truth is None and file is not None:
        truth = replace(truth_of_file(file)[0], name=name)
    elif truth is None and has_models(place):
        truth = true_scene(name, read_models(place))
    if truth is not None:
        check_truth(place, [truth])
        known = [*truth.poses.names, *truth.outliers]
        if not truth.poses.ordered and not match_names(known, list(images))[0]:
            raise InputError(
                f"{place}: no image has a true pose (images: {first_few(list(images), 2)}; truth: "
                f"{first_few(known, 2)}); rename the images, or remove the truth"
            )
    given = _given_cameras(name, place, images, file or shared)
    return ImageScene(name, images, given, truth, tuple(_images(place, UNREAD)))


def unread_photos(names: Sequence[str]) -> str:
    """Return a message about photos in formats that are not read."""
    return f"{count_text(len(names), 'photo')} cannot be read ({first_few(names, 3)}); convert to JPEG"


def _given_cameras(
    name: str, place: Path, images: Mapping[str, Path], file: Path | None
) -> dict[str, SceneCamera]:
    """Return the cameras that a COLMAP model or a JSON file states, by image name."""
    stated: dict[str, ModelCamera] = {}
    for folder in model_folders(place):
        tables = read_model(folder)
        stated |= {image.name: tables.cameras[image.camera] for image in tables.images}
    if file is not None and file.suffix == ".json":
        scenes = read_json_scenes(file)
        own = scenes.get(name) or next(iter(scenes.values()))
        stated |= own.cameras
    renamed, _ = match_names(list(images), list(stated))
    found = {}
    for there, here in renamed.items():
        camera, size = stated[there], read_size(images[here])
        if camera.size != size:
            raise FormatError(
                images[here],
                f"the image is {size[0]} x {size[1]} px, but its camera is for {camera.size[0]} x "
                f"{camera.size[1]} px ({camera.where}); resize the image, or correct the camera",
            )
        found[here] = SceneCamera(camera.model, camera.size, camera.params)
    return found


def scene_cameras(scene: ImageScene, intrinsics: str) -> dict[str, SceneCamera]:
    """Return the camera of every image: as the data states, or SIMPLE_RADIAL with an estimated focal length.

    With `intrinsics` ``estimated``, stated cameras are ignored. Images of equal size and focal length share
    an estimated camera.

    Raises:
        InputError: `intrinsics` is ``given``, and an image has no stated camera.
    """
    given = {} if intrinsics == "estimated" else scene.given
    missing = [name for name in scene.images if name not in given]
    if intrinsics == "given" and missing:
        raise InputError(
            f"{scene.name}: the data states no camera for {first_few(missing)}; add them to a COLMAP model, "
            "or use intrinsics=estimated"
        )
    return {name: given.get(name) or _estimated(scene, name) for name in scene.images}


def _estimated(scene: ImageScene, name: str) -> SceneCamera:
    """Return a camera with the focal length of the EXIF data, or else 1.2 times the longer side."""
    from ...geometry.similarity import load_pycolmap

    width, height = size = scene.sizes[name]
    focal, source = FOCAL_SHARE * max(size), ASSUMED
    found = load_pycolmap().Bitmap.read(str(scene.images[name]), as_rgb=False)
    if found is not None and (known := found.exif_focal_length()):
        focal, source = float(known), EXIF
    return SceneCamera("SIMPLE_RADIAL", size, (focal, width / 2, height / 2, 0.0), source)
