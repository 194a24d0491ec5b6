# SPDX-License-Identifier: BSD-3-Clause
"""Compute the matches and the steadiness of methods on image pairs. Cache keys equal those of runs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError, StoreError
from ...core.records import Features, ImageFacts, Item, Records, Unit
from ...datasets.image_pairs.folder import (
    LIMIT,
    NamedPair,
    Names,
    draw_more,
    draw_pairs,
    image_names,
    listed_pairs,
    named_pairs,
    without_equal,
)
from ...formats.image.reader import read_orientation
from ...geometry.two_view.estimator import import_library
from ...methods.base import Method
from ...metrics.steadiness import Sizes, steadiness
from ...stats.steady_choice import MIN_PAIRS
from ...store.maintenance.journal import FOLDER as JOURNAL_FOLDER
from ...store.maintenance.journal import finish_changes
from ...store.maintenance.usage import note_uses, uses_file
from ...store.status_files import track_progress
from ...store.store import Store
from ...tasks.base import BaseTaskData, MissingTask
from ...tasks.pairs.data import PairMatches, matches_of
from ..context import Progress, RunContext, count_steps, no_progress, set_kernel_device
from ..engine import discard_if_files_changed
from ..feature_pipeline import FeaturePipeline
from ..oracle import ORACLE
from ..request import RunRequest
from ..session import RunSession
from .candidates import is_classical, is_dense_config, is_grid
from .result import Candidate, Choice, PairOutcome

TASK = "choose"


@dataclass(frozen=True)
class ChoiceRequest:
    """Methods to choose from, and image pairs to compare them on.

    `pairs` is a list of pairs of any known layout. Without it, pairs are sampled from the folder `images`.
    `limit` is the number of pairs to sample, by default `LIMIT`, or all pairs of a list.
    """

    methods: tuple[Any, ...]
    images: Path
    pairs: Path | None = None
    limit: int | None = None
    device: str = "cpu"

    def check(self) -> None:
        """Raise an error for settings that cannot be used, and if PoseLib is missing."""
        if len(self.methods) < 2:
            raise InputError(f"choose needs at least two methods, found {len(self.methods)}; add a method")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"`limit` is {self.limit}; expected a number of pairs, at least 1")
        import_library("poselib")


class FolderPairs(BaseTaskData):
    """Image pairs of a folder as input of methods. Their cache keys equal those of tasks on image pairs."""

    def __init__(self, pairs: Sequence[NamedPair]) -> None:
        self.pairs = {named.pair.name: named.pair for named in pairs}

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per pair."""
        found = []
        for name, pair in self.pairs.items():
            paths = (pair.image0, pair.image1)
            facts = tuple(
                ImageFacts("" if path is None else path.as_posix(), size)
                for path, size in zip(paths, pair.sizes(), strict=True)
            )
            found.append(Item(name, pair.content(), images=facts))
        return tuple(found)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """No units: nothing is compared with ground truth."""
        return ()

    def read_item(self, key: str) -> Any:
        """Read both images of a pair."""
        return self.pairs[key].payload()

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Raise an error, because there are no units."""
        raise NotImplementedError


def choose_method(
    request: ChoiceRequest,
    store: Store,
    progress: Progress = no_progress,
    *,
    report: Callable[[str], None] = print,
) -> Choice:
    """Compare methods on pairs of images without ground truth. Store their matches but no run.

    If fewer than five sampled pairs are confirmed, further random pairs are added once.

    Raises:
        InputError: Fewer than two images or methods, equal methods, dense and sparse methods together, or
            PoseLib is missing.
    """
    request.check()
    names: list[str] = []
    drawn: list[Names] = []
    has_poses = False
    if request.pairs is not None:
        listed, has_poses = listed_pairs(request.pairs, request.images, request.limit)
    else:
        names = image_names(request.images)
        drawn = draw_pairs(names, request.limit or LIMIT)
        listed = named_pairs(request.images, drawn)
    label = "choice among " + ", ".join(str(m) for m in request.methods)
    with (
        track_progress(store.root, label, progress) as progress,
        RunSession(store.root, None, report) as session,
    ):
        work = _Work(request, store, session, progress)
        session.callback(work.release)
        work.add(listed)
        choice = work.choice(len(names))
        few = len(choice.order.pairs) < MIN_PAIRS
        if few and (more := draw_more(names, drawn, request.limit or LIMIT)):
            work.add(named_pairs(request.images, more))
            choice = replace(work.choice(len(names)), added=len(more))
        work.close()
    return replace(choice, truth=request.pairs if has_poses else None)


class _Work:
    """State of a choice in progress: methods, pairs and outcomes until now."""

    def __init__(self, request: ChoiceRequest, store: Store, session: RunSession, progress: Progress) -> None:
        self.request, self.store, self.session, self.progress = request, store, session, progress
        set_kernel_device({"device": request.device})
        self.methods = _methods(request, store.root)
        self.dense = {name: is_dense_config(method.config) for name, method in self.methods.items()}
        self.pairs: dict[str, NamedPair] = {}
        self.sizes: dict[str, Sizes] = {}
        self.equal: list[str] = []
        self.outcomes: dict[str, dict[str, PairOutcome]] = {name: {} for name in self.methods}
        self.contexts: list[RunContext] = []
        self.use = f"{TASK}-{uuid.uuid4().hex[:12]}"
        if (store.root / JOURNAL_FOLDER).is_dir():
            finish_changes(store)
        matched = {name: "matcher" in method.config for name, method in self.methods.items()}
        _refuse_both_kinds(self.dense, [name for name, is_so in matched.items() if is_so])

    def add(self, listed: Sequence[NamedPair]) -> None:
        """Compute the outcomes of further pairs. Exclude pairs of equal images."""
        self.progress("images", 0, 1)
        kept, equal = without_equal(listed)
        self.progress("images", 1, 1)
        self.equal += [named.key for named in equal]
        if not kept and not self.pairs:
            raise InputError(f"{self.request.images}: all images have equal pixels; add other images")
        contexts = self._contexts(kept)
        for context in contexts.values():
            if context.method.check is not None:
                context.method.check(list(context.opened.items))
        keys = [key for context in contexts.values() for key in context.feature_keys.values()]
        note_uses(self.store, self.use, TASK, keys)
        for named in kept:
            self.pairs[named.key] = named
            self.sizes[named.key] = named.pair.sizes()
        failures = {name: _extract(context, self.progress) for name, context in contexts.items()}
        step = count_steps(self.progress, "steadiness", len(kept) * len(contexts))
        for name, context in contexts.items():
            for named in kept:
                self.outcomes[name][named.key] = self._outcome(name, context, named, failures[name])
                step()
        matched = [name for name, o in self.outcomes.items() if any(one.steadiness for one in o.values())]
        _refuse_both_kinds(self.dense, [name for name in matched if not self.dense[name]])
        self.contexts += contexts.values()

    def choice(self, names: int) -> Choice:
        """Return the result until now."""
        candidates = {
            name: Candidate(name, method.spec, is_classical(method.config), self.dense[name])
            for name, method in self.methods.items()
        }
        return Choice(
            self.request.images, candidates, self.pairs, self.outcomes, self.sizes, self.equal,
            names, notes=self._notes(),
        )  # fmt: skip

    def release(self) -> None:
        """Let `prune_store` remove the matches, because no run uses them."""
        uses_file(self.store.root, self.use).unlink(missing_ok=True)

    def close(self) -> None:
        """Raise an error if a file of a method changed while the method ran."""
        for context in self.contexts:
            discard_if_files_changed(context)

    def _contexts(self, kept: Sequence[NamedPair]) -> dict[str, RunContext]:
        """Return the context of every method. Raise an error if two methods are equal."""
        opened = FolderPairs(kept)
        contexts: dict[str, RunContext] = {}
        seen: dict[tuple[Any, ...], str] = {}
        for (name, method), given in zip(self.methods.items(), self.request.methods, strict=True):
            context = RunContext(MissingTask(TASK), opened, method, self.store.features, self.store.records)
            context = self.session.context(context, RunRequest(given, TASK, self.request.images))
            own = (method.distance, *context.feature_keys.values())
            if own in seen and kept:
                raise InputError(
                    f"{seen[own]} and {name} are equal by content; choose between different methods"
                )
            seen[own] = name
            contexts[name] = context
        return contexts

    def _outcome(
        self, name: str, context: RunContext, named: NamedPair, failures: Mapping[str, str]
    ) -> PairOutcome:
        item = named.pair.name
        if item in failures:
            return PairOutcome(None, failure=failures[item])
        arrays = context.arrays(item)
        matches = matches_of(arrays, f"{name} on {item}")
        self.dense[name] |= "flow" in arrays or is_grid(matches.points0)
        meta = context.features.meta(context.feature_keys[item]) or {}
        return outcome_of(matches, self.sizes[named.key], named.key, float(meta.get("time_s", 0.0)))

    def _notes(self) -> tuple[str, ...]:
        notes = [note for method in self.methods.values() for note in method.notices]
        notes += [c.method.notice for c in self.contexts if c.method.notice]
        paths = {p for n in self.pairs.values() for p in (n.pair.image0, n.pair.image1) if p is not None}
        rotated = sum(read_orientation(path) != 1 for path in paths)
        if rotated:
            notes.append(
                f"{rotated} of {len(paths)} images have an EXIF rotation, which tiepoint ignores; rotate the "
                "pixels first"
            )
        return tuple(dict.fromkeys(notes))


def _refuse_both_kinds(dense: Mapping[str, bool], sparse: Sequence[str]) -> None:
    """Raise an error if both dense and sparse methods are to be compared."""
    known = [name for name, is_so in dense.items() if is_so]
    if known and sparse:
        raise InputError(
            f"{known[0]} has dense matches (a flow or a grid) and {sparse[0]} has sparse ones: dense "
            "matches agree with each other even where all are wrong, so the two methods cannot be "
            "ranked; choose among dense methods only or among sparse methods only"
        )


def outcome_of(matches: PairMatches, sizes: Sizes, key: str, seconds: float) -> PairOutcome:
    """Return the outcome of a method on a pair from its matches."""
    s = steadiness(matches.points0, matches.points1, sizes, key)
    a, b = matches.points0[s.rows], matches.points1[s.rows]
    unit = max(*sizes[0], *sizes[1]) / 1000
    still = len(a) > 0 and sizes[0] == sizes[1] and float(np.mean(np.abs(a - b).max(axis=1) < unit)) >= 0.5
    good = s.share >= 0.5
    return PairOutcome(s, seconds, still, rotation_deg(a[good], b[good]), a, b)


def rotation_deg(a: Any, b: Any) -> float:
    """Return the rotation, 0 to 180, of the similarity that fits matches (n, 2), (n, 2) best.

    NaN below two matches, or if a similarity explains less than half of their variance.

    >>> round(rotation_deg(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[5.0, 5.0], [5.0, 7.0]])))
    90
    """
    if len(a) < 2:
        return float("nan")
    x, y = a - a.mean(axis=0), b - b.mean(axis=0)
    along, across = (x * y).sum(), (x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0]).sum()
    explained = along**2 + across**2 >= 0.5 * (x * x).sum() * (y * y).sum()
    return float(np.degrees(abs(np.arctan2(across, along)))) if explained else float("nan")


def _extract(context: RunContext, progress: Progress) -> dict[str, str]:
    """Compute the missing matches of a method. Return the error messages of pairs on which it failed."""
    missing = {k: (k, key) for k, key in context.feature_keys.items() if key not in context.features}
    step = count_steps(progress, f"{context.method.name}: features", len(missing))
    found = FeaturePipeline(context).run(missing, step, None)
    for failure in found:
        if isinstance(failure.cause, StoreError):
            raise failure.cause
    return {failure.name: failure.error for failure in found}


def _methods(request: ChoiceRequest, root: Path) -> dict[str, Method]:
    """Return the resolved methods by name, or by specification if two names are equal."""
    from ...methods.keypoints.spec import locate_keypoint_sets
    from ...methods.resolve import resolve

    found = [
        resolve(locate_keypoint_sets(given, root), family="pairs", device=request.device)
        for given in request.methods
    ]
    if any(method.config.get("method") == ORACLE for method in found):
        raise InputError("the method oracle needs ground truth, which choose does not have; remove it")
    names = [method.name for method in found]
    if len(set(names)) < len(names):
        names = [method.spec or method.name for method in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"method {twice!r} is given twice; remove one, or give objects different names")
    return dict(zip(names, found, strict=True))
