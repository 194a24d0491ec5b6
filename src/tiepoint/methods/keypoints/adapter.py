# SPDX-License-Identifier: BSD-3-Clause
"""Adapter for keypoint methods, with checks of keypoints and descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, TiepointError
from ...core.keypoints import COLUMNS, Keypoints
from ...core.records import Arrays, Item
from ...geometry.correspondence import in_view
from ..output_checks import check_descriptors, output_array
from ..user_code import check_hook, copy_for_user, user_failure, view_for_user

Image = NDArray[np.uint8]
Extract = Callable[[Item, Any], Arrays]


def as_keypoints(given: Any, where: str) -> Keypoints:
    """Convert the output of a detector to `Keypoints`.

    The output may be `Keypoints`, a list of OpenCV keypoints, or an array. Arrays have shape (n, 2) with
    positions, (n, 3) with positions and sizes, or (n, 7) with all columns.

    >>> as_keypoints([[1, 2], [3, 4]], "here").xy.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if isinstance(given, Keypoints):
        return given
    if given is None:
        raise InputError(f"{where}: the detector returned None; return keypoints, or an empty list")
    if isinstance(given, list | tuple) and len(given) and hasattr(given[0], "pt"):
        return Keypoints.from_cv(given)
    wanted = f"keypoints must be numbers, (n, 2) or (n, {len(COLUMNS)})"
    table = output_array(given, where, wanted)
    if table.dtype.kind not in "biuf":
        raise InputError(f"{where}: {wanted}, found {table.dtype}")
    table = table.astype(np.float64)
    if table.ndim == 2 and table.shape[1] == 3:
        return Keypoints.at(table[:, :2], size_px=table[:, 2])
    try:
        return Keypoints.from_array(table)
    except InputError as e:
        raise InputError(f"{where}: {e}") from e


def check_keypoints(keypoints: Keypoints, image: Image | None, where: str) -> Keypoints:
    """Check that positions are finite and inside the image, and that sizes are positive.

    Raise an error for the first keypoint that violates this. Otherwise return the keypoints.
    """
    finite = np.isfinite(keypoints.xy).all(axis=1)
    if not finite.all():
        raise InputError(
            f"{where}: keypoint {int(np.argmin(finite))} has a NaN or infinite position; remove the keypoint"
        )
    positive = keypoints.size_px > 0
    if not positive.all():
        i = int(np.argmin(positive))
        raise InputError(f"{where}: keypoint {i} has size {keypoints.size_px[i]:g}; return positive sizes")
    if image is not None and len(keypoints):
        size = (image.shape[1], image.shape[0])
        inside = in_view(keypoints.xy, size)
        if not inside.all():
            i = int(np.argmin(inside))
            x, y = keypoints.xy[i]
            raise InputError(
                f"{where}: keypoint {i} at ({x:g}, {y:g}) is outside the image of {size[0]} x {size[1]} "
                "px; remove it"
            )
    return keypoints


class DetectThenDescribe:
    """Method that combines a detector and a descriptor."""

    identity = "keypoints/detect-then-describe"
    libraries = ()

    def __init__(self, detector: Any, descriptor: Any, *, name: str) -> None:
        self.detector, self.descriptor = detector, descriptor
        self.name = name
        self.distance = str(getattr(descriptor, "distance", "l2"))
        self.tiepoint_parts = {"detector": detector, "descriptor": descriptor}
        self.rooted = bool(getattr(descriptor, "rooted", False))
        if hasattr(detector, "item_key"):
            self.item_key = lambda item: detector.item_key(view_for_user(detector, item))
        if hasattr(detector, "check_items"):
            self.check_items = check_hook(detector)
        self.keypoint_set = getattr(detector, "keypoint_set", None)
        self.given_keypoints = bool(getattr(detector, "given_keypoints", False))

    def extract_item(self, item: Item, image: Image) -> tuple[Keypoints, Any, Any]:
        """Return keypoints, descriptors and validity of one image."""
        where = f"{self.name} on {item.key}"
        found = detect_keypoints(self.detector, item, image, where)
        if len(found) == 0:
            return found, np.empty((0, 1)), None
        if hasattr(self.descriptor, "describe_item"):
            known = view_for_user(self.descriptor, item)
            made = self.descriptor.describe_item(known, copy_for_user(self.descriptor, image), found)
        else:
            made = self.descriptor.describe(copy_for_user(self.descriptor, image), found)
        values, valid = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        return found, values, valid


