# SPDX-License-Identifier: BSD-3-Clause
"""Requests to a program and its answers: JSON lines, with arrays as files in the exchange folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ...core.regular_files import read_regular_file
from ...formats.npy import array_in, read_npz
from .process import ProgramFailure, _brief

PROTOCOL = 1
"""Version of the protocol (docs/exec/protocol.md)."""

FAMILIES = ("patches", "keypoints", "pairs", "dense")

NAMES: Mapping[str, tuple[str, ...]] = {
    "patches": ("descriptors", "valid"),
    "keypoints": ("keypoints", "descriptors", "valid"),
    "pairs": ("points0", "points1", "confidence", "keypoints0", "keypoints1", "answers", "F", "H"),
    "dense": ("flow", "mask", "confidence"),
}
"""Names of the arrays in an answer, by family."""

Answer = dict[str, Any]


class BadAnswer(Exception):
    """Raised if the answer for one item cannot be used. The program continues with the next item."""


@dataclass(frozen=True)
class Request:
    """A request to a program: family, item name, arrays, and values such as the number of patches."""

    family: str
    item: str
    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)


def write_request(request: Request, number: int, folder: str, slot: int) -> dict[str, Any]:
    """Write the arrays of a request to files, and return the JSON message that names them.

    Each request in flight has a `slot`, whose files are reused after the answer. Overwriting files of equal
    size is faster than creating them.
    """
    message: dict[str, Any] = {"id": number, "family": request.family, "item": request.item, **request.facts}
    for name, array in request.arrays.items():
        message[name] = path = os.path.join(folder, f"{slot}-{name}.npy")
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "wb") as file:
            np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
            file.truncate()
    return message


def parse_line(line: bytes) -> dict[str, Any]:
    """Parse a line of the program as a JSON object. Raise `ProgramFailure` if it is something else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProgramFailure(
            f"the program wrote {_brief(line)} to standard output, expected a JSON object; print "
            "messages to standard error"
        )
    return found


def read_answer(message: Mapping[str, Any], family: str, folder: str) -> Answer:
    """Return the arrays that an answer names, and remove their files. Return numbers as they are.

    Raises:
        BadAnswer: The program reports an error, or an array is missing, unknown or outside the folder.
    """
    if "error" in message:
        raise BadAnswer(f"the program reports: {str(message['error'])[:1000]}")
    out: Answer = {}
    for name, value in message.items():
        if name == "id":
            continue
        if name != "arrays" and name not in NAMES[family]:
            raise BadAnswer(f"unknown array {name[:40]!r} of {family}; use {' or '.join(NAMES[family])}")
        if isinstance(value, int | float):
            out[name] = np.asarray(value)
            continue
        path = _inside(value, folder, name)
        try:
            if name == "arrays":
                found = read_npz(path)
                unknown = [n for n in found if n not in NAMES[family]]
                if unknown:
                    raise BadAnswer(
                        f"unknown array {unknown[0][:40]!r} of {family}; use {' or '.join(NAMES[family])}"
                    )
                out |= found
            else:
                out[name] = array_in(path, read_regular_file(path))
        except FormatError as e:
            raise BadAnswer(f"{name}: {os.path.basename(path)} {e.reason}") from e
        with suppress(OSError):
            os.unlink(path)
    return out


def _inside(value: Any, folder: str, name: str) -> str:
    """Return the path of an array file. Raise an error if it is outside the exchange folder."""
    if not isinstance(value, str) or "\0" in value:
        raise BadAnswer(f"{name} is {str(value)[:60]!r}; write the path of a .npy file")
    path = os.path.realpath(os.path.join(folder, value))
    if not path.startswith(os.path.join(folder, "")):
        raise BadAnswer(
            f"{name} names {value[:200]!r}, which is outside the exchange folder; write arrays inside it"
        )
    return path
