# SPDX-License-Identifier: BSD-3-Clause
"""Data that the cells of `equality.py` read: demo set, patches, lists, files of older tools."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equality_pages import pixels
from equality_snapshot import Cell, Place, command, file_hashes

EXPERIMENT = """\
experiment: {name: equality, author: bench}
dataset: {path: WORK/demo/sequences, scenes: [i_coins, v_astronaut]}
keypoints: {generator: [sift, surf], max_features: 120, source: independent_detection}
descriptors:
  - {name: sift, type: sift}
  - {name: dsp, type: sift, pooling: domain_size_pooling, scales: [1, 1.5],
     rooting_stage: [none, after_pooling]}
  - {name: two, type: composite, components: [{descriptor: sift}, {descriptor: surf, extended: true}]}
evaluation:
  protocols: [exact, workbench]
  tau_px: 3
  geometry: true
  gallery: [50, 100]
  image_retrieval: {enabled: true, scorer: total_matches}
  matching: {method: [brute_force, ratio_test], ratio_threshold: 0.8}
  keypoint_verification: {enabled: true, num_distractor_scenes: 2, num_distractors_per_scene: 20, seed: 42}
performance: {num_threads: 1, on_bad: error}
"""

PROJECTED = """\
experiment: {name: projected, author: bench}
dataset: {path: WORK/demo/sequences, scenes: [i_coins, v_astronaut]}
keypoints: {generator: sift, max_features: 100, source: homography_projection}
descriptors: [{name: root, type: sift, rooting_stage: after_pooling, pooling: dsp, scales: [1, 1.4]}]
evaluation: {protocols: [exact, workbench], policy: mutual, gallery: [25]}
performance: {num_threads: 1, on_bad: miss}
"""

NOISES = ("easy", "hard", "tough")
MATLAB_TABLES = {
    "verification.csv": "descriptor,split,negs,geom_noise,method,pr_auc,pr_ap,roc_auc\n"
    + "".join(
        f"sift,full,{n},{z},{m},0.5,{0.6 if n == 'inter' else 0.4},0.9\n"
        for n in ("inter", "intra")
        for z in NOISES
        for m in ("balanced", "imbalanced")
    ),
    "matching.csv": "descriptor;sequence;geom_noise;ima;imb;ap;auc;sr\n"
    + "".join(
        f"sift;{s};{z};0;{k};{0.1 * k + 0.01 * len(s)};0.1;{0.2 if s[0] == 'i' else 0.4}\n"
        for s in ("i_ab", "i_c", "v_def", "v_g", "v_hi")
        for z in NOISES
        for k in range(1, 6)
    ),
    "retrieval.csv": "descriptor,split,geom_noise,method,mauc,map\n"
    "sift,full,easy,keepall,0.5,0.6\nsift,full,hard,keepall,0.4,0.4\nsift,full,tough,keepall,0.3,0.2\n",
}
WORKBENCH = """
create table experiments (id integer primary key, descriptor_type text, dataset_name text,
 pooling_strategy text, similarity_threshold real, max_features integer, timestamp text, parameters text,
 keypoint_set_id integer, keypoint_source text, descriptor_dimension integer, execution_device text);
create table results (id integer primary key, experiment_id integer, true_map_macro real,
 true_map_micro real, true_map_macro_with_zeros real, true_map_micro_with_zeros real,
 image_retrieval_map real default -1, viewpoint_map real, illumination_map real,
 keypoint_verification_ap real default -1, keypoint_retrieval_ap real default -1,
 mean_average_precision real, precision_at_1 real, precision_at_5 real, total_matches integer,
 total_keypoints integer, processing_time_ms real, timestamp text, metadata text);
insert into experiments values
 (1,'sift','d','none',0.05,100,'2026-01-01','descriptor_type=sift;norm_type=l1;',null,'database',128,'cpu'),
 (2,'orb','d','none',0.05,100,'2026-01-01','descriptor_type=orb;',null,'database',32,'cpu'),
 (3,'bad','d','none',0.05,100,'2026-01-01','descriptor_type=sift;',null,'database',128,'cpu');
insert into results values
 (1,1,0.35,0.35,0.175,0.175,0.8,0.35,0.0,0.2,-1,0.35,0.3,0.5,0,0,0,'','success=1;SCENES'),
 (2,2,0.05,0.06,0.02,0.02,-1,0.05,0.05,-1,0.1,0.05,0.01,0.05,0,0,0,'','success=1;'),
 (3,3,0,0,0,0,-1,0,0,-1,-1,0,0,0,0,0,0,'','success=0;error_message=no keypoints;');