def detect_keypoints(detector: Any, item: Item, image: Image, where: str) -> Keypoints:
    """Return the checked keypoints of an image."""
    if hasattr(detector, "detect_item"):
        given = copy_for_user(detector, image, used_again=True)
        found = detector.detect_item(view_for_user(detector, item), given)
    else:
        found = detector.detect(copy_for_user(detector, image, used_again=True))
    return check_keypoints(as_keypoints(found, where), image, where)


def bind_keypoints(thing: Any, *, name: str, distance: str, on_bad: str) -> Extract:
    """Return the `extract` of a keypoint method: ``keypoints`` (n, 7), ``values`` (n, d), ``valid`` (n,).

    `thing` has ``extract(image)`` returning (keypoints, descriptors[, valid]), or ``detect(image)`` and
    ``describe(image, keypoints)``. Images are RGB uint8 (h, w, 3); ``describe`` receives a `Keypoints` object
    (``.xy``, ``.size_px``, ``.angle_deg``, ``.to_cv()``). A features provider has ``lookup(scene, image)``,
    which returns the same as ``extract``. Row i of the descriptors belongs to keypoint i; another row count
    is an error.
    """
    call = _caller(thing, name)

    def extract(item: Item, image: Any) -> Arrays:
        where = f"{name} on {item.key}"
        try:
            returned = call(item, image)
        except TiepointError:
            raise
        except (Exception, SystemExit) as e:
            raise user_failure(f"{name} failed on {item.key}", e, thing, image) from e
        return keypoint_arrays(returned, image, distance=distance, where=where, on_bad=on_bad)

    return extract


def keypoint_arrays(returned: Any, image: Any, *, distance: str, where: str, on_bad: str) -> Arrays:
    """Check what ``extract`` returned for an image, and return it as named feature arrays."""
    keypoints, values, valid = _three(returned, where)
    found = check_keypoints(as_keypoints(keypoints, where), image, where)
    return {"keypoints": found.to_array(), **_checked(values, valid, len(found), distance, where, on_bad)}


def _caller(thing: Any, name: str) -> Callable[[Item, Any], Any]:
    if hasattr(thing, "extract_item"):
        return lambda item, image: thing.extract_item(view_for_user(thing, item), image)
    if hasattr(thing, "lookup_item"):
        return lambda item, image: thing.lookup_item(view_for_user(thing, item))
    if hasattr(thing, "lookup"):
        return lambda item, image: thing.lookup(*item.key.rpartition("/")[::2])
    if hasattr(thing, "extract"):
        return lambda item, image: thing.extract(copy_for_user(thing, image))
    if hasattr(thing, "detect") and hasattr(thing, "describe"):
        both = DetectThenDescribe(thing, thing, name=name)
        return lambda item, image: both.extract_item(item, image)
    raise InputError(f"method {name!r} needs extract(image), or detect(image) and describe(image, keypoints)")


def _three(returned: Any, where: str) -> tuple[Any, Any, Any]:
    if isinstance(returned, dict):
        values = returned.get("descriptors", returned.get("values"))
        return returned.get("keypoints"), values, returned.get("valid")
    if isinstance(returned, tuple) and len(returned) == 2:
        return (*returned, None)
    if isinstance(returned, tuple) and len(returned) == 3:
        return returned
    raise InputError(f"{where}: extract must return (keypoints, descriptors[, valid])")


def _checked(
    values: Any, valid: Any, rows: int, distance: str, where: str, on_bad: str
) -> dict[str, NDArray[Any]]:
    if rows == 0:
        # without keypoints the dimension is unknown; tasks check the number of rows first
        kind = np.uint8 if distance == "hamming" else np.float32
        width = np.shape(values)[1] if np.ndim(values) == 2 and np.shape(values)[1] else 1
        return {"values": np.empty((0, width), kind), "valid": np.empty(0, bool)}
    if values is not None and np.ndim(values) == 2 and len(values) != rows:
        raise InputError(
            f"{where}: {len(values)} descriptors for {rows} keypoints; return one row for every keypoint and "
            "mark failures in the validity mask"
        )
    returned = values if valid is None else (values, valid)
    arrays = check_descriptors(
        returned, rows=rows, distance=distance, where=where, on_bad=on_bad, keep_nan=True
    )
    return {"values": arrays["values"], "valid": arrays.get("valid", np.ones(rows, bool))}
