"""``hf:DIR`` with random models saved to disk."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods.pairs.factory import family_of_geometry
from tiepoint.methods.resolve import resolve

torch = pytest.importorskip("torch")
if find_spec("transformers") is None:
    pytest.skip("transformers is not installed", allow_module_level=True)
hugging_face = pytest.importorskip("tiepoint.methods.learned.hugging_face")

pytestmark = pytest.mark.slow  # the import of transformers takes seconds

ITEM = Item("a--b", "content")
SIZE = (64, 96)


def detector(transformers):
    return transformers.SuperPointConfig(
        encoder_hidden_sizes=[4, 4, 8, 8], decoder_hidden_size=16, keypoint_decoder_dim=65,
        descriptor_decoder_dim=32, max_keypoints=40, keypoint_threshold=0.0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of random models by type."""
    import transformers

    torch.manual_seed(3)
    configs = {
        "superpoint": transformers.SuperPointForKeypointDetection(detector(transformers)),
        "lightglue": transformers.LightGlueForKeypointMatching(
            transformers.LightGlueConfig(
                keypoint_detector_config=detector(transformers), descriptor_dim=32, num_hidden_layers=2,
                num_attention_heads=2, filter_threshold=0.0,
            )
        ),
        "superglue": transformers.SuperGlueForKeypointMatching(
            transformers.SuperGlueConfig(
                keypoint_detector_config=detector(transformers), hidden_size=32, num_attention_heads=2,
                keypoint_encoder_sizes=[8, 32], gnn_layers_types=["self", "cross"], sinkhorn_iterations=5,
                matching_threshold=0.0,
            )
        ),
        "efficientloftr": transformers.EfficientLoFTRForKeypointMatching(
            transformers.EfficientLoFTRConfig(
                stage_num_blocks=[1, 1, 1, 1], out_features=[16, 16, 32, 64], hidden_size=64,
                num_attention_layers=1, num_attention_heads=8, coarse_matching_threshold=0.0,
                coarse_matching_border_removal=1,
            )
        ),
    }  # fmt: skip
    root = tmp_path_factory.mktemp("models")
    for name, model in configs.items():
        model.save_pretrained(root / name)
        shown = {"size": dict(zip(("height", "width"), SIZE, strict=True)), "do_grayscale": False}
        (root / name / "preprocessor_config.json").write_text(json.dumps(shown))
    return root


def test_constructors_open_no_connection(models, no_network, photo):
    for name in ("superpoint", "lightglue", "superglue", "efficientloftr"):
        hugging_face.HuggingFace(str(models / name)).network()


def test_networks_are_in_evaluation_mode_and_use_threads_of_method(models, photo):
    before = torch.get_num_threads()
    for name in ("superpoint", "lightglue", "superglue", "efficientloftr"):
        seen = []
        method = hugging_face.HuggingFace(str(models / name), threads=2)
        assert not any(module.training for module in method.network().modules())
        method.network().register_forward_hook(lambda *_, seen=seen: seen.append(torch.get_num_threads()))
        try:
            torch.set_num_threads(1)
            method.extract(photo) if name == "superpoint" else method.match(photo, photo)
        finally:
            torch.set_num_threads(before)
        assert seen == [2], name


def test_families(models):
    assert family_of_geometry(f"hf:{models}/superpoint") == "keypoints"
    assert family_of_geometry(f"hf:{models}/lightglue") == "pairs"
    assert resolve(f"hf:{models}/superpoint", family="pairs").name == "hf:superpoint?matcher=mnn"
    assert resolve(f"hf:{models}/superglue", family="pairs").name == "hf:superglue"


def test_input_is_grey_and_equal_in_all_channels(models, photo):
    method = hugging_face.HuggingFace(str(models / "superpoint"))
    made = method._input(photo)
    resized = np.asarray(Image.fromarray(photo).resize((96, 64), Image.Resampling.BILINEAR), np.float64) / 255
    expected = resized @ [0.2989, 0.587, 0.114]
    for channel in made:
        np.testing.assert_allclose(channel, expected, atol=3e-7)
    # the network reads channel 0 only, which would be red
    assert np.abs(made[0] - resized[..., 0]).max() > 0.05


def test_input_equals_that_of_the_package_without_torchvision(models, photo):
    from transformers.models.lightglue.image_processing_pil_lightglue import LightGlueImageProcessorPil

    height, width = SIZE
    processor = LightGlueImageProcessorPil(size={"height": height, "width": width}, do_grayscale=True)
    theirs = processor([photo, photo], return_tensors="np")["pixel_values"][0, 0]
    made = hugging_face.HuggingFace(str(models / "lightglue"))._input(photo)
    np.testing.assert_allclose(made, theirs, atol=2e-7)


def test_superpoint_keypoints_have_centres_and_fractions(models, photo):
    method = hugging_face.HuggingFace(str(models / "superpoint"))
    keypoints, values = method._extract(photo)
    assert len(keypoints) > 5
    cells = (keypoints.xy + 0.5) * [96 / 160, 64 / 120] - 0.5
    np.testing.assert_allclose(cells, np.round(cells), atol=1e-4)
    assert (np.abs(keypoints.xy - np.round(keypoints.xy)) > 1e-3).any()
    np.testing.assert_allclose(np.linalg.norm(values, axis=1), 1, atol=1e-4)


