# SPDX-License-Identifier: BSD-3-Clause
"""Read untrusted JSON and YAML files with limits on size, number of values and depth."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from ..core.errors import FormatError
from ..core.regular_files import read_regular_file

MAX_JSON_BYTES = 1 << 27
MAX_JSON_VALUES = 8_000_000
"""Maximum number of values in a file.

It limits memory: an empty list has 2 bytes in the file, 60 in memory.
"""
MAX_JSON_DEPTH = 100
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(path: str | Path, *, most: int = MAX_JSON_BYTES) -> Any:
    r"""Read the value of a JSON file.

    NaN and Infinity are accepted in Python's spelling. An integer of more than 64 bits becomes a float.

    Args:
        path: A file in UTF-8, or in UTF-16 or UTF-32 with a byte order mark.
        most: Size limit in bytes.

    Raises:
        FormatError: The file is not a regular file, is too long or is not JSON (the error names the line). It
            has a duplicate key, more than eight million values, more than 100 levels or an unpaired
                surrogate.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = path.write_text('{"a": [1, 2.5]}')
    >>> read_json(path)
    {'a': [1, 2.5]}
    """
    return parse_json(read_regular_file(path, most=most), path)


def parse_json(data: bytes, path: str | Path) -> Any:
    """Parse JSON text as `read_json` does. `path` is used in error messages.

    >>> parse_json(b"[" * 5000 + b"]" * 5000, "x.json")
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: x.json: unsupported JSON: more than 100 levels
    """
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > MAX_JSON_VALUES:
        raise FormatError(path, f"unsupported JSON: more than {MAX_JSON_VALUES:,} values; split the file")
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        raise FormatError(path, "is not JSON: it is not UTF-8; save it as UTF-8", line=line) from e
    parse_int = _integer_or_float if _LONG_NUMBER.search(data) else None
    try:
        value = json.loads(text.removeprefix("\ufeff"), parse_int=parse_int, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as e:
        reason = f"is not JSON, it may be truncated ({e.msg}, column {e.colno})"
        raise FormatError(path, reason, line=e.lineno) from e
    except _DuplicateKeyError as e:
        raise FormatError(path, f"unsupported JSON: duplicate key {str(e)[:60]!r}; remove one") from e
    except RecursionError as e:
        raise _too_deep(path) from e
    if _deeper(value, MAX_JSON_DEPTH):
        raise _too_deep(path)
    if _SURROGATE.search(data) and not _encodable(value):
        raise FormatError(path, "unsupported JSON: a lone surrogate (\\ud800 to \\udfff), expected a pair")
    return value


class _DuplicateKeyError(ValueError):
    """Raised if a JSON object has a duplicate key."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _DuplicateKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return value


def _too_deep(path: str | Path) -> FormatError:
    return FormatError(path, f"unsupported JSON: more than {MAX_JSON_DEPTH} levels")


def _integer_or_float(digits: str) -> int | float:
    """Parse an integer. Return the nearest float if it needs more than 64 bits.

    >>> [_integer_or_float(digits) for digits in ("12", "1" + "0" * 30, "-" + "9" * 400)]
    [12, 1e+30, -inf]
    """
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 63 else float(number)


def _deeper(value: Any, most: int) -> bool:
    """Return whether lists and objects are nested more than `most` levels deep, without recursion."""
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(most):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
    return bool(level)


def _encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


MAX_YAML_BYTES = 1 << 18
MAX_YAML_NODES = 50_000
"""Maximum number of values in a YAML file. The values of an alias count each time it is used."""
MAX_YAML_DEPTH = 50
_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(0|[1-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+)$"),
    "tag:yaml.org,2002:float": re.compile(
        r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+][0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"
    ),
}
"""Patterns of YAML numbers without octal and sexagesimal forms. YAML 1.1 reads 02000 as 1024, 1:30 as 90."""


def read_mapping(path: Path, otherwise: str) -> dict[Any, Any]:
    """Read a YAML file that contains a mapping. For any other value, the error message is `otherwise`.

    Dates, numbers with a leading zero and numbers with colons are returned as text. Tags never create Python
    objects.

    Raises:
        FormatError: The file cannot be read, is not UTF-8, not YAML or not a mapping, has a duplicate key or
            a recursive alias, or exceeds 256 KiB, 50,000 values or 50 levels.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.yaml"
    >>> _ = path.write_text("jobs: 3")
    >>> read_mapping(path, "a file has jobs")
    {'jobs': 3}
    """
    value = read_yaml(path)
    if not isinstance(value, dict):
        raise FormatError(path, otherwise)
    return value


def read_yaml(path: Path) -> Any:
    """Read the value of a YAML file. None if the file is empty.

    Limits and errors are those of `read_mapping`.
    """
    import yaml

    data = read_regular_file(path, most=MAX_YAML_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        raise FormatError(path, "is not YAML: it is not UTF-8; save it as UTF-8", line=line) from e
    try:
        loader = _loader()(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as e:
        line = text[: e.position].count("\n") + 1
        raise FormatError(
            path, f"is not YAML: character U+{e.character:04X} is not allowed", line=line
        ) from e
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None) or getattr(e, "context_mark", None)
        at = None if mark is None else mark.line + 1
        raise FormatError(path, f"is not YAML: {getattr(e, 'problem', e)}; correct the file", line=at) from e
    except RecursionError as e:
        raise FormatError(
            path, f"unsupported YAML: more than {MAX_YAML_DEPTH} levels; flatten the file"
        ) from e


@cache
def _loader() -> Any:
    """Return a subclass of PyYAML's safe loader that enforces limits. PyYAML is imported on first use."""
    import yaml
    from yaml.composer import ComposerError
    from yaml.constructor import ConstructorError

    class Bounded(yaml.SafeLoader):
        """YAML loader that counts values, and whose errors for unreadable values name the line."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML requires this name and form
            first: [
                (tag, _NUMBERS.get(tag, pattern))
                for tag, pattern in known
                if tag != "tag:yaml.org,2002:timestamp"
            ]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.level = self.count = 0
            self.sizes: dict[int, int] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # as PyYAML's stubs have it
            alias = isinstance(event, yaml.AliasEvent)
            before, self.count, self.level = self.count, self.count + 1, self.level + 1
            if self.level > MAX_YAML_DEPTH:
                raise ComposerError(None, None, f"more than {MAX_YAML_DEPTH} levels", event.start_mark)
            node = super().compose_node(parent, index)
            if alias:
                if id(node) not in self.sizes:
                    problem = f"the alias *{event.anchor} is inside its own value"
                    raise ComposerError(None, None, problem, event.start_mark)
                self.count += self.sizes[id(node)]
            else:
                self.sizes[id(node)] = self.count - before
            self.level -= 1
            if self.count > MAX_YAML_NODES:
                problem = f"more than {MAX_YAML_NODES:,} values (values behind aliases count at each use)"
                raise ComposerError(None, None, problem, event.start_mark)
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if (key.tag, key.value) in seen:
                        problem = f"duplicate key {key.value[:60]!r}"
                        raise ConstructorError(None, None, problem, key.start_mark)
                    seen.add((key.tag, key.value))
            return super().construct_mapping(node, deep=deep)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep=deep)
            except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as e:
                problem = f"{str(node.value)[:60]!r} is not of type {node.tag.rpartition(':')[2]}"
                raise ConstructorError(None, None, problem, node.start_mark) from e

    return Bounded
