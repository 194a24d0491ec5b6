# SPDX-License-Identifier: BSD-3-Clause
"""Cells of `equality.py` by part: methods on tasks, and results of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from equality_data import data_cells, make_model
from equality_interface import interface_cells
from equality_masks import json_parts
from equality_matches import match_cells
from equality_outputs import output_cells
from equality_serve import serve_cells
from equality_snapshot import (
    KEYPOINT_TASKS,
    PROTOCOLS,
    V1_TASKS,
    V2_TASKS,
    Cell,
    Place,
    command,
    compared,
    merged,
    run,
    runs,
    shown,
)
from equality_store import store_cells

PATCH_METHODS = [
    "pixels", "meanstd", "resize?size=6", "vlfeat-sift", "brief", "brisk", "freak", "latch", "akaze", "daisy",
    "boostdesc", "beblid", "teblid", "sift+l2", "sift+power", "sift+rootsift", "vlfeat-sift+rootsift+l2",
    "files:WORK/described/rootsift", "files:WORK/described/rootsift?distance=l1", "files:WORK/described/orb",
    "WORK/user.py:Small", "WORK/user.py:Small?step=16+l2", "WORK/user.py:SmallL1", "WORK/user.py:SmallCosine",
    "WORK/user.py:Bits", "WORK/user.py:Masked", "WORK/user.py:Faulty", "torchscript:WORK/product.pt?size=8",
    "onnx:WORK/product.onnx?input=zscore", "kornia:TFeat?weights=DATA/weights/tfeat/tfeat-liberty.params",
    "kornia:TFeat?weights=DATA/weights/hardtfeat/HardTFeat.pth",
]  # fmt: skip
FITTED = [
    "sift+pca?dims=32", "sift+pca?dims=16&whiten=true+l2", "sift+zca?clip=0.1+power", "sift+hpatches-python",
    "sift+hpatches-matlab?clip=0.25",
]  # fmt: skip
KEYPOINT_METHODS = [
    "rootsift", "sift+l2", "sift?contrast_threshold=0.06&sigma=1.4", "akaze", "kaze",
    "brisk?max_features=400", "surf", "surf?extended=true&upright=true", "honc@sift?max_features=300",
    "rgbsift", "rgbsift_channel_avg", "dspsift", "dspsift?root=after",
    "dspsift?scales=1,2&aggregation=max&normalize=before", "dsp:sift?aggregation=WORK/user.py:Median",
    "dsp:sift?scales=1,1.5&aggregation=concatenate&norm=l1",
    "dsp:surf?aggregation=weighted&weighting=triangular",
    "dsp:surf?aggregation=weighted&weighting=gaussian&weight_sigma=0.5", "dsp:sift?aggregation=min@fast",
    "dsprgbsift@set:large", "dsphonc@set:large", "fuse:sift,surf@sift",
    "fuse:sift,rootsift?aggregation=weighted&weights=2,1@surf", "fuse:sift@set:shared_a,surf@set:shared_b",
    "brief@fast?threshold=30", "brief@agast", "freak@gftt", "latch@mser", "boostdesc@brisk?max_features=200",
    "beblid@orb?max_features=300", "teblid@harris?max_features=300", "daisy@grid",
    "vgg@random?max_features=60", "patch:resize@sift?max_features=300",
    "patch:vlfeat-sift?magnification=4@set:near", "kaze@set:near", "akaze@set:near", "sift@set:moved",
    "sift@set:some", "sift@set:again", "surf@set:sift_surf_8k_b", "sift@files:WORK/exported",
    "files:WORK/npz", "constant@sift?max_features=200", "oracle@set:moved", "WORK/user.py:Both",
    "WORK/user.py:Squares@sift", "sift@WORK/user.py:Places+rootsift",
    "torchscript:WORK/product.pt?patch_px=8@set:large", "onnx:WORK/product.onnx?patch_px=8@set:large",
    "kornia:TFeat?weights=DATA/weights/tfeat/tfeat-liberty.params@set:large",
    "kornia:TFeat?weights=DATA/weights/hardtfeat/HardTFeat.pth&upright=true@set:large",
    "sift@keynet?weights=DATA/weights/keynet/keynet_pytorch.pth&max_features=200",
    "xfeat?weights=DATA/weights/xfeat_onnx/xfeat_dense.onnx",
    "xfeat?weights=DATA/weights/xfeat_onnx/xfeat_dense.onnx@set:near",
]  # fmt: skip


class Halves:
    """A method that is given as an object."""

    name = "halves"

    def describe(self, patches: np.ndarray) -> np.ndarray:
        """Return the means of a 5 x 5 grid."""
        n, side = len(patches), patches.shape[1] // 5 * 5
        cells = patches[:, :side, :side].reshape(n, 5, side // 5, 5, side // 5)
        means: np.ndarray = cells.mean(axis=(2, 4)).reshape(n, 25).astype(np.float32)
        return means + 1.0


def patch_cells() -> Iterator[Cell]:
    """Run patch descriptors on the demo set and on patches cut from real images."""
    part, data, miss = "patches", "WORK/patches", {"on_bad": "miss"}
    v1 = {"tasks": "WORK/benchmarks", **miss}
    main = ["sift", "rootsift", "orb", "resize", "oracle", "random", "constant", "WORK/user.py:Coarse"]
    yield from runs(part, V1_TASKS, main, data, **v1)
    yield from runs(part, V2_TASKS, main, data, **miss)
    for method in (*PATCH_METHODS, Halves()):
        yield run(part, "hpatches-v1/matching", method, data, **v1, benchmark="all_easy_*")
        yield run(part, "hpatches/matching", method, data, **miss)
    ties = ["WORK/user.py:Bits", "WORK/user.py:Masked", "WORK/user.py:Faulty", "files:WORK/described/orb"]
    yield from runs(part, V1_TASKS[:1], ties, data, **v1, benchmark="all_sameseq_hard")
    yield from runs(part, V1_TASKS[2:], ties, data, **v1, benchmark=["all_hard_5s_0", "all_easy_8s_0"])
    yield from runs(part, (V2_TASKS[0], V2_TASKS[2]), ties, data, **miss)
    clean = ["sift", "orb", "WORK/user.py:Faulty"]
    yield from runs(part, V2_TASKS[:1], clean, data, **miss, lists="clean")
    yield from runs(part, V2_TASKS, ["sift", "constant"], data, **miss, tasks="WORK/lists", split="all")
    yield run(part, "hpatches/verification", "sift", data, **miss, tasks="WORK/clean", split="all")
    for split in ("illum", "view"):
        yield from runs(part, V2_TASKS, ["orb"], data, **miss, split=split)
    yield from runs(part, V2_TASKS, ["WORK/user.py:Faulty"], data, on_bad="keep-zeros")
    yield from runs(part, V2_TASKS[1:2], ["WORK/user.py:Faulty"], data)
    own = {"tasks": "WORK/splits", "split": "mine", **miss}
    yield from runs(part, V2_TASKS[1:2], ["sift", *FITTED], data, **own)
    yield from runs(part, (V2_TASKS[0], V2_TASKS[2]), FITTED[2:4], data, **own)
    yield from runs(part, V2_TASKS[1:2], ["orb", "vlfeat-sift"], data, **own, sequences="all")
    foreign = {"fit_on": "WORK/three-patches"}
    yield from runs(part, V2_TASKS[1:2], [FITTED[0], *FITTED[3:]], data, **foreign, **miss)
    yield from runs(part, V1_TASKS[1:], FITTED[2:3], data, **v1, **foreign)
    real = ["sift", "rootsift", "orb", "brief", "kornia:TFeat?weights=DATA/weights/hardtfeat/HardTFeat.pth"]
    yield from runs(part, V2_TASKS, real[1:3], "WORK/three-patches", **miss, split="all")
    yield from runs(part, V2_TASKS[1:2], real, "WORK/three-patches", **miss, split="all")
    yield run(part, V2_TASKS[1], "sift", "WORK/three-patches", tasks="DATA/hpatches_tasks", split="a")
    yield run(part, V2_TASKS[1], "sift", data, split="nonsense")
    yield run(part, V2_TASKS[1], "sitf", data)
    for task in (*V1_TASKS, *V2_TASKS):
        options = v1 if task in V1_TASKS else miss
        cells = {m: run(part, task, m, data, **options) for m in main}
        yield shown(part, cells["orb"], curves=task.endswith("ation"))
        yield shown(part, cells["WORK/user.py:Coarse"])
        yield compared(part, task, list(cells.values())[:4])
        yield compared(part, task, list(cells.values())[:2], protocol=PROTOCOLS[task][1])


def definition_cells() -> Iterator[Cell]:
    """Run generated descriptors on published definitions and lists."""
    part = "definitions"
    old: dict[str, Any] = {"tasks": "DATA/hpatches_v1"}
    new: dict[str, Any] = {"tasks": "WORK/v2/tasks", "split": "a"}
    v1 = ["files:WORK/v1/plain", "files:WORK/v1/whole"]
    v2 = ["files:WORK/v2/plain", "files:WORK/v2/whole"]
    yield from runs(part, V1_TASKS, v1, "WORK/v1", **old, benchmark="train_example")
    yield from runs(part, V1_TASKS[2:], v1, "WORK/v1", **old, benchmark="train_hard_5s_00")
    yield from runs(part, V2_TASKS, v2, "WORK/v2", **new)
    yield run(part, "hpatches/verification", v2[1], "WORK/v2", **new, lists="clean")
    yield run(part, "hpatches/matching", v2[1], "WORK/v2", **new, sequences="all")
    for fit in ("pca?dims=4", "hpatches-python", "hpatches-matlab"):
        yield run(part, "hpatches/matching", f"{v2[0]}+{fit}", "WORK/v2", **new)


def keypoint_cells() -> Iterator[Cell]:
    """Run keypoint methods on the demo set."""
    part, data = "keypoints", "WORK/demo/sequences"
    few = {"scenes": "i_coins,v_astronaut,v_camera"}
    small = {**few, "gallery": "100,250"}
    main = ["sift", "orb?max_features=400", "surf@set:near", "random@sift?max_features=300"]
    for method in main:
        yield run(part, KEYPOINT_TASKS[0], method, data, **small)
        yield from runs(part, KEYPOINT_TASKS[1:], [method], data, **few)
    yield run(part, KEYPOINT_TASKS[0], "rootsift@set:large", data, gallery="25,50")
    yield from runs(part, KEYPOINT_TASKS[1:4], ["rootsift@set:large"], data)
    yield from runs(part, KEYPOINT_TASKS[:1], KEYPOINT_METHODS, data, **small, on_bad="miss")
    for method in ("fuse:sift,surf@sift", "dspsift", "WORK/user.py:Both", "akaze"):
        yield run(part, "keypoints/geometry", method, data, **few, on_bad="miss")
    odd = ["constant@sift?max_features=200", "oracle@set:moved", "brief@fast?threshold=30"]
    yield from runs(part, KEYPOINT_TASKS[1:], odd, data, **few, on_bad="miss")
    variants: tuple[tuple[Sequence[str], str, Sequence[dict[str, Any]]], ...] = (
        (
            KEYPOINT_TASKS[:1],
            "sift",
            ({"policy": "nearest"}, {"policy": "mutual"}, {"tau_px": 1.5}, {"seed": 7}),
        ),
        (KEYPOINT_TASKS[:1], "sift@set:moved", ({"keypoint_source": "homography_projection"},)),
        (
            KEYPOINT_TASKS[1:4],
            "orb?max_features=400",
            ({"tau_px": 2, "seed": 1}, {"iterations": 2, "queries": 40}),
        ),
        (
            ("keypoints/verification", "keypoints/retrieval"),
            "orb?max_features=400",
            (
                {"distractor_images": 5, "self_distractor": True},
                {"num_distractor_scenes": 1, "num_distractors_per_scene": 5},
            ),
        ),
        (
            ("keypoints/images",),
            "sift@set:moved",
            (
                {"matching": "ratio_test"},
                {"matching": "WORK/user.py:Matcher"},
                {"scorer": "ratio_sum"},
                {"scorer": "correct_matches"},
                {"seed": 3},
            ),
        ),
        (
            ("keypoints/geometry",),
            "sift",
            (
                {"ratio": 0.7},
                {"ransac_px": 1.5, "max_iterations": 500},
                {"seed": 9},
                {"matcher": "WORK/user.py:Matcher"},
            ),
        ),
    )
    for tasks, method, choices in variants:
        for options in choices:
            yield from runs(part, tasks, [method], data, **few, **options)
    for task in KEYPOINT_TASKS:
        cells = [run(part, task, m, data, **(small if task.endswith("ranking") else few)) for m in main[:3]]
        if len(PROTOCOLS[task]) > 1:
            yield shown(part, cells[0], curves=task.endswith(("ranking", "verification")))
        yield compared(part, task, cells, allow=("weights",))
    halves = [
        run(part, "keypoints/geometry", "sift?max_features=100", data, scenes=scenes)
        for scenes in ("i_coins,i_brick", "v_camera")
    ]
    yield from halves
    yield merged(part, halves)


def sequence_cells() -> Iterator[Cell]:
    """Run keypoint methods on real sequences."""
    part, data, few = "sequences", "DATA/sequences", {"scenes": "i_leuven,v_dogman,ox_ubc"}
    xfeat = "xfeat?weights=DATA/weights/xfeat_onnx/xfeat_dense.onnx&max_features=300"
    main = ["sift?max_features=300", "orb?max_features=300", "surf?max_features=300", xfeat]
    yield from runs(part, KEYPOINT_TASKS, main[:2], data, **few)
    yield from runs(part, KEYPOINT_TASKS[:1], [*main[2:], "rootsift?max_features=150"], data, **few)
    yield run(part, "keypoints/geometry", main[3], data, **few)
    yield run(part, "keypoints/geometry", "rootsift?max_features=150", data)
    more = ["dspsift?max_features=300", "akaze?max_features=300", "fuse:sift,surf@sift?max_features=300"]
    yield from runs(part, ("keypoints/ranking", "keypoints/geometry"), more, data, **few)
    hard = "kornia:TFeat?weights=DATA/weights/hardtfeat/HardTFeat.pth@"
    keynet = "keynet?weights=DATA/weights/keynet/keynet_pytorch.pth&max_features=200"
    yield run(part, "keypoints/ranking", hard + keynet, data, scenes="v_wormhole", gallery="100")
    yield run(part, "keypoints/geometry", hard + "sift?max_features=200", data, scenes="v_bark")


def not_repeatable(place: Place) -> dict[str, Any]:
    """Run OpenCV's sparse-to-dense flow, whose numbers differ between two calls; keep id and row names."""
    import tiepoint as tp

    data, store = place.work / "demo" / "dense", place.work / "stores" / "not-repeatable"
    made = tp.evaluate("sparse-to-dense", task="tss", data=data, store=store, progress=False)
    rows = [f"{r['protocol']} {r['metric']} {r['group']}" for r in made.scores.to_dict("records")]
    return {"values": {"run id": made.id, "row names": rows}, "words": {}}


