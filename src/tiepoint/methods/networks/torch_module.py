# SPDX-License-Identifier: BSD-3-Clause
"""Torch networks from a user's files: ``torchscript:FILE`` and ``torch:FILE.py:CLASS?weights=FILE``."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.formatting import first_few
from ...core.hashing import hash_file
from ...core.plugins import check_distance, distance_of
from ..identity import config_of
from ..parameters import Text
from ..patches.declared_input import declared_form
from ..spec import Stage, instantiate, own_name, parameters_of
from ..user_code import UserFactory, load_from_file
from .batches import checked_file
from .torch_runner import NetworkRunner, check_torch_device, plain_float32

Array = NDArray[Any]
_CLASS_IN_FILE = re.compile(r"^(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)$")
_INSIDE = ("state_dict", "model_state_dict", "model", "extractor")
"""Keys of a checkpoint under which its state dict may be stored."""
_NAMED = 5
SIDE = 32


class TorchScript:
    """A scripted or traced patch network: float (n, 1, size, size) to (n, d).

    A TorchScript file is a program that torch executes. It can read and write files. Load only trusted files.
    """

    libraries = ("numpy", "torch")

    def __init__(
        self,
        path: str,
        size: int = SIDE,
        input: str = "unit",
        distance: str = "l2",
        batch: int | None = None,
        device: str = "cpu",
    ) -> None:
        file = checked_file(path, "TorchScript file")
        self.distance = check_distance(distance, path)
        self.device = check_torch_device(device, path)
        try:
            self.network = torch.jit.load(str(file), map_location=self.device).eval()
        except (RuntimeError, ValueError) as e:
            reason = str(e).strip().splitlines()[0].partition(". ")[0]
            raise InputError(f"{path}: torch cannot load this file as TorchScript: {reason}") from e
        self.name = f"torchscript:{file.name}"
        self.runner = NetworkRunner(
            self.network, size=size, intensity=input, device=self.device, where=self.name, batch=batch
        )
        self.warnings = self.runner.warnings
        self.weight_hashes = {file.name: hash_file(file)}
        self.config = {"size": size, "input": input, **self.runner.config(batch)}
        if self.runner.on_device:
            self.describe_stream = self.runner.stream

    def describe(self, patches: Array) -> Array:
        """Return the descriptors (n, d) of patches (n, s, s)."""
        return self.runner.describe(patches)


class LoadedModule:
    """A user's `nn.Module` on a device: from ``FILE.py:CLASS``, or a copy of a module in memory.

    `params` are passed to the class or function, and also `device` if it has a parameter of that name. A
    module object is copied, so the original keeps its mode and device. `known` is the config. `unknown` is
    the reason if the config does not fully determine the output, else None.
    """

    def __init__(self, given: Any, weights: str | None, device: str, params: Mapping[str, Any]) -> None:
        if isinstance(given, torch.nn.Module):
            self.name, owner, self.constructor = type(given).__name__, given, None
            self.module, device = _copied(given), _place(given, device)
            self._inside: Callable[[Any], Any] = lambda function: function
        else:
            factory = self.constructor = module_factory(given)
            self.name = factory.name
            owner = instantiate(factory, Stage(factory.name, params), device)
            self.module, self._inside = owner.user_thing, owner.user_modules.inside
            if not isinstance(self.module, torch.nn.Module):
                raise InputError(
                    f"torch:{given} is {type(self.module).__name__}, expected torch.nn.Module; remove torch: "
                    "if it is an ordinary class"
                )
        self.device = check_torch_device(device, self.name)
        if weights is not None:
            file = checked_file(str(weights), "weight file")
            load_weights(self.module, state_dict(file), f"{weights} does not fit {self.name}")
        self.module = self.module.eval().to(self.device)
        own = own_name(self.module)
        self.name = own or (self.name if owner is given else f"torch:{self.name}")
        thing = self.module if owner is given else owner
        self.known, self.unknown = config_of(
            thing, distance=distance_of(self.module), device=str(self.device), on_bad="error"
        )

    def has(self, edge: str) -> bool:
        """Return whether the module has a method named `edge`."""
        return callable(getattr(self.module, edge, None))

    def setting(self, name: str, given: Any, default: Any) -> Any:
        """Return `given` if it is not None, else the module's attribute `name`, else the default."""
        if given is not None:
            return given
        own = getattr(self.module, name, None)
        return own if isinstance(own, type(default)) else default

    def call(self, edge: str | None = None) -> Callable[..., Any]:
        """Return the module, or its method `edge`, as a function that runs without gradients or TF32.

        Imports of the user's file work inside the call.
        """
        function = self._inside(getattr(self.module, edge or "__call__"))

        def called(*given: Any) -> Any:
            with plain_float32():
                return function(*given)

        return called


