# SPDX-License-Identifier: BSD-3-Clause
"""The state of an object as JSON: values, arrays, named files, networks, functions.

Two objects with equal state compute equal results. State that cannot be hashed raises `NotHashable`.
"""

from __future__ import annotations

import argparse
import enum
import functools
import inspect
import io
import logging
import re
import sys
import types
import zipfile
from collections import defaultdict
from collections.abc import Container, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.hashing import hash_array, hash_bytes, hash_file, hash_folder, hash_json
from .source_files import OWN, is_installed

_DEEPEST = 24
_MAX_PATH_CHARS = 1024
_BY_REPR = (complex, slice, range, np.dtype, type(...))
"""Types whose ``repr`` determines the value completely."""
_BUILTIN_VALUES = (dict, list, tuple, set, frozenset, str, bytes, int, float, complex)
"""Built-in types that a user's class may inherit from. Their value is not an attribute."""


class NotHashable(Exception):
    """Raised if state cannot be hashed. `what` names the attribute; it is empty for the class itself."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what, self.why = what, why


class ObjectState:
    """Converter of values to plain JSON that collects the source files and libraries they depend on.

    Args:
        modules: Modules in the folder of a user's file, by name. They are not in ``sys.modules``.
        folder: Second folder for relative paths, after the current folder.
        folders: Whether a text or path that names a folder stands for the files in it.

    `reached` lists the classes and functions found in the values. `covered` lists those whose attributes,
    closures and defaults are already part of the state.
    """

    def __init__(
        self, modules: Mapping[str, Any] | None = None, folder: Path | None = None, *, folders: bool = True
    ) -> None:
        self.modules = modules or {}
        self.folder = folder
        self.folders = folders
        self.files: set[Path] = set()
        self.libraries: set[str] = set()
        self.reached: list[Any] = []
        self.covered: set[Any] = set()
        self._open: list[int] = []

    def written_in(self, cls: type) -> set[Path]:
        """Return the source files of a class and its bases, even if the class is in an installed package.

        Layers and containers of torch are excluded, because the version of torch identifies them.
        """
        if cls.__module__.partition(".")[0] == "torch":
            self.libraries.add("torch")
            return set(self.files)
        if cls.__module__ == "__main__" or (file := self._file(cls)) is None:
            raise NotHashable(
                "",
                "its class was defined in a session or in the main script, where a change would not be "
                "noticed; put it into a separate file and name it FILE.py:CLASS",
            )
        if not file.is_file():
            raise NotHashable("", f"its file {file} no longer exists; restore it")
        for base in cls.__mro__[1:-1]:
            self.code(base, "")
        return {file, *self.files}

    def hash_object(self, thing: Any) -> Any:
        """Return the complete state of an object under test."""
        self._open.append(id(thing))
        torch = sys.modules.get("torch")
        is_network = torch is not None and isinstance(thing, torch.nn.Module)
        try:
            if is_network:
                return self.network(thing, "")
            base = next((b for b in _BUILTIN_VALUES if isinstance(thing, b)), None)
            value = {} if base is None else {base.__name__: self.hash_value(base(thing), base.__name__)}
            return {**value, **self.attributes(thing)}
        finally:
            self._open.pop()

    def hash_value(self, value: Any, what: str) -> Any:
        """Return the state of a value; `what` names it in errors."""
        if value is None or (isinstance(value, bool | int | float) and type(value).__module__ == "builtins"):
            return value
        if isinstance(value, str) and type(value) is str:
            return self.text(value)
        if id(value) in self._open:
            return {"again": self._open.index(id(value))}
        if len(self._open) > _DEEPEST:
            raise NotHashable(what, "it is nested too deeply")
        self._open.append(id(value))
        try:
            return self._other(value, what)
        finally:
            self._open.pop()

    def text(self, value: str) -> Any:
        """Return the state of a text.

        If the text is the path of a file or folder, the state includes its hash.
        """
        found = self._named_files(value)
        return {"text": value, "content": found} if found else value

    def _named_files(self, value: str | PurePath) -> list[str]:
        """Return the hashes of files and folders named `value`.

        They are searched in the current folder and in the folder of the user's file.
        """
        if isinstance(value, str) and (not value.strip("./\\") or len(value) > _MAX_PATH_CHARS):
            return []
        found: list[str] = []
        try:
            places = [Path(value).expanduser()]
            if self.folder is not None:
                places.append(self.folder / value)
            for place in dict.fromkeys(p.resolve() for p in places):
                if place.is_file():
                    found.append(hash_file(place))
                elif self.folders and place.is_dir():
                    found.append(hash_folder(place))
        except (OSError, ValueError, RuntimeError):  # not a path: too long, has a NUL, or no home folder
            return found
        except InputError as e:
            raise NotHashable(str(value), str(e)) from e
        return found

    def _other(self, value: Any, what: str) -> Any:
        if isinstance(value, PurePath):
            found = self._named_files(value)
            return {"path": str(value), "content": found}
        if isinstance(value, enum.Enum):
            return {"enum": self.code(type(value), what), "name": value.name}
        if isinstance(value, np.generic):
            return {"number": value.dtype.str, "value": hash_array(np.asarray(value))}
        if isinstance(value, np.ndarray):
            return self._array(value, what)
        if isinstance(value, bytes | bytearray | memoryview):
            return {"bytes": hash_bytes(bytes(value))}
        if type(value) in (list, tuple):
            values = [self.hash_value(v, f"{what}[{i}]") for i, v in enumerate(value)]
            return values if type(value) is list else {"tuple": values}
        if type(value) in (set, frozenset):
            return {"set": sorted((self.hash_value(v, what) for v in value), key=hash_json)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"tuple": self.code(type(value), what), "values": self.hash_value(list(value), what)}
        if isinstance(value, Mapping) and _is_plain_mapping(value):
            return self._mapping(value, what)
        if isinstance(value, type):
            return self.code(value, what)
        if isinstance(value, types.ModuleType):
            return {"module": self._module(value, what)}
        if callable(value) and (made := self._callable(value, what)) is not None:
            return made
        if isinstance(value, re.Pattern):
            return {"pattern": self.hash_value(value.pattern, what), "flags": value.flags}
        if isinstance(value, _BY_REPR) or type(value).__module__ in ("datetime", "decimal", "fractions"):
            return {type(value).__name__: repr(value)}
        if isinstance(value, types.SimpleNamespace | argparse.Namespace):
            return {"namespace": self.hash_value(vars(value), what)}
        if isinstance(value, logging.Logger):
            return {"logger": value.name}
        if (torch := sys.modules.get("torch")) is not None:
            if isinstance(value, torch.nn.Module):
                return self.network(value, what)
            if isinstance(value, torch.Tensor):
                return _tensor(value, what)
            if isinstance(value, torch.dtype | torch.device | torch.Size):
                return {"torch": str(value)}
        return self._instance(value, what)

    def _array(self, value: np.ndarray[Any, Any], what: str) -> Any:
        """Return the state of an array.

        That of a masked, matrix or custom array includes class and attributes.
        """
        if value.dtype.hasobject:
            values = self.hash_value(np.asarray(value).ravel().tolist(), what)
            found: dict[str, Any] = {"objects": list(value.shape), "values": values}
        else:
            found = {"array": hash_array(value)}
        if type(value) in (np.ndarray, np.memmap):
            return found
        return {**found, "class": self.code(type(value), what), "attributes": self.attributes(value, what)}

    def _mapping(self, value: Mapping[Any, Any], what: str) -> Any:
        """Return the state of a mapping, in its order, because code may iterate over it."""
        if isinstance(value, defaultdict):
            default = self.hash_value(value.default_factory, what)
            return {"default": default, "values": self.hash_value(dict(value), what)}
        values = [self.hash_value(v, f"{what}[{k!r}]") for k, v in value.items()]
        if all(type(k) is str for k in value) and list(value) == sorted(value):
            return dict(zip(value, values, strict=True))
        return {"pairs": [[self.hash_value(k, what), v] for k, v in zip(value, values, strict=True)]}

    def _instance(self, value: Any, what: str) -> Any:
        """Return the class and the attributes of an object whose class is defined in user code."""
        cls = type(value)
        classes = [c for c in cls.__mro__ if c is not object and c.__module__ not in ("typing", "abc")]
        if not classes or any(self._is_foreign(c) for c in classes):
            raise NotHashable(
                what,
                f"a {cls.__name__} cannot be identified by its content",
            )
        return {"class": self.code(cls, what), "attributes": self.attributes(value, what)}

    def _is_foreign(self, cls: type) -> bool:
        """Return whether a class is from a library. Instances may then have state that is not visible."""
        file = self._file(cls)
        return file is None or (is_installed(file) and cls.__module__.partition(".")[0] != OWN)

    def attributes(self, value: Any, what: str = "", *, but: Container[str] = ()) -> dict[str, Any]:
        """Return the state of an object's attributes and of the class attributes of its user-defined classes.

        `but` are names to exclude.
        """
        found: dict[str, Any] = {}
        for cls in reversed(type(value).__mro__):
            file = self._file(cls)
            if file is not None and not is_installed(file):
                self.covered.add(cls)
                found |= {k: v for k, v in vars(cls).items() if is_data(k, v)}
                slots = getattr(cls, "__slots__", ())
                names = [_mangled(n, cls) for n in ((slots,) if isinstance(slots, str) else slots)]
                found |= {n: getattr(value, n) for n in names if hasattr(value, n) and n != "__dict__"}
        found |= getattr(value, "__dict__", {})
        return {k: self.hash_value(v, f"{what}.{k}" if what else k) for k, v in found.items() if k not in but}

    def code(self, thing: Any, what: str) -> Any:
        """Return the name of a class or function. Collect it and its source file or library."""
        self.reached.append(thing)
        module = str(getattr(thing, "__module__", None) or "builtins")
        name = f"{module}.{getattr(thing, '__qualname__', thing.__name__)}"
        if module == "__main__":
            raise NotHashable(what, "it was defined in a session or in the main script")
        file = self._file(thing)
        if file is None or is_installed(file):
            self.libraries.add(module.partition(".")[0])
        else:
            self.files.add(file)
            name = str(thing.__qualname__)
        return name

    def _file(self, thing: Any) -> Path | None:
        """Return the source file of a class or function. None if it has no file."""
        name = getattr(thing, "__module__", None)
        module = self.modules.get(str(name)) or sys.modules.get(str(name))
        found = getattr(module, "__file__", None)
        return Path(found) if found and str(found).endswith(".py") else None

    def _module(self, module: types.ModuleType, what: str) -> str:
        if module.__name__ == "__main__":
            raise NotHashable(what, "it is the main script")
        file = getattr(module, "__file__", None)
        if file is not None and not is_installed(file):
            self.files.add(Path(file))
        else:
            self.libraries.add(module.__name__.partition(".")[0])
        return module.__name__

    def _callable(self, value: Any, what: str) -> Any:
        if type(value) is functools.partial:
            parts = [value.func, list(value.args), dict(value.keywords)]
            return {"partial": self.hash_value(parts, what)}
        if isinstance(value, types.MethodType):
            function = value.__func__
            of = {"method": function.__qualname__, "of": self.hash_value(value.__self__, what)}
            found = inspect.getattr_static(type(value.__self__), function.__name__, None)
            is_own = getattr(found, "__func__", found) is function
            return of if is_own else {**of, "function": self.hash_value(function, what)}
        if isinstance(value, types.FunctionType):
            self.covered.add(value)
            cells = [c.cell_contents for c in value.__closure__ or () if _is_filled(c)]
            rest = [list(value.__defaults__ or ()), dict(value.__kwdefaults__ or {}), cells]
            state = {
                "function": self.code(value, what),
                "at": _place(value),
                "with": self.hash_value(rest, what),
            }
            own = function_attributes(value)
            return {**state, "attributes": self.hash_value(own, what)} if own else state
        if isinstance(value, types.BuiltinFunctionType | np.ufunc | types.MethodWrapperType):
            owner = getattr(value, "__self__", None)
            if owner is not None and not isinstance(owner, types.ModuleType):
                return {"method": value.__name__, "of": self.hash_value(owner, what)}
            module = getattr(value, "__module__", None) or type(value).__module__
            self.libraries.add(str(module).partition(".")[0])
            return {"builtin": f"{module}.{value.__name__}"}
        inner = getattr(value, "__wrapped__", None)
        check_memo(value, what)
        if inner is None or not self._is_foreign(type(value)):
            return None
        return {"wrapped": self.hash_value(inner, what)}

    def network(self, net: Any, what: str) -> Any:
        """Return the state of a torch module: its tensors, and class, mode and settings of its submodules.

        Raise `NotHashable` if the module has hooks.
        """
        torch: Any = sys.modules["torch"]
        self.libraries.add("torch")
        if isinstance(net, torch.jit.ScriptModule):
            return {"torchscript": _saved(net), "training": net.training}
        shared = torch.nn.modules.module
        if shared._global_forward_hooks or shared._global_forward_pre_hooks:
            raise NotHashable(what, "torch has global forward hooks")
        usual = set(vars(torch.nn.Module())) - {"training"}
        parts = []
        for name, part in net.named_modules(remove_duplicate=False):
            here = ".".join(n for n in (what, name) if n)
            if part._forward_hooks or part._forward_pre_hooks:
                raise NotHashable(here, "it has hooks")
            if isinstance(part, torch.jit.ScriptModule):
                raise NotHashable(
                    here, "a TorchScript module inside another cannot be identified by its content"
                )
            parts.append([name, self.code(type(part), here), self.attributes(part, here, but=usual)])
        tensors = [
            *net.named_parameters(remove_duplicate=False),
            *net.named_buffers(remove_duplicate=False),
        ]
        return {"parts": parts, "tensors": {name: _tensor(t, f"{what}.{name}") for name, t in tensors}}


def _is_plain_mapping(value: Mapping[Any, Any]) -> bool:
    return type(value) is dict or type(value).__module__ in ("collections", "builtins")


def is_data(name: str, value: Any) -> bool:
    """Return whether a class attribute is data rather than a method, property or other code."""
    if name.startswith("__") or name == "_abc_impl":
        return False
    code = inspect.isroutine(value) or isinstance(value, property | type | classmethod | staticmethod)
    return not code and not hasattr(type(value), "__get__")


def check_memo(value: Any, name: str) -> None:
    """Raise `NotHashable` if a function has memoised results.

    They may depend on data that has changed since.
    """
    if isinstance(value, functools._lru_cache_wrapper) and value.cache_info().currsize:
        raise NotHashable(
            "",
            f"its code calls `{name}`, which has memoised results (functools.lru_cache); call its "
            "cache_clear() before the run",
        )


def function_attributes(function: types.FunctionType) -> dict[str, Any]:
    """Return the data that code has stored on a function (``f.size = 3``)."""
    return {k: v for k, v in vars(function).items() if is_data(k, v)}


def _mangled(name: str, cls: type) -> str:
    """Return an attribute name as Python stores it: private names ``__x`` become ``_CLASS__x``.

    >>> _mangled("__size", int), _mangled("size", int)
    ('_int__size', 'size')
    """
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{cls.__name__.lstrip('_')}{name}" if is_private else name


def _place(function: types.FunctionType) -> list[int]:
    """Return line and column of a function's body. They distinguish two lambdas on one line."""
    places = [
        (line, left or 0) for line, _, left, right in function.__code__.co_positions() if line and right
    ]
    return [*min(places, default=(function.__code__.co_firstlineno, 0))]


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  (an empty cell raises)
    except ValueError:
        return False
    return True


def _tensor(value: Any, what: str) -> Any:
    torch: Any = sys.modules["torch"]
    if value.layout is not torch.strided or value.is_quantized or value.is_meta:
        raise NotHashable(what, f"a tensor of the kind {value.layout} cannot be identified by its content")
    flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return {"tensor": [str(value.dtype), list(value.shape), hash_array(flat)]}


def _saved(net: Any) -> str:
    """Return a hash of the saved form of a TorchScript module: code, constants and tensors."""
    buffer = io.BytesIO()
    sys.modules["torch"].jit.save(net, buffer)
    with zipfile.ZipFile(buffer) as archive:
        names = [n for n in archive.namelist() if not n.endswith((".debug_pkl", "serialization_id"))]
        return hash_json([[name.partition("/")[2], hash_bytes(archive.read(name))] for name in sorted(names)])