def dense_cells() -> Iterator[Cell]:
    """Run dense methods on the demo set and on real pairs."""
    part, demo, kit = "dense", "WORK/demo/dense", "DATA/tss/Dataset"
    results, own = "files:DATA/tss/Results", "WORK/user.py:Shift"
    main = [
        "zero",
        "dis",
        "farneback",
        "homography",
        "sparse",
        "sparse?features=orb",
        own,
        "WORK/user.py:Both",
    ]
    yield from runs(part, ("tss", "dense/flow"), [*main, "WORK/user.py:Both"], demo)
    slow = ["deepflow", "pcaflow", "rlof", "tvl1", "dense-sift"]
    yield from runs(part, ("tss",), slow, demo)
    yield Cell(part, "tss | sparse-to-dense | not repeatable", not_repeatable)
    yield run(part, "tss", "dis", demo, auto_flip=True, use_prec=True)
    yield run(part, "tss", own, demo, auto_flip=True)
    yield from runs(part, ("tss",), ["files:WORK/results/Shift/shift"], demo)
    yield from runs(part, ("tss", "dense/flow", "dense/pck"), [results, "dis"], kit)
    yield run(part, "tss", "zero", kit)
    yield run(part, "tss", results, kit, auto_flip=True, use_prec=True)
    yield from runs(part, ("tss",), [results, "dense-sift"], kit, subsets="JODS")
    for missing in ("error", "skip", "zero"):
        yield from runs(part, ("tss", "dense/flow"), ["files:WORK/tss-part"], kit, missing=missing)
    yield run(part, "dense/pck", results, kit, scale="box", alphas="0.05,0.2")
    yield from runs(part, ("dense/flow",), ["zero", "dis"], "DATA/sequences")
    yield run(part, "dense/flow", "homography", "DATA/sequences", kinds="i")
    options = {"thresholds_px": "2,4", "alphas": "0.02", "kinds": "v"}
    yield run(part, "dense/flow", "farneback", "WORK/demo/sequences", **options)
    yield from runs(part, ("dense/flow",), ["dis", "farneback", "sparse"], "WORK/pairs")
    willow = "DATA/pf_willow"
    yield from runs(part, ("dense/pck",), ["zero", "dis"], willow)
    yield run(part, "dense/pck", "sparse", willow, kinds="duck(S)", scale="image", alphas="0.05,0.15")
    yield run(part, "dense/pck", "dis", willow, kinds="car(S)", alphas="0.2")
    for task, data in (("tss", demo), ("dense/flow", demo), ("dense/pck", willow)):
        cells = [run(part, task, m, data) for m in ("dis", "zero")]
        if len(PROTOCOLS[task]) > 1:
            yield shown(part, cells[0])
        yield compared(part, task, cells)