@pytest.mark.parametrize("name", ["lightglue", "superglue"])
def test_matches_follow_raw_output(models, photo, name):
    method = hugging_face.HuggingFace(str(models / name))
    other = np.ascontiguousarray(np.roll(photo, 5, axis=1))
    found = resolve(f"hf:{models}/{name}", family="pairs").extract(ITEM, (photo, other))
    pixels = torch.from_numpy(np.stack([method._input(photo), method._input(other)]))[None]
    with torch.inference_mode():
        raw = method.network()(pixels)
    rows = []
    for i in range(raw.matches.shape[2]):
        j, score = int(raw.matches[0, 0, i]), float(raw.matching_scores[0, 0, i])
        if j < 0 or not raw.mask[0, 0, i] or not raw.mask[0, 1, j] or score <= 0:
            continue
        ends = [(raw.keypoints[0, s, k] * torch.tensor([96.0, 64.0])).tolist() for s, k in ((0, i), (1, j))]
        rows.append(
            [
                (v + 0.5) * n / m - 0.5
                for end in ends
                for v, n, m in zip(end, (160, 120), (96, 64), strict=True)
            ]
        )
    assert len(rows) > 0
    np.testing.assert_allclose(np.column_stack([found["points0"], found["points1"]]), rows, atol=1e-4)
    assert (np.abs(found["points0"] - np.round(found["points0"])) > 1e-3).any()


def test_matches_into_padding_are_dropped(models, photo):
    method = hugging_face.HuggingFace(str(models / "lightglue"))

    class Raw:
        keypoints = torch.zeros(1, 2, 3, 2)
        matches = torch.tensor([[[0, 2, 1], [0, 2, 1]]])
        matching_scores = torch.tensor([[[0.9, 0.8, 0.7], [0.9, 0.7, 0.8]]])
        mask = torch.tensor([[[1, 1, 0], [1, 1, 0]]])

    method._network = lambda pixels: Raw
    found = method._match(photo, photo)
    assert found["confidence"].tolist() == pytest.approx([0.9])
    assert (found["keypoints0"], found["keypoints1"]) == (2, 2)


@pytest.mark.parametrize("name", ["lightglue", "superglue"])
def test_image_without_keypoints_has_no_matches(models, photo, name):
    method = hugging_face.HuggingFace(str(models / name))
    method.network().keypoint_detector.keypoint_decoder.keypoint_threshold = 1.0
    for images in ((photo, photo), (photo, np.zeros_like(photo))):
        found = method.match(*images)
        assert found["points0"].shape == found["points1"].shape == (0, 2)
        assert found["keypoints0"] == found["keypoints1"] == 0


def test_blank_image_has_no_matches(models):
    blank = np.zeros((80, 90, 3), np.uint8)
    found = resolve(f"hf:{models}/superglue?threshold=0.999", family="pairs").extract(ITEM, (blank, blank))
    assert found["points0"].shape == (0, 2)


