# SPDX-License-Identifier: BSD-3-Clause
"""What a pickle may build: keys that can be hashed at once, few levels, no more than its bytes say.

A pickle names what it built before and puts it into something new, so a hundred bytes can make a tuple of a
thousand levels (hashing it exhausts the stack) or one that holds another twice, which holds another twice,
and so on (hashing, copying or printing it never ends).
"""

from __future__ import annotations

from typing import Any

MAX_PICKLE_DEPTH = 100
KEY_DEPTH = 3
KEY_PARTS = 8
_MAX_INT = 1 << 60
_SEVERAL = (list, tuple, set, frozenset)
_LEAVES = frozenset({str, bytes, bytearray, int, float, bool, type(None)})
_PLAIN_KEYS = (str, bytes, float, bool, type(None))
_MORE = 1_000_000
_TIMES = 4


def check_key(key: Any, depth: int = KEY_DEPTH) -> int:
    """Refuse what is no plain key; returns how many parts it has.

    Keys are text, bytes, numbers, None, and tuples of at most 8 of them in at most 3 levels. Whole numbers
    are below 2**60, where each has a hash of its own. Notes of calls pass: who reads them refuses them.

    Raises:
        ValueError: in words.

    >>> check_key(("a", 1, (2.5, None)))
    4
    >>> check_key([1])
    Traceback (most recent call last):
    ValueError: a key is a list, expected text, a number or a short tuple of them
    """
    if isinstance(key, _PLAIN_KEYS) or hasattr(key, "callee"):
        return 1
    if isinstance(key, int):
        if abs(key) < _MAX_INT:
            return 1
        raise ValueError("a key is a number of more than 60 bits")
    if not isinstance(key, tuple):
        kind = type(key).__name__
        raise ValueError(f"a key is a {kind}, expected text, a number or a short tuple of them")
    if not depth or len(key) > KEY_PARTS:
        raise ValueError("a key is a tuple with too many parts or levels")
    parts = 0
    for part in key:
        parts += check_key(part, depth - 1)
        if parts > KEY_PARTS:
            raise ValueError("a key is a tuple with too many parts or levels")
    return parts


def check_size(value: Any, file_bytes: int) -> None:
    """Refuse what is deeper than 100 levels, holds itself, or written out is far larger than its file.

    Written out it may have a million parts, and four for every byte of the file.

    Raises:
        ValueError: in words.

    >>> x = [1]
    >>> for _ in range(50):
    ...     x = [x, x]
    >>> check_size(x, 300)
    Traceback (most recent call last):
    ValueError: written out it would have more than 1001200 parts
    """
    most = _MORE + _TIMES * file_bytes
    known: dict[int, tuple[int, int]] = {}  # parts and levels by container
    open_ones: set[int] = set()
    waiting: list[tuple[Any, list[Any] | None]] = [(value, None)]
    while waiting:
        one, inside = waiting.pop()
        if inside is None:
            if id(one) in known or type(one) in _LEAVES:
                continue
            if id(one) in open_ones:
                raise ValueError("it holds itself")
            if len(open_ones) > MAX_PICKLE_DEPTH:
                raise ValueError(f"it has more than {MAX_PICKLE_DEPTH} levels")
            open_ones.add(id(one))
            parts = parts_of(one)
            inner = [p for p in parts if type(p) not in _LEAVES]
            if not inner:
                open_ones.discard(id(one))
                known[id(one)] = 1 + len(parts), 1
                continue
            waiting.append((one, [len(parts) - len(inner), *inner]))
            waiting += [(p, None) for p in inner]
            continue
        plain, *inner = inside
        open_ones.discard(id(one))
        sizes = [known[id(p)] for p in inner]
        count = 1 + plain + sum(size for size, _ in sizes)
        levels = 1 + max((depth for _, depth in sizes), default=0)
        if count > most:
            raise ValueError(f"written out it would have more than {most} parts")
        if levels > MAX_PICKLE_DEPTH:
            raise ValueError(f"it has more than {MAX_PICKLE_DEPTH} levels")
        known[id(one)] = count, levels


def parts_of(value: Any) -> list[Any]:
    """What is in it, keys before values.

    >>> parts_of({"a": 1, "b": []}), parts_of((1, 2))
    (['a', 'b', 1, []], [1, 2])
    """
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, _SEVERAL):
        return list(value)
    return [value.callee, value.arguments, value.state]