class TorchPatches:
    """``torch:FILE.py:CLASS``: a patch network as `nn.Module`, float (n, 1, size, size) to (n, d).

    `weights` is a state dict, or a checkpoint that contains one. The options `size`, `input` and `distance`
    default to attributes of the module. `size` and `input` are also passed to a constructor that has such
    parameters, and all other parameters always are. A module with its own ``describe(patches)`` receives
    patches in the form that it declares, like any other class.
    """

    libraries = ("numpy", "torch")

    def __init__(
        self,
        path: Any,
        weights: str | None = None,
        size: int | None = None,
        input: str | None = None,
        distance: str | None = None,
        batch: int | None = None,
        device: str = "cpu",
        **params: Text,
    ) -> None:
        ours = {"size": size, "input": input}
        loaded = LoadedModule(path, weights, device, {**shared_settings(path, ours), **params})
        self.name, self.uncached_reason, self.constructor = loaded.name, loaded.unknown, loaded.constructor
        self.distance = check_distance(distance or distance_of(loaded.module), self.name)
        self.zero_rows_are_valid = bool(getattr(loaded.module, "zero_rows_are_valid", False))
        self.config: dict[str, Any] = {"module": loaded.known, "on": str(loaded.device)}
        self.warnings: list[str] = []
        if loaded.has("describe"):
            check_unused(ours | {"batch": batch}, path, f"{self.name} describes patches itself")
            form, call = declared_form(loaded.module, self.name), loaded.call("describe")
            self.describe = lambda patches: call(form.convert(patches))
            self.config |= form.config()
            return
        side, scale = loaded.setting("size", size, SIDE), loaded.setting("input", input, "unit")
        self.runner = NetworkRunner(
            loaded.call(), size=side, intensity=scale, device=loaded.device, where=self.name, batch=batch
        )
        self.warnings = self.runner.warnings
        self.describe = self.runner.describe
        self.config |= {"size": side, "input": scale, **self.runner.config(batch)}
        if self.runner.on_device:
            self.describe_stream = self.runner.stream


def module_factory(path: Any) -> UserFactory:
    """Return the factory that creates the module ``FILE.py:CLASS``."""
    found = _CLASS_IN_FILE.match(str(path))
    if found is None:
        raise InputError(
            f"torch:{path} names no class; write torch:FILE.py:CLASS?weights=FILE (for TorchScript files, "
            "torchscript:FILE)"
        )
    return load_from_file(found["file"], found["name"])


def shared_settings(path: Any, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in `ours` for which the constructor has a parameter of the same name."""
    if not isinstance(path, str):
        return {}
    known = parameters_of(module_factory(path))
    return {k: v for k, v in ours.items() if v is not None and k in known}


def check_unused(ours: Mapping[str, Any], path: Any, why: str) -> None:
    """Raise an error for settings in `ours` that have no effect and are not passed to the constructor."""
    taken = shared_settings(path, ours)
    for key in (k for k, v in ours.items() if v is not None and k not in taken):
        raise InputError(f"`{key}` has no effect, because {why}; remove it")


def _copied(module: Any) -> Any:
    try:
        return copy.deepcopy(module)
    except Exception as e:  # attributes of a user's module may raise any exception
        raise InputError(
            f"the module {type(module).__name__} cannot be copied ({type(e).__name__}: {e}); pass its class "
            "and weights as torch:FILE.py:CLASS?weights=FILE"
        ) from e


def _place(module: Any, device: str) -> str:
    """Return the device to run on: `device`, or the module's own device if `device` is ``cpu``."""
    tensor = next(iter([*module.parameters(), *module.buffers()]), None)
    return device if tensor is None or device != "cpu" else str(tensor.device)


def required_inputs(module: Any) -> int:
    """Return the number of required arguments of a module's `forward`."""
    found = parameters_of(module.forward).values()
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in plain and p.default is p.empty for p in found)


def state_dict(file: Path) -> Mapping[str, Any]:
    """Load the weights of a file or checkpoint. Only tensors are loaded, never code."""
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as e:  # pickle, zip and torch errors, without a common base
        reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise InputError(f"{file}: torch cannot safely load this file as weights: {reason}") from e
    inner = next((loaded[k] for k in _INSIDE if isinstance(loaded, dict) and k in loaded), loaded)
    state = inner if isinstance(inner, dict) else loaded
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise InputError(f"{file} contains no state dict; use torch.save(module.state_dict(), FILE)")
    return {k.removeprefix("module."): v for k, v in state.items()}


def load_weights(network: Any, state: Mapping[str, Any], complaint: str) -> None:
    """Load weights into a network. If names are missing or unexpected, the error lists them."""
    own = network.state_dict()
    wrong = {
        "missing": [k for k in own if k not in state],
        "unexpected": [k for k in state if k not in own],
        "of another shape": [k for k, v in own.items() if k in state and v.shape != state[k].shape],
    }
    if problems := [f"{what}: {first_few(names, _NAMED)}" for what, names in wrong.items() if names]:
        raise InputError(f"{complaint}: {'; '.join(problems)}")
    try:
        network.load_state_dict(dict(state), strict=True)
    except RuntimeError as e:
        raise InputError(f"{complaint}: {' '.join(str(e).split())[:300]}") from e
