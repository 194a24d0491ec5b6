# SPDX-License-Identifier: BSD-3-Clause
"""Method specifications on the command line: ``name?key=value&key=value+transform+transform``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import InputError, UnknownNameError
from ..core.regular_files import exists
from .parameters import Text, annotation_of, guess, read_value
from .transforms import TRANSFORMS
from .user_code import UserFactory, UserObject, is_builtin_class

_PYTHON_FILE = re.compile(r"^(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)$")
TORCH = "torch:"
"""Prefix of ``FILE.py:CLASS`` for a class that is a torch module."""
EXEC = "exec:"
"""Prefix of the command of a program. The rest of the specification is the command."""
STORAGE, STORAGES = "storage", ("fp32", "fp16")
"""Parameter of all methods with real-valued descriptors: the precision to which descriptors are rounded."""
_OWN_STORAGE = ("torch", "lightglue")
"""Methods that handle the parameter `storage` themselves."""
_SCHEME = re.compile(r"^(?P<scheme>[a-z][a-z0-9-]+):(?P<argument>.+)$", re.DOTALL)


@dataclass(frozen=True)
class Stage:
    """A method or a transform in a specification: its name and parameters.

    Parameter values are `Text` until `typed_for` converts them.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    argument: str | None = None

    @property
    def query(self) -> str:
        """The parameters as ``key=value&key=value``, in the user's spelling unless `typed_for` changed it."""
        return "&".join(f"{k}={_written(v)}" for k, v in self.params.items())

    def typed_for(self, *factories: Callable[..., Any]) -> Stage:
        """Return the stage with typed parameter values.

        The first factory that has a parameter declares its type.

        >>> def make(mode: str, size=4): ...
        >>> parse_stage("f?mode=none&size=6").typed_for(make).params
        {'mode': 'none', 'size': 6}
        """
        return Stage(self.name, {k: self._typed(k, factories) for k in self.params}, self.argument)

    def _typed(self, key: str, factories: Iterable[Callable[..., Any]]) -> Any:
        value, unread = self.params[key], None
        if not isinstance(value, Text):
            return value
        for factory in factories:
            known = parameters_of(factory)
            rest = next((p for p in known.values() if p.kind is p.VAR_KEYWORD), None)
            if (parameter := known.get(key, rest)) is None:
                continue
            try:
                read = read_value(value, annotation_of(factory, parameter))
            except ValueError as e:
                raise InputError(f"{self.name}: parameter {key} is {str(value)!r}; write {e}") from None
            if not isinstance(read, Text):
                return read
            unread = value  # the factory passes it on
        return guess(value) if unread is None else unread

    def without_defaults(self, *factories: Callable[..., Any]) -> Stage:
        """Return the typed stage without parameters whose values equal the defaults of all factories.

        >>> str(Stage("f", {"size": 4, "mode": "a"}).without_defaults(lambda size=4, mode="b": None))
        'f?mode=a'
        """
        known = [parameters_of(factory) for factory in factories]
        kept = {}
        for key, value in self.typed_for(*factories).params.items():
            is_default = [_is_default(p[key], value) for p in known if key in p]
            if not is_default or not all(is_default):
                kept[key] = value
        return Stage(self.name, kept, self.argument)

    def without_paths(self) -> Stage:
        """Return the stage as shown in tables: paths without folders, and classes without file names.

        Booleans are written as in specifications.

        >>> str(Stage("kornia", {"weights": "/far/away/tfeat.params", "a": True}, "TFeat").without_paths())
        'kornia:TFeat?weights=tfeat.params&a=true'
        >>> str(Stage("some/my.py", {}, "Slow").without_paths())
        'Slow'
        """
        params = {
            k: str(v).lower()
            if isinstance(v, bool)
            else ",".join(Path(part).name for part in str(v).split(","))
            if isinstance(v, str | Path) and "/" in str(v)
            else v
            for k, v in self.params.items()
        }
        if self.name.endswith(".py"):
            return Stage(str(self.argument), params)
        argument = self.argument
        if argument is not None and "/" in argument and "@" not in argument:
            argument = Path(argument).name
        return Stage(self.name, params, argument)

    def __str__(self) -> str:
        head = self.name if self.argument is None else f"{self.name}:{self.argument}"
        return f"{head}?{self.query}" if self.params else head


