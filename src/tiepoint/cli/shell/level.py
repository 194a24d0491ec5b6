# SPDX-License-Identifier: BSD-3-Clause
"""How much is said: ``-q`` only results and errors, ``-v`` more."""

from __future__ import annotations

import time

from ...core.errors import InputError

_state = {"level": 0}
_since = {"start": 0.0}


def start_command() -> None:
    """A command begins: the usual level, and its time."""
    _state["level"] = 0
    _since["start"] = time.monotonic()


def set_verbosity(level: int) -> None:
    """Say less (-1) or more (1) from now on."""
    if level * _state["level"] < 0:
        raise InputError("-q and -v contradict each other; leave one of them out")
    _state["level"] = level


def quiet() -> bool:
    """Whether only results and errors are wanted."""
    return _state["level"] < 0


def verbose() -> bool:
    """Whether more is wanted."""
    return _state["level"] > 0


def elapsed_s() -> float:
    """Seconds since the command began."""
    return time.monotonic() - _since["start"]
