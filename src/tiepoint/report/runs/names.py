# SPDX-License-Identifier: BSD-3-Clause
"""Unique display names of runs, and user-defined names for papers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from ...core.errors import InputError, UnknownNameError
from ...store.stored_run import Manifest
from ...tasks import stored_task
from ...tasks.info import group_title, short_title

_HASH = re.compile(r"[0-9a-f]{40,64}")
_NOT_SHOWN = ("split", "tasks")
"""Options that split and pair lists already determine."""

_CONTAINERS = ("params", "parts", "libraries", "outside", "state")
"""Configuration keys that only group other keys."""

_READABLE = ("parameter", "option", "split", "origin", "dataset")
"""Kinds of properties that users understand. All other kinds are versions and hashes."""

Fact = tuple[str, str]
"""Kind and key of a property that may differ between runs."""


class NamedRun(Protocol):
    """The attributes of a run that determine its display name."""

    @property
    def id(self) -> str:
        """Id of the run."""

    @property
    def task(self) -> str:
        """Name of the task."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def created_at(self) -> str:
        """Time of the run."""

    @property
    def manifest(self) -> Manifest:
        """Manifest of the run."""


def distinct_names(runs: Sequence[NamedRun]) -> list[str]:
    """Return a name for each run: its method, and the properties that distinguish runs of the method.

    Properties are tried in this order: parameters, options, split, origin (imported or not), dataset, library
    versions, source code, pair lists. A name has as few properties as possible: ``sift (matcher=mutual)``. If
    properties do not distinguish the runs, the name has the date of the run or its id.
    """
    names = [r.method for r in runs]
    same: dict[tuple[str, str], list[int]] = {}
    for i, run in enumerate(runs):
        same.setdefault((run.task, run.method), []).append(i)
    for group in same.values():
        if len({runs[i].id for i in group}) > 1:
            for i, label in zip(group, _labels([runs[i] for i in group]), strict=True):
                names[i] = f"{names[i]} ({label})"
    return names


def data_names(runs: Iterable[NamedRun]) -> dict[str, str]:
    """Return dataset names by hash. If two datasets share a name, add the start of the hash.

    Imported results are skipped, because their dataset is unknown.
    """
    names = {r.manifest.dataset.hash: r.manifest.dataset.name for r in runs if not r.manifest.is_imported}
    count = Counter(names.values())
    return {key: name if count[name] == 1 else f"{name} {key[:8]}" for key, name in names.items()}


def _labels(runs: Sequence[NamedRun]) -> list[str]:
    """Return the shortest labels that distinguish runs of one method."""
    # Defaults of options need the task, so they are read only if options differ.
    differ = any(run.manifest.options != runs[0].manifest.options for run in runs)
    facts = [dict(_facts(run, options_of(run) if differ else {})) for run in runs]
    keys = dict.fromkeys(key for own in facts for key in own)
    columns = {key: [own.get(key, _absent(key)) for own in facts] for key in keys}
    plain = [column for key, column in columns.items() if key[0] in _READABLE]
    hashes = [column for key, column in columns.items() if key[0] not in _READABLE]
    times = [r.created_at for r in runs]
    last = ([time[:10] for time in times], times, [r.id for r in runs])
    goal = len({r.id for r in runs})
    chosen: list[list[str]] = []
    for group in (plain, hashes, *([column] for column in last)):
        group = [column for column in group if len(set(column)) > 1]
        sufficient = next((column for column in group if len(set(column)) == goal), None)
        if sufficient is not None and not chosen:
            return sufficient
        while group and _distinct(chosen) < goal:
            best = max(group, key=lambda column: _distinct([*chosen, column]))
            if _distinct([*chosen, best]) == _distinct(chosen):
                break
            chosen.append(best)
    return [", ".join(parts) for parts in zip(*chosen, strict=True)]


def _distinct(columns: Sequence[Sequence[str]]) -> int:
    return len(set(zip(*columns, strict=True))) if columns else 1


def _facts(run: NamedRun, options: Mapping[str, Any]) -> Iterator[tuple[Fact, str]]:
    """Yield all properties that may differ between runs of a method, most readable properties first."""
    m = run.manifest
    kinds = [(_kind(path, value), _key(path), value) for path, value in _leaves(m.method.config)]
    for key, value in [("distance", m.method.distance), *((k, v) for kind, k, v in kinds if kind == "given")]:
        if value is not None:
            yield ("parameter", key), f"{key}={value}"
    for key, value in sorted(options.items()):
        yield ("option", key), f"{key}={str(value).rpartition('/')[2]}"
    yield ("split", ""), f"split {'not known' if m.split is None else m.split}"
    yield ("origin", ""), "imported" if m.is_imported else "own run"
    yield ("dataset", ""), f"on {m.dataset.name}"
    yield ("data", ""), f"data {m.dataset.hash[:8]}"
    for kind, key, value in kinds:
        if kind == "library":
            yield (kind, key), f"{key} {value}"
    for fit in m.method.fitted:
        yield ("fitted", str(fit["transform"])), f"{fit['transform']} {str(fit['hash'])[:8]}"
    for kind, key, value in kinds:
        if kind == "source":
            yield (kind, key), f"{key} {value[:8] if _HASH.fullmatch(value) else value}"
    yield ("lists", ""), f"lists {m.lists[:8]}"


