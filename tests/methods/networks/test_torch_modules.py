# SPDX-License-Identifier: BSD-3-Clause
"""``torch:FILE.py:CLASS?weights=FILE`` and torch modules in memory, as patch, keypoint and pair methods."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError, UserCodeError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

torch = pytest.importorskip("torch")
ITEM = Item("v_x/ref", "c", 9)

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, dims=4, flip=False):
        super().__init__()
        self.fc = torch.nn.Linear(64, dims)
        self.flip = flip

    def forward(self, x):
        assert x.shape[1:] == (1, 8, 8) and not self.training and not torch.is_grad_enabled()
        y = self.fc(x.flatten(1))
        return -y if self.flip else y

def small(dims=3):
    return Net(dims)

class Points(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(2))

    def forward(self, image):
        assert image.shape[:2] == (1, 3) and image.dtype == torch.float32 and float(image.max()) <= 1
        points = torch.tensor([[2.0, 3.0], [5.0, 1.0]]) + self.shift
        values = torch.stack([image[0, :, 3, 2], image[0, :, 1, 5]])
        return {"keypoints": points[None], "descriptors": values[None] + 1}

class Pairs(torch.nn.Module):
    colour = "grey"

    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(2))

    def forward(self, image1, image2):
        assert image1.shape == (1, 1, 20, 30)
        points = torch.tensor([[[2.0, 3.0], [5.0, 1.0]]])
        return points, points + self.shift, torch.tensor([[0.5, 0.25]])

class Flow(torch.nn.Module):
    def forward(self, image1, image2):
        return torch.ones(1, 2, *image1.shape[2:]) * torch.tensor([3.0, -1.0])[None, :, None, None]

class Own(torch.nn.Module):
    colour = "grey"

    def __init__(self, device="cpu"):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.given_device = device

    def extract(self, image):
        image[:] = 0  # what is handed over may be written into
        return [[1.0, 2.0]], self.weight.reshape(1, 1)
"""


@pytest.fixture
def net(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    return tmp_path / "net.py"


@pytest.fixture
def patches():
    return np.random.default_rng(1).integers(0, 256, (9, 16, 16), dtype=np.uint8)


def saved(path, dims=4, wrap=lambda s: s, seed=0):
    torch.manual_seed(seed)
    layer = torch.nn.Linear(64, dims)
    torch.save(wrap({f"fc.{k}": v for k, v in layer.state_dict().items()}), path)
    return layer


def by_hand(layer, patches):
    """Means of 2 x 2 pixels between 0 and 1, times the layer's matrix."""
    rows = []
    for patch in patches:
        small = [[patch[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean() for j in range(8)] for i in range(8)]
        flat = np.array(small).reshape(-1) / 255
        rows.append(layer.weight.detach().numpy() @ flat + layer.bias.detach().numpy())
    return np.array(rows)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: s,
        lambda s: {"epoch": 3, "state_dict": {f"module.{k}": v for k, v in s.items()}},
        lambda s: {"model": s, "step": 1},
    ],
)
def test_a_class_with_a_state_dict(net, tmp_path, patches, wrap):
    layer = saved(tmp_path / "w.pth", wrap=wrap)
    method = resolve(f"torch:{net}:Net?weights={tmp_path}/w.pth&size=8&batch=4", family="patches")
    found = method.extract(ITEM, patches)["values"]
    np.testing.assert_allclose(found, by_hand(layer, patches), atol=1e-5)
    assert method.name == "torch:Net?weights=w.pth&size=8&batch=4"
    assert method.uncached_reason is None
    assert method.notices == []
    assert method.stream is None


def test_parameters_weights_source_and_device_are_in_the_key(net, tmp_path):
    def key(more="", name="Net", **options):
        text = f"torch:{net}:{name}?weights={tmp_path}/w.pth&size=8{more}"
        return resolve(text, family="patches", **options).key(ITEM)

    saved(tmp_path / "w.pth")
    first = key()
    assert key() == first
    settings = ("&flip=true", "&input=raw", "&batch=7", "&distance=l1")
    keys = {first, *(key(more) for more in settings)}
    assert len(keys) == 5
    saved(tmp_path / "w.pth", seed=1)
    keys.add(key())
    saved(tmp_path / "w.pth")
    assert key() == first
    net.write_text(NET + "\n# changed\n")
    assert len(keys | {key()}) == 7


def test_constructors_functions_and_parameters(net, tmp_path, patches):
    layer = saved(tmp_path / "w.pth", dims=3)
    weights = f"weights={tmp_path}/w.pth&size=8"
    for text in (f"torch:{net}:small?{weights}", f"torch:{net}:Net?{weights}&dims=3"):
        found = resolve(text, family="patches").extract(ITEM, patches)["values"]
        np.testing.assert_allclose(found, by_hand(layer, patches), atol=1e-5)
    wrong = {
        f"torch:{net}:Net?{weights}&dmis=3": "unknown parameter of Net 'dmis'; did you mean 'dims'",
        f"torch:{net}:Net?{weights}&dims=5": "does not fit Net: of another shape: fc.weight, fc.bias",
        f"torch:{net}:Points?weights={tmp_path}/w.pth": "missing: shift; unexpected: fc.weight, fc.bias",
        f"torch:{net}:Net?weights={tmp_path}/no.pth": "weight file not found",
        f"torch:{net}:torch": "expected torch.nn.Module",
        f"torch:{net}:Nte": "did you mean 'Net'",
        "torch:net.pt": "names no class",
        f"torch:{net}:small?{weights}&batch=0": "batch is 0; expected a positive number",
        f"torch:{net}:small?{weights}&input=grey": "unknown input 'grey'",
    }
    for text, message in wrong.items():
        with pytest.raises(InputError, match=message):
            resolve(text, family="patches")


