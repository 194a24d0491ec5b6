"""Deformable convolution against plain loops and against kornia; the stand-in for torchvision."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
deformable = pytest.importorskip("tiepoint.methods.learned.deformable")


def restated(image, offset, weight, stride, pad, dilation, mask):
    """One image by loops over output pixels, taps and channels, in double precision."""
    c, h, w = image.shape
    o, _, kh, kw = weight.shape
    _, oh, ow = offset.shape
    out = np.zeros((o, oh, ow))
    for oy in range(oh):
        for ox in range(ow):
            for tap in range(kh * kw):
                dy, dx = offset[2 * tap, oy, ox], offset[2 * tap + 1, oy, ox]
                y = oy * stride - pad + tap // kw * dilation + dy
                x = ox * stride - pad + tap % kw * dilation + dx
                if y <= -1 or y >= h or x <= -1 or x >= w:
                    continue
                top, left = math.floor(y), math.floor(x)
                for ch in range(c):
                    value = 0.0
                    for cy, wy in ((top, 1 - (y - top)), (top + 1, y - top)):
                        for cx, wx in ((left, 1 - (x - left)), (left + 1, x - left)):
                            if 0 <= cy < h and 0 <= cx < w:
                                value += wy * wx * image[ch, cy, cx]
                    scale = 1 if mask is None else mask[tap, oy, ox]
                    out[:, oy, ox] += weight[:, ch, tap // kw, tap % kw] * value * scale
    return out


@pytest.mark.parametrize(("stride", "pad", "dilation", "masked"), [(1, 1, 1, False), (2, 2, 2, True)])
def test_deform_conv2d_equals_loops(stride, pad, dilation, masked):
    draw = np.random.default_rng(3)
    image, weight, bias = draw.normal(size=(2, 3, 7, 9)), draw.normal(size=(4, 3, 3, 3)), draw.normal(size=4)
    oh, ow = ((n + 2 * pad - dilation * 2 - 1) // stride + 1 for n in (7, 9))
    offset = draw.normal(0, 4, (2, 18, oh, ow))
    mask = draw.random((2, 9, oh, ow)) if masked else None
    given = [torch.from_numpy(a) for a in (image, offset, weight, bias)]
    found = deformable.deform_conv2d(
        *given, stride, (pad, pad), dilation, None if mask is None else torch.from_numpy(mask)
    )
    for n in range(2):
        expected = restated(
            image[n], offset[n], weight, stride, pad, dilation, None if mask is None else mask[n]
        )
        np.testing.assert_allclose(found[n], expected + bias[:, None, None], atol=1e-12)


def test_deform_conv2d_agrees_with_kornia():
    kornia = pytest.importorskip("kornia.feature.aliked.deform_conv2d")
    draw = torch.Generator().manual_seed(0)
    image, offset = (torch.randn(s, generator=draw) for s in ((1, 8, 20, 24), (1, 18, 20, 24)))
    weight = torch.randn((6, 8, 3, 3), generator=draw)
    ours = deformable.deform_conv2d(image, 3 * offset, weight, padding=(1, 1))
    theirs = kornia.deform_conv2d(image, 3 * offset, weight, padding=(1, 1))
    assert (ours - theirs).abs().max() <= 5e-7 * theirs.abs().max()


def test_stand_in_for_torchvision_is_removed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)  # as if it were missing
    with deformable.working_torchvision() as provider:
        import torchvision

        assert provider == deformable.OURS
        assert torchvision.ops.deform_conv2d is deformable.deform_conv2d
        conv = torchvision.models.resnet.conv3x3(2, 5)
        assert (conv.padding, conv.bias, tuple(conv.weight.shape)) == ((1, 1), None, (5, 2, 3, 3))
    assert [name for name in sys.modules if name.startswith("torchvision.")] == []
    assert sys.modules["torchvision"] is None


def test_torchvision_that_does_not_fit_torch_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    with deformable.working_torchvision() as provider:
        assert provider == deformable.OURS
    assert "torchvision" not in sys.modules
