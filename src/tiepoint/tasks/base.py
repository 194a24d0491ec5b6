# SPDX-License-Identifier: BSD-3-Clause
"""The task interface: what every task defines. `capabilities` lists what a task may define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ..core.errors import InputError, UnknownNameError
from ..core.hashing import hash_json
from ..core.records import Features, Item, Records, Unit
from ..core.scores import Score
from .info import Column, MetricInfo, TaskInfo
from .options import TaskOptions

__all__ = ["BaseTask", "BaseTaskData", "Column", "MetricInfo", "Task", "TaskData", "TaskInfo"]


class TaskData(Protocol):
    """A task bound to its dataset and options. Opening it runs every check that is cheap.

    Attributes:
        warnings: What the user should know about this data.
        split: Name of the split in use, None for tasks without splits.
        thread_safe_compare: Whether several threads may call `compare` at the same time.
    """

    warnings: Sequence[str]
    split: str | None
    thread_safe_compare: bool

    @cached_property
    def items(self) -> Sequence[Item]:
        """What a method is run on: patch images, images, image pairs."""

    @cached_property
    def units(self) -> Sequence[Unit]:
        """Independent parts of the comparison."""

    @cached_property
    def data_hash(self) -> str:
        """Content hash of the dataset."""

    def read_item(self, key: str) -> Any:
        """Read what a method may see of an item: patches, an image, an image pair. Never ground truth."""

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the records of one unit."""


@runtime_checkable
class Task(Protocol):
    """A published question with its data, ground truth and scores.

    Attributes:
        name: The name users type.
        family: Family of the methods that the task accepts.
        protocols: Sets of conventions that it can be scored under, the default first.
        info: Facts for tables and reports.
        options: Model of its options.
    """

    name: str
    family: str
    protocols: tuple[str, ...]
    info: TaskInfo
    options: type[TaskOptions]

    def open(self, data: Path, options: Mapping[str, Any]) -> TaskData:
        """Bind to a dataset. Report unknown options and bad data in one error."""

    def comparison(self, protocol: str) -> str:
        """Return the comparison that a protocol scores. Protocols with the same comparison share records."""

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from records alone."""


class BaseTaskData(TaskData):
    """Defaults of `TaskData`; a subclass defines `items`, `units`, `read_item` and `compare`."""

    warnings: Sequence[str] = ()
    split: str | None = None
    thread_safe_compare: bool = False

    @cached_property
    def items(self) -> Sequence[Item]:
        """What a method is run on."""
        raise NotImplementedError

    @cached_property
    def units(self) -> Sequence[Unit]:
        """Independent parts of the comparison."""
        raise NotImplementedError

    @cached_property
    def data_hash(self) -> str:
        """Content hash of all items."""
        return hash_json([[item.key, item.content] for item in self.items])


class BaseTask(Task):
    """Defaults of `Task`; a subclass defines `name`, `family`, `open` and `score`.

    Without `info` the scores are shown as fractions, sorted by the first of them.
    """

    protocols: tuple[str, ...] = ("exact",)
    info: TaskInfo = TaskInfo()
    options: type[TaskOptions] = TaskOptions

    def comparison(self, protocol: str) -> str:
        """Return the protocol itself: every protocol has its own records."""
        if protocol not in self.protocols:
            raise UnknownNameError(f"protocol of {self.name}", protocol, self.protocols)
        return protocol


class MissingTask(BaseTask):
    """Stand-in for the task of a stored run whose package is not installed. Its scores can be shown."""

    family = "not installed"
    protocols = ()

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, data: Path, options: Mapping[str, Any]) -> TaskData:
        """Raise an error."""
        raise InputError(f"the task {self.name!r} is not installed; install its package")

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Raise an error."""
        raise InputError(f"the task {self.name!r} is not installed; install its package")


def comparison_version(task: Task, comparison: str) -> int:
    """Return the version of a comparison's records: the highest of the protocols that score it."""
    versions = task.info.protocol_versions
    return max((n for p, n in versions.items() if task.comparison(p) == comparison), default=1)
