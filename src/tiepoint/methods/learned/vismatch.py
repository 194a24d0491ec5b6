# SPDX-License-Identifier: BSD-3-Clause
"""``vismatch:NAME``: the matchers of vismatch with weights that are already on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import hash_file

Image = NDArray[np.uint8]
_ACTIVE: list[SnapshotFiles] = []
"""The active recording context. Functions that vismatch modules keep from earlier contexts find it here."""

_FETCHING = ("snapshot_download", "hf_hub_download")
"""Functions of huggingface_hub that return paths of cached files."""


class Vismatch:
    """A matcher of vismatch, at the original size of the images.

    `most` limits the keypoints of sparse matchers. The random generators of torch and NumPy are set to `seed`
    before every pair, because some matchers sample their matches. The matcher is loaded without network
    access when the method is created. The cache key contains every file of the Hugging Face snapshots that it
    uses. The matches are those before vismatch's RANSAC.
    """

    libraries = ("numpy", "torch", "vismatch")

    def __init__(self, path: str, most: int = 2048, seed: int = 0, device: str = "cpu") -> None:
        self.matcher_name, self.most, self.seed, self.device = path, most, seed, device
        if find_spec("vismatch") is None:
            raise InputError(
                f"vismatch:{path} needs the package 'vismatch', which requires other versions of OpenCV and "
                "kornia; install tiepoint and vismatch into a new environment, see docs/adding-a-method.md"
            )
        self.name = f"vismatch:{path}"
        self.config = {"matcher": path, "most": most, "seed": seed}
        with SnapshotFiles() as files:
            known = list(import_module("vismatch").available_models)
            if path not in known:
                raise UnknownNameError("matcher of vismatch", path, known)
            try:
                self._matcher: Any = import_module("vismatch").get_matcher(
                    path, device=device, max_num_keypoints=most
                )
            except Exception as e:  # of any of its matchers, without a common base
                raise InputError(f"{self.name} cannot be loaded offline: {files.reason(e)}") from e
        if hashes := files.hashes():
            self.weight_hashes = hashes

    def match(self, image1: Image, image2: Image) -> dict[str, Any]:
        """Return matches in original pixels, and keypoint numbers and confidences if the matcher has them."""
        import torch

        torch.manual_seed(self.seed)
        np.random.seed(self.seed)  # noqa: NPY002 - what the matchers draw from is the legacy generator
        found = self._matcher(*(_channels_first(i) for i in (image1, image2)))
        out = {"points0": found["matched_kpts0"], "points1": found["matched_kpts1"]}
        if found.get("matched_confidences") is not None:
            out["confidence"] = found["matched_confidences"]
        for side in (0, 1):
            if len(found.get(f"all_kpts{side}", ())):
                out[f"keypoints{side}"] = np.array([len(found[f"all_kpts{side}"])], np.int64)
        return out


def _channels_first(image: Image) -> NDArray[np.float32]:
    """Return an image as (3, h, w) between 0 and 1."""
    return np.ascontiguousarray(image.transpose(2, 0, 1), np.float32) / np.float32(255)


class SnapshotFiles:
    """Context without network access for this thread, which records the Hugging Face snapshots in use."""

    def __init__(self) -> None:
        self.folders: dict[Path, None] = {}
        self.missing: list[tuple[str, Exception]] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> SnapshotFiles:
        self._stack.enter_context(no_network())
        _ACTIVE.append(self)
        self._stack.callback(_ACTIVE.pop)
        if find_spec("huggingface_hub") is not None:
            self._stack.enter_context(_variable("HF_HUB_OFFLINE", "1"))
            hub = import_module("huggingface_hub")
            constants = import_module("huggingface_hub.constants")
            self._stack.enter_context(_attribute(constants, "HF_HUB_OFFLINE", True))
            for name in _FETCHING:
                self._stack.enter_context(_attribute(hub, name, _recording(getattr(hub, name))))
                if hasattr(vismatch := import_module("vismatch"), name):
                    self._stack.enter_context(_attribute(vismatch, name, getattr(hub, name)))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def reason(self, error: Exception) -> str:
        """Return why a matcher cannot be loaded: the missing repository, or the error."""
        chain: list[BaseException | None] = [error]
        while (last := chain[-1]) is not None:
            chain.append(last.__cause__ or last.__context__)
        repository = next((name for name, cause in self.missing if cause in chain), None)
        if repository is None:
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            return f"{said}; nothing is downloaded, so run the matcher once with vismatch itself"
        return (
            f"huggingface.co/{repository} is not in the cache of Hugging Face ({_cache()}), and nothing is "
            f"downloaded; fetch it with `hf download {repository}`, under the licence on its page"
        )

    def hashes(self) -> dict[str, str]:
        """Return the hashes of all files of the snapshots, by repository, commit and path."""
        found = {}
        for folder in self.folders:
            for file in sorted(p for p in folder.rglob("*") if p.is_file()):
                name = f"{folder.parent.parent.name}/{folder.name}/{file.relative_to(folder).as_posix()}"
                found[name] = hash_file(file)
        return found


def _recording(fetch: Callable[..., str]) -> Callable[..., str]:
    """Wrap a function of huggingface_hub so that it records the snapshot, or the missing repository."""

    @wraps(fetch)
    def fetched(repo_id: str, *args: Any, **kwargs: Any) -> str:
        try:
            found = fetch(repo_id, *args, **kwargs)
        except Exception as e:
            for context in _ACTIVE:
                context.missing.append((repo_id, e))
            raise
        path = Path(found)
        folders = [p for p in (path, *path.parents) if p.parent.name == "snapshots"]
        for context in _ACTIVE:
            context.folders.update(dict.fromkeys(folders))
        return found

    return fetched


def _cache() -> str:
    return str(import_module("huggingface_hub.constants").HF_HUB_CACHE)


@contextlib.contextmanager
def no_network() -> Iterator[None]:
    """Refuse network connections of this thread within the block. Unix sockets remain allowed."""
    owner = threading.get_ident()
    connect = socket.socket.connect

    def refused(self: socket.socket, address: Any, *args: Any) -> Any:
        local = self.family == getattr(socket, "AF_UNIX", None)
        if threading.get_ident() == owner and not local:
            raise ConnectionRefusedError(
                f"connection to {address} refused: a method is created without network access"
            )
        return connect(self, address, *args)

    with _attribute(socket.socket, "connect", refused):
        yield


@contextlib.contextmanager
def _attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute within this block."""
    own = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable within this block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
