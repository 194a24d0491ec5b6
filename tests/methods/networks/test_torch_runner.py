# SPDX-License-Identifier: BSD-3-Clause
"""The runner of torch networks: the device's way on the CPU, batches across items, short memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tiepoint.core.errors import InputError, UserCodeError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

torch = pytest.importorskip("torch")
runner_module = pytest.importorskip("tiepoint.methods.networks.torch_runner")


def patches(count, side, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, side, side), dtype=np.uint8)


def runner(network=None, *, size=8, intensity="unit", batch=None, on_device=True):
    network = network or torch.nn.Flatten()
    return runner_module.NetworkRunner(
        network, size=size, intensity=intensity, device="cpu", where="net", batch=batch, on_device=on_device
    )


def by_hand(patch, size, intensity):
    """Cells of a size x size grid by area (by distance when growing), then scaled, in plain loops."""
    side = len(patch)
    share = np.zeros((size, side))
    for i in range(size):
        for p in range(side):
            if size <= side:
                inside = min((i + 1) * side / size, p + 1) - max(i * side / size, p)
                share[i, p] = max(0.0, inside) * size / side
            else:
                centre = min(max((i + 0.5) * side / size - 0.5, 0), side - 1)
                share[i, p] = max(0.0, 1 - abs(centre - p))
    out = share @ patch.astype(float) @ share.T
    if intensity == "unit":
        out = out / 255
    if intensity == "zscore":
        spread = out.std(ddof=1)
        out = (out - out.mean()) / spread if patch.min() < patch.max() else np.zeros_like(out)
    return out.reshape(-1)


@pytest.mark.parametrize("intensity", ["unit", "raw", "zscore"])
@pytest.mark.parametrize("side", [8, 5, 13, 65])
def test_bytes_are_resized_and_scaled_on_the_device(side, intensity):
    given = patches(7, side)
    given[3] = 201  # a flat patch is zero, not noise
    found = runner(intensity=intensity, batch=4).describe(given)
    expected = np.array([by_hand(p, 8, intensity) for p in given])
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * max(1, np.abs(expected).max()))
    if intensity == "zscore":
        assert not found[3].any()
    plain = runner(intensity=intensity, on_device=False).describe(given)
    np.testing.assert_allclose(plain, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 3, 16, 1000])
def test_batches_cross_items_and_have_one_shape(batch):
    shapes = set()

    def network(x):
        shapes.add(tuple(x.shape))
        return x.flatten(1)

    items = [patches(n, side, n) for n, side in ((5, 8), (0, 8), (1, 8), (40, 8), (3, 13), (2, 8))]
    made = list(runner(network, batch=batch).stream(iter(items)))
    assert shapes == {(batch, 1, 8, 8)}
    assert [len(m) for m in made] == [5, 0, 1, 40, 3, 2]
    for given, found in zip(items, made, strict=True):
        for patch, row in zip(given, found, strict=True):
            np.testing.assert_allclose(row, by_hand(patch, 8, "unit"), atol=1e-5)


def test_a_stream_takes_no_more_than_it_needs():
    taken = 0

    def source():
        nonlocal taken
        for _ in range(50):
            taken += 1
            yield patches(10, 8)

    stream = runner(batch=10).stream(source())
    for i in range(20):
        next(stream)
        assert taken <= i + 2 + runner_module.IN_FLIGHT


@pytest.mark.parametrize("on_device", [True, False])
def test_short_memory_halves_the_batch_and_is_told_once(on_device):
    sizes = []

    def network(x):
        sizes.append(len(x))
        if len(x) > 6:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return x.flatten(1)

    made = runner(network, batch=50, on_device=on_device)
    given = [patches(33, 8), patches(40, 8, 1)]
    found = list(made.stream(iter(given)))
    expected = list(runner(batch=50, on_device=on_device).stream(iter(given)))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert made.warnings == [
        "net: out of memory, so batches have 6 patches instead of 50; values may differ in their last "
        "bits, and batch=6 in the specification makes that part of the key"
    ]
    assert sorted(set(sizes))[-1] <= 50
    assert max(sizes[4:]) <= 6


def test_memory_that_never_suffices_is_an_error():
    def network(x):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        runner(network, batch=4).describe(patches(9, 8))


@pytest.mark.parametrize("on_device", [True, False])
def test_one_items_error_is_its_own(on_device):
    def network(x):
        if float(x.max()) == 1:
            raise ValueError("too bright")
        return x.flatten(1)

    dark = patches(4, 8) // 2
    bright = np.full((4, 8, 8), 255, np.uint8)
    found = list(runner(network, batch=4, on_device=on_device).stream(iter([dark, bright, dark])))
    assert isinstance(found[1], ValueError)
    np.testing.assert_array_equal(found[0], found[2])
    with pytest.raises(InputError, match=r"the network returned \(1, 4\) for 4 patches"):
        runner(lambda x: torch.ones(1, 4), batch=4, on_device=on_device).describe(dark)


NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return self.more(x)

    def more(self, x):
        return x.nothing
"""


