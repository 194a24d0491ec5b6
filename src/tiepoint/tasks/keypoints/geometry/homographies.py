# SPDX-License-Identifier: BSD-3-Clause
"""The comparison of the homography protocols: estimator calls on matches, every homography kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.units import Features
from ....geometry.two_view.homography_errors import scaled_homography, transfer_distances
from ....geometry.two_view.linear_estimation import HomographyEstimate, estimate_homography
from ....geometry.two_view.pose_estimation import shuffles
from ...pairs.data import PairMatches
from .protocols import HomographyProtocol, HomographySetting

PRECISION_PX = (1.0, 3.0)
KINDS: Mapping[str, Any] = {
    "pair": np.int16, "setting": np.int16, "repeat": np.int16, "H": np.float64, "ok": bool,
    "inliers": np.int32,
}  # fmt: skip


def homography_records(
    opened: Any, scene: str, features: Features, protocol: HomographyProtocol, comparison: str
) -> Records:
    """Homographies of a scene's pairs, one row an estimator call, under every setting of a protocol.

    H of a row maps resized images where the frame of its setting resizes them.
    """
    sequences = opened.sequences
    first, *others = sequences.images(scene)
    rows: dict[str, list[Any]] = {name: [] for name in KINDS}
    about: dict[str, list[Any]] = {"sizes": [], "H": [], "matches": [], "scored": [], "within": []}
    for pair, k in enumerate(others):
        sizes = sequences.size(scene, first), sequences.size(scene, k)
        truth = sequences.homography(scene, k)
        given = opened.matches(features, scene, k)
        for number, setting in enumerate(protocol.settings):
            if not is_installed(setting):
                continue
            used = opened.matches(features, scene, k, exact=True) if setting.order == "exact" else given
            for repeat, made in enumerate(_homographies(used, setting, sizes, opened.options, scene, k)):
                values = (pair, number, repeat, made.H.reshape(9), made.ok, made.inliers)
                for column, value in zip(rows.values(), values, strict=True):
                    column.append(value)
        about["sizes"].append([list(size) for size in sizes])
        about["H"].append(truth.ravel().tolist())
        about["matches"].append(len(given))
        about["scored"].append(given.confidence is not None)
        about["within"].append(_within(given, protocol.settings[0], sizes, truth))
    columns = {name: np.asarray(values, KINDS[name]) for name, values in rows.items()}
    columns["H"] = columns["H"].reshape(-1, 9)
    meta = {
        "scene": scene, "kind": sequences.kind(scene), "images": others, "protocol": comparison,
        "options": opened.options.settings(), **about,
    }  # fmt: skip
    return Records("pair", columns, meta)


def is_installed(setting: HomographySetting) -> bool:
    """Whether a setting can be called: pydegensac is used where it is installed."""
    return setting.estimator.kind != "degensac" or find_spec("pydegensac") is not None


def _homographies(
    matches: PairMatches, setting: HomographySetting, sizes: Any, options: Any, scene: str, k: str
) -> Iterator[HomographyEstimate]:
    """The estimates of all repeats of a setting."""
    if setting.top is not None and matches.confidence is not None:
        matches = matches.best(setting.top, f"{scene}/1-{k}")
    x0, x1 = _in_frame(matches, setting, sizes)
    scale = setting.frame.threshold_unit(sizes)
    estimator = replace(setting.estimator, threshold_px=setting.estimator.threshold_px * scale)
    weighted = matches.confidence is not None and estimator.kind == "dlt"
    for order in _orders(len(matches), setting, options.permutation_seed):
        weights = matches.confidence[order] if weighted and matches.confidence is not None else None
        yield estimate_homography(estimator, x0[order], x1[order], weights=weights)


def _orders(n: int, setting: HomographySetting, seed: int) -> Iterator[NDArray[Any]]:
    if setting.order == "shuffled":
        yield from shuffles(n, setting.repeats, seed)
    else:
        yield from (np.arange(n) for _ in range(setting.repeats))


def _in_frame(
    matches: PairMatches, setting: HomographySetting, sizes: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    dtype = setting.estimator.dtype
    resizes = setting.frame.resizes(sizes, single=dtype == "float32")
    made = [
        points.astype(dtype) * np.asarray(resize.scale, dtype)
        for points, resize in zip((matches.points0, matches.points1), resizes, strict=True)
    ]
    return made[0], made[1]


def _within(
    matches: PairMatches, setting: HomographySetting, sizes: Any, truth: NDArray[np.float64]
) -> list[int]:
    """Numbers of matches whose mean transfer error is below each of `PRECISION_PX` in the setting's frame."""
    resizes = setting.frame.resizes(sizes, single=setting.estimator.dtype == "float32")
    with np.errstate(all="ignore"):
        d = transfer_distances(*_in_frame(matches, setting, sizes), scaled_homography(truth, *resizes))
    return [int((d / setting.frame.unit(sizes) < px).sum()) for px in PRECISION_PX]
