# SPDX-License-Identifier: BSD-3-Clause
"""Measure how `tiepoint choose` draws pairs from a folder, and try to break its rule.

``drawing``: regret and number of confirmed pairs when only some pairs of a folder are used, compared with
all of its pairs, over 50 seeds. Truth: homographies of the sequences, poses of the SfM sample. ``breaking``:
dense methods and repeated structure.

Usage: python bench/bench_choose.py [drawing] [breaking]
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from tiepoint.datasets.demo.rooms import make_rooms
from tiepoint.datasets.image_pairs.folder import Names, draw_more, natural_order, offset_pairs, smallest
from tiepoint.datasets.image_pairs.reader import read_pairs
from tiepoint.datasets.reconstructions.image_scenes import IMAGES
from tiepoint.datasets.reconstructions.layouts import SCENE_JSON
from tiepoint.geometry.quaternions import rotations_of
from tiepoint.geometry.two_view.estimator import Estimator
from tiepoint.geometry.two_view.linear_estimation import HomographyEstimator, estimate_homography
from tiepoint.geometry.two_view.pose_errors import STABLE, pose_errors
from tiepoint.geometry.two_view.pose_estimation import estimate
from tiepoint.metrics.steadiness import transfer_agreement
from tiepoint.run.choose.engine import ChoiceRequest, choose_method
from tiepoint.run.choose.result import Choice
from tiepoint.stats.steady_choice import MIN_PAIRS, steady_order
from tiepoint.store.store import Store

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SEQUENCES = ("i_leuven", "ox_ubc", "v_bark", "v_dogman", "v_graffiti", "v_wormhole")
RATIO = "?ratio=0.8"
METHODS = (
    *(f"{name}{RATIO}" for name in ("sift", "orb", "akaze", "brisk", "kaze")),
    f"sift{RATIO}+rootsift",
    f"brief@fast{RATIO}",
    f"daisy@gftt{RATIO}",
)
_XFEAT = f"xfeat?weights={DATA / 'weights/xfeat_onnx/xfeat_dense.onnx'}"
GRIDS = (_XFEAT, f"{_XFEAT}&ratio=0.95")
DENSE = ("zero", "homography", "sparse", "dis", "farneback", "deepflow", "pcaflow")
SIDE = 512
SEEDS = 50
Scores = Mapping[str, Mapping[str, float]]
Drawing = Callable[[Sequence[str], int], list[Names]]


def shrunk(path: Path, target: Path) -> float:
    """Write an image with a long side of at most `SIDE`. Return its scale."""
    with Image.open(path) as image:
        picture = image.convert("RGB")
    scale = min(1.0, SIDE / max(picture.size))
    size = (round(picture.width * scale), round(picture.height * scale))
    picture.resize(size, Image.Resampling.LANCZOS).save(target)
    return scale


def compare(methods: Sequence[str], images: Path, pairs: Sequence[Names], root: Path) -> Choice:
    """Run the rule on listed pairs of a folder."""
    listed = images / "pairs.txt"
    listed.write_text("".join(f"{a} {b}\n" for a, b in pairs))
    with Store.open(root / "store", later=True) as store:
        return choose_method(ChoiceRequest(tuple(methods), images, listed), store)


def sequence(name: str, folder: Path) -> dict[str, np.ndarray]:
    """Copy a sequence. Return the homographies of all images from the first, in shrunk pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    first = None
    for k in range(1, 7):
        scale = shrunk(DATA / "sequences" / name / f"{k}.png", folder / f"{name}_{k}.png")
        own = np.array([[scale, 0, (scale - 1) / 2], [0, scale, (scale - 1) / 2], [0, 0, 1]])
        first = own if first is None else first
        H = np.eye(3) if k == 1 else np.loadtxt(DATA / "sequences" / name / f"H_1_{k}")
        found[f"{name}_{k}.png"] = own @ H @ np.linalg.inv(first)
    return found


def plane_scores(choice: Choice, H: Mapping[str, np.ndarray]) -> Scores:
    """Return the true score by method and pair: agreement of the estimated with the true homography."""
    found: dict[str, dict[str, float]] = {}
    for name, outcomes in choice.outcomes.items():
        found[name] = {}
        for key, one in outcomes.items():
            a, b = key.split("|")
            sizes = choice.sizes[key]
            unit = max(*sizes[0], *sizes[1]) / 1000
            true = H[b] @ np.linalg.inv(H[a])
            est = HomographyEstimator("poselib", 3 * unit, 0.9999, 10_000, 100)
            values = []
            for seed in range(3):
                made = estimate_homography(est, one.points0, one.points1, seed=seed)
                far = 5 * max(sizes[1]) / 1000
                values.append(transfer_agreement(made.H if made.ok else None, true, sizes, far))
            found[name][key] = float(np.mean(values))
    return found


