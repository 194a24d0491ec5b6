# SPDX-License-Identifier: BSD-3-Clause
"""Programs as methods of the four families. They have the interfaces of Python classes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UserCodeError
from ...core.hashing import hash_json
from ...core.records import Arrays, Item
from ...formats.image.reader import to_grey
from ..base import Finish, Method
from ..registry import MATCHED
from ..spec import EXEC
from .exchange import Answer, Request
from .program import Program, program_of

Image = NDArray[np.uint8]

ROLES: Mapping[str, tuple[str, ...]] = {
    "patches": ("patches",),
    "keypoints": ("keypoints",),
    MATCHED: ("keypoints",),
    "pairs": ("pairs", "keypoints", "dense"),
    "dense": ("dense", "pairs", "keypoints"),
}
"""For each family of tasks, the families that a program may declare, preferred first."""

MAX_DECLARED_CHARS = 500
"""Longest greeting that is stored with a run in full, in characters. For a longer one, the hash is stored."""


class ProgramMethod:
    """A program used as a method of one family (`role`).

    The adapters call ``describe``, ``extract`` or ``match``. These return the answer if a stream has already
    received it, and otherwise send a request to the program.
    """

    identity = "exec"
    libraries = ()

    def __init__(self, program: Program, role: str) -> None:
        self.program, self.role = program, role
        greeting = program.greeting
        self.name, self.distance, self.colour = program.name, greeting.distance, "rgb"
        self.zero_rows_are_valid = greeting.zero_rows_are_valid
        declared: Any = dict(greeting.declared)
        if len(str(declared)) > MAX_DECLARED_CHARS:
            declared = {"hash": hash_json(declared)}
        known = {"program": dict(program.known), "greeting": declared, "device": program.device}
        self.config = {"role": role, **known}
        self._here = threading.local()
        if role == "patches":
            self.describe = lambda patches: self._descriptors(self._patches(patches))
        elif role == "keypoints":
            self.extract = lambda image: self._answer(self._image(image))
        else:
            self.match = lambda image1, image2: self._matches(self._pair(image1, image2))
            if role == "dense":
                self.kind = role
            elif greeting.queries:
                self.match_points = self._points

    def _requests(self, payload: Any, both: bool) -> list[Request]:
        """Return the requests for an item, in the order in which the adapter needs the answers.

        `both` requests flows in both directions.
        """
        if self.role == "patches":
            return [self._patches(payload)]
        if self.role == "keypoints":
            return [self._image(payload)]
        queries = getattr(payload, "queries", None)
        first = (
            []
            if queries is None or not hasattr(self, "match_points")
            else [self._pair(payload[0], payload[1], queries)]
        )
        back = [self._pair(payload[1], payload[0])] if both else []
        return [*first, self._pair(payload[0], payload[1]), *back]

    def _patches(self, patches: Any) -> Request:
        facts = {"count": len(patches), "side": int(patches.shape[1])}
        return Request("patches", self._item, {"patches": patches}, facts)

    def _image(self, image: Image) -> Request:
        return Request("keypoints", self._item, {"image": self._coloured(image)})

    def _pair(self, image1: Image, image2: Image, points: Any = None) -> Request:
        arrays: dict[str, Any] = {"image1": self._coloured(image1), "image2": self._coloured(image2)}
        if points is not None:
            arrays["points"] = np.asarray(points, np.float64)
        return Request(self.role, self._item, arrays)

    def _coloured(self, image: Image) -> Image:
        is_grey = self.program.greeting.colour == "grey"
        return to_grey(image) if is_grey and image.ndim == 3 else image

    @property
    def _item(self) -> str:
        return str(getattr(self._here, "item", ""))

    def _answer(self, request: Request) -> Answer:
        received = getattr(self._here, "received", None)
        if received is None:
            return self.program.ask(request)
        answer = received.popleft()
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def _descriptors(self, request: Request) -> Any:
        answer = self._answer(request)
        values = _required(answer, "descriptors")
        return (values, answer["valid"].astype(bool)) if "valid" in answer else values

    def _matches(self, request: Request) -> Any:
        answer = self._answer(request)
        if self.role == "pairs":
            return answer
        return _required(answer, "flow"), answer.get("mask"), answer.get("confidence")

    def _points(self, image1: Image, image2: Image, points: Any) -> Any:
        return _required(self._answer(self._pair(image1, image2, points)), "answers")

    def checked(self, extract: Callable[[Item, Any], Arrays]) -> Callable[[Item, Any], Arrays]:
        """Wrap an adapter's `extract` so that its errors contain the last messages of the program."""

        def wrapped(item: Item, payload: Any) -> Arrays:
            self._here.item = item.key
            try:
                return extract(item, payload)
            except UserCodeError:
                raise
            except InputError as e:
                where = f"{self.name} on {item.key}"
                reason = (
                    str(e).removeprefix(f"{where}: ").removeprefix(f"method {self.name!r} on {item.key}: ")
                )
                raise UserCodeError(where, self.program.with_errors(reason)) from e

        return wrapped

    def stream(
        self, extract: Callable[[Item, Any], Arrays], both: bool
    ) -> Callable[[Iterator[tuple[Item, Any]]], Iterator[tuple[Item, Finish]]]:
        """Return a stream that sends requests before earlier answers arrive.

        `extract` checks the answers. `both` requests flows in both directions.
        """

        def finish(item: Item, payload: Any, answers: list[Any]) -> Arrays:
            self._here.received = deque(answers)
            try:
                return extract(item, payload)
            finally:
                self._here.received = None

        def stream(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
            taken: deque[tuple[Item, Any, int]] = deque()

            def requests() -> Iterator[Request]:
                for item, payload in payloads:
                    self._here.item = item.key
                    own = self._requests(payload, both)
                    taken.append((item, payload, len(own)))
                    yield from own

            with closing(self.program.answers(requests())) as answers:
                for first in answers:
                    item, payload, count = taken.popleft()
                    own = [first, *(next(answers) for _ in range(count - 1))]
                    yield item, partial(finish, item, payload, own)

        return stream


def _required(answer: Answer, name: str) -> Any:
    if name not in answer:
        raise InputError(f"the answer has no {name}, found {', '.join(answer) or 'nothing'}; add this array")
    return answer[name]


def program_interface(spec: str, options: Mapping[str, Any]) -> ProgramMethod:
    """Return a program as a method of one of its declared families, preferably keypoints.

    `options` are those of `resolve`, such as `device` and `program`.
    """
    command, device = spec.strip().removeprefix(EXEC), str(options.get("device", "cpu"))
    program = program_of(command, options.get("program", {}), device)
    return ProgramMethod(
        program, min(program.greeting.families, key=("keypoints", "pairs", "dense", "patches").index)
    )


def make_program_method(
    spec: str, family: str, options: Mapping[str, Any], device: str
) -> tuple[ProgramMethod, Mapping[str, str]]:
    """Return a program as a method of a family, and its matcher settings (``matcher``, ``ratio``)."""
    program = program_of(spec.strip().removeprefix(EXEC), options, device)
    declared = program.greeting.families
    role = next((role for role in ROLES[family] if role in declared), None)
    if role is None:
        raise InputError(
            f"{program.where} declares {', '.join(declared)}, but this task needs "
            f"{' or '.join(ROLES[family])}; choose another task, or extend the program"
        )
    matching = program.settings.matching
    if matching and (family not in ("pairs", MATCHED) or role != "keypoints"):
        raise InputError(
            f"{program.where}: {' and '.join(matching)} apply to programs that return keypoints, on tasks "
            "that match images; remove them"
        )
    return ProgramMethod(program, role), matching


def with_program(method: Method, thing: ProgramMethod) -> Method:
    """Add a program's stream to the method that an adapter made, and its messages to the errors."""
    extract = thing.checked(method.extract)
    streams = thing.role == method.family or {thing.role, method.family} == {"pairs", "dense"}
    stream = thing.stream(extract, both=method.family == "dense") if streams else None
    return replace(method, extract=extract, stream=stream, in_workers=True, memory=thing.program.peak_memory)
