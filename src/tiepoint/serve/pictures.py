# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of a case, read from the dataset on request and cached outside the store."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ..core.errors import TiepointError
from ..core.hashing import hash_json
from ..report.case_detail import CaseDetail, detail, picture
from ..report.case_thumbnails import case_picture, result_picture
from ..report.pictures.thumbnails import no_picture, thumbnail
from ..run.result import Run
from ..stats.sign_flip import WIDE_FAMILY
from ..store.atomic_files import atomic_file
from . import params
from .rendering import with_etag
from .run_index import RunIndex, source_version

Image = NDArray[np.uint8]
SHOWN, RIGHT = 5, 8
"""Number of candidates per method, and of correct answers, that are shown for a query."""
MAX_PICTURE_CACHE_BYTES = 512 << 20
"""Maximum size of the cache in bytes. The oldest files are removed when the server starts."""


def replayed_case(library: RunIndex, runs: Sequence[Run], scene: str, key: str) -> CaseDetail | None:
    """Recompute a case. Recent cases are cached, because each picture is a separate request."""
    place = library.place(runs[0])
    ids = tuple(r.id for r in runs)
    return library.details.get((ids, scene, key), lambda: detail(runs, scene, key, data=place))


def picture_names(case: CaseDetail) -> dict[str, Callable[[], Image | None]]:
    """Return the pictures of a case by name. Only these pictures can be requested."""
    found: dict[str, Callable[[], Image | None]] = {}

    def add(part: str, reference: str) -> None:
        if reference:
            found[part] = lambda: picture(case, reference)

    add("query", case.query)
    for i, reference in enumerate(case.right[:RIGHT]):
        add(f"right-{i}", reference)
    if case.images is not None:
        for i, image in enumerate(case.images):
            found[f"image-{i}"] = lambda image=image: image  # type: ignore[misc]
    for v, view in enumerate(case.views):
        if view.answered is not None:
            for i, answer in enumerate(view.answered.chosen[:SHOWN]):
                add(f"chosen-{v}-{i}", answer.picture)
        if view.matched is not None and case.images is None:
            for i, shown in enumerate(view.matched.images):
                if shown is not None:
                    found.setdefault(f"image-{i}", lambda shown=shown: shown)  # type: ignore[misc]
        if view.dense is not None:
            for part in ("flow", "warped", "error", "true_flow"):
                made = getattr(view.dense, part)
                if made is not None:
                    found[f"{part}-{v}"] = lambda made=made: made  # type: ignore[misc]
    return found


THUMBNAIL = "thumb"
"""Part of a case that is its picture in a list. ``thumb-0`` is the result of the first method."""


def thumbnail_image(case: CaseDetail, part: str) -> Image | None:
    """Return the picture of a part such as ``thumb`` or ``thumb-0``. None if it cannot be drawn."""
    if part == THUMBNAIL:
        return case_picture(case)
    number = part.removeprefix(f"{THUMBNAIL}-")
    if not number.isdecimal() or int(number[:3]) >= len(case.views):
        return None
    return result_picture(case, case.views[int(number)])


def picture_answer(library: RunIndex, request: Request) -> Response:
    """Return the response with one picture of a case. ``key`` is the case, ``part`` the picture."""
    runs = params.runs_param(library, request, request.path_params["runs"])
    scene, key, part = (
        request.path_params["scene"],
        params.text_param(request, "key"),
        params.text_param(request, "part"),
    )
    facts = [[r.id, r.manifest.dataset.hash] for r in runs]
    name = hash_json(["picture", source_version(), facts, scene, key, part])
    path = None if library.cache is None else library.cache / "pictures" / name[:2] / name
    body = path.read_bytes() if path is not None and path.is_file() else None
    if body is None:
        case = replayed_case(library, runs, scene, key)
        if case is not None and part.partition("-")[0] == THUMBNAIL:
            image = thumbnail_image(case, part)
            if image is None:
                return Response(thumbnail(no_picture()), media_type="image/webp")
            body = thumbnail(image)
        else:
            make = None if case is None else picture_names(case).get(part)
            image = None if make is None else make()
            if image is None:
                raise HTTPException(404, "this picture does not exist, or its dataset is missing")
            body = encode_picture(image)
        if path is not None:
            with contextlib.suppress(TiepointError, OSError), atomic_file(path) as temporary:
                temporary.write_bytes(body)
    kinds = {b"\x89PNG": "image/png", b"RIFF": "image/webp"}
    return with_etag(request, body, kinds.get(body[:4], "image/jpeg"))


def encode_picture(image: Image) -> bytes:
    """Encode a picture as PNG if it is small, else as JPEG."""
    from PIL import Image as Pillow

    made, buffer = Pillow.fromarray(np.ascontiguousarray(image)), io.BytesIO()
    if image.size <= 1 << 18:
        made.save(buffer, format="PNG", compress_level=3)
    else:
        made.convert("RGB").save(buffer, format="JPEG", quality=92)
    return buffer.getvalue()


def evict_oldest(cache: Path, most: int = MAX_PICTURE_CACHE_BYTES) -> None:
    """Remove the oldest files of the cache until it has at most `most` bytes."""
    found = []
    for folder in ("pictures", "orders", "comparisons", WIDE_FAMILY):
        for path in (cache / folder).glob("*/*"):
            with contextlib.suppress(OSError):
                facts = path.stat()
                found.append((facts.st_mtime, facts.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
