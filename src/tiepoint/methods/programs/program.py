# SPDX-License-Identifier: BSD-3-Clause
"""A program that answers requests, with restarts after failures and several requests in flight."""

from __future__ import annotations

import atexit
import json
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.errors import InputError, UserCodeError
from ...core.hashing import hash_json
from ...core.plugins import check_distance
from ...core.processes import peak_memory_bytes
from .exchange import (
    FAMILIES,
    PROTOCOL,
    Answer,
    BadAnswer,
    Request,
    parse_line,
    read_answer,
    write_request,
)
from .fingerprint import fingerprint
from .process import ProgramFailure, ProgramProcess
from .settings import ProgramSettings, parse_command

RESTARTS = 3
"""Number of times that a program is restarted after a failure."""

STRIKES = 2
"""Number of program failures during one item after which the item counts as failed."""

MAX_BATCH = 4096


@dataclass(frozen=True)
class Greeting:
    """The first message of a program: families, name, distance, colour, batch size.

    `declared` has the complete message.
    """

    families: tuple[str, ...]
    name: str | None
    distance: str
    colour: str
    batch: int
    queries: bool
    zero_rows_are_valid: bool
    declared: Mapping[str, Any]

    @classmethod
    def of(cls, message: Mapping[str, Any], where: str) -> Greeting:
        """Parse the greeting of a program and check its fields."""
        if message.get("protocol") != PROTOCOL:
            raise InputError(
                f"{where}: the greeting declares protocol {message.get('protocol')!r}; this version of "
                f"tiepoint uses protocol {PROTOCOL} (docs/exec/protocol.md)"
            )
        families = message.get("families")
        if not isinstance(families, list) or not families or any(f not in FAMILIES for f in families):
            raise InputError(
                f"{where}: the greeting declares families {families!r}; list some of {', '.join(FAMILIES)}"
            )
        name, colour, batch = message.get("name"), message.get("colour", "rgb"), message.get("batch", 1)
        if colour not in ("rgb", "grey"):
            raise InputError(f"{where}: the greeting declares colour {colour!r}; write rgb or grey")
        if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= MAX_BATCH:
            raise InputError(f"{where}: the greeting declares batch {batch!r}; write 1 to {MAX_BATCH}")
        if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
            raise InputError(f"{where}: the greeting declares name {name!r}; write a printable text")
        flags = {}
        for key in ("queries", "zero_rows_are_valid"):
            flags[key] = message.get(key, False)
            if not isinstance(flags[key], bool):
                raise InputError(f"{where}: the greeting declares {key} {flags[key]!r}; write true or false")
        distance = check_distance(str(message.get("distance", "l2")), where)
        return cls(tuple(families), name, distance, colour, batch, declared=dict(message), **flags)


@dataclass
class _Pending:
    """A request without an answer: its number in the current process (0 if not sent), and its failures."""

    request: Request
    number: int = 0
    strikes: int = 0


