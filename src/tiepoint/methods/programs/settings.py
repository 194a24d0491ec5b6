# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a program: its command (``exec:COMMAND`` or a YAML file) and its options (``exec.NAME``)."""

from __future__ import annotations

import math
import os
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import InputError, UnknownNameError
from ...core.regular_files import is_file, is_folder
from ...formats.json_yaml import read_mapping
from ..spec import EXEC, is_program

PREFIX = "exec."
"""Prefix of the options of a program: ``-o exec.timeout_s=60``."""
OPTIONS = ("timeout_s", "revision", "folder", "matcher", "ratio")
ENV = "env."
TIMEOUT_S = 300.0
"""Default time limit for one item, in seconds."""
MAX_TIMEOUT_S = 30 * 86400.0
_YAML_KEYS = ("command", "arguments", "environment", *OPTIONS)


@dataclass(frozen=True)
class ProgramSettings:
    """Settings for starting a program.

    `folder` is its working folder, None for the current folder of tiepoint. `env` extends the environment. An
    item that takes longer than `timeout_s` seconds fails. `matching` has ``matcher`` and ``ratio`` for
    programs that return keypoints on tasks of image pairs.
    """

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    timeout_s: float = TIMEOUT_S
    revision: str | None = None
    matching: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The command for tables, without folder names."""
        return " ".join([Path(self.words[0]).name, *(_short(word) for word in self.words[1:])])

    @property
    def executable(self) -> str:
        """Path of the executable. Reading it raises an error if the file does not exist."""
        name, path = self.words[0], self.env.get("PATH", os.environ.get("PATH", os.defpath))
        if os.sep in name:
            found = os.path.join(self.folder or "", name)
            if is_file(found) and not os.access(found, os.X_OK):
                raise InputError(
                    f"exec: {name} is not executable; run chmod +x {shlex.quote(found)}, or name its "
                    f"interpreter, as in exec:{_quoted(f'python {name}')}"
                )
            if is_file(found):
                return found
        elif (place := shutil.which(name, path=path)) is not None:
            return place
        near = "" if os.sep in name or not is_file(os.path.join(self.folder or "", name)) else f"./{name}"
        raise InputError(
            f"exec: no program {name!r}; "
            + (f"write exec:{near} for the file in the working folder" if near else "check the command")
        )


def split_options(
    methods: Iterable[Any], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of the task and those for `resolve`, which include the options of programs.

    >>> split_options(["exec:./a"], {"split": "a", "exec.timeout_s": 60})
    ({'split': 'a'}, {'program': {'timeout_s': 60}})
    """
    own = {k.removeprefix(PREFIX): v for k, v in options.items() if k.startswith(PREFIX)}
    if own and not any(map(is_program, methods)):
        raise InputError(
            f"{PREFIX}{next(iter(own))} has no effect, because no method is exec:COMMAND; omit it"
        )
    rest = {k: v for k, v in options.items() if not k.startswith(PREFIX)}
    return rest, {"program": own} if own else {}


def parse_command(command: str, options: Mapping[str, Any]) -> ProgramSettings:
    """Return the settings of ``exec:COMMAND``, updated by `options`.

    A command of one word that ends with ``.yaml`` or ``.yml`` names a file with the settings.

    >>> parse_command("./match --name 'a b'", {"timeout_s": 5}).words
    ('./match', '--name', 'a b')
    """
    try:
        words = shlex.split(command)
    except ValueError as e:
        raise InputError(f"exec:{command}: {str(e)[0].lower()}{str(e)[1:]}; quote words as in a shell") from e
    if not words:
        raise InputError("exec: the command is missing; write it after the colon, as in exec:./my_matcher")
    given: dict[str, Any] = {"command": words}
    where = EXEC[:-1]
    if len(words) == 1 and words[0].endswith((".yaml", ".yml")):
        file = Path(words[0]).expanduser()
        given, where = _read_yaml(file), words[0]
    env = dict(given.pop("environment", {}))
    for name, value in options.items():
        if name.startswith(ENV) and len(name) > len(ENV):
            env[name.removeprefix(ENV)] = value
        elif name in OPTIONS:
            given[name] = value
        else:
            raise UnknownNameError(
                "option of exec", PREFIX + name, [PREFIX + o for o in (*OPTIONS, "env.NAME")]
            )
    return _settings(given, env, where)


def _read_yaml(file: Path) -> dict[str, Any]:
    """Read settings from a YAML file. A relative working folder is relative to the file."""
    found = read_mapping(file, "it needs the key command")
    for key in found:
        if key not in _YAML_KEYS:
            raise UnknownNameError(f"key of {file}", str(key), _YAML_KEYS)
    command, arguments = found.pop("command", None), found.pop("arguments", [])
    if not isinstance(command, str | list) or not command:
        raise InputError(f"{file}: command is {command!r}; write a text or a list of words")
    if not isinstance(arguments, list) or not isinstance(found.get("environment", {}), dict):
        raise InputError(f"{file}: arguments must be a list and environment a mapping; correct the file")
    words = shlex.split(command) if isinstance(command, str) else command
    found["command"] = [_text(w, f"{file}: command") for w in [*words, *arguments]]
    if "folder" in found:
        found["folder"] = str(file.parent / _text(found["folder"], f"{file}: folder"))
    return found


def _settings(given: Mapping[str, Any], env: Mapping[Any, Any], where: str) -> ProgramSettings:
    folder = given.get("folder")
    if folder is not None and not is_folder(os.path.expanduser(str(folder))):
        raise InputError(f"{where}: no folder {str(folder)!r}; correct the working folder of the program")
    timeout = given.get("timeout_s", TIMEOUT_S)
    try:
        seconds = float(timeout)
    except (TypeError, ValueError):
        seconds = math.nan
    if isinstance(timeout, bool) or not 0 < seconds <= MAX_TIMEOUT_S:
        raise InputError(f"{where}: timeout_s is {timeout!r}; write a number of seconds above 0")
    revision = given.get("revision")
    return ProgramSettings(
        tuple(given["command"]),
        {_text(k, f"{where}: environment"): _text(v, f"{where}: environment") for k, v in env.items()},
        None if folder is None else os.path.expanduser(str(folder)),
        seconds,
        None if revision is None else str(revision),
        {k: str(given[k]) for k in ("matcher", "ratio") if given.get(k) is not None},
    )


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
        raise InputError(f"{where}: {value!r} is not a text; put it in quotes")
    return str(value)


def _short(word: str) -> str:
    """Return a word as shown in tables, without folders.

    >>> _short("--weights=/far/away/net.pt"), _short("/far/net.pt"), _short("--fast")
    ('--weights=net.pt', 'net.pt', '--fast')
    """
    key, equals, value = word.rpartition("=")
    return f"{key}{equals}{Path(value).name if '/' in value else value}"


def _quoted(text: str) -> str:
    return f'"{text}"'
