# SPDX-License-Identifier: BSD-3-Clause
"""What is said of a Dask cluster: the address of a scheduler, processes of this machine, or a YAML file.

What a file may say::

    slurm:                                   # or pbs, lsf, sge: arguments of dask-jobqueue's class
      queue: normal
      cores: 8
      memory: 32GB
      walltime: "04:00:00"
    jobs: 10                                 # keep so many jobs; or adapt: {minimum: 0, maximum: 40}
    lifetime: 3h50m                          # end workers before the queue does
    lifetime_stagger: 8m
    resources: {GPU: 1}                      # of every worker
    security: {tls_ca_file: ca.pem, ...}     # arguments of distributed.Security

    scheduler: tls://host:8786               # one that runs already, or the path of its scheduler file
    local: 4                                 # processes of this machine
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
"""Classes of dask-jobqueue by their section of the file."""

ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://\S+")

_LOCAL = re.compile(r"local(?::(?P<workers>\d+))?")

Count = Annotated[int, Field(ge=1)]


class AdaptiveScaling(BaseModel):
    """``adapt:`` as many jobs as there is work for, between these."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    minimum: Annotated[int, Field(ge=0)] = 0
    maximum: Count


class ClusterFile(BaseModel):
    """A whole file; one of the first six says what kind of cluster it is."""

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
    """Of the kernels in a worker; by default its share of the cores."""


KINDS = ("slurm", "pbs", "lsf", "sge", "scheduler", "local")

OF_QUEUES = ("jobs", "adapt", "lifetime", "lifetime_stagger")


def read_spec(spec: Any) -> tuple[ClusterFile, str]:
    """What is asked for, and what to call it.

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
            "`cluster` is the address of a scheduler (tcp://host:8786), local:NUMBER or a YAML file, found "
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
        said = f"has {' and '.join(kinds)}" if kinds else "has none"
        raise InputError(f"{where}: one of {', '.join(KINDS)} says what kind of cluster it is; it {said}")
    try:
        made = ClusterFile.model_validate(found)
    except ValidationError as e:
        first = e.errors()[0]
        place = ".".join(str(p) for p in first["loc"])
        raise InputError(f"{where}: {place}: {first['msg']}, found {first.get('input')!r}") from e
    idle = [key for key in OF_QUEUES if found.get(key) is not None and kinds[0] not in QUEUES]
    if idle:
        raise InputError(f"{where}: {', '.join(idle)} is for {', '.join(QUEUES)}; leave it out")
    if kinds[0] == "scheduler" and made.resources:
        raise InputError(
            f"{where}: resources is for workers that are started here; start those of the scheduler with "
            "--resources"
        )
    if made.jobs is not None and made.adapt is not None:
        raise InputError(f"{where}: say jobs or adapt, not both")
    return made
