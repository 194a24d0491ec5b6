# SPDX-License-Identifier: BSD-3-Clause
"""The ids of a run and of its method: one function each for every way a run comes into being."""

from __future__ import annotations

from ..core.hashing import hash_json
from .stored_run import Manifest


def run_id(manifest: Manifest) -> str:
    """Id of the run: the method, the task, the data and the lists; never the protocols.

    >>> from .manifest import DatasetFacts, MethodFacts
    >>> method, dataset = MethodFacts(name="a", family="dense"), DatasetFacts(hash="0", name="d")
    >>> one = Manifest(task="t", method=method, dataset=dataset)
    >>> run_id(one) == run_id(one.model_copy(update={"protocols": ("exact",)}))
    True
    """
    method = manifest.method
    made_by = [method.config, method.distance] if manifest.content is None else manifest.content
    return hash_json([method.name, made_by, manifest.task, manifest.dataset.hash, manifest.lists])[:12]


def method_id(manifest: Manifest) -> str:
    """Identity of a method: name and everything that determines its output."""
    m = manifest.method
    return hash_json([m.name, m.family, m.config])
