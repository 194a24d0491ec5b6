# SPDX-License-Identifier: BSD-3-Clause
"""Index of a Python file: its code objects, default arguments, literal values and imports.

Loaded code is compared with this index, because the file may have been edited since Python imported it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType
from typing import Any

from ..core.hashing import hash_bytes
from .source_files import called_name, environment_names, parsed_source, reads_all_variables

MISSING = object()
"""Marker of a value that the source does not state as a literal."""

_PLAIN_COLLECTIONS = (tuple, list, set, frozenset, dict)


def canonical(value: Any) -> str:
    r"""Return a text that identifies a plain value with its type, or code.

    Equal values and equal code have equal texts. Line numbers and file names of code do not matter. Other
    objects raise `TypeError`.

    >>> canonical(1) == canonical(1.0), canonical({1, 2}) == canonical({2, 1})
    (False, True)
    >>> canonical(compile("a = 1", "f", "exec")) == canonical(compile("\na = 1", "g", "exec"))
    True
    """
    if isinstance(value, CodeType):
        return f"code{[canonical(part) for part in _code_parts(value)]}"
    if type(value) in (set, frozenset):
        return f"{type(value).__name__}{sorted(map(canonical, value))}"
    if type(value) is dict:
        return f"dict{[(canonical(k), canonical(v)) for k, v in value.items()]}"
    if type(value) in _PLAIN_COLLECTIONS:
        return f"{type(value).__name__}{[canonical(v) for v in value]}"
    if value is None or type(value) in (bool, int, float, complex, str, bytes, type(...)):
        return f"{type(value).__name__} {value!r}"
    raise TypeError(f"{type(value).__name__} is not a plain value")


def _code_parts(code: CodeType) -> list[Any]:
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_qualname)
    return [code.co_code, code.co_exceptiontable, code.co_consts, *counts, *names]


@dataclass(frozen=True)
class SourceIndex:
    """Definitions in a Python file. Names inside functions and classes are qualified as in `__qualname__`.

    * `codes`: the canonical code of every function.
    * `defaults`: the default arguments of every ``def``, as literals, `MISSING` if computed.
    * `literals`: the values of names that are assigned once, as a literal.
    * `imports`: the module, level and name behind every imported name.
    * `computed_imports`, `computed_variables`: functions that import modules or read environment variables by
      computed names.
    * `computed_files`: functions that open or test files by computed names, where Python cannot observe it
      (``imread``). The value is the called function.
    """

    codes: dict[str, set[str]] = field(default_factory=dict)
    defaults: dict[str, list[list[Any]]] = field(default_factory=dict)
    literals: dict[str, Any] = field(default_factory=dict)
    imports: dict[str, tuple[str, int, str | None]] = field(default_factory=dict)
    computed_imports: set[str] = field(default_factory=set)
    computed_variables: set[str] = field(default_factory=set)
    computed_files: dict[str, str] = field(default_factory=dict)


def source_index(file: Path) -> SourceIndex:
    """Return the index of a Python file as it is on disk now. Empty if the file no longer exists."""
    try:
        content = file.read_bytes()
    except OSError:
        return SourceIndex()
    return _indexed(str(file), hash_bytes(content), content)


@lru_cache(maxsize=512)
def _indexed(name: str, _hash: str, content: bytes) -> SourceIndex:
    index = SourceIndex()
    for code in _nested(compile(content, name, "exec", dont_inherit=True)):
        index.codes.setdefault(code.co_qualname, set()).add(canonical(code))
    _visit(parsed_source(content).body, "", index, top=True)
    for stated in (own for several in index.defaults.values() for own in several):
        stated[:] = [index.literals.get(d.id, MISSING) if isinstance(d, ast.Name) else d for d in stated]
    return index


def _nested(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _nested(part)


def _visit(body: list[ast.stmt], prefix: str, index: SourceIndex, *, top: bool) -> None:
    """Add the statements of a block to `index`. `top` is True outside functions and classes."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
            index.defaults.setdefault(prefix + node.name, []).append(
                [d if isinstance(d, ast.Name) else _literal(d) for d in given]
            )
            _add_computed(node, prefix + node.name, index)
            _visit(node.body, f"{prefix}{node.name}.<locals>.", index, top=False)
        elif isinstance(node, ast.ClassDef):
            _visit(node.body, f"{prefix}{node.name}.", index, top=False)
        elif top and isinstance(node, ast.Import | ast.ImportFrom):
            _add_import(node, index)
        else:
            for target, value in _assigned(node):
                name = prefix + target
                index.literals[name] = MISSING if name in index.literals else _literal(value)
            for part in ("body", "orelse", "finalbody"):
                _visit(getattr(node, part, []), prefix, index, top=top)
            for handler in getattr(node, "handlers", []):
                _visit(handler.body, prefix, index, top=top)