@dataclass(frozen=True)
class Spec:
    """A parsed specification: the method, whether it is in a Python file, and its transforms."""

    base: Stage
    is_python_file: bool
    transforms: tuple[Stage, ...]


class FilesSpec(str):
    """``files:DIR`` with DIR taken literally: ``?`` and ``+`` have no meaning in it.

    >>> parse_spec(FilesSpec("files:out?a=1+l2")).base.argument
    'out?a=1+l2'
    """

    __slots__ = ()


def is_program(spec: Any) -> bool:
    """Return whether a specification names a program (``exec:COMMAND``).

    >>> is_program("exec:./match --fast"), is_program("sift"), is_program(None)
    (True, False, False)
    """
    return isinstance(spec, str) and not isinstance(spec, FilesSpec) and spec.strip().startswith(EXEC)


def parse_spec(text: str) -> Spec:
    """Parse a specification into the method and its transforms.

    Known transforms are split off from the right, so a path may contain ``+``. A `FilesSpec` and a program
    have no transforms.

    >>> parse_spec("resize?size=6+l2").base
    Stage(name='resize', params={'size': '6'}, argument=None)
    >>> parse_spec("files:out/mine+power").transforms[0].name
    'power'
    >>> parse_spec("sift+rootsfit")
    Traceback (most recent call last):
    tiepoint.core.errors.UnknownNameError: unknown transform 'rootsfit'; did you mean 'rootsift'? ...
    """
    if isinstance(text, FilesSpec):
        return Spec(Stage("files", {}, str(text).removeprefix("files:")), False, ())
    if is_program(text):
        return Spec(Stage("exec", {}, text.strip().removeprefix(EXEC)), False, ())
    rest, found = text.strip(), []
    while "+" in rest:
        head, _, tail = rest.rpartition("+")
        name = tail.partition("?")[0]
        if name not in TRANSFORMS:
            if not _is_path(rest):
                raise UnknownNameError("transform", name, TRANSFORMS)
            if _is_path(head) and _path_exists(head) and not _path_exists(rest):
                raise UnknownNameError("transform", name, TRANSFORMS)
            break
        found.append(Stage(name, _params(tail)))
        rest = head
    if not rest:
        raise InputError(f"{text!r} names no method; write a name such as sift, or sift+rootsift")
    base, is_file = _base(rest)
    if STORAGE in base.params and not is_file and base.name not in _OWN_STORAGE:
        base, stored = _split_storage(base)
        found += stored
    return Spec(base, is_file, tuple(reversed(found)))


def _split_storage(base: Stage) -> tuple[Stage, list[Stage]]:
    """Remove the parameter ``storage=fp16`` from a method, and return it as the transform ``+fp16``.

    >>> str(parse_spec("sift?storage=fp16+l2").transforms[0])
    'fp16'
    """
    value = str(base.params[STORAGE])
    if value not in STORAGES:
        raise UnknownNameError("storage", value, STORAGES)
    rest = {k: v for k, v in base.params.items() if k != STORAGE}
    return Stage(base.name, rest, base.argument), [Stage("fp16")] if value == "fp16" else []


def _base(text: str) -> tuple[Stage, bool]:
    head, query = text, ""
    if "?" in text and not exists(text):
        head, _, query = text.rpartition("?")
    params = _params(f"?{query}") if query else {}
    file = None if head.startswith(TORCH) else _PYTHON_FILE.match(head)
    if file:
        return Stage(file["file"], params, file["name"]), True
    scheme = _SCHEME.match(head)
    if scheme:
        return Stage(scheme["scheme"], params, scheme["argument"]), False
    if head.endswith(".py"):
        raise InputError(f"{head}: the class is missing; write it after a colon, as in {head}:MyDescriptor")
    return Stage(head, params), False


def parse_stage(text: str) -> Stage:
    """Parse a name with its parameters. For a Python file, the argument after the colon is the class.

    >>> parse_stage("fast?threshold=20").params
    {'threshold': '20'}
    """
    return _base(text)[0]


def _is_path(text: str) -> bool:
    head = text.partition("?")[0]
    return bool(_PYTHON_FILE.match(head) or _SCHEME.match(head))


def _path_exists(text: str) -> bool:
    head = text.partition("?")[0]
    match = _PYTHON_FILE.match(head) or _SCHEME.match(head)
    return match is not None and exists(match[1] if match.re is _PYTHON_FILE else match[2])


