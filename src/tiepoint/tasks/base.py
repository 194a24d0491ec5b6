# SPDX-License-Identifier: BSD-3-Clause
"""Interface that every task implements. The module `capabilities` lists optional methods."""

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
    """A task opened on a dataset with given options. Every inexpensive check of the data has passed.

    Attributes:
        warnings: Warnings about this data, shown to the user.
        split: Name of the split in use. None for tasks without splits.
        thread_safe_compare: Whether several threads may call `compare` at the same time.
    """

    warnings: Sequence[str]
    split: str | None
    thread_safe_compare: bool

    @cached_property
    def items(self) -> Sequence[Item]:
        """Inputs of the methods: patch images, images or image pairs."""

    @cached_property
    def units(self) -> Sequence[Unit]:
        """Parts of the evaluation that can be computed independently, e.g. one scene or image pair each."""

    @cached_property
    def data_hash(self) -> str:
        """Content hash of the dataset, part of the cache keys."""

    def read_item(self, key: str) -> Any:
        """Read the input of a method: patches, an image or an image pair. It never contains ground truth."""

    def compare(self, unit: Unit, features: Features, comparison: str) -> Records:
        """Compute the records (stored results) of a unit. `comparison` names their kind; see `Task`."""


@runtime_checkable
class Task(Protocol):
    """A benchmark task, which defines its data, ground truth and scores.

    Attributes:
        name: Name of the task on the command line and in Python.
        family: Family of the methods that the task accepts.
        protocols: Names of the scoring protocols. The first one is the default.
        info: Descriptions for tables and reports.
        options: Model class of the task's options.
    """

    name: str
    family: str
    protocols: tuple[str, ...]
    info: TaskInfo
    options: type[TaskOptions]

    def open(self, data: Path, options: Mapping[str, Any]) -> TaskData:
        """Open a dataset. Report unknown options and bad data in one error."""

    def comparison(self, protocol: str) -> str:
        """Return the name of the records that a protocol scores. Protocols may share records."""

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores under a protocol from the records alone."""


class BaseTaskData(TaskData):
    """Base class of `TaskData`. A subclass defines `items`, `units`, `read_item` and `compare`."""

    warnings: Sequence[str] = ()
    split: str | None = None
    thread_safe_compare: bool = False

    @cached_property
    def items(self) -> Sequence[Item]:
        """Inputs of the methods."""
        raise NotImplementedError

    @cached_property
    def units(self) -> Sequence[Unit]:
        """Parts of the evaluation that can be computed independently."""
        raise NotImplementedError

    @cached_property
    def data_hash(self) -> str:
        """Content hash of all items."""
        return hash_json([[item.key, item.content] for item in self.items])


class BaseTask(Task):
    """Base class of `Task`. A subclass defines `name`, `family`, `open` and `score`.

    Without `info`, reports show the scores as fractions and sort by the first score.
    """

    protocols: tuple[str, ...] = ("exact",)
    info: TaskInfo = TaskInfo()
    options: type[TaskOptions] = TaskOptions

    def comparison(self, protocol: str) -> str:
        """Return the name of the protocol: by default, each protocol has its own records."""
        if protocol not in self.protocols:
            raise UnknownNameError(f"protocol of {self.name}", protocol, self.protocols)
        return protocol


class MissingTask(BaseTask):
    """Placeholder for the task of a stored run whose package is not installed. Stored scores can be shown."""

    family = "not installed"
    protocols = ()

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, data: Path, options: Mapping[str, Any]) -> TaskData:
        """Raise an error that asks the user to install the task's package."""
        raise InputError(f"the task {self.name!r} is not installed; install the package that provides it")

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Raise an error that asks the user to install the task's package."""
        raise InputError(f"the task {self.name!r} is not installed; install the package that provides it")


def comparison_version(task: Task, comparison: str) -> int:
    """Return the version of a comparison's records: the highest version among its protocols.

    The comparison ``PROTOCOL->exact``, which computes the intermediate steps from a protocol to `exact`, has
    the version of that protocol.
    """
    versions, own = task.info.protocol_versions, comparison.partition("->")[0]
    return max((n for p, n in versions.items() if task.comparison(p) == own), default=1)