def _add_computed(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, index: SourceIndex) -> None:
    """Record in `index` whether a function computes names of modules, environment variables or files."""
    values: dict[str, list[ast.expr | None]] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.stmt):
            for target, value in _assigned(inner):
                values.setdefault(target, []).append(value)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            called, first = (
                called_name(inner),
                next(iter([*inner.args, *(k.value for k in inner.keywords)]), None),
            )
            if called in ("import_module", "__import__") and not isinstance(first, ast.Constant):
                index.computed_imports.add(name)
            opens = _opens_file(inner) and first is not None and not _is_traced(first, values)
            asks = called in _STATES and _is_computed(_path_of(inner), values)
            if opens or asks or called == "readlink":
                index.computed_files[name] = called
        if reads_all_variables(inner) or any(
            not isinstance(v, ast.Constant | ast.Name) for v in environment_names(inner)
        ):
            index.computed_variables.add(name)


_READERS = frozenset(
    (
        "imread",
        "imreadmulti",
        "File",
        "FileStorage",
        "VideoCapture",
        "InferenceSession",
        "safe_open",
        "readNet",
        "read_table",
        "read_parquet",
        "read_feather",
        "ParquetFile",
        "memory_map",
        "from_file",
        "read_index",
        "read_image",
        "load_model",
    )
)
"""Functions that open files without Python, which an audit hook cannot observe."""
_STATES = frozenset(
    ("exists", "lexists", "is_file", "isfile", "is_dir", "isdir", "stat", "lstat", "getsize", "getmtime")
)
"""Functions and methods that test whether a file exists, or return its size or times."""
_COMPUTING = ("join", "joinpath", "with_name", "with_suffix", "with_stem", "format", "expandvars")
_READERS_OF = {"load": "jit", "load_file": "torch"}


def _opens_file(call: ast.Call) -> bool:
    name, owner = called_name(call), getattr(call.func, "value", None)
    of = getattr(owner, "attr", getattr(owner, "id", ""))
    return name in _READERS or name.startswith("readNetFrom") or _READERS_OF.get(name, "-") == of


def _path_of(call: ast.Call) -> ast.expr | None:
    """Return the path of a call such as ``os.stat(path)`` or ``path.stat()``."""
    return call.args[0] if call.args else getattr(call.func, "value", None)


def _is_computed(node: ast.expr | None, values: dict[str, list[ast.expr | None]], depth: int = 0) -> bool:
    """Return whether a path is computed from values that the cache key does not contain.

    A parameter of the function does not count as computed, because the caller computes it.
    """
    if node is None or depth > 8 or _is_traced(node, values):
        return False
    if isinstance(node, ast.Name):
        return any(_is_computed(v, values, depth + 1) for v in values.get(node.id, ()))
    if isinstance(node, ast.Call) and called_name(node) in ("str", "Path", "fspath") and node.args:
        return any(_is_computed(a, values, depth + 1) for a in node.args)
    return isinstance(node, ast.JoinedStr | ast.BinOp) or (
        isinstance(node, ast.Call) and called_name(node) in _COMPUTING
    )


def _is_traced(node: ast.expr, values: dict[str, list[ast.expr | None]], depth: int = 0) -> bool:
    """Return whether a path consists only of literals, attributes of ``self`` and names bound to those.

    The cache key contains the content of files that attributes and literals name.
    """
    if depth > 8:
        return False
    inner = partial(_is_traced, values=values, depth=depth + 1)
    match node:
        case ast.Constant() | ast.Attribute(value=ast.Name(id="self")):
            return True
        case ast.Name(id=name) if name in values:
            return all(v is not None and inner(v) for v in values[name])
        case ast.Name(id=name):
            return name == "__file__" or name.isupper()  # else a parameter, or computed by the module
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant()):
            return inner(left)
        case ast.Attribute(value=value, attr="parent"):
            return inner(value)
        case ast.Call(args=args) if called_name(node) in ("str", "Path", "fspath", "as_posix", "resolve"):
            return (
                all(map(inner, args))
                if args
                else isinstance(node.func, ast.Attribute) and inner(node.func.value)
            )
        case ast.Call(args=[first, *rest]) if called_name(node) in ("join", "joinpath", "with_name"):
            is_method = isinstance(node.func, ast.Attribute) and called_name(node) != "join"
            path = node.func.value if is_method and isinstance(node.func, ast.Attribute) else first
            return inner(path) and all(
                isinstance(r, ast.Constant) for r in (rest if path is first else [first])
            )
        case ast.Call(args=[first]) if called_name(node) == "dirname":
            return inner(first)
    return False


def _add_import(node: ast.Import | ast.ImportFrom, index: SourceIndex) -> None:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            index.imports[alias.asname or alias.name] = node.module or "", node.level, alias.name
        else:
            index.imports[alias.asname or alias.name.partition(".")[0]] = alias.name, 0, None


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield (name, expression) for each name that a statement assigns. The expression may be None."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, None
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            else:
                yield from ((n.id, None) for n in ast.walk(target) if isinstance(n, ast.Name))


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return MISSING
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return MISSING
