# SPDX-License-Identifier: BSD-3-Clause
"""JSON that others wrote: bounded in size, values and depth; what is wrong is a `FormatError`."""

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
"""Bytes of a file that is read."""
MAX_JSON_VALUES = 8_000_000
"""Values a file may hold: an empty list of two bytes takes sixty in memory."""
MAX_JSON_DEPTH = 100
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(path: str | Path, *, most: int = MAX_JSON_BYTES) -> Any:
    r"""The value of a JSON file.

    NaN and Infinity are read as Python's own writer spells them; a whole number beyond 64 bits becomes a
    floating point number.

    Args:
        path: A file in UTF-8, or UTF-16 or UTF-32 with their mark.
        most: Bytes it may have.

    Raises:
        FormatError: A file that is not plain or too long, that is no JSON (with the line), has a key twice in
            one object, more than eight million values or more than 100 levels, or text that cannot
            be written again (half a surrogate pair).

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = path.write_text('{"a": [1, 2.5]}')
    >>> read_json(path)
    {'a': [1, 2.5]}
    """
    return parse_json(read_regular_file(path, most=most), path)


def parse_json(data: bytes, path: str | Path) -> Any:
    """The value of JSON text; `path` is named in errors. See `read_json`.

    >>> parse_json(b"[" * 5000 + b"]" * 5000, "x.json")
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: x.json: is not JSON that is read: it has more than 100 levels
    """
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > MAX_JSON_VALUES:
        raise FormatError(path, f"is not JSON that is read: it has more than {MAX_JSON_VALUES:,} values")
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        raise FormatError(path, "is not JSON: it is not UTF-8", line=line) from e
    whole = _whole if _LONG_NUMBER.search(data) else None
    try:
        found = json.loads(text.removeprefix("\ufeff"), parse_int=whole, object_pairs_hook=_once)
    except json.JSONDecodeError as e:
        reason = f"is not JSON, it may be truncated ({e.msg}, column {e.colno})"
        raise FormatError(path, reason, line=e.lineno) from e
    except _TwiceError as e:
        raise FormatError(path, f"is not JSON that is read: it has the key {str(e)[:60]!r} twice") from e
    except RecursionError as e:
        raise _too_deep(path) from e
    if _deeper(found, MAX_JSON_DEPTH):
        raise _too_deep(path)
    if _SURROGATE.search(data) and not _writable(found):
        raise FormatError(path, "is not JSON that is read: it has half a surrogate pair (\\ud800 to \\udfff)")
    return found


class _TwiceError(ValueError):
    """A key that an object has twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _TwiceError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return made


def _too_deep(path: str | Path) -> FormatError:
    return FormatError(path, f"is not JSON that is read: it has more than {MAX_JSON_DEPTH} levels")


def _whole(digits: str) -> int | float:
    """A whole number of 64 bits as such, else the nearest floating point number.

    >>> _whole("12"), _whole("1" + "0" * 30), _whole("-" + "9" * 400)
    (12, 1e+30, -inf)
    """
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 63 else float(number)


def _deeper(value: Any, most: int) -> bool:
    """Whether lists and objects are nested deeper than `most`, found level by level, without recursion."""
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


def _writable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


MAX_YAML_BYTES = 1 << 18
"""Bytes of a file that is read."""
MAX_YAML_NODES = 50_000
"""Values a file may have, those behind an alias counted each time."""
MAX_YAML_DEPTH = 50
_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(0|[1-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+)$"),
    "tag:yaml.org,2002:float": re.compile(
        r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+][0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"
    ),
}
"""Numbers but for two kinds that nobody means: 02000, which would be 1024, and 1:30, which would be 90."""


def read_mapping(path: Path, otherwise: str) -> dict[Any, Any]:
    """What a YAML file says; `otherwise` is told where it is YAML and no mapping.

    Dates stay text, and so do numbers with a zero in front and with colons, which older YAML counts in eights
    and sixties; a key may be there once, and no tag makes an object of Python.

    Raises:
        FormatError: if it cannot be read, is not UTF-8, not YAML or no mapping, has more than 256 KiB, 50,000
            values (those behind aliases counted each time) or 50 levels, or an alias of what it is in; with
            the line where there is one.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.yaml"
    >>> _ = path.write_text("jobs: 3")
    >>> read_mapping(path, "a file has jobs")
    {'jobs': 3}
    """
    found = read_yaml(path)
    if not isinstance(found, dict):
        raise FormatError(path, otherwise)
    return found


def read_yaml(path: Path) -> Any:
    """What a YAML file says, None where it says nothing; bounds and errors are those of `read_mapping`."""
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
        where = None if mark is None else mark.line + 1
        raise FormatError(path, f"is not YAML: {getattr(e, 'problem', e)}", line=where) from e
    except RecursionError as e:
        raise FormatError(path, f"is not YAML that is read: it has more than {MAX_YAML_DEPTH} levels") from e


@cache
def _loader() -> Any:
    """The safe loader of PyYAML within bounds; made at first use, because importing PyYAML takes time."""
    import yaml
    from yaml.composer import ComposerError
    from yaml.constructor import ConstructorError

    class Bounded(yaml.SafeLoader):
        """Counts what it composes, and turns what a constructor cannot read into an error of the file."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - the name and form that PyYAML asks for
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
                raise ComposerError(None, None, f"it has more than {MAX_YAML_DEPTH} levels", event.start_mark)
            node = super().compose_node(parent, index)
            if alias:
                if id(node) not in self.sizes:
                    problem = f"the alias *{event.anchor} is inside what it stands for"
                    raise ComposerError(None, None, problem, event.start_mark)
                self.count += self.sizes[id(node)]
            else:
                self.sizes[id(node)] = self.count - before
            self.level -= 1
            if self.count > MAX_YAML_NODES:
                problem = f"it has more than {MAX_YAML_NODES:,} values (those behind aliases count each time)"
                raise ComposerError(None, None, problem, event.start_mark)
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if (key.tag, key.value) in seen:
                        problem = f"the key {key.value[:60]!r} is there twice"
                        raise ConstructorError(None, None, problem, key.start_mark)
                    seen.add((key.tag, key.value))
            return super().construct_mapping(node, deep=deep)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep=deep)
            except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as e:
                problem = f"{str(node.value)[:60]!r} is no {node.tag.rpartition(':')[2]}"
                raise ConstructorError(None, None, problem, node.start_mark) from e

    return Bounded