def options_of(run: NamedRun) -> dict[str, Any]:
    """Return the options of the task that a run used, including defaults."""
    options = _defaults(run.task) | run.manifest.options
    return {key: value for key, value in options.items() if key not in _NOT_SHOWN and value is not None}


@cache
def _defaults(task: str) -> dict[str, Any]:
    fields = stored_task(task).options.model_fields.items()
    return {key: field.get_default(call_default_factory=True) for key, field in fields}


def _leaves(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each value of a nested configuration with its path of keys.

    >>> list(_leaves({"class": "Sift", "params": {"sigma": 1.6}}))
    [(('class',), 'Sift'), (('params', 'sigma'), '1.6')]
    """
    for key, value in sorted(config.items()):
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), str(value)


def _key(path: Sequence[str]) -> str:
    return ".".join(part for part in path if part not in _CONTAINERS)


def _kind(path: Sequence[str], value: str) -> str:
    """Classify a configuration value: `given` by the user, `library` version, or `source` code or data.

    >>> _kind(("params", "sigma"), "1.6"), _kind(("libraries", "cv2"), "5.0.0"), _kind(("revision",), "2")
    ('given', 'library', 'source')
    """
    if "libraries" in path:
        return "library"
    source = path[-1] in ("source", "revision") or path[0] in ("imported", "results")
    return "source" if source or _HASH.fullmatch(value) else "given"


def _absent(key: Fact) -> str:
    """Return the label for a property that a run does not have, such as ``without cv2``.

    >>> _absent(("option", "matcher")), _absent(("library", "cv2"))
    ('default matcher', 'without cv2')
    """
    return f"{'default' if key[0] in ('parameter', 'option') else 'without'} {key[1]}"


@dataclass(frozen=True)
class DisplayNames:
    """Display names of methods, tasks, metrics and groups for papers; see `read_names`.

    >>> display = DisplayNames(methods={"sift": "SIFT"}, groups={"noise=hard": "Hard"})
    >>> display.method("sift (matcher=mutual)", "sift"), display.group("noise=hard"), display.metric("map")
    ('SIFT (matcher=mutual)', 'Hard', 'mAP')
    """

    methods: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    def method(self, name: str, method: str = "") -> str:
        """Return the display name of a run. A suffix in parentheses, such as its split, stays unchanged."""
        if name in self.methods or method not in self.methods:
            return self.methods.get(name, name)
        return self.methods[method] + name.removeprefix(method)

    def task(self, name: str) -> str:
        """Return the display name of a task or of a section, whose title starts with the task name."""
        first, space, rest = name.partition(" ")
        return self.tasks.get(name) or self.tasks.get(first, first) + space + rest

    def metric(self, name: str) -> str:
        """Return the display name of a metric, by default its short title."""
        return self.metrics.get(name) or short_title(name)

    def group(self, name: str) -> str:
        """Return the display name of a group, by default its value: ``hard`` for ``noise=hard``."""
        if name == "all" or name in self.groups:
            return self.groups.get(name, name)
        return ", ".join(self.groups.get(p) or _group_text(p) for p in reversed(name.split(",")))

    def check_unique(self, runs: Sequence[NamedRun]) -> DisplayNames:
        """Raise an error if two methods of these runs share a display name. Return self."""
        taken: dict[str, str] = {}
        for method in sorted({r.method for r in runs}):
            other = taken.setdefault(self.method(method), method)
            if other != method:
                raise InputError(
                    f"{other} and {method} have the same display name {self.method(method)!r}; change one"
                )
        return self


def _group_text(part: str) -> str:
    """Return one part of a group as a short column heading."""
    key, _, value = part.partition("=")
    return value if key in ("benchmark", "negatives") else group_title(part)


def read_names(path: Path) -> DisplayNames:
    """Read display names from a YAML file with sections methods, tasks, metrics and groups."""
    from ...formats.json_yaml import read_yaml

    content = read_yaml(path)
    return parse_names({} if content is None else content, str(path))


def parse_names(found: Any, where: str = "names") -> DisplayNames:
    """Build display names from a nested mapping.

    >>> parse_names({"methods": {"sift": "SIFT"}, "metrics": {"map": "mAP"}}).metric("map")
    'mAP'
    """
    parts = tuple(DisplayNames.__dataclass_fields__)
    if not isinstance(found, Mapping) or not all(isinstance(v, Mapping) for v in found.values()):
        raise InputError(f"{where}: expected sections {', '.join(parts)} with lines `name: display name`")
    for part in found:
        if part not in parts:
            raise UnknownNameError(f"section of {where}", str(part), parts)
    for part, names in found.items():
        for name, text in names.items():
            if not isinstance(text, str | int | float) or isinstance(text, bool) or not str(text).strip():
                raise InputError(
                    f"{where}, {part}: the display name of {name!r} is {text!r}; write text, quoted if needed"
                )
    return DisplayNames(**{part: {str(k): str(v) for k, v in names.items()} for part, names in found.items()})
