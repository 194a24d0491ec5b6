# SPDX-License-Identifier: BSD-3-Clause
"""Names of runs in a table: two different runs never share one. And how a paper calls what they name."""

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
"""Options that say no more than the split and the lists do."""

_ROOMS = ("params", "parts", "libraries")
"""Keys of a configuration that only hold others."""

_PLAIN = ("parameter", "option", "split", "origin", "dataset")
"""Kinds of facts that a reader knows; the others are versions and hashes."""

Fact = tuple[str, str]
"""What may differ (its kind and key), and its value as a reader sees it."""


class NamedRun(Protocol):
    """What a name is made of: a run, or the head of one."""

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
        """When the run was made."""

    @property
    def manifest(self) -> Manifest:
        """How its numbers were made."""


def distinct_names(runs: Sequence[NamedRun]) -> list[str]:
    """The name of each run: its method, and what tells it from other runs of the method on the task.

    Tried in this order: parameters, options, split, origin (imported or not), dataset, versions of libraries,
    source code, lists. The fewest facts that tell the runs apart stand behind the name, as in
    ``sift (matcher=mutual)``; where none does, the date of the run and at last its id.
    """
    names = [r.method for r in runs]
    same: dict[tuple[str, str], list[int]] = {}
    for i, run in enumerate(runs):
        same.setdefault((run.task, run.method), []).append(i)
    for at in same.values():
        if len({runs[i].id for i in at}) > 1:
            for i, label in zip(at, _labels([runs[i] for i in at]), strict=True):
                names[i] = f"{names[i]} ({label})"
    return names


def data_names(runs: Iterable[NamedRun]) -> dict[str, str]:
    """Names of the datasets of runs by their hashes; with the start of the hash where two share a name.

    Imported results do not say what they were made on.
    """
    names = {r.manifest.dataset.hash: r.manifest.dataset.name for r in runs if not r.manifest.is_imported}
    often = Counter(names.values())
    return {key: name if often[name] == 1 else f"{name} {key[:8]}" for key, name in names.items()}


def _labels(runs: Sequence[NamedRun]) -> list[str]:
    """The shortest texts that tell runs of one method apart."""
    # Options that do not differ tell nothing, and their defaults need the code of the task.
    differ = any(run.manifest.options != runs[0].manifest.options for run in runs)
    facts = [dict(_facts(run, options_of(run) if differ else {})) for run in runs]
    keys = dict.fromkeys(key for own in facts for key in own)
    columns = {key: [own.get(key, _absent(key)) for own in facts] for key in keys}
    plain = [column for key, column in columns.items() if key[0] in _PLAIN]
    hashes = [column for key, column in columns.items() if key[0] not in _PLAIN]
    made = [r.created_at for r in runs]
    last = ([text[:10] for text in made], made, [r.id for r in runs])
    goal = len({r.id for r in runs})
    chosen: list[list[str]] = []
    for group in (plain, hashes, *([column] for column in last)):
        group = [column for column in group if len(set(column)) > 1]
        alone = next((column for column in group if len(set(column)) == goal), None)
        if alone is not None and not chosen:
            return alone
        while group and _told(chosen) < goal:
            best = max(group, key=lambda column: _told([*chosen, column]))
            if _told([*chosen, best]) == _told(chosen):
                break
            chosen.append(best)
    return [", ".join(parts) for parts in zip(*chosen, strict=True)]


def _told(columns: Sequence[Sequence[str]]) -> int:
    return len(set(zip(*columns, strict=True))) if columns else 1


def _facts(run: NamedRun, options: Mapping[str, Any]) -> Iterator[tuple[Fact, str]]:
    """Everything that may differ between two runs of a method, what a reader knows best first."""
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
    """Options of the task that a run was made with, also those that were not given."""
    every = _defaults(run.task) | run.manifest.options
    return {key: value for key, value in every.items() if key not in _NOT_SHOWN and value is not None}


@cache
def _defaults(task: str) -> dict[str, Any]:
    fields = stored_task(task).options.model_fields.items()
    return {key: field.get_default(call_default_factory=True) for key, field in fields}