def pair_cells() -> Iterator[Cell]:
    """Run matchers of two images on real pairs, under all protocols."""
    part, mutual = "pairs", "sift?matcher=mnn&ratio=0.8&max_features=1000"
    xfeat = "xfeat?weights=DATA/weights/xfeat_onnx/xfeat_dense.onnx&max_features=800"
    yield from runs(part, ("pose/relative",), [mutual, xfeat, "klt"], "DATA/megadepth_sample")
    yield from runs(part, ("pose/relative",), [mutual, "oracle"], "DATA/scannet_sample")
    yield from runs(part, ("pose/relative",), ["random", "constant"], "DATA/scannet_sample", protocol="zeb")
    yield run(part, "pose/relative", mutual, "DATA/scannet_sample", protocol="imc")
    few = {"protocol": ("exact", "dad"), "seeds": 2}
    for options in ({"estimator": "opencv"}, {"threshold_px": 2}, {"budget": "50,100"}):
        yield run(part, "pose/relative", mutual, "DATA/scannet_sample", **few, **options)
    yield run(
        part, "pose/relative", mutual, "DATA/scannet_sample", protocol=("loftr", "roma"), frame="long:800"
    )
    small = "orb?max_features=200"
    yield Cell(part, "COLMAP model with pairs", make_model)
    yield run(part, "pose/relative", small, "WORK/model", protocol=("exact", "zeb"), seeds=1)
    line = "run oracle --task pose/relative --data DATA/scannet_sample --jobs 1 --json -o seeds=1"
    line += " -o cluster=image"
    yield command(part, line, store="clustered")
    yield from runs(part, ("wxbs/fundamental", "wxbs/points"), [mutual, "klt"], "DATA/wxbs")
    yield run(part, "wxbs/points", "WORK/user.py:Shift", "DATA/wxbs", scenes="WLABS/kpi")
    yield from runs(part, ("evd/homography",), [mutual, "oracle"], "DATA/evd")
    yield run(part, "semantic/pck", "zero", "DATA/pf_willow")
    yield from runs(part, ("semantic/pck",), ["dense-sift", "zero"], "DATA/spair_sample")
    yield run(part, "semantic/pck", mutual, "DATA/spair_sample", alphas="0.05,0.2")
    for task, data, methods in (
        ("pose/relative", "DATA/scannet_sample", [mutual, "oracle"]),
        ("wxbs/fundamental", "DATA/wxbs", [mutual, "klt"]),
        ("semantic/pck", "DATA/spair_sample", ["dense-sift", "zero"]),
    ):
        cells = [run(part, task, m, data) for m in methods]
        yield shown(part, cells[0])
        yield compared(part, task, cells)


