# SPDX-License-Identifier: BSD-3-Clause
"""Load user code from a Python file, which may import other files in its folder."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ..core.errors import InputError, TiepointError, UnknownNameError, UserCodeError
from ..core.hashing import hash_bytes
from ..core.records import Item, ItemView
from ..core.regular_files import is_file
from .source_files import OWN, is_installed, package_root

_OUR_FOLDER = Path(__file__).parents[1]
_LINES = 3
"""Number of lines of user code that are shown for an exception."""


def last_lines(error: BaseException) -> str:
    """Return file, line number and text of the last lines of user code that led to an exception.

    Lines of this package and of installed packages are skipped. If no line remains, the last line in an
    installed package is returned. The result is empty if the exception comes from this package alone.
    """
    return "".join(traceback.format_list(_places(error))).rstrip()


def _places(error: BaseException) -> list[traceback.FrameSummary]:
    places = traceback.extract_tb(error.__traceback__)
    there = [p for p in places if not p.filename.startswith("<")]
    outside = [p for p in there if not Path(p.filename).resolve().is_relative_to(_OUR_FOLDER)]
    own = [p for p in outside if not is_installed(p.filename)]
    return own[-_LINES:] or outside[-1:]


def _involves_user_code(error: BaseException) -> bool:
    """Return whether an exception was raised in user code or in code that it called."""
    return any(not is_installed(p.filename) for p in _places(error))


def _with_place(message: str, error: BaseException) -> str:
    """Append to a message the file and line of the user code that raised an exception."""
    places = _places(error)
    return f"{message} ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else message


SMALL_PX = 32
"""Image side in pixels below which libraries fail with misleading messages."""


def user_failure(
    what: str, error: BaseException, thing: Any = None, images: Any = ()
) -> UserCodeError | InputError:
    """Return the error to raise for an exception in user code or a library. `what` names the failed step.

    If a built-in method (`thing`) fails without user code and one of `images` is small, the error reports
    that the image is too small.
    """
    words = f"{type(error).__name__}: {error}"
    if type(error).__module__.partition(".")[0] == "cv2":
        words = f"OpenCV: {getattr(error, 'err', None) or error}"
    if thing is not None and not is_user_code(thing) and not _involves_user_code(error):
        given = [images] if hasattr(images, "shape") else images if isinstance(images, tuple | list) else ()
        small = [i.shape[:2] for i in given if hasattr(i, "shape") and min(i.shape[:2], default=0) < SMALL_PX]
        if small:
            height, width = small[0]
            return InputError(
                f"{what}: an image of {width} x {height} pixels is too small; remove the image ({words})"
            )
    return UserCodeError(what, words, last_lines(error))


def is_module(thing: Any) -> bool:
    """Return whether an object is a torch module, without importing torch.

    >>> is_module("net")
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def as_network(thing: Any, family: str, device: str) -> Any:
    """Wrap a torch module that has no method of the family, such as ``describe``. Return others unchanged."""
    edges = ("describe", "lookup") if family == "patches" else ("extract", "detect", "describe", "lookup")
    pairs = () if family == "patches" else ("match", "match_points", "match_both")
    if not is_module(thing) or any(callable(getattr(thing, edge, None)) for edge in (*edges, *pairs)):
        return thing
    where = (
        "networks.torch_module:TorchPatches" if family == "patches" else "keypoints.torch_module:TorchImages"
    )
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(f"{OWN}.methods.{module}"), name)(thing, device=device)


def is_user_code(thing: Any) -> bool:
    """Return whether an object's methods are user code."""
    return isinstance(thing, UserObject) or not is_builtin_class(type(thing))


def copy_for_user(thing: Any, array: Any, *, used_again: bool = False) -> Any:
    """Return an array that user code may write into.

    The array is copied if it is read-only or used again later. Built-in methods never write into their input.

    >>> import numpy as np
    >>> image = np.zeros((2, 2), np.uint8)
    >>> image.flags.writeable = False
    >>> copy_for_user(object(), image).flags.writeable, copy_for_user(UserModules, image) is image
    (True, False)
    """
    if not is_user_code(thing) or (array.flags.writeable and not used_again):
        return array
    return array.copy()


def view_for_user(thing: Any, item: Item) -> Any:
    """Return the item itself for a built-in method, or an `ItemView` without hashes for user code."""
    return ItemView(item.key, item.images, item.count) if is_user_code(thing) else item


def check_hook(thing: Any) -> Callable[[Sequence[Item]], None] | None:
    """Return the `check_items` of an object, or None."""
    if not hasattr(thing, "check_items"):
        return None
    return lambda items: thing.check_items([view_for_user(thing, item) for item in items])


def is_builtin_class(cls: type) -> bool:
    """Return whether a class belongs to this package."""
    return cls.__module__.partition(".")[0] == OWN


