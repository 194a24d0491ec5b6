# SPDX-License-Identifier: BSD-3-Clause
"""Source files that a method imports, and versions of the installed libraries it uses."""

from __future__ import annotations

import ast
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from .._version import __version__
from ..core.errors import InputError
from ..core.hashing import hash_bytes, hash_file, hash_json

OWN = "tiepoint"
_OWN_FOLDER = Path(__file__).resolve().parents[1]
_MAX_NAME_CHARS = 260

_DISTRIBUTIONS = {
    "PIL": ("pillow",),
    "cv2": (
        "opencv-contrib-python-headless",
        "opencv-contrib-python",
        "opencv-python-headless",
        "opencv-python",
    ),
    "skimage": ("scikit-image",),
    "sklearn": ("scikit-learn",),
}


@dataclass(frozen=True)
class SourceFiles:
    """Source files with their import names, and the strings and environment variables in their code.

    `texts` has the short string literals of each file, `variables` the environment variables that it reads.
    """

    files: tuple[tuple[str, Path], ...]
    libraries: tuple[str, ...]
    texts: Mapping[Path, frozenset[str]]
    variables: tuple[str, ...]

    @property
    def hash(self) -> str:
        """Hash of the names and contents of the files. The folders that contain them do not matter."""
        return hash_json(sorted([name, hash_file(file)] for name, file in self.files))

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the imported libraries, by import name."""
        return library_versions(self.libraries)


@lru_cache(maxsize=1)
def _installed_folders() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_path(name) for name in names]
    found += [*site.getsitepackages(), site.getusersitepackages()]
    return (*(Path(f).resolve() for f in found if f), _OWN_FOLDER)


@lru_cache(maxsize=8192)
def is_installed(path: str | Path) -> bool:
    """Return whether a file belongs to Python, to an installed package or to tiepoint.

    >>> import json
    >>> is_installed(json.__file__), is_installed("my_file.py")
    (True, False)
    """
    file = Path(path).resolve()
    if {"site-packages", "dist-packages"} & set(file.parts):
        return True
    return any(file.is_relative_to(folder) for folder in _installed_folders())


def sources_of(*roots: str | Path) -> SourceFiles:
    """Return the files `roots` and all files that they import, directly or indirectly.

    Installed packages are excluded, except the package of a root file. Imports inside functions and calls of
    ``import_module("name")`` are included. Names are searched in this order: the folder of the first file,
    its package, the folders of ``sys.path`` without installed packages, and the sources of editable
    installations. A package adds its ``__init__.py``, and a compiled module adds its bytes. A name that is
    not found counts as a library or as part of Python.
    """
    files: dict[Path, str] = {}
    libraries: set[str] = set()
    texts: dict[Path, frozenset[str]] = {}
    variables: set[str] = set()
    for root in roots:
        start = Path(root).resolve()
        search = _Search(tuple(search_folders(start)), _outermost(start))
        waiting = [(start.name, start)]
        while waiting:
            name, file = waiting.pop()
            if file in files:
                continue
            files[file] = name
            if file.suffix != ".py":
                continue
            code = _parsed(file, hash_file(file))
            texts[file] = code.texts
            variables |= code.variables
            for module, level, names in code.imports:
                waiting += search.reached(file, module, level, names)
                if level == 0:
                    libraries.add(module.partition(".")[0])
    named = tuple((name, file) for file, name in files.items())
    return SourceFiles(named, tuple(sorted(libraries)), texts, tuple(sorted(variables)))


def source_hash(path: Path) -> str:
    """Return a hash of a source file and of the files that it imports (`sources_of`)."""
    return sources_of(path).hash


def package_root(file: Path) -> Path:
    """Return the folder that contains a file's outermost package, or else the file's folder."""
    folder = file.resolve().parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def search_folders(file: Path) -> list[Path]:
    """Return the folders in which imports of a user's file are searched, in order."""
    others = [Path(entry or ".").resolve() for entry in sys.path]
    others = [entry for entry in others if entry.is_dir() and not is_installed(entry / "any.py")]
    return list(dict.fromkeys([file.parent, package_root(file), *others]))


@dataclass(frozen=True)
class _Search:
    """Search for imported files in `folders`. Files in `own` are user code, even in an installed package."""

    folders: tuple[Path, ...]
    own: Path

    def reached(
        self, file: Path, module: str, level: int, names: Sequence[str]
    ) -> Iterator[tuple[str, Path]]:
        """Yield (import name, file) for the files that one import statement executes.

        Installed packages are excluded. `level` is the number of leading dots.
        """
        top = module.partition(".")[0]
        if level == 0 and top == OWN:
            return
        places: Sequence[Path] = self.folders
        if level:
            base = file.parents[min(level, len(file.parents)) - 1]
            places = [base]
            yield from _packages_around(base)
        elif all(_module_file(place, top) is None for place in places):
            places = [*places, *_elsewhere(top)]
        dotted = [f"{module}.{name}" if module else name for name in names if name != "*"]
        for wanted in [module, *dotted] if module else dotted:
            yield from self.located(wanted, places)
        if "*" in names:
            whole = [found for _, found in self.located(module, places)] if module else []
            for package in {f.parent for f in whole if f.name == "__init__.py"}:
                yield from ((f"{module}.{p.stem}", p) for p in sorted(package.glob("*.py")))

    def located(self, dotted: str, places: Sequence[Path]) -> Iterator[tuple[str, Path]]:
        """Yield (import name, file) for the files that ``import a.b.c`` executes: packages and module."""
        done: list[str] = []
        for part in dotted.split("."):
            done.append(part)
            found = next((f for place in places if (f := _module_file(place, part)) is not None), None)
            if found is None:  # a namespace package: folders without __init__.py
                places = [place / part for place in places if (place / part).is_dir()]
                continue
            found = found.resolve()
            if is_installed(found) and not found.is_relative_to(self.own):
                return
            yield ".".join(done), found
            places = [found.parent] if found.name == "__init__.py" else []


