# SPDX-License-Identifier: BSD-3-Clause
"""State that user code reads outside its object: globals, closures, replaced functions and classes.

The cache key covers the source files. State that differs from the source, or that is not a literal in the
source, is added to the key. Code that differs from its file prevents caching.
"""

from __future__ import annotations

import dis
import enum
import functools
import importlib.util
import inspect
import itertools
import logging
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import (
    CellType,
    CodeType,
    FunctionType,
    GenericAlias,
    MethodType,
    ModuleType,
    UnionType,
)
from typing import Any

from .object_state import NotHashable, ObjectState, check_memo, function_attributes, is_data
from .source_files import is_installed
from .source_index import MISSING, SourceIndex, canonical, source_index

_NO_DATA = (logging.Logger, GenericAlias, UnionType)
_READS = ("LOAD_GLOBAL", "LOAD_NAME")
_CONTAINERS, _MUTATORS = (
    (list, set, dict, deque),
    ("append", "appendleft", "extend", "add", "update", "clear"),
)
"""Containers and their methods that only write. Code that calls only these does not read the container."""
_REFLECTS, _LOOKS_UP = {"globals", "vars", "eval", "exec"}, {"getattr", "vars", "attrgetter", "__dict__"}
"""Names with which code can read any global of its module, and any attribute of a module that it names."""
_INSTEAD = "pass it to the constructor, or create it where it is used"
_STALE = (
    "the loaded code differs from {}, which was edited or removed after it was imported (or an import hook "
    "rewrote it); restart Python, or reload the file and create the object again"
)


def replaced_function(libraries: Iterable[str]) -> str | None:
    """Return a message on the first library function that user code replaced. None if there is none.

    Only the modules and their direct submodules are searched.
    """
    for library in libraries:
        module = sys.modules.get(library)
        root = os.path.dirname(getattr(module, "__file__", None) or "")
        if module is None or not root:
            continue
        parts = [m for m in list(vars(module).values()) if issubclass(type(m), ModuleType)]
        for part in [module, *(m for m in parts if m.__name__.startswith(f"{library}."))]:
            for name, value in list(vars(part).items()):
                file = value.__code__.co_filename if type(value) is FunctionType else root
                if not file.startswith((root, "<")) and not is_installed(file):
                    return f"`{part.__name__}.{name}` was replaced by code in {file}"
    return None