def test_a_file_of_code_is_refused_as_weights(net, tmp_path):
    torch.save({"state_dict": torch.nn.Linear(2, 2)}, tmp_path / "whole.pth")
    with pytest.raises(InputError, match="torch cannot safely load this file as weights"):
        resolve(f"torch:{net}:Net?weights={tmp_path}/whole.pth", family="patches")


def test_a_module_in_memory_stays_as_it_is(patches):
    class Net(torch.nn.Sequential):
        size, input, distance = 8, "raw", "l1"

    module = Net(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(64, 4))
    module[1].eval()
    before = [m.training for m in module.modules()]
    method = resolve(module, family="patches")
    found = method.extract(ITEM, patches)["values"]
    assert (method.name, method.distance) == ("Net", "l1")
    assert [m.training for m in module.modules()] == before == [True, True, False, True]
    np.testing.assert_allclose(found, by_hand(module[2], patches.astype(float) * 255), rtol=1e-4, atol=1e-3)
    plain = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1024, 4))
    kept = resolve(plain, family="patches")
    assert kept.uncached_reason is None
    assert kept.key(ITEM) == resolve(plain.eval(), family="patches").key(ITEM)
    with torch.no_grad():
        plain[1].bias += 1
    assert kept.key(ITEM) != resolve(plain, family="patches").key(ITEM)


def test_keypoints_from_an_image_or_at_given_places(net, tmp_path):
    image = np.random.default_rng(2).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    image.flags.writeable = False
    item = Item("v_a/1", "c")
    torch.save({"shift": torch.tensor([1.0, 0.0])}, tmp_path / "p.pth")
    method = resolve(f"torch:{net}:Points?weights={tmp_path}/p.pth", family="keypoints")
    found = method.extract(item, image)
    assert found["keypoints"][:, :2].tolist() == [[3, 3], [6, 1]]
    np.testing.assert_allclose(found["values"], image[[3, 1], [2, 5]] / 255 + 1, atol=1e-6)
    assert method.name == "torch:Points?weights=p.pth"
    own = resolve(f"torch:{net}:Own", family="keypoints").extract(item, image)
    assert own["values"].tolist() == [[1.0]]
    assert image.any()
    saved(tmp_path / "w.pth")
    text = f"torch:{net}:Net?weights={tmp_path}/w.pth&patch_px=8@torch:{net}:Points"
    both = resolve(text, family="keypoints")
    assert both.name == "torch:Net?weights=w.pth&patch_px=8@torch:Points"
    assert both.extract(item, image)["values"].shape == (2, 4)
    alone = resolve(f"torch:{net}:Net?weights={tmp_path}/w.pth&patch_px=8", family="keypoints")
    with pytest.raises(UserCodeError, match="in forward"):
        alone.extract(item, image)
    with pytest.raises(InputError, match="`patch_px` has no effect, because torch:Own is not run on patches"):
        resolve(f"torch:{net}:Own?patch_px=8", family="keypoints")


def test_pairs_flows_and_keypoints_with_a_matcher(net, tmp_path):
    rng = np.random.default_rng(3)
    pair = [rng.integers(0, 256, (20, 30, 3), dtype=np.uint8) for _ in range(2)]
    item = Item("a--b", "c")
    torch.save({"shift": torch.tensor([1.0, 2.0])}, tmp_path / "m.pth")
    text = f"torch:{net}:Pairs?weights={tmp_path}/m.pth"
    found = resolve(text, family="pairs").extract(item, pair)
    assert found["points1"].tolist() == [[3, 5], [6, 3]]
    assert found["confidence"].tolist() == [0.5, 0.25]
    flow = resolve(f"torch:{net}:Flow", family="pairs").extract(item, pair)["flow"]
    assert flow.shape == (20, 30, 2)
    assert np.unique(flow.reshape(-1, 2), axis=0).tolist() == [[3, -1]]
    assert set(resolve(f"torch:{net}:Flow", family="dense").extract(item, pair)) == {"flow1", "flow2"}
    matched = resolve(f"torch:{net}:Points?matcher=nn", family="pairs")
    assert matched.extract(item, pair)["points0"].shape == (2, 2)
    assert matched.name == "torch:Points?matcher=nn"


def test_geometry_tells_matchers_from_keypoints(net):
    from tiepoint.methods.pairs.factory import family_of_geometry

    texts = ("Pairs", "Flow", "Points", "Own", "Net@sift")
    expected = ["pairs", "pairs", "keypoints", "keypoints", "keypoints"]
    assert [family_of_geometry(f"torch:{net}:{text}") for text in texts] == expected