def published(place: Place) -> dict[str, Any]:
    """Compare published descriptors."""
    import tiepoint as tp

    store, four = place.work / "stores" / "import-matching", ["sift", "rootsift", "hardnet+", "SOSNet"]
    found = tp.compare(four, task="hpatches/matching", split="full", store=store)
    values, words = json_parts(place.plain_tree(found.to_frame().to_dict("records")))
    return {"values": {"comparison": values}, "words": {"comparison": words}}


def tool_cells() -> Iterator[Cell]:
    """Write, score and import results of other programs; run experiment files."""
    part = "tools"
    one = "--tasks WORK/benchmarks --data WORK/patches --jobs 1 --json"
    out = "WORK/results/v1"
    line = f"run sift orb --task {','.join(V1_TASKS)} --on-bad miss --write-results {out} {one}"
    yield command(part, line, files=out, store="written")
    for task in V1_TASKS:
        line = f"score {task} --results {out} --protocol {','.join(PROTOCOLS[task])} {one}"
        yield command(part, line, store=f"score-{task.split('/')[1]}")
    kit = "--data DATA/tss/Dataset --jobs 1 --json"
    three, whole, some = "tss-cpp,tss-matlab,exact", "WORK/tss-results", "WORK/tss-part"
    line = f"score tss --results {whole} --protocol {three} --scores-csv {kit}"
    yield command(part, line, files=whole, store="score-tss")
    line = f"score tss --results {whole} --protocol tss-cpp --scores-csv --auto-flip --use-prec {kit}"
    yield command(part, line, files=whole, store="score-tss-prec")
    line = f"score tss --results {some} --protocol tss-cpp,exact --missing zero --scores-csv {kit}"
    yield command(part, line, files=some, store="score-tss-part")
    yield command(part, f"score dense/flow --results {whole} {kit}", store="score-flow")
    yield command(part, f"score dense/pck --results {whole} -o scale=box {kit}", store="score-pck")
    old = "DATA/hpatches_reference_results"
    yield command(part, f"import {old}/matching_ap.json --json", store="import-matching")
    yield command(part, f"import {old}/verification.json --json", store="import-verification")
    yield command(part, f"import {old}/pickles --split full --json", store="import-pickles")
    yield command(part, "import WORK/matlab --json", store="import-matlab")
    yield command(part, "import WORK/experiments.db --json", store="import-workbench")
    yield command(part, "import WORK/experiment_summary_full.csv --json", store="import-workbench-csv")
    out = "WORK/results/v1-document"
    line = f"run sift --task {','.join(V1_TASKS)} --on-bad miss --write-results {out} {one}"
    line += " --results-form document"
    yield command(part, line, files=out, store="written-document")
    yield Cell(part, "compare | published descriptors", published)
    yield command(part, "run --config WORK/experiment.yaml --json", store="config")
    yield command(part, "run --config WORK/projected.yaml --json", store="config-projected")


PARTS: dict[str, Callable[[], Iterator[Cell]]] = {
    "data": data_cells,
    "pairs": pair_cells,
    "tools": tool_cells,
    "imports": match_cells,
    "patches": patch_cells,
    "definitions": definition_cells,
    "keypoints": keypoint_cells,
    "sequences": sequence_cells,
    "dense": dense_cells,
    "interface": interface_cells,
    "outputs": output_cells,
    "serve": serve_cells,
    "store": store_cells,
}
NEEDED = {"serve": ("outputs",)}
"""Parts that another part reads; every part reads ``data``."""


def chosen_cells(parts: Sequence[str]) -> list[Cell]:
    """Return the cells of the given parts, each name once; data come first, the shared store last."""
    chosen = (
        {"data", "store", *parts, *(n for p in parts for n in NEEDED.get(p, ()))} if parts else set(PARTS)
    )
    cells: dict[str, Cell] = {}
    for name in PARTS:
        if name in chosen:
            for cell in PARTS[name]():
                cells.setdefault(cell.name, cell)
    return list(cells.values())
