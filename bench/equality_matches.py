# SPDX-License-Identifier: BSD-3-Clause
"""Match files and pair datasets in every layout that tiepoint imports, for snapshots of `equality.py`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equality_snapshot import Cell, Place, outcome_parts, run, tiepoint

SIZE = (1296, 968)
SCANNET = "DATA/scannet_sample"
LAYOUTS = ("own", "csv", "parquet", "hloc", "glue-factory", "superglue?resize=none", "loftr?resize=none")


@dataclass(frozen=True)
class Pair:
    """Two images with cameras and simulated matches."""

    names: tuple[str, str]
    cameras: tuple[np.ndarray, np.ndarray]
    motion: np.ndarray
    points: tuple[np.ndarray, np.ndarray]
    confidence: np.ndarray

    @property
    def stems(self) -> tuple[str, str]:
        """The image names without their endings."""
        return Path(self.names[0]).stem, Path(self.names[1]).stem

    @property
    def name(self) -> str:
        """The default name of the pair."""
        return "--".join(self.stems)


def simulated(place: Place) -> list[Pair]:
    """Return the ScanNet pairs with points that both cameras see; every fifth match is wrong."""
    rng = np.random.default_rng(11)
    found = []
    for line in (place.data / "scannet_sample" / "pairs_with_gt.txt").read_text().splitlines():
        words = line.split()
        numbers = np.array(words[4:38], float)
        first, second = numbers[:9].reshape(3, 3), numbers[9:18].reshape(3, 3)
        motion = numbers[18:34].reshape(4, 4)
        start = rng.uniform(0, 1, (4000, 2)) * np.array(SIZE)
        depth = rng.uniform(0.5, 8, (4000, 1))
        rays = np.column_stack([start, np.ones(len(start))]) @ np.linalg.inv(first).T
        there = (rays * depth) @ motion[:3, :3].T + motion[:3, 3]
        end = (there @ second.T)[:, :2] / there[:, 2:]
        good = (there[:, 2] > 0.3) & (end > 1).all(axis=1) & (end < np.array(SIZE) - 2).all(axis=1)
        start, end = start[good][:150], end[good][:150] + rng.normal(0, 0.3, (min(150, good.sum()), 2))
        end[::5] = rng.uniform(0, 1, end[::5].shape) * (np.array(SIZE) - 2)
        inside = np.clip(start, 0, np.array(SIZE) - 2), np.clip(end, 0, np.array(SIZE) - 2)
        rounded = tuple(np.round(p, 3) for p in inside)
        confidence = np.round(rng.uniform(0, 1, len(start)), 4)
        found.append(
            Pair((words[0], words[1]), (first, second), motion, (rounded[0], rounded[1]), confidence)
        )
    return found


def write_arrays(out: Path, pairs: list[Pair]) -> None:
    """Write the layouts that are NumPy files: own, SuperGlue, LoFTR."""
    for name in ("own", "superglue", "loftr"):
        (out / name).mkdir()
    dump = []
    for p in pairs:
        a, b = p.points
        counts = np.array([len(a)])
        np.savez(
            out / "own" / f"{p.name}.npz",
            points0=a, points1=b, confidence=p.confidence, keypoints0=counts, keypoints1=counts,
        )  # fmt: skip
        np.savez(
            out / "superglue" / f"{'_'.join(p.stems)}_matches.npz",
            keypoints0=a, keypoints1=b, matches=np.arange(len(a)), match_confidence=p.confidence,
        )  # fmt: skip
        dump.append(
            {"mkpts0_f": a, "mkpts1_f": b, "mconf": p.confidence, "identifier": "#".join(p.names)}
        )  # fmt: skip
    np.save(out / "loftr" / "LoFTR_pred_eval.npy", np.array(dump, dtype=object), allow_pickle=True)


def write_tables(out: Path, pairs: list[Pair]) -> None:
    """Write the layouts that are tables: CSV and Parquet."""
    import pandas as pd

    frames = []
    for p in pairs:
        (x0, y0), (x1, y1) = p.points[0].T, p.points[1].T
        frames.append(
            pd.DataFrame({"pair": p.name, "x0": x0, "y0": y0, "x1": x1, "y1": y1, "confidence": p.confidence})
        )
    table = pd.concat(frames)
    for name in ("csv", "parquet"):
        (out / name).mkdir()
    table.to_csv(out / "csv" / "matches.csv", index=False)
    table.to_parquet(out / "parquet" / "matches.parquet", index=False)


def write_groups(out: Path, pairs: list[Pair]) -> None:
    """Write the layouts that are HDF5 files: hloc and glue-factory."""
    import h5py

    (out / "hloc").mkdir()
    (out / "glue-factory").mkdir()
    with (
        h5py.File(out / "hloc" / "feats.h5", "w") as features,
        h5py.File(out / "hloc" / "matches.h5", "w") as matches,
        h5py.File(out / "glue-factory" / "predictions.h5", "w") as predictions,
    ):
        for p in pairs:
            rows = np.arange(len(p.points[0]))
            for name, points in zip(p.names, p.points, strict=True):
                features.create_group(name)["keypoints"] = points.astype(np.float32)
            group = matches.create_group("/".join(p.names))
            group["matches0"], group["matching_scores0"] = rows.astype(np.int16), p.confidence
            group = predictions.create_group("/".join(p.names))
            group["keypoints0"], group["keypoints1"] = (x.astype(np.float32) for x in p.points)
            group["matches0"], group["matching_scores0"] = rows.astype(np.int64), p.confidence


def write_datasets(place: Place, pairs: list[Pair]) -> None:
    """Write the ScanNet pairs as own JSON, calibrated text, one-line files, posed views and an index."""
    root, images = place.work / "layouts", place.data / "scannet_sample" / "images"
    for name in ("json", "calibrated", "zeb/set", "views"):
        (root / name).mkdir(parents=True)
        for source in sorted(images.iterdir()):
            shutil.copyfile(source, root / name / source.name)
    own, lines, views = [], [], []
    for p in pairs:
        flat = [" ".join(repr(float(v)) for v in np.ravel(m)) for m in (*p.cameras, p.motion)]
        turn, shift = p.motion[:3, :3], p.motion[:3, 3]
        own.append(
            {
                "image0": p.names[0], "image1": p.names[1],
                "K0": p.cameras[0].tolist(), "K1": p.cameras[1].tolist(), "T_0to1": p.motion.tolist(),
                "dataset": "scannet", "scene": p.stems[0][:12],
            }
        )  # fmt: skip
        pose = " ".join(repr(float(v)) for v in (*turn.ravel(), *shift))
        lines.append(f"{p.names[0]} {p.names[1]} {flat[0]} {flat[1]} {pose}")
        (root / "zeb" / "set" / f"{p.name}.txt").write_text(
            f"{p.stems[0]} {p.stems[1]} 0.4 0.3 {' '.join(flat)}\n"
        )
        nearest, _, right = np.linalg.svd(turn)
        for name, rotation, move, k in (
            (p.names[0], np.eye(3), np.zeros(3), p.cameras[0]),
            (p.names[1], nearest @ right, shift, p.cameras[1]),
        ):
            numbers = " ".join(repr(float(v)) for v in (*rotation.ravel(), *move))
            camera = f"PINHOLE {SIZE[0]} {SIZE[1]} {k[0, 0]} {k[1, 1]} {k[0, 2]} {k[1, 2]}"
            views.append(f"{name} {numbers} {camera}")
    (root / "json" / "pairs.json").write_text(json.dumps(own))
    (root / "calibrated" / "pairs_calibrated.txt").write_text("\n".join(lines) + "\n")
    (root / "views" / "views.txt").write_text("\n".join(views) + "\n")
    (root / "views" / "pairs.txt").write_text("\n".join(" ".join(p.names) for p in pairs) + "\n")


def write_answers(place: Place) -> None:
    """Write predicted points for the SPair sample as JSON and CSV."""
    rng = np.random.default_rng(5)
    found: dict[str, Any] = {}
    rows = ["pair,x,y"]
    for entry in json.loads((place.data / "spair_sample" / "pairs.json").read_text()):
        stems = [Path(entry[k]).stem for k in ("source_path", "target_path")]
        points = np.array(entry["target_points"], float) + rng.normal(0, 9, np.shape(entry["target_points"]))
        points = np.round(np.abs(points), 2)
        found["--".join(stems)] = [None if i % 7 == 6 else p for i, p in enumerate(points.tolist())]
        rows += [f"{'--'.join(stems)},{x},{y}" for x, y in points.tolist()]
    for name, text in (("points.json", json.dumps(found)), ("points.csv", "\n".join(rows) + "\n")):
        folder = place.work / "answers" / name.split(".")[1]
        folder.mkdir(parents=True)
        (folder / name).write_text(text)


def make_matches(place: Place) -> dict[str, Any]:
    """Write all layouts of matches, pairs and answers."""
    pairs, out = simulated(place), place.work / "matches"
    out.mkdir()
    write_arrays(out, pairs)
    write_tables(out, pairs)
    write_groups(out, pairs)
    write_datasets(place, pairs)
    write_answers(place)
    return {"values": {"counts": {p.name: len(p.points[0]) for p in pairs}}, "words": {}}


def tried(part: str, line: str) -> Cell:
    """Run a command that may fail; its exit code counts."""
    return Cell(part, f"tried | {line}", lambda place: outcome_parts(place, tiepoint(place, line.split())))


def match_cells() -> Iterator[Cell]:
    """Import matches, pairs and answers of other tools."""
    part = "imports"
    yield Cell(part, "layouts of matches and pairs", make_matches)
    for layout in LAYOUTS:
        yield run(
            part, "pose/relative", f"files:WORK/matches/{layout}", SCANNET, protocol=("exact", "superglue")
        )
    for layout in ("json", "calibrated", "zeb", "views"):
        data = f"WORK/layouts/{layout}"
        yield run(part, "pose/relative", "files:WORK/matches/own", data, protocol=("exact", "zeb"), seeds=2)
        yield tried(part, f"data check --data {data} --fast")
    for form in ("json", "csv"):
        yield run(part, "semantic/pck", f"files:WORK/answers/{form}", "DATA/spair_sample")
    for name in ("scannet_test_pairs_with_gt.txt", "scannet_test.npz", "megadepth_1500.json"):
        yield tried(part, f"data check --data DATA/truth/{name} --fast")
    yield tried(part, "data check --data DATA/truth/megadepth_0015_0.1_0.3.npz --fast")
    for name in (
        "spair_sample",
        "pf_willow",
        "megadepth_sample",
        "sfm_sample/sparse_gt",
        "tss/Dataset",
        "sequences",
    ):
        yield tried(part, f"data check DATA/{name} --fast")
