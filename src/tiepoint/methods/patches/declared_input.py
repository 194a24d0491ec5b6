# SPDX-License-Identifier: BSD-3-Clause
"""Form in which a method receives patches: data type, channel axis and framework, as its class declares."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError

TYPES = ("uint8", "float32")
FRAMEWORKS = ("numpy", "torch")


@dataclass(frozen=True)
class PatchForm:
    """Form of the patches that ``describe`` receives.

    `input` is ``uint8`` (0 to 255) or ``float32`` (0 to 1). With `channels`, patches have the shape (n, 1,
    side, side). `framework` is ``numpy`` (arrays) or ``torch`` (tensors on the CPU).
    """

    input: str = TYPES[0]
    channels: bool = False
    framework: str = FRAMEWORKS[0]

    def convert(self, patches: NDArray[np.uint8]) -> Any:
        """Convert patches uint8 (n, side, side) to this form.

        >>> made = PatchForm("float32", channels=True).convert(np.full((2, 3, 3), 255, np.uint8))
        >>> made.shape, made.dtype, float(made.max())
        ((2, 1, 3, 3), dtype('float32'), 1.0)
        """
        made: NDArray[Any] = patches
        if self.input == "float32":
            made = patches.astype(np.float32) / np.float32(255)
        if self.channels:
            made = made[:, None]
        if self.framework == "numpy":
            return made
        import torch

        return torch.from_numpy(made if made.flags.writeable else made.copy())

    def config(self) -> dict[str, Any]:
        """Return the part of the cache key that describes the form. Empty for the default form.

        >>> PatchForm().config(), PatchForm("float32").config()
        ({}, {'patches': {'input': 'float32', 'channels': False, 'framework': 'numpy'}})
        """
        return {} if self == PatchForm() else {"patches": asdict(self)}


def declared_form(thing: Any, name: str) -> PatchForm:
    """Return the form that an object declares by its attributes `input`, `channels` and `framework`.

    Attributes of other types are ignored, because a network may use these names for its layers. `input` and
    `framework` must be texts, and `channels` a Boolean.

    >>> class Mine: input, channels = "float32", 64
    >>> declared_form(Mine(), "mine")
    PatchForm(input='float32', channels=False, framework='numpy')
    """
    chosen = {}
    for key, known in (("input", TYPES), ("framework", FRAMEWORKS)):
        value = getattr(thing, key, None)
        if not isinstance(value, str):
            continue
        if value not in known:
            raise UnknownNameError(f"{key} of method {name!r}", value, known)
        chosen[key] = value
    channels = getattr(thing, "channels", False)
    if chosen.get("framework") == "torch" and find_spec("torch") is None:
        raise InputError(
            f"method {name!r} declares framework = 'torch', but torch is missing; run pip install "
            "'tiepoint[learned]'"
        )
    return PatchForm(**chosen, channels=isinstance(channels, bool) and channels)
