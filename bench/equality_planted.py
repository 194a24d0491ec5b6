# SPDX-License-Identifier: BSD-3-Clause
"""Planted changes: show that `equality.py compare` finds a change of every kind."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equality_compare import compare_snapshots
from equality_pages import page_parts, pixels
from equality_snapshot import Place

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Planted:
    """A change of one leaf: where to plant it, how, and whether it counts."""

    name: str
    path: str
    change: Change
    counts: bool = True
    flagged: bool = False


def next_bit(value: Any) -> Any:
    """Return the next double."""
    return float(np.nextafter(value, np.inf))


def other_hash(value: str) -> str:
    """Return a text with another last digit."""
    return value[:-1] + ("0" if value[-1] != "0" else "1")


def without_last(value: list[Any]) -> list[Any]:
    """Return a list without its last item."""
    return value[:-1]


def swapped(value: list[Any]) -> list[Any]:
    """Return a list with its first two different items exchanged."""
    at = next(i for i in range(len(value) - 1) if value[i] != value[i + 1])
    return [*value[:at], value[at + 1], value[at], *value[at + 2 :]]


def other_tag(value: list[Any]) -> list[Any]:
    """Return a list of tags with one element renamed."""
    return ["<section>" if i == len(value) // 2 else v for i, v in enumerate(value)]


def reworded(value: Any) -> Any:
    """Return a text with one more word, without a number."""
    return [*value[:-1], f"{value[-1]} indeed"] if isinstance(value, list) else f"{value} indeed"


def renumbered(value: Any) -> Any:
    """Return a text with one more number."""
    return [*value[:-1], f"{value[-1]} 4711"] if isinstance(value, list) else f"{value} 4711"


def is_hash(value: Any) -> bool:
    """Return whether a value is a hash."""
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{12,}", value) is not None


CHANGES = (
    Planted("a bit of a score", r"scores > exact > .*", lambda v: [next_bit(v[0]), *v[1:]]),
    Planted("a bit of an interval", r"scores > (?!exact).*", lambda v: [*v[:2], next_bit(v[2]), *v[3:]]),
    Planted("a run id", r"run id", other_hash),
    Planted("a record key in a manifest", r"manifests > .* > /units/.*", other_hash),
    Planted("a feature key", r"cache keys > feature", lambda v: [other_hash(v[0]), *v[1:]]),
    Planted("a record key of the store", r"cache keys > record", without_last),
    Planted("a key of an array", r"cache keys > array", lambda v: [*v[:-1], other_hash(v[-1])]),
    Planted("the content of a feature", r"features > .*", lambda v: [other_hash(v[0]), *v[1:]]),
    Planted("the bytes of a record file", r"records > .* > bytes", other_hash),
    Planted("a run file", r"run files > .*", other_hash),
    Planted("a method configuration", r"manifests > .* > /method/config/(?!#).*", lambda v: f"{v}0"),
    Planted("a record column", r"records > .* > columns > .*", other_hash),
    Planted("a record header", r"records > .* > header", other_hash),
    Planted("the order of score rows", r"row order", other_hash),
    Planted("one note less", r"counts > notes", lambda v: v - 1),
    Planted("one warning less", r"counts > warnings issued", lambda v: v - 1),
    Planted("a column of an SQL table", r"sql > columns > scores", without_last),
    Planted("a column of an SQL view", r"sql > columns > results", swapped),
    Planted("the kind of an SQL view", r"sql > tables > results", lambda v: "table"),
    Planted("score rows of the database", r"sql > rows > scores > .*", lambda v: [v[0], other_hash(v[1])]),
    Planted("a row of an SQL view", r"sql > rows > results > .* > true_map_micro", next_bit),
    Planted("an exit code", r"exit code", lambda v: v + 1),
    Planted("the keys of a JSON object", r"json > .*#keys", lambda v: v + " more"),
    Planted("the length of a JSON list", r"json > .*#length", lambda v: v + 1),
    Planted("a hash of a task list", r"manifests > .* > /lists", other_hash),
    Planted("a written task file", r"files > .*\.csv", other_hash),
    Planted("a comparison", r"comparison > .*", lambda v: next_bit(v)),
    Planted("a command-line option", r"command line > run > options > .* > options", without_last),
    Planted("a default of an option", r"command line > run > options > .* > default", lambda v: f"{v}1"),
    Planted("a subcommand", r"command line > store > subcommands", without_last),
    Planted("a public name", r"public names > all", without_last),
    Planted("a parameter of a function", r"public names > parameters > evaluate", swapped),
    Planted("a protocol of a task", r"protocols > pose/relative", without_last),
    Planted("a method of a family", r"lists > patches", without_last),
    Planted("a tag of a report", r"html tags", other_tag),
    Planted("a number in a cell of a report", r"html cells", lambda v: [*v[:-1], f"{v[-1]}0"]),
    Planted("a pixel of a figure", r"pixels > .*", other_hash),
    Planted("a row of a LaTeX or Markdown table", r"table rows", swapped),
    Planted("a row of a CSV table", r"table > rows", swapped),
    Planted("a column of a Parquet table", r"table > columns", without_last),
    Planted("a tag of a served page", r"pages > .* > html tags", other_tag),
    Planted("a status code of a page", r"pages > .* > status", lambda v: v + 1),
    Planted("a header of a page", r"pages > .* > headers > content-security-policy", lambda v: v[:-6]),
    Planted("a picture of a served case", r"pages > /picture.* > pixels", lambda v: [other_hash(v[0])]),
    Planted("a table printed by a drop-in script", r"printed > results", swapped),
    Planted("a help word", r"help > run", reworded, counts=False),
    Planted("a word of a warning", r"warnings issued", reworded, counts=False),
    Planted("a word of a note", r"notes > .*", reworded, counts=False),
    Planted("a word of an error", r"messages", reworded, counts=False),
    Planted("a word of a page", r"pages > .* > texts", reworded, counts=False),
    Planted("a number in a note", r"notes > .*", renumbered, counts=False, flagged=True),
)


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield paths and values; a list of plain values is one leaf."""
    if isinstance(tree, dict):
        for key, inner in tree.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path, tree