class Cameras(NamedTuple):
    """True relative pose (4, 4) and intrinsics of a pair. `centre` is the position of the first pixel."""

    T: np.ndarray
    K0: np.ndarray
    K1: np.ndarray
    centre: float


def model_cameras(choice: Choice, images: Path, model: Path) -> dict[str, Cameras]:
    """Read the cameras of all pairs from a COLMAP model."""
    names = [tuple(key.split("|")) for key in choice.pairs]
    (model / "pairs.txt").write_text("".join(f"{a} {b}\n" for a, b in names))
    return {
        f"{t.pair.image0.name}|{t.pair.image1.name}": Cameras(
            np.asarray(t.T_0to1), np.asarray(t.K0), np.asarray(t.K1), t.centre
        )
        for t in read_pairs(model, needs="pose", images=images).truths
        if t.pair.image0 and t.pair.image1
    }


def room_cameras(choice: Choice, scene: Path) -> dict[str, Cameras]:
    """Read the cameras of all pairs from a rendered scene."""
    truth = json.loads((scene / SCENE_JSON).read_text())
    poses, cameras = {}, {}
    for name, pose in truth["images"].items():
        poses[name] = np.eye(4)
        poses[name][:3, :3], poses[name][:3, 3] = rotations_of(np.array(pose["qvec"])), pose["tvec"]
        fx, fy, cx, cy = truth["cameras"][name]["params"]
        cameras[name] = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    names = {key: key.split("|") for key in choice.pairs}
    return {
        key: Cameras(poses[b] @ np.linalg.inv(poses[a]), cameras[a], cameras[b], 0.5)
        for key, (a, b) in names.items()
    }


def pose_scores(choice: Choice, truths: Mapping[str, Cameras]) -> Scores:
    """Return the true score by method and pair: 1 - pose error / 5 degrees."""
    found: dict[str, dict[str, float]] = {}
    for name, outcomes in choice.outcomes.items():
        found[name] = {}
        for key, one in outcomes.items():
            truth, sizes = truths[key], choice.sizes[key]
            est = Estimator("poselib-e", 1.5 * max(*sizes[0], *sizes[1]) / 1000, 0.9999, 10_000, 100)
            T, K0, K1, _ = truth
            values = []
            for seed in range(3):
                x0, x1 = one.points0 + truth.centre, one.points1 + truth.centre
                made = estimate(est, x0, x1, K0, K1, seed)
                error = 180.0
                if made.ok:
                    error = float(np.max(pose_errors(made.R, made.t, T[:3, :3], T[:3, 3], STABLE)[:2]))
                values.append(max(0.0, 1 - error / 5))
            found[name][key] = float(np.mean(values))
    return found


def regret(choice: Choice, true: Scores, keys: Sequence[str]) -> tuple[float, int]:
    """Return the loss in points of choosing by some pairs, and the number of confirmed pairs among them.

    The truth is the mean over all pairs of the folder. Without a confirmed pair, the loss is that of chance.
    """
    order = steady_order(
        {name: {key: found[key].steady for key in keys} for name, found in choice.outcomes.items()},
        {name: {key: found[key].is_confirmed for key in keys} for name, found in choice.outcomes.items()},
        {name: choice.seconds(name) for name in choice.candidates},
    )
    means = {name: float(np.mean(list(values.values()))) for name, values in true.items()}
    got = np.mean(list(means.values())) if order.leader is None else means[order.leader]
    return 100 * (max(means.values()) - float(got)), len(order.pairs)


def random_pairs(names: Sequence[str], limit: int) -> list[Names]:
    """Draw from all pairs."""
    return smallest(list(combinations(names, 2)), limit)


def consecutive(names: Sequence[str], limit: int) -> list[Names]:
    """Draw from neighbours only."""
    return smallest(list(pairwise(names)), limit)


SCHEMES: dict[str, Drawing] = {
    "offsets": offset_pairs, "random": random_pairs, "neighbours": consecutive
}  # fmt: skip


