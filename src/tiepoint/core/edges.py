# SPDX-License-Identifier: BSD-3-Clause
"""The plug-in edges. A user's class needs one of these methods and no import of ours."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

Array = NDArray[Any]


@runtime_checkable
class PatchDescriptor(Protocol):
    """Describes patches: uint8 (n, s, s) -> (n, d), or a pair (descriptors, valid mask of n)."""

    def describe(self, patches: Array) -> Any: ...  # noqa: D102


@runtime_checkable
class PatchLookup(Protocol):
    """Knows which patches it is asked for: descriptors of one patch-image, (n, d)."""

    def lookup(self, sequence: str, image: str) -> Any: ...  # noqa: D102


@runtime_checkable
class Detector(Protocol):
    """Finds keypoints in a uint8 image (h, w) or (h, w, 3 RGB)."""

    def detect(self, image: Array) -> Any: ...  # noqa: D102


@runtime_checkable
class KeypointDescriptor(Protocol):
    """Describes given keypoints of an image: (n, d) or (descriptors, valid mask)."""

    def describe(self, image: Array, keypoints: Any) -> Any: ...  # noqa: D102


@runtime_checkable
class FeatureExtractor(Protocol):
    """Detects and describes at once: (keypoints, descriptors[, valid])."""

    def extract(self, image: Array) -> Any: ...  # noqa: D102


@runtime_checkable
class SparseMatcher(Protocol):
    """Matches the features of two images: int (m, 2) index pairs, or (pairs, distances)."""

    def match(self, features1: Any, features2: Any) -> Any: ...  # noqa: D102


@runtime_checkable
class DenseMatcher(Protocol):
    """A flow for every pixel: float32 (h, w, 2), or (flow, mask[, confidence])."""

    def match(self, image1: Array, image2: Array) -> Any: ...  # noqa: D102


DISTANCES = ("l2", "l1", "hamming", "cosine", "masked_l1")


def distance_of(method: object) -> str:
    """The distance a method asks for; `l2` where it says nothing.

    >>> distance_of(object())
    'l2'
    """
    return str(getattr(method, "distance", "l2"))