class OutsideState:
    """Collector of the state that functions and classes of user code read.

    `content` hashes values and collects the classes and functions in them. `sources` are the files whose
    content is in the cache key. `found` has the state that the sources do not determine, by name.
    """

    def __init__(self, content: ObjectState, sources: Iterable[Path]) -> None:
        self.content = content
        self.sources = {str(file) for file in sources}
        self.found: dict[str, Any] = {}
        self._seen: set[int] = set()
        self._waiting: list[Any] = []
        self._kept: list[Any] = []
        self._visited: set[tuple[int, int]] = set()
        self._keys: set[tuple[str, int]] = set()

    def follow(self, things: Iterable[Any]) -> None:
        """Collect the outside state that classes and functions `things` read, and all code that they use."""
        self._waiting += things
        while self._waiting or self.content.reached:
            self._waiting += self.content.reached
            self.content.reached.clear()
            while self._waiting:
                self._follow(self._waiting.pop(0))

    def check_modules(self, modules: Mapping[str, Any]) -> None:
        """Check that the functions in loaded modules equal those in their source files.

        Raise `NotHashable` if one differs.
        """
        names = {os.path.basename(file) for file in self.sources}
        for module in list(modules.values()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or os.path.basename(file) not in names:
                continue
            if os.path.realpath(file) in self.sources and "@pytest_ar" not in vars(module):
                for value in list(vars(module).values()):
                    for function in _functions(value):
                        self._check(function)

    def _follow(self, thing: Any) -> None:
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        self._kept.append(thing)  # so that no other object gets its id
        if isinstance(thing, type):
            self._class(thing)
        elif isinstance(thing, FunctionType):
            self._function(thing)

    def _class(self, cls: type) -> None:
        file = self._file_of(cls)
        if file is None:
            for name, value in vars(cls).items():
                self._patch(f"{cls.__module__}.{cls.__qualname__}.{name}", value)
            return
        self._waiting += cls.__mro__[1:-1]
        index = source_index(Path(file))
        is_record = issubclass(cls, enum.Enum) or hasattr(cls, "_fields")
        for name, value in vars(cls).items():
            label = f"{cls.__qualname__}.{name}"
            if is_data(name, value) and not is_record and cls not in self.content.covered:
                self._value(label, value, index.literals.get(label, MISSING))
            check_memo(getattr(value, "__func__", value), label)
            for part in _members(value):
                self._waiting.append(part)
                if isinstance(part, FunctionType):
                    self._method(label, part, file)

    def _method(self, label: str, function: FunctionType, file: str) -> None:
        """Add a method to the cache key, unless the class's `file` defines it under the name `label`."""
        own = _below_libraries(function, self._is_user)
        code = own.__code__
        is_generated = code.co_filename.startswith("<")
        if is_generated or not self._is_user(code.co_filename):
            if not label.endswith("__"):  # those of a dataclass follow from its fields
                self._add(label, canonical(code) if is_generated else f"{own.__module__}.{label}")
        elif code.co_qualname != label or os.path.realpath(code.co_filename) != file:
            self._keyed(label, function)

    def _function(self, function: FunctionType) -> None:
        own = _below_libraries(function, self._is_user)
        if own is not function:
            self._follow(own)
            return
        if not self._is_user(own.__code__.co_filename):
            return
        stated = self._check(own)
        file = os.path.realpath(own.__code__.co_filename)
        if file not in self.sources and os.path.isfile(file):
            self.content.files.add(Path(file))
        self._computed(own, source_index(Path(file)))
        if own not in self.content.covered:
            for name, cell in zip(own.__code__.co_freevars, own.__closure__ or (), strict=True):
                value = _content(cell)
                if isinstance(value, FunctionType | type):
                    self._waiting.append(value)
                elif value is not MISSING:
                    self._value(f"{own.__qualname__}.{name}", value, MISSING)
            for value, literal in zip(_defaults(own), stated, strict=True):
                if isinstance(value, FunctionType) and value.__globals__ is own.__globals__:
                    self._waiting.append(value)  # a function of the same file
                else:
                    self._value(f"default of {own.__qualname__}", value, literal)
            for name, value in function_attributes(own).items():
                self._value(f"{own.__qualname__}.{name}", value, MISSING)
        for code in _with_nested(own.__code__):
            self._globals(code, own.__globals__)

    def _computed(self, function: FunctionType, index: SourceIndex) -> None:
        """Collect the globals and files that a function names by computed text."""
        code = function.__code__
        name = code.co_qualname
        if name in index.computed_variables:
            raise NotHashable(
                "",
                f"`{name}` reads environment variables whose names it computes; name them in the source, or "
                "read them in the constructor",
            )
        if name in index.computed_files and not name.endswith("__init__"):
            raise NotHashable(
                "",
                f"`{name}` opens files or asks for them with `{index.computed_files[name]}`, whose names it "
                "computes; pass the file as a parameter, or store its path as an attribute",
            )
        if name in index.computed_imports or {"sys", "modules"} <= set(code.co_names):
            folders = {os.path.dirname(source) for source in self.sources}
            for module in {**sys.modules, **self.content.modules}.values():
                path: Any = getattr(module, "__file__", None)
                if not self._is_file_of_user(path) or "@pytest_ar" in vars(module):
                    continue
                self.content.files.add(Path(path))
                if os.path.dirname(os.path.realpath(path)) in folders and module.__name__ != "__main__":
                    self._all(vars(module), code)

    def _all(self, variables: Mapping[str, Any], code: CodeType) -> None:
        """Collect all globals of a module."""
        if (id(variables), 0) in self._visited:
            return
        self._visited.add((id(variables), 0))
        for name in [n for n in variables if not n.startswith(("__", "@"))]:
            self._global(name, variables, code)

    def _globals(self, code: CodeType, variables: Mapping[str, Any]) -> None:
        steps = list(dis.get_instructions(code))
        names = set(code.co_names) - variables.keys()
        reads_self = any(a.argval == "vars" and "FAST" in b.opname for a, b in itertools.pairwise(steps))
        if names & (_REFLECTS - {"vars"} if reads_self else _REFLECTS) & _called_globals(steps):
            self._all(variables, code)
        if names & _LOOKS_UP:
            for module in (variables.get(name) for name in code.co_names):
                if isinstance(module, ModuleType) and self._is_file_of_user(
                    getattr(module, "__file__", None)
                ):
                    self._all(vars(module), code)
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            if step.opname in _READS and step.argval in variables and not step.argval.startswith("__"):
                is_log = type(variables[step.argval]) in _CONTAINERS
                if not is_log or after is None or after.argval not in _MUTATORS:
                    self._global(step.argval, variables, code)
            elif step.opname == "IMPORT_NAME":
                module = self._module(step.argval, variables)
                if module is not None:
                    self._attributes(module, code)

    def _global(self, name: str, variables: Mapping[str, Any], code: CodeType) -> None:
        value = variables[name]
        if isinstance(value, ModuleType):
            self._attributes(value, code)
            return
        label = f"{os.path.basename(str(variables.get('__file__', '')))}:{name}"
        while True:  # follow ``from a import b`` to the file that defines b
            file = os.path.realpath(str(variables.get("__file__", "")))
            index = source_index(Path(file)) if file.endswith(".py") else SourceIndex()
            if name not in index.imports:
                break
            module_name, level, attribute = index.imports[name]
            module = self._module(module_name, variables, level)
            if attribute is None or module is None:
                return
            if not self._is_user(getattr(module, "__file__", None) or "<none>"):
                if getattr(module, attribute, MISSING) is not value:
                    self._keyed(label, value)
                self._patch(label, value)
                return
            name, variables = attribute, vars(module)
        self._named(label, name, file, value, index)

    def _attributes(self, module: ModuleType, code: CodeType) -> None:
        """Collect those attributes of a module that `code` names.

        In libraries, only replaced attributes count.
        """
        if (id(module), id(code)) in self._visited:
            return
        self._visited.add((id(module), id(code)))
        is_user = self._is_file_of_user(getattr(module, "__file__", None))
        for name in code.co_names:
            if name not in vars(module) or name.startswith("__"):
                continue
            if is_user:
                self._global(name, vars(module), code)
            elif isinstance(value := vars(module)[name], ModuleType):
                self._attributes(value, code)
            else:
                self._patch(f"{module.__name__}.{name}", value)

    def _patch(self, label: str, value: Any) -> None:
        """Collect user code that replaces a function or class of a library. Follow classes of libraries."""
        for part in _members(value):
            if isinstance(part, FunctionType):
                code = part.__code__
                is_file = not is_installed(code.co_filename) and os.path.isfile(code.co_filename)
                if part.__module__ == "__main__" or is_file:
                    self._keyed(label, part)
            elif self._file_of(part) is not None or part.__module__ == "__main__":
                self._keyed(label, part)
            elif part is value:
                self._waiting.append(part)

    def _named(self, label: str, name: str, file: str, value: Any, index: SourceIndex) -> None:
        """Collect the value of the global `name`, unless the source file itself defines it."""
        if isinstance(value, FunctionType):
            own = _below_libraries(value, self._is_user)
            code = own.__code__
            defined = code.co_qualname == name and os.path.realpath(code.co_filename) == file
        elif isinstance(value, type):
            defined = value.__qualname__ == name and self._file_of(value) == file
        elif self._file_of(type(value)) is None and isinstance(inner := _wrapped(value), FunctionType | type):
            check_memo(value, name)
            self._named(label, name, file, inner, index)
            return
        else:
            self._value(label, value, index.literals.get(name, MISSING))
            return
        self._waiting.append(value)
        if not defined:
            self._keyed(label, value)

    def _value(self, label: str, value: Any, literal: Any) -> None:
        """Add a value to the cache key, unless it equals the `literal` in the source or is code."""
        if isinstance(value, _NO_DATA) or type(value).__module__ == "typing":
            return
        if literal is not MISSING and _is_plain(value) and canonical(value) == canonical(literal):
            return
        self._keyed(label, value)

    def _keyed(self, label: str, value: Any) -> None:
        if (label, id(value)) in self._keys:
            return
        self._keys.add((label, id(value)))
        self._kept.append(value)
        try:
            self._add(label, self.content.hash_value(value, label))
        except NotHashable as e:
            raise NotHashable("", f"its code reads `{e.what or label}`: {e.why}; {_INSTEAD}") from e

    def _add(self, label: str, state: Any) -> None:
        """Add a state to the cache key under its label. Repeated labels are numbered."""
        names = itertools.chain([label], (f"{label} ({i})" for i in itertools.count(2)))
        self.found[next(name for name in names if name not in self.found)] = state

    def _check(self, function: FunctionType) -> list[Any]:
        """Return the literal default arguments in the source of a function, `MISSING` for computed defaults.

        Raises:
            NotHashable: The code or a default of the function differs from its file.
        """
        code, defaults = function.__code__, _defaults(function)
        unknown = [MISSING] * len(defaults)
        file = os.path.realpath(code.co_filename)
        if code.co_filename.startswith("<") or not self._is_user(file):
            return unknown
        index = source_index(Path(file))
        several = [unknown] if code.co_name == "<lambda>" else index.defaults.get(code.co_qualname, [])
        stated = next((own for own in several if _agree(defaults, own)), None)
        if stated is None or canonical(code) not in index.codes.get(code.co_qualname, ()):
            raise NotHashable("", _STALE.format(os.path.basename(file)))
        return stated

    def _is_user(self, file: str) -> bool:
        return os.path.realpath(file) in self.sources or not (file.startswith("<") or is_installed(file))

    def _is_file_of_user(self, path: Any) -> bool:
        """Return whether a path is a file of user code. ``torch.ops`` has a path without a folder."""
        return isinstance(path, str) and os.path.isabs(path) and self._is_user(path)

    def _file_of(self, cls: type) -> str | None:
        module = self.content.modules.get(cls.__module__) or sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        if not file or not str(file).endswith(".py") or not self._is_user(file):
            return None
        return os.path.realpath(file)

    def _module(self, name: str, variables: Mapping[str, Any], level: int = 0) -> ModuleType | None:
        if level:
            package = variables.get("__package__") or str(variables.get("__name__", "")).rpartition(".")[0]
            try:
                name = importlib.util.resolve_name("." * level + name, package)
            except ImportError:
                return None
        return self.content.modules.get(name) or sys.modules.get(name)


def _called_globals(steps: Iterable[dis.Instruction]) -> set[str]:
    return {step.argval for step in steps if step.opname in _READS}


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield the function that a global is, or the methods if it is a class."""
    for part in _members(value):
        if isinstance(part, FunctionType):
            yield part
        elif isinstance(part, type) and part is value:
            for own in vars(part).values():
                yield from (m for m in _members(own) if isinstance(m, FunctionType))


def _members(value: Any) -> Iterator[Any]:
    """Yield the functions and classes inside a value: a property, a static or class method, or a wrapper."""
    if isinstance(value, property):
        yield from (f for f in (value.fget, value.fset) if f is not None)
    elif isinstance(value, classmethod | staticmethod | MethodType):
        yield from _members(value.__func__)
    elif isinstance(value, functools.cached_property | functools.partialmethod | functools.partial):
        yield from _members(value.func)
    elif isinstance(value, FunctionType | type):
        yield value
        if (inner := getattr(value, "__wrapped__", None)) is not None:
            yield from _members(inner)
    elif isinstance(inner := _wrapped(value), FunctionType):
        yield inner


def _wrapped(value: Any) -> Any:
    """Return the function inside a cached (`functools`) or compiled (Numba) function."""
    found = inspect.getattr_static(value, "__wrapped__", None)
    return inspect.getattr_static(value, "py_func", None) if found is None else found


def _below_libraries(function: FunctionType, is_user: Any) -> FunctionType:
    """Return the user's function inside wrappers of libraries, such as ``torch.no_grad``."""
    while not is_user(function.__code__.co_filename):
        inner = getattr(function, "__wrapped__", None)
        if not isinstance(inner, FunctionType):
            break
        function = inner
    return function


def _defaults(function: FunctionType) -> list[Any]:
    return [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _with_nested(part)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return MISSING


def _is_plain(value: Any) -> bool:
    try:
        canonical(value)
    except (TypeError, RecursionError):
        return False
    return True


def _agree(loaded: list[Any], stated: list[Any]) -> bool:
    """Return whether the loaded default arguments equal those in the source. Ignore computed defaults."""
    return len(loaded) == len(stated) and all(
        s is MISSING or (_is_plain(v) and canonical(v) == canonical(s))
        for v, s in zip(loaded, stated, strict=True)
    )
