# SPDX-License-Identifier: BSD-3-Clause
"""Translate Python argument names in messages to command-line flags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SETTING = re.compile(r"`(?P<name>[a-z][a-z0-9_]*)(?:=(?P<value>\"[^\"`]*\"|[^`\"\s]+))?`")

_COMMAND = re.compile(r"`(?P<words>(?:data|keypoints|list|store) [a-z]+)`")

_OTHER_MEANING = frozenset({"config"})
"""Names that are not translated, because messages also use them for attributes of custom classes."""

_current: dict[str, str] = {}


def as_flags(text: str, flags: Mapping[str, str] | None = None) -> str:
    """Replace argument names in backticks by flags. By default, use the flags of the running command.

    An argument that has a value but no flag becomes a task option (``-o``) if the command accepts task
    options. Other arguments stay unchanged. Two-word commands are prefixed with the program name.

    >>> flags = {"split": "--split", "on_bad": "--on-bad", "option": "-o"}
    >>> as_flags('choose a `split`, or `on_bad="miss"`, or `tau_px=3`; see `describe`', flags)
    'choose a --split, or --on-bad miss, or -o tau_px=3; see `describe`'
    >>> as_flags("`store check` rebuilds it")
    '`tiepoint store check` rebuilds it'
    """
    known = _current if flags is None else flags

    def flag(match: re.Match[str]) -> str:
        name, value = match["name"], (match["value"] or "").strip('"')
        if name in known and name not in _OTHER_MEANING:
            return known[name] if value in ("", "True") else f"{known[name]} {value}"
        if value and "option" in known:
            return f"-o {name}={value}"
        return match[0]

    return _COMMAND.sub(r"`tiepoint \g<words>`", _SETTING.sub(flag, text))


def set_command_flags(command: Any, arguments: list[str]) -> None:
    """Make `as_flags` use the flags of the invoked subcommand."""
    words = iter([a for a in arguments if not a.startswith("-")][:2])
    while (word := next(words, None)) is not None and word in getattr(command, "commands", {}):
        command = command.commands[word]
    _current.clear()
    for parameter in command.params:
        flags = [f for f in getattr(parameter, "opts", ()) if f.startswith("-")]
        if flags:
            _current[parameter.name.rstrip("_")] = next((f for f in flags if f != "-j"), flags[0])
