# SPDX-License-Identifier: BSD-3-Clause
"""The `cluster` option: the address of a scheduler, local processes, or a YAML file.

A file has sections such as::

slurm:                                   # or pbs, lsf, sge: arguments of dask-jobqueue's class
  queue: normal
  cores: 8
  memory: 32GB
  walltime: "04:00:00"
jobs: 10                                 # number of jobs; or adapt: {minimum: 0, maximum: 40}
lifetime: 3h50m                          # end workers before the queue does
lifetime_stagger: 8m
resources: {GPU: 1}                      # of every worker
security: {tls_ca_file: ca.pem, ...}     # arguments of distributed.Security

scheduler: tls://host:8786               # a running one, or the path of its scheduler file
local: 4                                 # local processes
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...core.errors import InputError, UnknownNameError
from ...formats.json_yaml import read_mapping
from ..costs import cores

QUEUES = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
"""Class names of dask-jobqueue, by section of the cluster file."""

ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://\S+")

_LOCAL = re.compile(r"local(?::(?P<workers>\d+))?")

Count = Annotated[int, Field(ge=1)]


class AdaptiveScaling(BaseModel):
    """Section ``adapt``: minimum and maximum number of jobs for adaptive scaling."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    minimum: Annotated[int, Field(ge=0)] = 0
    maximum: Count


class ClusterFile(BaseModel):
    """A cluster file. Exactly one of the first six fields is set: the kind of cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    slurm: dict[str, Any] | None = None
    pbs: dict[str, Any] | None = None
    lsf: dict[str, Any] | None = None
    sge: dict[str, Any] | None = None
    scheduler: str | None = None
    local: Count | None = None
    jobs: Count | None = None
    adapt: AdaptiveScaling | None = None
    lifetime: str | None = None
    lifetime_stagger: str | None = None
    resources: dict[str, float] = {}
    security: dict[str, Any] | bool | None = None
    threads: Count | None = None
    """Number of kernel threads of a worker. By default the cores are divided among the workers."""


KINDS = ("slurm", "pbs", "lsf", "sge", "scheduler", "local")

OF_QUEUES = ("jobs", "adapt", "lifetime", "lifetime_stagger")


def read_spec(spec: Any) -> tuple[ClusterFile, str]:
    """Parse the `cluster` option. Return the settings, and the name of their source for error messages.

    >>> read_spec("local:2")[0].local, read_spec("tcp://host:8786")[0].scheduler
    (2, 'tcp://host:8786')
    >>> read_spec({"slrum": {}})
    Traceback (most recent call last):
    tiepoint.core.errors.UnknownNameError: unknown key of `cluster` 'slrum'; did you mean 'slurm'? ...
    """
    if isinstance(spec, Mapping):
        return _checked(dict(spec), "`cluster`"), "`cluster`"
    text = str(spec)
    if ADDRESS.fullmatch(text):
        return ClusterFile(scheduler=text), text
    if local := _LOCAL.fullmatch(text):
        return _checked({"local": int(local["workers"] or cores())}, text), text
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(
            "`cluster` must be a scheduler address (tcp://host:8786), local:NUMBER or a YAML file, found "
            f"{text!r}"
        )
    found = read_mapping(path, f"a cluster file has one of the sections {', '.join(KINDS)}")
    return _checked({str(key): value for key, value in found.items()}, text), text


def _checked(found: dict[str, Any], where: str) -> ClusterFile:
    for key in found:
        if key not in ClusterFile.model_fields:
            raise UnknownNameError(f"key of {where}", key, ClusterFile.model_fields)
    kinds = [kind for kind in KINDS if found.get(kind) is not None]
    if len(kinds) != 1:
        found_kinds = " and ".join(kinds) or "none"
        raise InputError(f"{where}: exactly one of {', '.join(KINDS)} is required, found {found_kinds}")
    try:
        file = ClusterFile.model_validate(found)
    except ValidationError as e:
        first = e.errors()[0]
        place = ".".join(str(p) for p in first["loc"])
        raise InputError(f"{where}: {place}: {first['msg']}, found {first.get('input')!r}") from e
    idle = [key for key in OF_QUEUES if found.get(key) is not None and kinds[0] not in QUEUES]
    if idle:
        raise InputError(f"{where}: {', '.join(idle)} applies only to {', '.join(QUEUES)}; remove it")
    if kinds[0] == "scheduler" and file.resources:
        raise InputError(
            f"{where}: resources applies only to workers that tiepoint starts; start your own workers with "
            "--resources"
        )
    if file.jobs is not None and file.adapt is not None:
        raise InputError(f"{where}: jobs and adapt exclude each other; remove one")
    return file