def measure(
    label: str, choice: Choice, true: Scores, limits: Sequence[int], *, shuffle: bool = False
) -> None:
    """Print regret and confirmed pairs of every scheme and limit over seeds.

    Pairs that were not computed count as not confirmed: their images show different scenes.
    """
    names = natural_order({name for key in choice.pairs for name in key.split("|")})
    full, most = regret(choice, true, list(choice.pairs))
    print(f"{label}: {len(names)} images, all {len(choice.pairs)} pairs: {most} confirmed, regret {full:.2f}")
    for scheme, draw in SCHEMES.items():
        for limit in limits:
            losses, counts, sizes, added = [], [], [], []
            for seed in range(SEEDS):
                order = names
                if shuffle:
                    order = [names[i] for i in np.random.default_rng(seed).permutation(len(names))]
                salted = {f"{k:03d} {seed} {name}": name for k, name in enumerate(order)}
                found = [(salted[a], salted[b]) for a, b in draw(list(salted), limit)]
                keys = _known(choice, found)
                loss, confirmed = regret(choice, true, keys)
                extra = 0
                if scheme == "offsets" and confirmed < MIN_PAIRS:
                    drawn = [(a, b) for a, b in draw(list(salted), limit)]
                    more = [(salted[a], salted[b]) for a, b in draw_more(list(salted), drawn, limit)]
                    keys += _known(choice, more)
                    loss, confirmed = regret(choice, true, keys)
                    extra = 1
                losses.append(loss)
                counts.append(confirmed)
                sizes.append(len(found))
                added.append(extra)
            print(
                f"  {scheme:10s} limit {limit:3d}: {np.mean(sizes):5.1f} pairs, {np.mean(counts):5.1f} "
                f"confirmed (least {min(counts)}), regret {np.mean(losses):5.2f}, worst {max(losses):5.2f}"
                f"{f', more pairs in {sum(added)} of {SEEDS}' if any(added) else ''}"
            )


def _known(choice: Choice, found: Sequence[Names]) -> list[str]:
    either = [f"{a}|{b}" if f"{a}|{b}" in choice.pairs else f"{b}|{a}" for a, b in found]
    return [key for key in either if key in choice.pairs]


def drawing(root: Path) -> None:
    """Measure the drawing on each sequence, on the SfM sample, and on all sequences in one folder."""
    everything: dict[str, Choice] = {}
    truths: dict[str, Scores] = {}
    for name in SEQUENCES:
        images = root / name
        H = sequence(name, images)
        pairs = list(combinations(natural_order(H), 2))
        everything[name] = compare(METHODS, images, pairs, root)
        truths[name] = plane_scores(everything[name], H)
        measure(name, everything[name], truths[name], (3, 6, 9, 15))
    images, model = root / "sfm", root / "model"
    images.mkdir()
    shutil.copytree(DATA / "sfm_sample" / "sparse_gt", model)
    for path in (DATA / "sfm_sample" / "images").iterdir():
        shutil.copy(path, images / path.name)
    pairs = list(combinations(natural_order(p.name for p in images.iterdir()), 2))
    sample = compare(METHODS, images, pairs, root)
    measure(
        "sfm_sample", sample, pose_scores(sample, model_cameras(sample, images, model)), (3, 6, 9, 15, 30)
    )
    joined, truth = _joined(everything, truths)
    measure("six sequences in one folder", joined, truth, (9, 15, 30, 60))
    measure("the same, names in random order", joined, truth, (9, 15, 30, 60), shuffle=True)


def _joined(choices: Mapping[str, Choice], truths: Mapping[str, Scores]) -> tuple[Choice, Scores]:
    first = next(iter(choices.values()))
    outcomes = {m: {k: o for c in choices.values() for k, o in c.outcomes[m].items()} for m in first.outcomes}
    pairs = {k: p for c in choices.values() for k, p in c.pairs.items()}
    sizes = {k: s for c in choices.values() for k, s in c.sizes.items()}
    true = {m: {k: v for t in truths.values() for k, v in t[m].items()} for m in first.outcomes}
    return Choice(first.images, first.candidates, pairs, outcomes, sizes), true