def test_a_method_streams_and_its_transforms_do(tmp_path, monkeypatch):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 6))
    torch.jit.script(network).save(str(tmp_path / "n.pt"))
    made = runner_module.NetworkRunner.__init__

    def on_device(self, *args, **kwargs):
        made(self, *args, **{**kwargs, "on_device": True})

    text = f"torchscript:{tmp_path}/n.pt?size=8+l2"
    plain = resolve(text, family="patches")
    assert plain.stream is None
    monkeypatch.setattr(runner_module.NetworkRunner, "__init__", on_device)
    method = resolve(text, family="patches")
    items = [(Item(f"a/{i}", str(i), n), patches(n, 9, i)) for i, n in enumerate((3, 200, 1))]
    for (item, payload), (same, finish) in zip(items, method.stream(iter(items)), strict=True):
        assert same is item
        np.testing.assert_allclose(finish()["values"], plain.extract(item, payload)["values"], atol=1e-5)
        np.testing.assert_array_equal(finish()["values"], method.extract(item, payload)["values"])
    assert method.key(items[0][0]) != plain.key(items[0][0])  # the device's way has other last bits


def test_what_a_module_raises_is_shown_with_its_lines(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    method = resolve(f"torch:{tmp_path}/net.py:Net", family="patches")
    with pytest.raises(UserCodeError) as caught:
        method.extract(Item("v_x/ref", "c", 2), patches(2, 8))
    text = str(caught.value)
    assert text.startswith("torch:Net failed on v_x/ref: AttributeError: 'Tensor' object has no attribute")
    assert f'{tmp_path}/net.py", line 9, in more\n    return x.nothing' in text
    assert "site-packages" not in text
    assert "runner.py" not in text


def test_keys_without_batch_stay(tmp_path):
    torch.jit.script(torch.nn.Flatten()).save(str(tmp_path / "n.pt"))
    text, item = f"torchscript:{tmp_path}/n.pt", Item("a/b", "c", 1)
    assert resolve(text, family="patches").config["params"] == {"size": 32, "input": "unit"}
    assert resolve(f"{text}?batch=8", family="patches").config["params"]["batch"] == 8
    moved = replace(resolve("resize", family="patches", device="cuda"), name="resize")
    assert moved.key(item) == resolve("resize", family="patches").key(item)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: copies overlap there")
def test_a_row_does_not_depend_on_its_batch_on_a_gpu():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten()).cuda().eval()
    made = runner_module.NetworkRunner(
        network, size=16, intensity="zscore", device="cuda", where="net", batch=256
    )
    items = [patches(n, 65, n) for n in (700, 1, 255, 256, 257, 3000)]
    whole = np.concatenate(list(made.stream(iter(items))))
    for begin in (0, 1, 3):
        found = np.concatenate(list(made.stream(iter(items[begin:]))))
        np.testing.assert_array_equal(found, whole[len(whole) - len(found) :])
    plain = []
    every = np.concatenate(items)
    with runner_module.plain_float32():
        for i in range(0, len(every), 256):
            block = np.zeros((256, 65, 65), np.uint8)
            block[: len(every[i : i + 256])] = every[i : i + 256]
            plain.append(network(made.preprocess(torch.from_numpy(block).cuda())).cpu().numpy())
    np.testing.assert_array_equal(np.concatenate(plain)[: len(every)], whole)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, whose memory is limited")
def test_short_memory_on_a_gpu():
    layers = (torch.nn.Conv2d(1, 64, 3, padding=1), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    network = torch.nn.Sequential(*layers).cuda().eval()

    def made(batch):
        return runner_module.NetworkRunner(
            network, size=32, intensity="raw", device="cuda", where="net", batch=batch
        )

    items = [patches(n, 32, n) for n in (3000, 70_000, 1)]
    limit = torch.cuda.memory_reserved() + (3 << 30)
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    try:
        short = made(1 << 16)  # 16 GiB for the output of the first layer
        found = list(short.stream(iter(items)))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert short.batch < 1 << 16
    assert len(short.warnings) == 1
    for a, b in zip(found, made(short.batch).stream(iter(items)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_plain_float32_with_newer_setting_of_user_restores_it():
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("this torch has only the older settings")
    owner = torch.backends.cuda.matmul
    before = owner.fp32_precision
    try:
        owner.fp32_precision = "tf32"
        with runner_module.plain_float32():
            assert owner.fp32_precision == "ieee"
            assert torch.backends.cudnn.conv.fp32_precision == "ieee"
            assert torch.backends.cudnn.deterministic
        assert owner.fp32_precision == "tf32"
        assert not torch.backends.cudnn.deterministic
    finally:
        owner.fp32_precision = before