def test_model_saved_in_bfloat16_runs_in_float32(models, tmp_path, photo):
    """The matchers return relative keypoints in the type of the model: up to 1 px off in bfloat16."""
    import transformers

    folder = tmp_path / "half"
    model = transformers.LightGlueForKeypointMatching.from_pretrained(
        models / "lightglue", dtype=torch.float32
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_bytes(
        (models / "lightglue/preprocessor_config.json").read_bytes()
    )
    assert "bfloat16" in (folder / "config.json").read_text()
    method = hugging_face.HuggingFace(str(folder))
    assert {p.dtype for p in method.network().parameters()} == {torch.float32}
    points = method._match(photo, photo)["points0"]
    cells = (points + 0.5) * [96 / 160, 64 / 120] - 0.5
    np.testing.assert_allclose(cells, np.round(cells), atol=1e-4)


def cells_of(pairs, shape=(4, 5)):
    """A score matrix (1, h, w, h, w) with high scores at given pairs of cells."""
    n = shape[0] * shape[1]
    scores = np.full((n, n), 0.01, np.float32)
    for i, j in pairs:
        scores[i, j] = 0.9
    return torch.from_numpy(scores).reshape(1, *shape, *shape)


@pytest.fixture
def loftr(models):
    made = hugging_face.HuggingFace(str(models / "efficientloftr")).network()
    made.config.coarse_matching_threshold, made.config.coarse_matching_border_removal = 0.2, 0
    return made


def test_efficientloftr_pairs_of_aligned_rows(golden, loftr):
    recorded = golden["eloftr_pairing"]
    given = [tuple(pair) for pair in recorded["given"]]
    cells, scores = loftr._get_matches_from_scores(cells_of(given))
    kept = (cells[0, 0] > -1).nonzero().flatten()
    assert sorted((int(cells[0, 0, r]), int(cells[0, 1, r])) for r in kept) == sorted(given)
    assert torch.equal(scores[0, 0], scores[0, 1])
    shipped = type(loftr)._get_matches_from_scores(loftr, cells_of(given))[0][0]
    assert shipped.tolist() == [recorded["matches side 0"], recorded["matches side 1"]]
    sides = [[int(c) for c in side if c > -1] for side in shipped]
    assert [list(p) for p in zip(*sides, strict=True)] == recorded["post_processed_pairs"]


@pytest.mark.parametrize("border", [0, 1, 2])
def test_efficientloftr_correction_keeps_the_same_cells(loftr, border):
    loftr.config.coarse_matching_border_removal = border
    draw = torch.rand((1, 6, 7, 6, 7), generator=torch.Generator().manual_seed(border))
    shipped = type(loftr)._get_matches_from_scores(loftr, draw.clone())[0][0]
    ours = loftr._get_matches_from_scores(draw.clone())[0][0]
    for side in (0, 1):
        assert sorted(ours[side].tolist()) == sorted(shipped[side].tolist())


def test_efficientloftr_runs_and_drops_points_outside(models, photo):
    for pairing in ("aligned", "shipped"):
        method = resolve(f"hf:{models}/efficientloftr?pairing={pairing}", family="pairs")
        found = method.extract(ITEM, (photo, photo))
        assert len(found["points0"]) == len(found["points1"]) == len(found["confidence"])
    keys = {
        resolve(f"hf:{models}/efficientloftr{p}", family="pairs").key(ITEM) for p in ("", "?pairing=shipped")
    }
    assert len(keys) == 2
    made = hugging_face.HuggingFace(str(models / "efficientloftr"))

    class Raw:
        keypoints = torch.tensor([[[[0.25, 0.5], [0.5, 0.25]], [[0.3, 0.4], [0.1, 0.9]]]])
        matches = torch.tensor([[[0, 1], [0, 1]]])
        matching_scores = torch.tensor([[[0.9, 0.8], [0.9, 0.8]]])

    made._network = lambda pixels: Raw
    cells = [(0.25, 0.5, 0.3, 0.4), (0.5, 0.25, 0.1, 0.9)]
    wanted = [[(v * n + 0.5) * m / n - 0.5 for v, n, m in zip(row, (96, 64) * 2, (160, 120) * 2, strict=True)]
              for row in cells]  # fmt: skip
    both = made.match(photo, photo)
    np.testing.assert_allclose(np.column_stack([both["points0"], both["points1"]]), wanted, atol=1e-4)
    points = [np.array([[1.0, 1], [-0.6, 2], [3, 3]]), np.array([[1.0, 1], [2, 2], [159.6, 3]])]
    ones = np.ones((2, 3))
    kept = made._dense_matches(points, ones.astype(int), ones, (photo, photo))
    assert kept["points0"].tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "500x640"}, "EfficientLoFTR needs sides that are multiples of 32, found 500x640"),
        ({"size": "640"}, "expected HEIGHTxWIDTH"),
    ],
)
def test_wrong_sizes_are_refused(models, change, message):
    with pytest.raises(InputError, match=message):
        hugging_face.HuggingFace(str(models / "efficientloftr"), **change)


def test_missing_and_foreign_files_are_named(models, tmp_path, no_network):
    with pytest.raises(InputError, match="folder not found; pass a local folder"):
        resolve(f"hf:{tmp_path}/none", family="pairs")
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "preprocessor_config.json"):
        (folder / name).write_bytes((models / "superpoint" / name).read_bytes())
    (folder / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(InputError, match=r"model.safetensors not found \(pytorch_model.bin may contain code"):
        resolve(f"hf:{folder}", family="keypoints")
    (folder / "model.safetensors").write_bytes((models / "superglue" / "model.safetensors").read_bytes())
    with pytest.raises(InputError, match=r"model.safetensors does not fit config.json: missing keys"):
        hugging_face.HuggingFace(str(folder)).network()
    (folder / "model.safetensors").write_bytes(b"\0" * 20)
    with pytest.raises(InputError, match="cannot be loaded"):
        hugging_face.HuggingFace(str(folder)).network()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match="model_type is 'bert'; expected superpoint"):
        resolve(f"hf:{folder}", family="keypoints")
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json is not a JSON file"):
        resolve(f"hf:{folder}", family="keypoints")


def test_licence_of_card_is_printed_and_files_are_in_key(models, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in (models / "superpoint").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "README.md").write_text("---\nlicense: other\nlicense_name: magic-leap\n---\n# SuperPoint\n")
    method = resolve(f"hf:{folder}", family="keypoints")
    assert list(method.notices) == ["hf:model: its card states the licence other, magic-leap"]
    assert set(method.config["weights"]) == {"config.json", "model.safetensors", "preprocessor_config.json"}
    assert set(method.config["libraries"]) == {"PIL", "numpy", "torch", "transformers"}
    (folder / "preprocessor_config.json").write_text('{"size": {"height": 96, "width": 64}}')
    assert resolve(f"hf:{folder}", family="keypoints").key(ITEM) != method.key(ITEM)