def show(label: str, choice: Choice, true: Scores | None = None) -> None:
    """Print steadiness, confirmed pairs, cover and, if known, the true score of every method."""
    print(f"{label}: {len(choice.order.pairs)} of {len(choice.pairs)} pairs confirmed")
    for name in choice.order.methods:
        own = "" if true is None else f", true {np.mean(list(true[name].values())):.2f}"
        print(
            f"  {name.replace('matcher=mnn&', ''):34s} steady {choice.order.scores[name]:.2f}"
            f", {len(choice.confirmed(name))} pairs, cover {choice.cover(name):.2f}{own}"
        )


def breaking(root: Path) -> None:
    """Run dense methods on two sequences, and all methods on repeated structure."""
    for name in ("v_graffiti", "v_dogman", "i_leuven"):
        images = root / f"dense_{name}"
        H = sequence(name, images)
        pairs = list(combinations(natural_order(H), 2))
        for kind, methods in {"flows": DENSE, "grids": GRIDS, "sparse": METHODS[:2]}.items():
            choice = compare(methods, images, pairs, root)
            show(f"{name}, {kind}", choice, plane_scores(choice, H))
            sys.stdout.flush()
    for label, make in STRUCTURES.items():
        images = root / label.replace(" ", "_")
        images.mkdir()
        for side in (0, 1):
            Image.fromarray(make(side)).save(images / f"{side}.png")
        show(label, compare(METHODS[:6], images, [("0.png", "1.png")], root))
    make_rooms(root / "rooms", size=(480, 360), scenes=("repeated",))
    scene = root / "rooms" / "repeated"
    pairs = list(combinations(natural_order(p.name for p in (scene / IMAGES).iterdir()), 2))
    choice = compare(METHODS[:6], scene / IMAGES, pairs, root)
    true = pose_scores(choice, room_cameras(choice, scene))
    show("a facade in which one photograph is repeated", choice, true)
    for name in choice.order.methods:
        wrong = [key for key in choice.confirmed(name) if not true[name][key]]
        print(f"  {name}: confirmed and off by more than 5 degrees: {len(wrong)}")


def _photo(name: str) -> np.ndarray:
    with Image.open(DATA / "sequences" / name / "1.png") as image:
        return np.asarray(image.convert("RGB").resize((512, 384), Image.Resampling.LANCZOS))


def same_tile(side: int) -> np.ndarray:
    """Return a random tile, repeated; the second image starts elsewhere in the tile."""
    tile = np.random.default_rng(0).integers(0, 255, (50, 50, 3), dtype=np.uint8)
    return np.roll(np.tile(tile, (8, 11, 1))[:384, :512], 17 * side, axis=1)


def facade(side: int) -> np.ndarray:
    """Return two different walls with the same window in a grid, as neighbouring buildings have."""
    rng = np.random.default_rng(5 + side)
    wall = rng.normal(150, 12, (384, 512, 1)).repeat(3, axis=2)
    window = _photo("v_wormhole")[100:148, 200:236]
    for y in range(20, 330, 70):
        for x in range(15 + 9 * side, 470, 60):
            wall[y : y + 48, x : x + 36] = window
    return np.clip(wall, 0, 255).astype(np.uint8)


def poster(side: int) -> np.ndarray:
    """Return unrelated photographs with the same poster at different places."""
    image = _photo("i_leuven" if side else "v_dogman").copy()
    small = np.asarray(Image.fromarray(_photo("v_graffiti")).resize((200, 150), Image.Resampling.LANCZOS))
    x, y = (30, 40) if side else (270, 180)
    image[y : y + 150, x : x + 200] = small
    return image


def twins(side: int) -> np.ndarray:
    """Return unrelated photographs, each with the same object twice."""
    image = _photo("i_leuven" if side else "v_dogman").copy()
    small = np.asarray(Image.fromarray(_photo("v_graffiti")).resize((140, 105), Image.Resampling.LANCZOS))
    for x, y in ((20, 30), (330, 200)) if side else ((40, 220), (300, 60)):
        image[y : y + 105, x : x + 140] = small
    return image


STRUCTURES = {
    "repeated tile": same_tile,
    "two facades with one window": facade,
    "one poster in two photographs": poster,
    "one object twice in two photographs": twins,
}


def main() -> None:
    """Run the parts that are named, by default both."""
    for part in sys.argv[1:] or ("drawing", "breaking"):
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            {"drawing": drawing, "breaking": breaking}[part](Path(folder))
            print(f"{part}: {time.process_time() - started:.0f} s CPU")


if __name__ == "__main__":
    main()