def _leaves(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Values of a nested configuration with their places in it.

    >>> list(_leaves({"class": "Sift", "params": {"sigma": 1.6}}))
    [(('class',), 'Sift'), (('params', 'sigma'), '1.6')]
    """
    for key, value in sorted(config.items()):
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), str(value)


def _key(path: Sequence[str]) -> str:
    return ".".join(part for part in path if part not in _ROOMS)


def _kind(path: Sequence[str], value: str) -> str:
    """What a part of a configuration is: `given` by the user, the version of a `library`, or `source`.

    >>> _kind(("params", "sigma"), "1.6"), _kind(("libraries", "cv2"), "5.0.0"), _kind(("revision",), "2")
    ('given', 'library', 'source')
    """
    if "libraries" in path:
        return "library"
    made = path[-1] in ("source", "revision") or path[0] in ("imported", "results")
    return "source" if made or _HASH.fullmatch(value) else "given"


def _absent(key: Fact) -> str:
    """The label of a run that lacks what others have: it was made with the default.

    >>> _absent(("option", "matcher")), _absent(("library", "cv2"))
    ('default matcher', 'without cv2')
    """
    return f"{'default' if key[0] in ('parameter', 'option') else 'without'} {key[1]}"


@dataclass(frozen=True)
class DisplayNames:
    """What methods, tasks, metrics and groups are called in tables and figures of a paper; see `read_names`.

    >>> called = DisplayNames(methods={"sift": "SIFT"}, groups={"noise=hard": "Hard"})
    >>> called.method("sift (matcher=mutual)", "sift"), called.group("noise=hard"), called.metric("map")
    ('SIFT (matcher=mutual)', 'Hard', 'mAP')
    """

    methods: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    def method(self, name: str, method: str = "") -> str:
        """Of a run by its name in tables; what stands behind the name of its method stays."""
        if name in self.methods or method not in self.methods:
            return self.methods.get(name, name)
        return self.methods[method] + name.removeprefix(method)

    def task(self, name: str) -> str:
        """Of a task, or of a section by its title."""
        first, space, rest = name.partition(" ")
        return self.tasks.get(name) or self.tasks.get(first, first) + space + rest

    def metric(self, name: str) -> str:
        """Of a metric; short words where it has no name."""
        return self.metrics.get(name) or short_title(name)

    def group(self, name: str) -> str:
        """Of a group: as it is called, or else in words, ``hard`` for ``noise=hard``."""
        if name == "all" or name in self.groups:
            return self.groups.get(name, name)
        return ", ".join(self.groups.get(p) or _words(p) for p in reversed(name.split(",")))

    def checked(self, runs: Sequence[NamedRun]) -> DisplayNames:
        """Itself, where it gives no name to two different methods of these runs."""
        taken: dict[str, str] = {}
        for method in sorted({r.method for r in runs}):
            other = taken.setdefault(self.method(method), method)
            if other != method:
                raise InputError(
                    f"{other} and {method} are both called {self.method(method)!r}; name one anew"
                )
        return self


def _words(part: str) -> str:
    """One part of a group as short as the head of a column."""
    key, _, value = part.partition("=")
    return value if key in ("benchmark", "negatives") else group_title(part)


def read_names(path: Path) -> DisplayNames:
    """Display names from a YAML file: sections methods, tasks, metrics, groups of lines ``name: shown``."""
    from ...formats.json_yaml import read_yaml

    found = read_yaml(path)
    return parse_names({} if found is None else found, str(path))


def parse_names(found: Any, where: str = "names") -> DisplayNames:
    """Display names from plain values.

    >>> parse_names({"methods": {"sift": "SIFT"}, "metrics": {"map": "mAP"}}).metric("map")
    'mAP'
    """
    parts = tuple(DisplayNames.__dataclass_fields__)
    if not isinstance(found, Mapping) or not all(isinstance(v, Mapping) for v in found.values()):
        raise InputError(
            f"{where}: expected the sections {', '.join(parts)}, each with lines `name: shown name`"
        )
    for part in found:
        if part not in parts:
            raise UnknownNameError(f"section of {where}", str(part), parts)
    for part, names in found.items():
        _plain(f"{where}, {part}", names.items())
    return DisplayNames(**{part: {str(k): str(v) for k, v in names.items()} for part, names in found.items()})


def _plain(where: str, names: Iterable[tuple[Any, Any]]) -> None:
    for name, text in names:
        if not isinstance(text, str | int | float) or isinstance(text, bool) or not str(text).strip():
            raise InputError(
                f"{where}: {name!r} is called {text!r}; write a text, in quotes where YAML needs them"
            )