def _outermost(file: Path) -> Path:
    """Return the folder of a file's outermost package, or the file if it is in no package."""
    root = package_root(file)
    return file if root == file.parent else root / file.relative_to(root).parts[0]


def _module_file(place: Path, name: str) -> Path | None:
    endings = ("/__init__.py", *EXTENSION_SUFFIXES, ".py")
    return next((f for e in endings if (f := Path(f"{place / name}{e}")).is_file()), None)


def _packages_around(folder: Path) -> Iterator[tuple[str, Path]]:
    while (folder / "__init__.py").is_file():
        yield folder.name, (folder / "__init__.py").resolve()
        folder = folder.parent


def _elsewhere(top: str) -> list[Path]:
    """Return the source folders of a package outside ``sys.path``, such as an editable installation."""
    if top in sys.stdlib_module_names:
        return []
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(place).parent for place in spec.submodule_search_locations]
    return [Path(spec.origin).parent] if spec.origin and spec.has_location else []


_ENVIRONMENT = frozenset({"environ", "getenv"})


@dataclass(frozen=True)
class _Code:
    """Imports, string literals and environment variables of a source file.

    Imports are (module, level, names). `texts` are string literals that may be paths. `variables` are the
    environment variables that the code reads.
    """

    imports: tuple[tuple[str, int, tuple[str, ...]], ...]
    texts: frozenset[str]
    variables: frozenset[str]


@lru_cache(maxsize=1024)
def _parsed(file: Path, content: str) -> _Code:
    """Parse a source file. Results are cached by content."""
    try:
        tree = parsed_source(file.read_bytes())
    except (SyntaxError, ValueError) as e:
        line = f", line {e.lineno}" if isinstance(e, SyntaxError) else ""
        raise InputError(f"{file}{line}: {e.args[0]}; correct the Python file") from e
    imports: list[tuple[str, int, tuple[str, ...]]] = []
    texts: set[str] = set()
    variables: set[str] = set()
    for node in ast.walk(tree):
        variables.update(_texts(environment_names(node)))
        if isinstance(node, ast.Import):
            imports += [(alias.name, 0, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.module or "", node.level, tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Call) and called_name(node) in ("import_module", "__import__"):
            imports += [_by_text(text) for text in _texts(node.args[:1])]
        elif isinstance(node, ast.Constant):
            texts.update(_texts([node]))
    short = frozenset(t for t in texts if len(t) <= _MAX_NAME_CHARS and "\n" not in t)
    return _Code(tuple(imports), short, frozenset(variables))


def parsed_source(content: bytes) -> ast.Module:
    """Parse Python source. Import aliases of `os.environ` and `os.getenv` are replaced by these names."""
    tree = ast.parse(content)
    others: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            others.update((a.asname, a.name) for a in node.names if a.asname and a.name in _ENVIRONMENT)
    for node in ast.walk(tree) if others else ():
        if isinstance(node, ast.Name):
            node.id = others.get(node.id, node.id)
    return tree


def environment_names(node: ast.AST) -> list[ast.expr]:
    """Return the expression for the name of an environment variable that `node` reads, in a list.

    The list is empty for other nodes.
    """
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_environ(node.value):
        return [node.slice]
    if isinstance(node, ast.Compare) and any(map(_is_environ, node.comparators)):
        return [node.left]
    if isinstance(node, ast.Call):
        of_environ = isinstance(node.func, ast.Attribute) and _is_environ(node.func.value)
        if called_name(node) == "getenv" or (
            of_environ and called_name(node) in ("get", "pop", "setdefault")
        ):
            return node.args[:1]
    return []


def reads_all_variables(node: ast.AST) -> bool:
    """Return whether code iterates over the environment variables."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("items", "keys", "values") and _is_environ(node.func.value)
    return isinstance(node, ast.For | ast.comprehension) and _is_environ(node.iter)


def _is_environ(node: ast.expr) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == "environ"


def called_name(node: ast.Call) -> str:
    """Return the last part of the name of a called function, such as ``c`` for ``a.b.c()``.

    Empty if unnamed.
    """
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def _texts(nodes: Iterable[ast.AST]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value]


def _by_text(text: str) -> tuple[str, int, tuple[str, ...]]:
    name = text.lstrip(".")
    return name, len(text) - len(name), ()


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Return versions of installed libraries by import name. Libraries that are not installed are skipped.

    Versions are read from the installed distributions, so they do not depend on the modules imported by this
    process. If several distributions provide a name, all are listed.

    >>> sorted(library_versions(["numpy", "no_such_library"]))
    ['numpy']
    """
    wanted = sorted(set(names) - sys.stdlib_module_names)
    return {name: found for name in wanted if (found := _version(name)) is not None}


@lru_cache(maxsize=256)
def _version(name: str) -> str | None:
    if name == OWN:
        return __version__
    found = _distributed(_DISTRIBUTIONS.get(name, (name,)))
    found = found or _distributed(packages_distributions().get(name, ()))
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        return ", ".join(f"{k} {v}" for k, v in sorted(found.items()))
    return _binary_version(name)


def _distributed(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _binary_version(name: str) -> str | None:
    """Return the hash of a compiled library that belongs to no distribution (built manually), else None."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.has_location or spec.origin is None or not is_installed(spec.origin):
        return None
    return hash_bytes(Path(spec.origin).read_bytes())[:12]