class Program:
    """A program that is started on first use, and restarted after a failure, at most `RESTARTS` times.

    `known` is the part of the cache key that does not come from the greeting (`fingerprint`).
    """

    def __init__(self, settings: ProgramSettings, device: str, known: Mapping[str, Any]) -> None:
        self.settings, self.device, self.known = settings, device, known
        self.where = f"exec:{settings.title}"
        self._process: ProgramProcess | None = None
        self._number = self._failures = 0
        self._dead: str | None = None
        self._greeting: Greeting | None = None

    @property
    def greeting(self) -> Greeting:
        """The greeting of the program.

        Reading it starts the program, and restarts it once if it was killed.
        """
        while self._greeting is None:
            try:
                self._running()
            except ProgramFailure as e:
                self._failures += 1
                reason = self._stopped(e)
                if self._failures >= STRIKES or "was killed" not in reason:
                    self._failures = 0
                    raise InputError(f"{self.where}: the program sent no greeting: {reason}") from None
        assert self._greeting is not None
        return self._greeting

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        own = None if self._greeting is None else self._greeting.name
        return own or self.where

    def _running(self) -> ProgramProcess:
        """Return the running program. Start it if necessary."""
        if self._process is not None:
            return self._process
        if self._dead is not None:
            raise ProgramFailure(self._dead)
        s = self.settings
        try:
            self._process = process = ProgramProcess(s.words, s.env, s.folder)
            hello = {
                "tiepoint": "hello",
                "protocol": PROTOCOL,
                "folder": process.folder,
                "device": self.device,
                "timeout_s": s.timeout_s,
            }
            process.send(json.dumps(hello).encode())
            greeting = Greeting.of(parse_line(process.receive(s.timeout_s)), self.where)
            if self._greeting is not None and greeting != self._greeting:
                raise ProgramFailure(
                    "the program's greeting differs from that of its first start; declare only values that "
                    "stay the same"
                )
        except InputError:
            self.stop()
            raise
        except BaseException as e:
            if not isinstance(e, ProgramFailure):
                self.stop()
            raise
        self._greeting = greeting
        return process

    def ask(self, request: Request) -> Answer:
        """Send a request and return the answer. Raise `UserCodeError` if the item failed."""
        (answer,) = self.answers(iter([request]))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answers(self, requests: Iterator[Request]) -> Generator[Answer | Exception]:
        """Yield the answer to each request, in order, or the error of its item.

        The next request (or batch) is sent while the program works on the current one. After a failure of the
        program, the unanswered requests are sent again one by one.
        """
        waiting: deque[_Pending] = deque()
        alone, exhausted = 0, False
        try:
            while True:
                if not waiting:
                    if (request := next(requests, None)) is None:
                        return
                    waiting.append(_Pending(request))
                try:
                    process, batch = self._running(), self.greeting.batch
                    if alone:
                        self._send(process, waiting, 1, most=1)
                    while not (alone or exhausted) and len(waiting) < 2 * batch:
                        self._send(process, waiting, batch)
                        request = next(requests, None)
                        exhausted = request is None
                        waiting.extend([] if request is None else [_Pending(request)])
                    if not alone:
                        self._send(process, waiting, batch, everything=exhausted)
                    result = self._answer(process, waiting, 1 if alone else batch)
                except ProgramFailure as e:
                    failed = self._failure(waiting[0], e)
                    for pending in waiting:
                        pending.number = 0
                    alone = len(waiting)
                    if failed is None:
                        continue
                    result = failed
                waiting.popleft()
                alone = max(0, alone - 1)
                yield result
        finally:
            if any(pending.number for pending in waiting):
                self.stop()  # answers to requests that were given up would be out of order

    def _send(
        self,
        process: ProgramProcess,
        waiting: deque[_Pending],
        batch: int,
        *,
        everything: bool = False,
        most: int | None = None,
    ) -> None:
        """Send the requests in `waiting` that have not been sent, in groups of `batch`.

        `everything` also sends an incomplete last group. `most` limits the number of requests in flight.
        """
        unsent = [pending for pending in list(waiting)[:most] if not pending.number]
        while len(unsent) >= batch or (unsent and everything):
            group, unsent = unsent[:batch], unsent[batch:]
            messages = []
            for pending in group:
                self._number += 1
                pending.number = self._number
                slot = self._number % (2 * self.greeting.batch)
                messages.append(write_request(pending.request, self._number, process.folder, slot))
            message = messages[0] if self.greeting.batch == 1 else {"batch": messages}
            process.send(json.dumps(message).encode())

    def _answer(self, process: ProgramProcess, waiting: deque[_Pending], batch: int) -> Answer | Exception:
        """Receive the answer to the oldest request in `waiting`."""
        first = waiting[0]
        message = parse_line(process.receive(self.settings.timeout_s * batch))
        if message.get("id") != first.number:
            raise ProgramFailure(
                f"the program answered request {str(message.get('id'))[:40]} instead of {first.number}; "
                "answer every request, in order, with its id"
            )
        try:
            return read_answer(message, first.request.family, process.folder)
        except BadAnswer as e:
            return self._error(first.request.item, str(e))
        finally:
            first.number = 0

    def _failure(self, oldest: _Pending, failure: ProgramFailure) -> Exception | None:
        """Count a failure of the program during the oldest request.

        Return the error of its item, or None to send the request again.
        """
        reason = self._stopped(failure)
        if self._dead is None:
            self._failures += 1
            if self._failures > RESTARTS:
                self._dead = f"{reason}\nIt was restarted {RESTARTS} times and is not started again."
        oldest.strikes += 1
        if self._dead is None and oldest.strikes < STRIKES:
            return None
        return UserCodeError(f"{self.name} failed on {oldest.request.item}", self._dead or reason)

    def _stopped(self, failure: ProgramFailure) -> str:
        """Stop the program after a failure. Return the reason with the last lines of its standard error."""
        if self._process is not None:
            self._process.drain()
        reason = self.with_errors(str(failure))
        self.stop()
        return reason

    def _error(self, item: str, reason: str) -> UserCodeError:
        if self._process is not None:
            self._process.drain(0.02)
        return UserCodeError(f"{self.name} failed on {item}", self.with_errors(reason))

    def with_errors(self, reason: str) -> str:
        """Append the last lines of the program's standard error to an error message."""
        lines = "" if self._process is None else self._process.errors()
        return f"{reason}\n{lines}" if lines else reason

    def peak_memory(self) -> int | None:
        """Return the peak memory of the running program in bytes. None if unknown."""
        return None if self._process is None else peak_memory_bytes(self._process.pid)

    def stop(self) -> None:
        """Kill the program with its descendants."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def close(self) -> None:
        """Close the program's input and let it exit. It is restarted on the next use."""
        process, self._process = self._process, None
        self._failures, self._dead = 0, None
        if process is not None:
            process.close(gently=True)


_PROGRAMS: dict[str, Program] = {}
"""Programs of this process by command, options and device."""


def program_of(command: str, options: Mapping[str, Any], device: str) -> Program:
    """Return the program of a command. The process is shared by all methods with equal command and files."""
    settings = parse_command(command, options)
    known = fingerprint(settings)
    key = hash_json([known, settings.timeout_s, dict(settings.matching), device])
    if key not in _PROGRAMS:
        _PROGRAMS[key] = Program(settings, device, known)
    return _PROGRAMS[key]


def close_programs() -> None:
    """Let all programs exit. They are restarted on the next use."""
    for program in _PROGRAMS.values():
        program.close()


atexit.register(close_programs)