def fits(planted: Planted, value: Any) -> bool:
    """Return whether a change applies to a value."""
    try:
        return repr(planted.change(value)) != repr(value)
    except (TypeError, IndexError, AttributeError, StopIteration, ValueError):
        return False


def find(snapshot: Any, planted: Planted) -> tuple[str, tuple[str, ...], Any] | None:
    """Return the first cell and path where a change can be planted."""
    pattern = re.compile(planted.path)
    for name, cell in snapshot["cells"].items():
        for path, value in leaves(cell.get("values" if planted.counts else "words", {})):
            if (
                pattern.fullmatch(" > ".join(path))
                and value not in (None, 0, [], "")
                and fits(planted, value)
            ):
                return name, path, value
    return None


def seen(snapshot: Any, other: Any, planted: Planted) -> str:
    """Plant one change in `other`, compare its cell, and restore it; return an empty text if it is found."""
    found = find(other, planted)
    if found is None:
        return "no place to plant it"
    name, path, value = found
    tree = other["cells"][name]["values" if planted.counts else "words"]
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = planted.change(value)
    differences = compare_snapshots(*({"cells": {name: s["cells"][name]}} for s in (snapshot, other)))
    tree[path[-1]] = value
    if planted.counts:
        return "" if len(differences.values) == 1 else f"{len(differences.values)} differences"
    if differences.values or len(differences.words) != 1:
        return f"{len(differences.values)} value differences, {len(differences.words)} of words"
    return "" if len(differences.flagged) == int(planted.flagged) else "the flag is wrong"


def extracted() -> Iterator[tuple[str, bool]]:
    """Yield changes of a real picture and a real page, and whether the extraction shows them."""
    from PIL import Image

    def encoded(image: np.ndarray, form: str) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, form)
        return buffer.getvalue()

    image = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
    changed = image.copy()
    changed[4, 5, 1] ^= 1
    yield "one bit of one pixel", pixels(encoded(image, "PNG")) != pixels(encoded(changed, "PNG"))
    yield (
        "another encoding of the same pixels (not counted)",
        pixels(encoded(image, "PNG")) == pixels(encoded(image, "TIFF")),
    )
    place = Place(Path("/nowhere/data"), Path("/nowhere/work"))
    text = '<main><p class="lead">Three runs</p><table><tr><td class="num">12.3</td></tr></table></main>'
    values, words = page_parts(place, text)
    yield "an HTML class", page_parts(place, text.replace("lead", "head"))[0] != values
    yield "a number in an HTML cell", page_parts(place, text.replace("12.3", "12.4"))[0] != values
    other = page_parts(place, text.replace("Three runs", "3 runs of the store"))
    yield "a phrase of an HTML page (words only)", other[0] == values and other[1] != words


def plant_all(snapshot: Any, other: Any) -> int:
    """Plant every change in turn; print the results and return the exit code."""
    results = [(p.name, "words" if not p.counts else "value", seen(snapshot, other, p)) for p in CHANGES]
    gone = other["cells"].pop(next(iter(other["cells"])))
    missing = compare_snapshots(snapshot, other).values
    results.append(
        ("a missing cell", "value", "" if len(missing) == 1 and gone else f"{len(missing)} differences")
    )
    results += [(name, "extraction", "" if good else "not seen") for name, good in extracted()]
    for name, kind, problem in results:
        print(f"{'MISSED' if problem else 'found '}  {kind:10}  {name}{f': {problem}' if problem else ''}")
    good = sum(not problem for *_, problem in results)
    print(f"{good} of {len(results)} planted changes found")
    return 0 if good == len(results) else 1
