# SPDX-License-Identifier: BSD-3-Clause
"""Named rules that mask times, temporary paths and versions in a snapshot of `equality.py`.

A snapshot masks nothing else. Every rule has a name and a reason; `compare` prints their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rule:
    """A pattern of text, its replacement, and the reason why two equal trees differ in it."""

    name: str
    pattern: re.Pattern[str]
    replacement: str
    reason: str


_UNIT = r"(?:ns|us|µs|ms|s|min|h)"
TEXT_RULES = (
    Rule(
        "time of day",
        re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d| UTC)?"),
        "TIME",
        "a run stores when it was made",
    ),
    Rule("temporary path", re.compile(r"/tmp/[\w.+/-]+"), "TEMPORARY", "temporary names are random"),
    Rule("port", re.compile(r"\b127\.0\.0\.1:\d+"), "127.0.0.1:PORT", "the server takes a free port"),
    Rule(
        "stamp of static files",
        re.compile(r"(\.(?:css|js))\?[0-9a-f]+"),
        r"\1?STAMP",
        "the stamp is a hash of the version and the text of style and script files",
    ),
)
DURATION = Rule(
    "duration",
    re.compile(rf"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)? ?{_UNIT}(?![\w/])"),
    "DURATION",
    "measured seconds differ between two runs",
)
RANDOM = Rule(
    "random token",
    re.compile(r"(?<=token )[\w-]{20,}"),
    "TOKEN",
    "an error suggests a random token; only in words",
)
KEY_RULES: dict[str, str] = {
    "created_at": "time: when a run was made",
    "made": "time: when a run was made",
    "timestamp": "time: when an experiment was made",
    "time_s": "time: seconds of a run",
    "seconds": "time: seconds of an extraction",
    "efficiency": "time: measured cost per item",
    "cost": "time: measured cost per item and memory, as text",
    "processing_time_ms": "time: a column of the workbench view",
    "versions": "version: tiepoint and its libraries",
    "machine": "version: hardware and system",
    "seal": "time: a checksum over text that holds times",
}
"""Keys of JSON objects and columns of tables whose values are masked, with the reason."""
SIZES = re.compile(r"(?:\w*_)?(?:bytes|size)|size_\w+")
"""Keys of ``store`` commands: a file that holds times has a varying number of digits."""
WORD_KEYS = frozenset(
    [
        "about", "note", "notes", "warnings", "warning", "caption", "title", "titles", "help", "message",
        "reason", "why", "error", "sentence", "remarks", "words", "finding", "answer", "summary", "hint",
        "text", "label", "description", "problems", "licence", "figure", "step", "legend",
    ]
)  # fmt: skip
"""Keys of JSON objects whose text is wording: compared as words."""
MASKED = "MASKED"


def is_time(metric: str) -> bool:
    """Return whether a metric is a measured time."""
    return metric.endswith("_ms") or "time" in metric.split("_")


def mask(text: str, *, durations: bool = False) -> str:
    """Apply the rules for text; `durations` also masks measured seconds, for words and pages."""
    for rule in TEXT_RULES:
        text = rule.pattern.sub(rule.replacement, text)
    if durations:
        for rule in (DURATION, RANDOM):
            text = rule.pattern.sub(rule.replacement, text)
    return text


def rule_names() -> list[str]:
    """Return the names of all rules."""
    return (
        [r.name for r in (*TEXT_RULES, DURATION, RANDOM)]
        + [f"key {k}" for k in KEY_RULES]
        + ["sizes in bytes"]
    )


def masked_tree(value: Any, key: str = "", *, sizes: bool = False) -> Any:
    """Return a JSON value with masked keys and masked text."""
    if key in KEY_RULES or (sizes and SIZES.fullmatch(key) and not isinstance(value, Mapping | list)):
        return None if value is None else MASKED
    if sizes and SIZES.fullmatch(key) and isinstance(value, Mapping):
        return dict.fromkeys(map(str, value), MASKED)
    if isinstance(value, Mapping):
        if isinstance(value.get("metric"), str) and is_time(value["metric"]):
            return {
                k: v if k in ("metric", "group", "protocol", "method", "task") else MASKED
                for k, v in value.items()
            }
        return {str(k): masked_tree(v, str(k), sizes=sizes) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [masked_tree(v, key, sizes=sizes) for v in value]
    return mask(value) if isinstance(value, str) else value


def number(value: Any) -> Any:
    """Return a number in a form that JSON holds: all digits, None for NaN, text for infinity."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        found = float(value)
        return found if np.isfinite(found) else None if np.isnan(found) else repr(found)
    return str(value)


def is_row(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a table row without wording; a row is one leaf."""
    return not WORD_KEYS & set(value) and not any(
        isinstance(v, Mapping | list | tuple) for v in value.values()
    )


def split_words(value: Any, path: str = "", key: str = "") -> Iterator[tuple[str, bool, Any]]:
    """Yield the leaves of a JSON value as (path, is wording, leaf).

    Lengths of lists and the order of keys are leaves too, so that the structure counts.
    """
    if isinstance(value, Mapping):
        yield f"{path}/#keys", False, " ".join(map(str, value))
        if path[path.rfind("/") + 1 :].isdigit() and key not in WORD_KEYS and is_row(value):
            yield path, False, [number(v) for v in value.values()]
            return
        for inner, item in value.items():
            wording = str(inner) if str(inner) in WORD_KEYS or key not in WORD_KEYS else key
            yield from split_words(item, f"{path}/{inner}", wording)
    elif isinstance(value, list | tuple):
        yield f"{path}/#length", False, len(value)
        for i, item in enumerate(value):
            yield from split_words(item, f"{path}/{i}", key)
    else:
        yield path, key in WORD_KEYS and isinstance(value, str), number(value)


def json_parts(value: Any, *, sizes: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values and the words of a JSON value, by path, with the masks applied."""
    values: dict[str, Any] = {}
    words: dict[str, Any] = {}
    for path, wording, leaf in split_words(masked_tree(value, sizes=sizes)):
        if wording:
            words[path] = mask(leaf, durations=True)
        else:
            values[path] = leaf
    return values, words