class _FromSource(SourceFileLoader):
    """Loader that always compiles the source. Python's bytecode cache may miss a recent edit."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Compile and return the current code of the file."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class UserModules:
    """The modules that a user's file imports from its own folder.

    The modules are isolated, so two files in different folders may each have a ``helpers.py``. A file that is
    reloaded after an edit imports the current version of its helpers. Inside the context `active`, Python
    finds these modules first, even if a method imports them while it runs. Outside `active`, they cannot be
    imported. Several threads may enter `active` at the same time; a thread that needs the modules of another
    file waits.
    """

    _turn = threading.Condition()
    _now: UserModules | None = None
    _inside = 0
    _here = threading.local()

    def __init__(self, file: Path) -> None:
        self.folders = list(dict.fromkeys([file.parent, package_root(file)]))
        self._tops = {_importable(entry) for folder in self.folders for entry in folder.iterdir()}
        self.modules: dict[str, ModuleType] = {}
        self._hidden: dict[str, ModuleType] = {}
        self._before: set[str] = set()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make the modules in the folder of the file importable within this context."""
        if getattr(self._here, "is_inside", False):
            yield
            return
        with self._turn:
            self._turn.wait_for(lambda: UserModules._now in (None, self))
            if UserModules._now is None:
                self._enter()
            UserModules._now, UserModules._inside = self, UserModules._inside + 1
        self._here.is_inside = True
        try:
            yield
        finally:
            self._here.is_inside = False
            with self._turn:
                UserModules._inside -= 1
                if not UserModules._inside:
                    self._leave()
                    UserModules._now = None
                    self._turn.notify_all()

    def _enter(self) -> None:
        self._hidden = self._own(sys.modules)
        for name in self._hidden:
            del sys.modules[name]
        sys.modules.update(self.modules)
        self._before = set(sys.modules)
        sys.meta_path.insert(0, self)

    def _leave(self) -> None:
        sys.meta_path.remove(self)
        self.modules |= self._own(set(sys.modules) - self._before)
        for name in self.modules:
            sys.modules.pop(name, None)
        sys.modules.update(self._hidden)

    def _own(self, names: Iterable[str]) -> dict[str, ModuleType]:
        """Return the imported modules whose names are those of a module in the file's folder."""
        mine = [name for name in list(names) if name.partition(".")[0] in self._tops]
        return {name: sys.modules[name] for name in mine if not _shared(sys.modules[name])}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module in the folders of the user's file, or in a package below them (import hook)."""
        places = self.folders if path is None else [p for p in map(Path, path) if not is_installed(p / "x")]
        loaders = ((_FromSource, [".py"]), (ExtensionFileLoader, EXTENSION_SUFFIXES))
        for place in places:
            found = FileFinder(str(place), *loaders).find_spec(fullname)
            if found is None:
                continue
            if found.loader is not None or PathFinder.find_spec(fullname, path) is None:
                return found
        return None

    def inside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that it can import these modules when called."""

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self.active():
                return function(*args, **kwargs)

        return called


def _importable(entry: Path) -> str:
    return entry.name if entry.is_dir() else entry.name.partition(".")[0]


def _shared(module: ModuleType) -> bool:
    """Return whether a module is never isolated: ``__main__``, and modules of Python or of libraries."""
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" or module is sys.modules.get("__main__"):
        return True
    if file is not None:
        return is_installed(file)
    places = list(getattr(module, "__path__", ()))
    return not places or all(is_installed(Path(p) / "x") for p in places)


class UserObject:
    """Wrapper of an object from a user's file. It also has the file and the object's parameters.

    The wrapper has all attributes of the object. Its methods can import the modules in the file's folder.
    """

    def __init__(self, thing: Any, file: Path, made_of: str, given: Mapping[str, Any], around: UserModules):
        self.user_thing, self.user_file, self.user_name = thing, file, made_of
        self.user_given, self.user_modules = dict(given), around

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("user_", "__")):
            raise AttributeError(name)
        with self.user_modules.active():  # a property may import, too
            found = getattr(self.user_thing, name)
        return self.user_modules.inside(found) if inspect.isroutine(found) else found


class UserFactory:
    """A class, function or object of a user's file that creates `UserObject`s."""

    def __init__(self, made_of: Any, file: Path, name: str, around: UserModules) -> None:
        self.made_of, self.file, self.name, self.around = made_of, file, name, around
        if self.is_callable:
            with suppress(TypeError, ValueError):
                self.__signature__ = inspect.signature(made_of)

    @property
    def is_callable(self) -> bool:
        """Whether the factory is a class or function, which takes parameters."""
        return inspect.isclass(self.made_of) or inspect.isfunction(self.made_of)

    def __call__(self, **given: Any) -> UserObject:
        """Create the user's object with parameters `given`."""
        if not self.is_callable:
            if given:
                raise InputError(
                    f"{self.file}: {self.name} is an object, which takes no parameters; remove them"
                )
            return UserObject(self.made_of, self.file, self.name, given, self.around)
        try:
            with self.around.active():
                made = self.made_of(**given)
        except TiepointError:
            raise
        except (Exception, SystemExit) as e:
            why = " ".join(f"{type(e).__name__}: {e}".split())
            raise InputError(_with_place(f"{self.file}: {self.name} cannot be created: {why}", e)) from e
        return UserObject(made, self.file, self.name, given, self.around)


def load_from_file(file: str, name: str) -> UserFactory:
    """Run a Python file as a module and return the factory of its object `name`.

    The file may import other files in its folder and, by ``.`` and ``..``, in its package. Every failure
    raises `InputError`.
    """
    path = Path(file)
    if not is_file(path):
        raise InputError(f"{file}: no such Python file; correct the path")
    path = path.resolve()
    around = UserModules(path)
    package = ".".join(path.parent.relative_to(package_root(path)).parts)
    unique = f"tiepoint_user_{path.stem}_{hash_bytes(str(path).encode())[:8]}"
    module_name = f"{package}.{path.stem}" if package else unique
    spec = importlib.util.spec_from_file_location(
        module_name, path, loader=_FromSource(module_name, str(path))
    )
    if spec is None or spec.loader is None:
        raise InputError(f"{file}: not a Python file; write FILE.py:CLASS")
    module = importlib.util.module_from_spec(spec)
    importlib.invalidate_caches()
    with around.active():
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as e:
            sys.modules.pop(module_name, None)
            if not isinstance(e, Exception | SystemExit):
                raise
            raise InputError(_with_place(f"{file} cannot be imported: {type(e).__name__}: {e}", e)) from e
    if not hasattr(module, name):
        offered = [k for k, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module_name]
        raise UnknownNameError(f"class in {file}", name, offered)
    return UserFactory(getattr(module, name), path, name, around)
