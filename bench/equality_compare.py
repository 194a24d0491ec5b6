# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of two snapshots of `equality.py`: values count, changed words are listed."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

NUMBER = re.compile(r"(?<![A-Za-z_])\d+(?:[.,]\d+)*(?:e-?\d+)?")
QUOTED = re.compile(r"`([^`]+)`|'([^'\s]+)'|\"([^\"]+)\"")


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a nested value by path; a list of plain values is one leaf."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{path} > {key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(v, Mapping | list) for v in value):
        yield f"{path} > #length", len(value)
        for i, inner in enumerate(value):
            yield from flat(inner, f"{path} > {i}")
    else:
        yield path, value


def kind_of(path: str) -> str:
    """Return the kind of a value: the innermost known level of its path, else the first level."""
    levels = path.split(" > ")
    for level in reversed(levels[:-1] or levels):
        if level in KINDS:
            return level
    return levels[0] if levels[-1] not in KINDS else levels[-1]


KINDS = frozenset(
    [
        "run id", "method name", "scores", "row order", "counts", "exit code", "json", "files", "comparison",
        "records", "features", "arrays", "cache keys", "manifests", "tables", "columns", "rows", "pixels",
        "html tags", "html cells", "status", "headers", "command line", "public names", "protocols", "error",
        "table rows", "table", "printed", "queries", "lists", "run files",
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Words:
    """A changed wording, and where it first occurs."""

    place: str
    old: str
    new: str

    @property
    def numbers_differ(self) -> bool:
        """Whether the numbers or the quoted names of both texts differ."""
        return facts(self.old) != facts(self.new)


def facts(text: str) -> tuple[Counter[str], Counter[str]]:
    """Return the numbers and the quoted names in a text."""
    quoted = ["".join(q) for q in QUOTED.findall(text)]
    return Counter(NUMBER.findall(text)), Counter(quoted)


@dataclass
class Differences:
    """Differences of two snapshots: `values` count, `words` do not."""

    values: list[str] = field(default_factory=list)
    words: dict[tuple[str, str], Words] = field(default_factory=dict)
    repeats: Counter[tuple[str, str]] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)

    def value(self, where: str, a: Any, b: Any) -> None:
        """Compare two plain values or two lists of them; -0.0 differs from 0.0."""
        if repr(a) == repr(b):
            return
        if isinstance(a, list) and isinstance(b, list):
            pairs = [i for i, (x, y) in enumerate(zip(a, b, strict=False)) if repr(x) != repr(y)]
            at = pairs[0] if pairs else min(len(a), len(b))
            x, y = ((side[at] if at < len(side) else "(end)") for side in (a, b))
            self.values.append(f"{where}: {len(a)} items, {len(b)} after; first at {at}: {x!r} -> {y!r}")
        else:
            self.values.append(f"{where}: {a!r} -> {b!r}")

    def text(self, where: str, a: Any, b: Any) -> None:
        """Compare two texts or two lists of texts; lists are aligned first."""
        if a == b:
            return
        if not (isinstance(a, list) and isinstance(b, list)):
            self.word(where, str(a), str(b))
            return
        mine, other = [str(x) for x in a], [str(y) for y in b]
        if len(mine) == len(other):
            for x, y in zip(mine, other, strict=True):
                self.word(where, x, y)
            return
        matcher = difflib.SequenceMatcher(None, mine, other, autojunk=False)
        for tag, i, j, k, m in matcher.get_opcodes():
            if tag != "equal":
                self.word(where, " | ".join(mine[i:j]), " | ".join(other[k:m]))

    def word(self, where: str, old: str, new: str) -> None:
        """Record a changed wording once."""
        if old != new:
            self.words.setdefault((old, new), Words(where, old, new))
            self.repeats[old, new] += 1

    @property
    def flagged(self) -> list[Words]:
        """Changed wordings whose numbers or quoted names differ."""
        return [w for w in self.words.values() if w.numbers_differ]


def compare_cell(found: Differences, name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
    """Compare two cells of one name."""
    mine, other = dict(flat(a.get("values", {}))), dict(flat(b.get("values", {})))
    for path in mine:
        if path not in other:
            found.values.append(f"{name}: {path} is gone")
        else:
            found.checked[kind_of(path)] += len(mine[path]) if isinstance(mine[path], list) else 1
            found.value(f"{name}: {path}", mine[path], other[path])
    found.values += [f"{name}: {path} is new" for path in other if path not in mine]
    mine, other = dict(flat(a.get("words", {}))), dict(flat(b.get("words", {})))
    for path in dict.fromkeys((*mine, *other)):
        found.checked["words"] += 1
        found.text(f"{name}: {path}", mine.get(path, ""), other.get(path, ""))


def compare_snapshots(a: Mapping[str, Any], b: Mapping[str, Any]) -> Differences:
    """Compare the cells of two snapshots."""
    found = Differences()
    found.values += [f"cell {n!r} is gone" for n in a["cells"] if n not in b["cells"]]
    found.values += [f"cell {n!r} is new" for n in b["cells"] if n not in a["cells"]]
    for name in a["cells"]:
        if name in b["cells"]:
            found.checked["cells"] += 1
            compare_cell(found, name, a["cells"][name], b["cells"][name])
    return found


def refusal(a: Mapping[str, Any], b: Mapping[str, Any]) -> str | None:
    """Return why two snapshots cannot be compared, None if they can."""
    for key, why in (
        ("format", "take both snapshots with one version of equality.py"),
        ("work", "run ids and cache keys depend on absolute paths; take both snapshots with one --work path"),
        ("data", "run ids and cache keys depend on absolute paths; take both snapshots with one --data path"),
    ):
        if a["head"].get(key) != b["head"].get(key):
            return f"{key}: {a['head'].get(key)!r} and {b['head'].get(key)!r}; {why}"
    return None


def words_page(found: Differences) -> str:
    """Return all old and new wordings; those whose numbers differ come first."""
    lines = [f"# {len(found.words)} changed wordings, numbers or quoted names differ in {len(found.flagged)}"]
    for one in sorted(found.words.values(), key=lambda w: not w.numbers_differ):
        mark = "numbers differ" if one.numbers_differ else "words"
        lines += ["", f"[{mark}] {found.repeats[one.old, one.new]}x, first in {one.place}"]
        lines += [f"  old: {one.old}", f"  new: {one.new}"]
    return "\n".join(lines) + "\n"
