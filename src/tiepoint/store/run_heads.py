# SPDX-License-Identifier: BSD-3-Clause
"""What a list shows of the runs of a store, read without their scores."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property

import sqlalchemy as sa

from .schema import methods, runs
from .store import Store
from .stored_run import Manifest


@dataclass(frozen=True)
class RunHead:
    """What a list shows of a run; its manifest is read when it is looked at."""

    id: str
    task: str
    method: str
    status: str
    created_at: str
    protocols: tuple[str, ...]
    text: str = field(repr=False)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the run."""
        return Manifest.from_text(self.text)

    @property
    def dataset(self) -> str:
        """Name of the dataset, for which the long rest of the manifest need not be read."""
        start = _BEFORE_METHOD.match(self.text)
        if start is not None:
            _, end = _DECODER.raw_decode(self.text, start.end())
            if self.text.startswith(_BEFORE_DATASET, end):
                found, _ = _DECODER.raw_decode(self.text, end + len(_BEFORE_DATASET))
                return str(found["name"])
        return self.manifest.dataset.name


_DECODER = json.JSONDecoder()

_BEFORE_METHOD = re.compile(r'\{"task": "(?:[^"\\]|\\.)*", "method": ')

_BEFORE_DATASET = ', "dataset": '

_PROTOCOLS = """with recursive p(run, protocol) as (
  select id, (select min(protocol) from scores where run_id = runs.id) from runs
  union all
  select run, (select min(protocol) from scores where run_id = p.run and protocol > p.protocol) from p
  where protocol is not null
) select run, protocol from p where protocol is not null"""
"""Protocols of every run, from one to the next in the index, past the many scores of each."""


def run_names(store: Store, *, task: str | None = None) -> list[tuple[str, str, str]]:
    """Id, method and status of all runs, or those of a task, newest last."""
    query = (
        sa.select(runs.c.id, methods.c.name, runs.c.status)
        .join(methods, methods.c.id == runs.c.method_id)
        .order_by(runs.c.created_at, runs.c.id)
    )
    if task is not None:
        query = query.where(runs.c.task == task)
    with store.reading() as connection:
        return [(i, name, status) for i, name, status in connection.execute(query)]


def load_heads(store: Store, *, task: str | None = None) -> list[RunHead]:
    """What a list shows of all runs, or those of a task, newest last; no score is read."""
    query = (
        sa.select(runs.c.id, runs.c.task, methods.c.name, runs.c.status, runs.c.created_at, runs.c.manifest)
        .join(methods, methods.c.id == runs.c.method_id)
        .order_by(runs.c.created_at, runs.c.id)
    )
    if task is not None:
        query = query.where(runs.c.task == task)
    with store.reading() as connection:
        have: dict[str, list[str]] = {}
        for run, protocol in connection.execute(sa.text(_PROTOCOLS)):
            have.setdefault(run, []).append(protocol)
        found = connection.execute(query).all()
    return [
        RunHead(i, t, m, "failed" if status == "error" else status, made, tuple(have.get(i, ())), text)
        for i, t, m, status, made, text in found
    ]
