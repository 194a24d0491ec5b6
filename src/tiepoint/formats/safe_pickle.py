# SPDX-License-Identifier: BSD-3-Clause
"""Read pickle files as data, without importing, calling or running anything.

A pickle is a program that the standard reader executes. This reader decodes the instructions with
`pickletools.genops` and interprets them itself. It builds dictionaries, lists, tuples, sets, numbers, text
and bytes. A global or a call becomes an `OpaqueObject`.

Four calls are recognised by name. ``collections.defaultdict`` and ``collections.OrderedDict`` give a dict.
``_codecs.encode`` to latin1, which old protocols write, gives bytes. NumPy's ``scalar`` gives a number.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.errors import FormatError
from .file_io import error_reason, read_bytes

MAX_PICKLE_DEPTH = 100
KEY_DEPTH = 3
KEY_PARTS = 8
_MAX_INT = 1 << 60
_SEQUENCES = (list, tuple, set, frozenset)
_LEAVES = frozenset({str, bytes, bytearray, int, float, bool, type(None)})
_PLAIN_KEYS = (str, bytes, float, bool, type(None))
_BASE_PARTS = 1_000_000
_PARTS_PER_BYTE = 4


def check_key(key: Any, depth: int = KEY_DEPTH) -> int:
    """Check a dictionary key and return its number of values. Raise a ValueError if it is unsupported.

    Keys are text, bytes, numbers, None, and tuples of at most 8 of these in at most 3 levels. Integers must
    be below 2**60 to avoid hash collisions. Opaque objects are accepted here; the caller refuses them.

    >>> check_key(("a", 1, (2.5, None)))
    4
    >>> check_key([1])
    Traceback (most recent call last):
    ValueError: a dictionary key or set element is a list, expected text, number or short tuple
    """
    if isinstance(key, _PLAIN_KEYS) or hasattr(key, "callee"):
        return 1
    if isinstance(key, int):
        if abs(key) < _MAX_INT:
            return 1
        raise ValueError("a dictionary key or set element is a number of more than 60 bits")
    if not isinstance(key, tuple):
        kind = type(key).__name__
        raise ValueError(f"a dictionary key or set element is a {kind}, expected text, number or short tuple")
    if not depth or len(key) > KEY_PARTS:
        raise ValueError("a dictionary key or set element is a tuple with too many parts or levels")
    parts = 0
    for part in key:
        parts += check_key(part, depth - 1)
        if parts > KEY_PARTS:
            raise ValueError("a dictionary key or set element is a tuple with too many parts or levels")
    return parts


def check_size(value: Any, file_bytes: int) -> None:
    """Raise a ValueError if a value is cyclic, deeper than 100 levels or much larger than its file.

    The limit is a million values plus four per byte of the file. Shared values count each time they occur.

    >>> x = [1]
    >>> for _ in range(50):
    ...     x = [x, x]
    >>> check_size(x, 300)
    Traceback (most recent call last):
    ValueError: the data expands to more than 1001200 values
    """
    limit = _BASE_PARTS + _PARTS_PER_BYTE * file_bytes
    known: dict[int, tuple[int, int]] = {}  # parts and levels by container
    ancestors: set[int] = set()
    waiting: list[tuple[Any, list[Any] | None]] = [(value, None)]
    while waiting:
        container, content = waiting.pop()
        if content is None:
            if id(container) in known or type(container) in _LEAVES:
                continue
            if id(container) in ancestors:
                raise ValueError("a container contains itself")
            if len(ancestors) > MAX_PICKLE_DEPTH:
                raise ValueError(f"the data has more than {MAX_PICKLE_DEPTH} nested levels")
            parts = parts_of(container)
            inner = [p for p in parts if type(p) not in _LEAVES]
            if not inner:
                known[id(container)] = 1 + len(parts), 1
                continue
            ancestors.add(id(container))
            waiting.append((container, [len(parts) - len(inner), *inner]))
            waiting += [(p, None) for p in inner]
            continue
        leaves, *inner = content
        ancestors.discard(id(container))
        sizes = [known[id(p)] for p in inner]
        count = 1 + leaves + sum(size for size, _ in sizes)
        levels = 1 + max((depth for _, depth in sizes), default=0)
        if count > limit:
            raise ValueError(f"the data expands to more than {limit} values")
        if levels > MAX_PICKLE_DEPTH:
            raise ValueError(f"the data has more than {MAX_PICKLE_DEPTH} nested levels")
        known[id(container)] = count, levels


def parts_of(value: Any) -> list[Any]:
    """Return the elements of a container. For a dictionary, all keys come before the values.

    >>> parts_of({"a": 1, "b": []}), parts_of((1, 2))
    (['a', 'b', 1, []], [1, 2])
    """
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, _SEQUENCES):
        return list(value)
    return [value.callee, value.arguments, value.state]


_NUMBERS = {"f8": "d", "f4": "f", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u8": "Q", "u4": "I", "b1": "?"}
_DICTS = (("collections", "defaultdict"), ("collections", "OrderedDict"))
_VALUES = (
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING",
    "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
)  # fmt: skip
_FIXED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
}


class OpaqueObject:
    """Global or call in a pickle that is not executed: a name, or a called object with its arguments."""

    __slots__ = ("arguments", "callee", "name", "state")

    def __init__(self, name: tuple[str, str] | None, callee: Any = None, arguments: Any = ()) -> None:
        self.name = name
        self.callee = callee
        self.arguments = arguments
        self.state: Any = None

    def __repr__(self) -> str:
        return f"<not executed: {'.'.join(self.name) if self.name else self.callee!r}>"


class _Mark:
    """Marker on the stack for the start of a variable number of items."""


_MARK = _Mark()


def read_plain_pickle(path: str | Path) -> Any:
    """Read a pickle file as plain containers.

    Raises:
        FormatError: The file is not a pickle, is corrupt, or has an instruction that plain data does not
            need.
    """
    return parse_plain_pickle(read_bytes(path), path=path)


def parse_plain_pickle(data: bytes, *, path: str | Path = "pickle") -> Any:
    """Parse the bytes of a pickle as plain containers, as `read_plain_pickle` does.

    >>> import pickle
    >>> parse_plain_pickle(pickle.dumps({"a": [1, 2.5, ("b",)]}))
    {'a': [1, 2.5, ('b',)]}
    """
    machine = _Machine(len(data))
    try:
        for op, argument, position in pickletools.genops(data):
            if op.name == "STOP":
                if len(machine.stack) != 1 or machine.stack[0] is _MARK:
                    raise FormatError(path, "is a corrupt pickle: it does not end with exactly one value")
                check_size(machine.stack[0], len(data))
                return machine.stack[0]
            if not machine.step(op.name, argument):
                reason = f"is an unsafe pickle: its instruction {op.name} at byte {position} is not allowed"
                raise FormatError(path, reason)
    except FormatError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, struct.error) as e:
        raise FormatError(
            path,
            f"is a corrupt or unsafe pickle ({type(e).__name__}: {error_reason(e)}); write it again "
            "as plain data",
        ) from e
    raise FormatError(path, "is a corrupt pickle: the STOP instruction at the end is missing")


class _Machine:
    """Interpreter of pickle instructions that builds plain values only."""

    def __init__(self, file_bytes: int) -> None:
        self.file_bytes = file_bytes
        self.copied = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def items(self) -> list[Any]:
        """Pop the last mark and the items above it. Return the items."""
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("the instruction that starts a group of items is missing")
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def step(self, name: str, argument: Any) -> bool:
        """Execute one instruction. Return False if it is not supported."""
        stack = self.stack
        if name in ("PROTO", "FRAME"):
            return True
        if name in _VALUES:
            stack.append(argument)
        elif name in _FIXED:
            stack.append(_FIXED[name]())
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[int(argument)])
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [tuple(stack[-count:])]
        elif name == "POP":
            stack.pop()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name == "POP_MARK":
            self.items()
        else:
            return self._collect(name, argument)
        return True

    def _collect(self, name: str, argument: Any) -> bool:
        """Execute an instruction that fills a container. Record a call as an `OpaqueObject`."""
        stack = self.stack
        if name in ("TUPLE", "LIST", "FROZENSET"):
            kind: Any = {"TUPLE": tuple, "LIST": list, "FROZENSET": frozenset}[name]
            items = self.items()
            if name == "FROZENSET":
                _check_keys(items)
            stack.append(kind(items))
        elif name in ("DICT", "SETITEMS"):
            flat = self.items()
            if name == "DICT":
                stack.append({})
            _fill(stack[-1], flat)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            _fill(stack[-1], [key, value])
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            more = [stack.pop()] if name == "APPEND" else self.items()
            target = stack[-1]
            if isinstance(target, list):
                target.extend(more)
            elif isinstance(target, set):
                _check_keys(more)
                target.update(more)
            elif not isinstance(target, OpaqueObject):
                raise TypeError("an instruction appends an item to a value that is not a list")
        elif name == "GLOBAL":
            module, _, attribute = str(argument).partition(" ")
            stack.append(OpaqueObject((module, attribute)))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            if not isinstance(module, str) or not isinstance(attribute, str):
                raise TypeError("the module or name of an imported object is not a string")
            stack.append(OpaqueObject((module, attribute)))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, callee = stack.pop(), stack.pop()
            stack.append(_called(callee, arguments))
            if isinstance(stack[-1], bytes):  # a copy of text, which a hostile file can request repeatedly
                self.copied += len(stack[-1])
                if self.copied > 2 * self.file_bytes:
                    raise ValueError("its calls create more bytes than twice the size of the file")
        elif name == "NEWOBJ_EX":
            keywords, arguments, callee = stack.pop(), stack.pop(), stack.pop()
            stack.append(OpaqueObject(None, callee, (arguments, keywords)))
        elif name == "OBJ":
            callee, *rest = self.items()
            stack.append(OpaqueObject(None, callee, tuple(rest)))
        elif name == "INST":
            stack.append(OpaqueObject(None, str(argument), tuple(self.items())))
        elif name == "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], OpaqueObject):
                stack[-1].state = state
        else:
            return False
        return True


def _check_keys(keys: list[Any]) -> None:
    for key in keys:
        if type(key) is not str:
            check_key(key)


def _fill(target: Any, flat: list[Any]) -> None:
    if isinstance(target, dict):
        _check_keys(flat[::2])
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            target[key] = value
    elif not isinstance(target, OpaqueObject):
        raise TypeError("an instruction assigns a key to a value that is not a dictionary")


def _called(callee: Any, arguments: Any) -> Any:
    """Return the result of a recognised call (a dict, bytes or a number), else an `OpaqueObject`."""
    if isinstance(callee, OpaqueObject) and callee.name in _DICTS:
        return {}
    if isinstance(callee, OpaqueObject) and callee.name == ("_codecs", "encode"):
        text, *how = arguments
        if isinstance(text, str) and how == ["latin1"]:
            return text.encode("latin1")
    if _is_scalar(callee) and isinstance(arguments, tuple) and len(arguments) == 2:
        number = _number(*arguments)
        if number is not None:
            return number
    return OpaqueObject(None, callee, arguments)


def _is_scalar(callee: Any) -> bool:
    """Return whether a called object is NumPy's ``scalar``.

    The object may be a name or, in files written by dill, an attribute of a module.
    """
    if not isinstance(callee, OpaqueObject):
        return False
    modules = [
        f"numpy.{core}.{name}" for core in ("core", "_core") for name in ("multiarray", "_multiarray_umath")
    ]
    if callee.name is not None:
        return callee.name[0] in modules and callee.name[1] == "scalar"
    args = callee.arguments
    getter = isinstance(callee.callee, OpaqueObject) and callee.callee.name == ("dill._dill", "_get_attr")
    if not (getter and isinstance(args, tuple) and len(args) == 2 and args[1] == "scalar"):
        return False
    module = args[0]
    return isinstance(module, OpaqueObject) and module.arguments in [(m,) for m in modules]


def _number(dtype: Any, raw: Any) -> Any:
    """Decode a NumPy scalar from its type and bytes. None for unsupported types."""
    if not (
        isinstance(dtype, OpaqueObject) and isinstance(dtype.arguments, tuple) and isinstance(raw, bytes)
    ):
        return None
    named = dtype.arguments[0] if dtype.arguments else None
    letter = _NUMBERS.get(named.lstrip("<>=|")) if isinstance(named, str) else None
    order = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else "<"
    if letter is None or order not in ("<", ">", "|", "="):
        return None
    return struct.unpack(("<" if order in "|=" else order) + letter, raw)[0]