def _params(text: str) -> dict[str, Any]:
    query = text.partition("?")[2]
    params: dict[str, Any] = {}
    for part in query.split("&") if query else []:
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise InputError(f"{text!r}: invalid parameter {part!r}; write ?key=value&key=value")
        if key in params:
            raise InputError(f"{text!r}: parameter {key!r} is given twice; remove one")
        params[key] = Text(value)
    return params


def instantiate(factory: Any, stage: Stage, device: str) -> Any:
    """Create the object of a class or function with the parameters of a stage. Return an object unchanged.

    `device` is passed if the class or function has a parameter of that name.
    """
    if not (inspect.isclass(factory) or inspect.isfunction(factory) or isinstance(factory, UserFactory)):
        if stage.params:
            raise InputError(f"method {stage.name!r} is an object and takes no parameters; remove them")
        return factory
    if inspect.isfunction(factory) and factory.__name__ == "<lambda>":
        raise InputError(
            "a method is a class or an object with describe(patches), …; found a function, so put it "
            "into a class"
        )
    positional, keywords = arguments(factory, stage, extra={"device": device})
    return factory(*positional, **keywords)


def display_name(thing: Any, stage: Stage | str, *factories: Callable[..., Any]) -> str:
    """Return the display name of an object: its `name` or class name, with non-default parameters.

    `stage` is the specification of the object. `factories` are the functions that received its parameters. A
    `name` that already contains ``?`` is returned unchanged.
    """
    if isinstance(stage, str):
        shown = Stage(stage)
    else:
        constructor = getattr(thing, "constructor", None) if is_builtin_class(type(thing)) else None
        typed = stage.typed_for(*factories, *([] if constructor is None else [constructor]))
        shown = typed.without_defaults(*factories).without_paths()
    own = own_name(thing)
    if own is None:
        return str(shown)
    return own if "?" in own or not shown.params else f"{own}?{shown.query}"


def own_name(thing: Any) -> str | None:
    """Return the `name` that an object or its class sets. A name inherited from a built-in class is ignored.

    >>> own_name(object()) is None
    True
    """
    own = thing.user_thing if isinstance(thing, UserObject) else thing
    cls = own if inspect.isclass(own) else type(own)
    owner = next((c for c in cls.__mro__ if "name" in vars(c)), None)
    found = getattr(own, "name", None)
    inherited = (
        owner is not None
        and not is_builtin_class(cls)
        and is_builtin_class(owner)
        and "name" not in vars(own)
    )
    return found if isinstance(found, str) and found and not inherited else None


def arguments(
    factory: Callable[..., Any], stage: Stage, *, extra: Mapping[str, Any] | None = None, given: int = 0
) -> tuple[list[str], dict[str, Any]]:
    """Return the positional and keyword arguments for `factory`, from the parameters of a stage.

    Raise an error if one is unknown or missing. `extra` values (`device`) are passed only if the factory has
    a parameter of that name. The caller provides the first `given` parameters. The argument of
    ``scheme:argument`` is passed as the next parameter.
    """
    known = parameters_of(factory)
    named = [k for k, p in known.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    positional = [] if stage.argument is None else [stage.argument]
    places = [
        p for p in known.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
    ]
    if positional and len(places) <= given:
        raise InputError(f"method {stage.name!r} takes nothing after a colon; remove ':{stage.argument}'")
    named = named[given + len(positional) :]
    if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        for key in stage.params:
            if key not in named:
                raise UnknownNameError(f"parameter of {stage.name}", key, [k for k in named if k != "device"])
    keywords = {k: v for k, v in (extra or {}).items() if k in named}
    keywords |= stage.typed_for(factory).params
    missing = [k for k in named if known[k].default is inspect.Parameter.empty and k not in keywords]
    if missing:
        how = ":PATH" if missing[0] == "path" else f"?{missing[0]}=VALUE"
        before = stage.name if stage.argument is None else f"{stage.name}:{stage.argument}"
        raise InputError(f"method {stage.name!r} needs {' and '.join(missing)}, as in {before}{how}")
    return positional, keywords


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _is_default(parameter: inspect.Parameter, value: Any) -> bool:
    return parameter.default is not inspect.Parameter.empty and bool(parameter.default == value)


def parameters_of(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function or class; empty if Python cannot determine them."""
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}