"""

WORKBENCH_CSV = (
    "experiment_name,experiment_id,descriptor_type,pooling_strategy,mean_average_precision,true_map_macro,"
    "true_map_micro,precision_at_1,precision_at_5,processing_time_s\n"
    "x,1,sift,none,0.53,0.53,0.56,0.52,0.59,0\nx,2,l2net,none,0,0,0,0,0,0\n"
)


def contact_sheets(place: Place) -> dict[str, Any]:
    """Hash the pixels of the contact sheets that ``data cut`` writes beside the patches."""
    found = sorted(p for p in place.work.glob("*-contact-sheets/*") if p.is_file())
    return {"values": {"pixels": {f"{p.parent.name}/{p.name}": pixels(p.read_bytes()) for p in found}}}


def link_three(place: Place) -> dict[str, Any]:
    """Link three real sequences into a separate dataset."""
    folder = place.work / "three"
    folder.mkdir()
    for name in THREE:
        (folder / name).symlink_to((place.data / "sequences" / name).resolve(strict=True))
    return {}


def vectors(name: str, count: int, dims: int) -> np.ndarray:
    """Return rows of numbers that depend on a name only."""
    return np.random.default_rng(zlib.crc32(name.encode())).normal(size=(count, dims))


def write_descriptors(folder: Path, lengths: Mapping[str, int], images: Sequence[str], dims: int) -> None:
    """Write descriptors of sequences without patches: ``plain`` of length 1, ``whole`` of small integers."""
    for sequence, count in lengths.items():
        base = vectors(sequence, count, dims)
        for i, image in enumerate(images):
            rows = base + 0.25 * (i % 6 + 1) ** 0.5 * vectors(f"{sequence}.{image}", count, dims)
            unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            for kind, values in (("plain", unit), ("whole", np.round(rows) + 9.0)):
                (folder / kind / sequence).mkdir(parents=True, exist_ok=True)
                np.save(folder / kind / sequence / f"{image}.npy", values.astype(np.float32))


def make_v1(place: Place) -> dict[str, Any]:
    """Write lengths and descriptors for the definitions of 2016."""
    root, out = place.data / "hpatches_v1", place.work / "v1"
    lengths: dict[str, int] = {}
    for line in (root / "matching" / "train_example.labels").read_text().splitlines():
        if "ref" in line:
            sequence = line.split(".", 1)[0]
        else:
            lengths[sequence] = len(line.split(","))
    for name in ("train_hard_5s_00.benchmark", "train_hard_5s_00.labels"):
        for identifier in (root / "retrieval" / name).read_text().replace("\n", ",").split(","):
            parts = identifier.strip().split(".")
            if len(parts) == 3:
                lengths[parts[0]] = max(lengths.get(parts[0], 0), int(parts[2]) + 1)
            elif len(parts) == 2:
                lengths.setdefault(parts[0], 1)
    images = ["ref", *(f"{z}{k}" for z in "eh" for k in range(1, 6))]
    write_descriptors(out, lengths, images, 16)
    (out / "lengths.json").write_text(json.dumps({"lengths": lengths, "images": images}))
    return {"values": {"lengths": lengths}}


def make_v2(place: Place) -> dict[str, Any]:
    """Write lengths, descriptors and published retrieval lists for some sequences of split a of 2017."""
    root, out = place.data / "hpatches_tasks", place.work / "v2"
    split = json.loads((root / "splits.json").read_text())["a"]
    few = {
        "test": [s for k in "iv" for s in [t for t in split["test"] if t[0] == k][:3]],
        "train": [s for k in "iv" for s in [t for t in split["train"] if t[0] == k][:2]],
    }
    lengths = dict.fromkeys([*few["test"], *few["train"]], 120)
    (out / "tasks").mkdir(parents=True, exist_ok=True)
    for kind in ("queries", "distractors"):
        lines = (root / f"retr_{kind}_split-a.csv").read_text().splitlines()
        chosen = [r for r in lines[1:] if r.split(",")[0] in few["test"] and int(r.split(",")[1]) < 400]
        (out / "tasks" / f"retr_{kind}_split-a.csv").write_text("\n".join([lines[0], *chosen]) + "\n")
        for row in chosen:
            lengths[row.split(",")[0]] = max(lengths[row.split(",")[0]], int(row.split(",")[1]) + 1)
    images = ["ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6))]
    (out / "tasks" / "splits.json").write_text(json.dumps({"a": {**split, **few}}))
    write_descriptors(out, lengths, images, 8)
    (out / "lengths.json").write_text(json.dumps({"lengths": lengths, "images": images}))
    return {"values": {"lengths": lengths, "files": file_hashes(out / "tasks")}}


def make_networks(place: Place) -> dict[str, Any]:
    """Write a TorchScript and an ONNX model that multiply a patch by a matrix."""
    import onnx
    import torch

    weights = (vectors("network", 64, 24) / 8).astype(np.float32)

    class Product(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(torch.from_numpy(weights), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.flatten(1) @ self.weights) + 0.01

    torch.jit.trace(Product(), torch.zeros(1, 1, 8, 8)).save(str(place.work / "product.pt"))
    without_places(place.work / "product.pt")
    make = onnx.helper
    graph = make.make_graph(
        [make.make_node("Flatten", ["x"], ["f"], axis=1), make.make_node("MatMul", ["f", "w"], ["d"])],
        "product",
        [make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 1, 8, 8])],
        [make.make_tensor_value_info("d", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, place.work / "product.onnx")
    return {}


def make_keypoint_files(place: Place) -> dict[str, Any]:
    """Write keypoints with descriptors as another program does, at exported positions."""
    for path in sorted((place.work / "exported").glob("*/*.csv")):
        table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
        folder = place.work / "npz" / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        rows = np.abs(vectors(path.stem, len(table), 32)) + table[:, :2].mean() / 100
        rows += np.abs(vectors("rows", 4000, 32))[: len(table)]
        np.savez(folder / f"{path.stem}.npz", keypoints=table[:, :3], descriptors=rows.astype(np.float32))
    return {}


def make_texts(place: Place) -> dict[str, Any]:
    """Write user code, experiments, splits, tables and a database of older tools."""
    work = place.work
    shutil.copyfile(Path(__file__).with_name("equality_user.py"), work / "user.py")
    (work / "experiment.yaml").write_text(place.full(EXPERIMENT))
    (work / "projected.yaml").write_text(place.full(PROJECTED))
    (work / "splits").mkdir()
    test = ["i_brick", "i_chelsea", "i_coffee", "v_astronaut", "v_camera"]
    own = {"mine": {"name": "mine", "test": test, "train": ["i_coins", "v_gravel", "v_motorcycle"]}}
    (work / "splits" / "splits.json").write_text(json.dumps(own))
    (work / "matlab").mkdir()
    for name, text in MATLAB_TABLES.items():
        (work / "matlab" / name).write_text(text)
    scenes = "".join(
        f"v_{s}_true_map={0.1 * (i + 1):.6f};v_{s}_query_count=100;"
        f"v_{s}_true_map_with_zeros={0.05 * (i + 1):.6f};v_{s}_excluded_count=100;"
        for i, s in enumerate("abcdef")
    )
    (work / "experiment_summary_full.csv").write_text(WORKBENCH_CSV)
    with sqlite3.connect(work / "experiments.db") as database:
        database.executescript(WORKBENCH.replace("SCENES", scenes))
    database.close()
    return {}


def make_pair(place: Place) -> dict[str, Any]:
    """Copy the Middlebury pair into the layout of ``dense/flow``."""
    folder = place.work / "pairs" / "RubberWhale"
    folder.mkdir(parents=True)
    for name, source in (("image1.png", "1.png"), ("image2.png", "2.png"), ("flow.flo", ".flo")):
        shutil.copyfile(place.data / "flow" / f"RubberWhale{source}", folder / name)
    return {}


THREE = ("i_leuven", "v_dogman", "v_graffiti")


def make_model(place: Place) -> dict[str, Any]:
    """Copy the COLMAP model and add a list of pairs."""
    source, out = place.data / "sfm_sample", place.work / "model"
    shutil.copytree(source / "images", out / "images")
    for name in ("cameras.txt", "images.txt", "points3D.txt"):
        shutil.copyfile(source / "sparse_gt" / name, out / name)
    names = sorted(p.name for p in (out / "images").iterdir())
    lines = [f"{a} {b}" for a, b in zip(names[::2], names[1::2], strict=True)]
    (out / "pairs.txt").write_text("\n".join(lines) + "\n")
    return {"values": {"counts": {"pairs": len(lines)}}}


def without_places(path: Path) -> None:
    """Remove the source locations, and the id made from them, of a TorchScript file."""
    left_out = (".debug_pkl", "serialization_id")
    with zipfile.ZipFile(path) as archive:
        entries = [
            (i.filename, archive.read(i)) for i in archive.infolist() if not i.filename.endswith(left_out)
        ]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name), data)


def copy_results(place: Place) -> dict[str, Any]:
    """Copy the results of the TSS kit twice: all of them, and with some missing."""
    for name in ("tss-results", "tss-part"):
        shutil.copytree(place.data / "tss" / "Results", place.work / name)
        for scores in (place.work / name).rglob("scores.csv"):
            scores.unlink()
    shutil.rmtree(place.work / "tss-part" / "JODS" / "car_01_02")
    (place.work / "tss-part" / "FG3DCar" / "001_005" / "flow2.flo").unlink()
    return {}


def data_cells() -> Iterator[Cell]:
    """Create the data that the other parts read; always run."""
    part = "data"
    yield Cell(part, "texts", make_texts)
    yield command(part, "data make WORK/demo", files="WORK/demo")
    for name, source, more in (("patches", "demo/sequences", ""), ("three-patches", "three", "--seed 5 ")):
        if name == "three-patches":
            yield Cell(part, "three real sequences", link_three)
        line = f"data cut --data WORK/{source} --out WORK/{name} --max-patches 48 {more}--jobs 1"
        yield command(part, line, files=f"WORK/{name}")
    yield Cell(part, "contact sheets", contact_sheets)
    yield command(part, "data pack WORK/three-patches --to WORK/packed/three.tiepack", files="WORK/packed")
    tasks = "data tasks --data WORK/patches --out WORK"
    yield command(part, f"{tasks}/benchmarks --suite hpatches-v1", files="WORK/benchmarks")
    yield command(part, f"{tasks}/lists --suite hpatches", files="WORK/lists")
    yield command(part, f"{tasks}/clean --suite hpatches --lists clean --seed 3", files="WORK/clean")
    for method in ("rootsift", "orb", "vlfeat-sift"):
        out = f"WORK/described/{method}"
        yield command(part, f"describe {method} --data WORK/patches --out {out} --on-bad miss", files=out)
    for method in ("sift", "brisk", "resize", "kornia:TFeat?weights=DATA/weights/tfeat/tfeat-liberty.params"):
        out = f"WORK/strip/{method.split(':')[0]}"
        yield command(part, f"describe {method} --data DATA/patches --out {out} --on-bad miss", files=out)
    own = "--data WORK/demo/sequences --store WORK/store"
    made = f"--border-px 12 {own}"
    yield command(part, f"keypoints make near --detector sift --max-features 200 {made}")
    yield command(part, f"keypoints make other --detector surf --max-features 200 {made}")
    yield command(part, f"keypoints make moved --detector sift --mode projected --max-features 120 {made}")
    yield command(part, f"keypoints make sift_surf_8k {own}")
    yield command(part, "keypoints intersect near other --out shared --tolerance-px 4 --store WORK/store")
    yield command(part, "keypoints subset near --out large --count 60 --by size --store WORK/store")
    line = "keypoints subset near --out some --count 900 --scope set --by random --store WORK/store"
    yield command(part, line)
    for name in ("near", "moved", "shared_b", "some", "sift_surf_8k_a"):
        out = "WORK/exported" if name == "near" else f"WORK/sets/{name}"
        yield command(part, f"keypoints export {name} --out {out} --store WORK/store", files=out)
    workbench = "keypoints export near --names workbench --out WORK/sets/workbench --store WORK/store"
    yield command(part, workbench, files="WORK/sets/workbench")
    yield command(part, f"keypoints import WORK/exported --name again {own}")
    for name, shown in (("dis", "dis"), ("Shift", "WORK/user.py:Shift")):
        out = f"WORK/results/{name}"
        line = f"run {shown} --task tss --data WORK/demo/dense --protocol exact,tss-cpp --jobs 1 --json"
        yield command(part, f"{line} --write-results {out}", files=out, store=f"tss-{name}")
    yield Cell(part, "keypoint files", make_keypoint_files)
    yield Cell(part, "definitions of 2016", make_v1)
    yield Cell(part, "lists of 2017", make_v2)
    yield Cell(part, "networks", make_networks)
    yield Cell(part, "Middlebury pair", make_pair)
    yield Cell(part, "results of the TSS kit", copy_results)
