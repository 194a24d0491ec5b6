# SPDX-License-Identifier: BSD-3-Clause
"""Convert the text of a method parameter to the type that the constructor declares."""

from __future__ import annotations

import ast
import inspect
import types
from collections import abc
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from .user_code import UserFactory

_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_SEVERAL: dict[Any, Callable[[list[Any]], Any]] = {
    **{kind: kind for kind in (list, tuple, set, frozenset)},
    **dict.fromkeys((abc.Sequence, abc.Iterable, abc.Collection), list),
}
"""Collection types that are written as comma-separated values, and how to create them."""


class Text(str):
    """A parameter value as written in a specification. Its type follows from the parameter that receives it.

    A parameter annotated with this class receives the text unchanged, to pass it on.
    """

    __slots__ = ()


def guess(text: str) -> Any:
    """Return the value of a text whose type is not declared: a number, true, false, none, or the text.

    >>> [guess(t) for t in ("6", "0.5", "TRUE", "none", "fast", "1,2")]
    [6, 0.5, True, None, 'fast', '1,2']
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return str(text)
    return value if isinstance(value, int | float) else str(text)


def read_value(text: str, kind: Any) -> Any:
    """Convert a text to the type that the annotation `kind` declares.

    A type that text cannot express is guessed (see `guess`). For a union, the guess is returned if its type
    belongs to the union. A whole number is also a ``float``, as in Python.

    Raises:
        ValueError: The text is not of that type.

    >>> read_value("none", str), read_value("none", str | None), read_value("6", str | int)
    ('none', None, 6)
    >>> read_value("1,2", list[int]), read_value("off", bool), read_value("inf", float)
    ([1, 2], False, inf)
    """
    if kind is Text:
        return text
    origin = get_origin(kind)
    if origin is Annotated:
        return read_value(text, get_args(kind)[0])
    if origin is Literal:
        return _choice(text, get_args(kind))
    if origin in (Union, types.UnionType):
        return _member(text, get_args(kind))
    if kind is str:
        return str(text)
    if kind in (None, types.NoneType, bool, int, float):
        return _plain(text, kind)
    if inspect.isclass(kind) and origin is None and issubclass(kind, PurePath):
        return kind(text)
    if (origin or kind) in _SEVERAL:
        return _several(text, origin or kind, get_args(kind))
    return guess(text)


def _choice(text: str, choices: Sequence[Any]) -> Any:
    value = guess(text)
    for choice in choices:
        if choice == text or (type(choice) is type(value) and choice == value):
            return choice
    raise ValueError(f"one of {', '.join(map(str, choices))}")


def _member(text: str, kinds: Sequence[Any]) -> Any:
    value, reasons = guess(text), []
    first = [k for k in kinds if get_origin(k) is Literal]
    guessed = [k for k in kinds if k is type(value) or (k is float and type(value) is int)]
    for kind in (*first, *guessed, *kinds):
        try:
            return read_value(text, kind)
        except ValueError as e:
            reasons.append(str(e))
    raise ValueError(" or ".join(dict.fromkeys(reasons)))


def _plain(text: str, kind: Any) -> Any:
    value = guess(text)
    if kind is bool:
        if text.lower() not in (*_ON, *_OFF):
            raise ValueError("true or false")
        return text.lower() in _ON
    if kind is float:
        try:
            return value if type(value) in (int, float) else float(text)
        except ValueError:
            raise ValueError("a number") from None
    if kind is int and type(value) is not int:
        raise ValueError("a whole number")
    if kind in (None, types.NoneType) and value is not None:
        raise ValueError("none")
    return value


def _several(text: str, kind: Any, of: Sequence[Any]) -> Any:
    inner = text[1:-1] if text[:1] + text[-1:] in ("[]", "()") else text
    parts = [part.strip() for part in inner.split(",")] if inner.strip() else []
    fixed = kind is tuple and bool(of) and of[-1] is not ...
    if fixed and len(of) != len(parts):
        raise ValueError(f"{len(of)} values separated by commas")
    kinds = list(of) if fixed else [of[0] if of else inspect.Parameter.empty] * len(parts)
    return _SEVERAL[kind]([read_value(p, k) for p, k in zip(parts, kinds, strict=True)])


def annotation_of(factory: Any, parameter: inspect.Parameter) -> Any:
    """Return the type that a factory declares for a parameter; `Parameter.empty` if there is none.

    Annotations that are text are evaluated in the module of the factory.
    """
    kind = parameter.annotation
    if not isinstance(kind, str):
        return kind
    made = factory.made_of if isinstance(factory, UserFactory) else factory
    function = inspect.unwrap(made.__init__ if inspect.isclass(made) else made)
    try:
        return eval(kind, getattr(function, "__globals__", {}))  # annotations of code that runs anyway
    except Exception:  # a name that only type checkers import
        return inspect.Parameter.empty
