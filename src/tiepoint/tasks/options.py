# SPDX-License-Identifier: BSD-3-Clause
"""Options of tasks: one model per task, parsed from Python values or text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from ..core.errors import ErrorCollector, InputError, UnknownNameError

_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class TaskOptions(BaseModel):
    """Base class of task options. Each field is an option, and its docstring is the help text.

    >>> class Mine(TaskOptions):
    ...     tau_px: float = 3.0
    ...     policy: Literal["all", "nearest"] = "all"
    >>> Mine.parse("my/task", {"tau_px": "5", "policy": None})
    Mine(tau_px=5.0, policy='all')
    >>> Mine.parse("my/task", {"tau": 5, "policy": "nerest"})
    Traceback (most recent call last):
    tiepoint.core.errors.ProblemsError: wrong input: 2 problems
      - unknown option of my/task 'tau'; did you mean 'tau_px'? Known: tau_px, policy
      - unknown value of policy 'nerest'; did you mean 'nearest'? Known: nearest, all
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    only_under: ClassVar[Mapping[str, str]] = {}
    """Options that affect only one protocol, by option name. Other options affect all protocols."""

    exact_alone: ClassVar[Mapping[str, Any]] = {}
    """Option values that only `exact` allows, by option name."""

    @classmethod
    def check_protocols(cls, task: str, given: Mapping[str, Any], protocols: Sequence[str]) -> None:
        """Raise an error for options that the user set but that no requested protocol uses."""
        if not (cls.only_under or cls.exact_alone):
            return
        chosen = cls.parse(task, given)
        legacy = [p for p in protocols if p != "exact"]
        for name, value in cls.exact_alone.items():
            if legacy and getattr(chosen, name) == value:
                names = ", ".join(legacy)
                raise InputError(
                    f"option {name}={value} of {task} needs the protocol exact and is fixed under {names}; "
                    "request only exact, or remove the option"
                )
        for name, protocol in cls.only_under.items():
            if protocol not in protocols and getattr(chosen, name) != cls.model_fields[name].default:
                raise InputError(
                    f"option {name} of {task} has no effect under {', '.join(protocols)}; also request the "
                    f"protocol {protocol}, or remove the option"
                )

    @classmethod
    def parse(cls, task: str, given: Mapping[str, Any], checks: ErrorCollector | None = None) -> Self:
        """Parse options given by a user. None means that the option was not given.

        All problems are raised as one error. If the caller passes `checks`, the problems are collected there
        instead, and invalid options take their defaults.
        """
        own = ErrorCollector() if checks is None else checks
        known = {name: value for name, value in given.items() if value is not None}
        for name in [name for name in known if name not in cls.model_fields]:
            own.errors.append(UnknownNameError(f"option of {task}", name, cls.model_fields))
            del known[name]
        try:
            found = cls(**known)
        except ValidationError as e:
            problems = {str(problem["loc"][0]): problem for problem in e.errors()}
            own.errors += [cls._problem(task, name, p, known[name]) for name, p in problems.items()]
            found = cls(**{name: value for name, value in known.items() if name not in problems})
        if checks is None:
            own.raise_all()
        return found

    @classmethod
    def _problem(cls, task: str, name: str, found: Any, value: Any) -> InputError:
        if found["type"] == "value_error":  # a message of the validators below
            return InputError(str(found["ctx"]["error"]))
        kind = cls.model_fields[name].annotation
        choices = [
            str(c) for part in (kind, *get_args(kind)) if get_origin(part) is Literal for c in get_args(part)
        ]
        if choices:
            return UnknownNameError(f"value of {name}", str(value), choices)
        return InputError(f"option {name} of {task}: {found['msg']}, found {value!r}")

    @classmethod
    def describe(cls) -> dict[str, dict[str, Any]]:
        """Return the default and meaning of every option, by name."""
        return {
            name: {"default": field.default, "about": " ".join((field.description or "").split())}
            for name, field in cls.model_fields.items()
        }


def flag(value: Any, info: ValidationInfo) -> bool:
    """Parse a Boolean option: a bool, 0 or 1, or a word such as ``yes`` or ``off`` in any case."""
    word = str(value).strip().lower() if isinstance(value, str | int | np.bool_) else ""
    if word not in (*_ON, *_OFF):
        name = info.field_name
        raise ValueError(
            f"{name} must be a Boolean, found {value!r}; write {name}=true or {name}=false "
            "(or yes, no, on, off, 1, 0)"
        )
    return word in _ON


def parse_ascending(value: Any) -> tuple[float, ...]:
    """Parse positive numbers from a list or comma-separated text; sort them and drop duplicates.

    >>> parse_ascending("5,1,5"), parse_ascending([0.1]), parse_ascending(3)
    ((1.0, 5.0), (0.1,), (3.0,))
    """
    parts = value.split(",") if isinstance(value, str) else list(value) if np.iterable(value) else [value]
    try:
        found = tuple(sorted({float(p) for p in parts}))
    except (TypeError, ValueError):
        raise ValueError(f"expected numbers separated by commas, found {value!r}") from None
    if not found or not all(np.isfinite(f) and f > 0 for f in found):
        raise ValueError(f"expected positive numbers, found {value!r}")
    return found


def _numbers(value: Any, info: ValidationInfo) -> tuple[float, ...]:
    try:
        return parse_ascending(value)
    except ValueError as e:
        raise ValueError(f"{info.field_name}: {e}") from None


def parse_list(value: Any) -> Any:
    """Parse one value, comma-separated text or a list into a tuple.

    >>> parse_list("JODS, PASCAL"), parse_list(()), parse_list(3)
    (('JODS', 'PASCAL'), (), (3,))
    """
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def parse_word(value: Any) -> Any:
    """Return a number or Boolean as the text that the user wrote. Other values are unchanged.

    >>> parse_word(7), parse_word(True), parse_word("a")
    ('7', 'true', 'a')
    """
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _names(value: Any) -> Any:
    return tuple(map(parse_word, parse_list(value)))


def _folder(value: Any) -> Path:
    if not Path(value).is_dir():
        raise ValueError(f"the folder of task files {value} does not exist; correct the path")
    return Path(value)


Flag = Annotated[bool, BeforeValidator(flag)]
Word = Annotated[str, BeforeValidator(parse_word)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Sizes = Annotated[tuple[Annotated[int, Field(ge=2)], ...], BeforeValidator(parse_list)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(_numbers)]
Folder = Annotated[Path, BeforeValidator(_folder)]
