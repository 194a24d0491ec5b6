# SPDX-License-Identifier: BSD-3-Clause
"""Program of the child process that calls COLMAP: ``python child.py JOB.json``.

It imports nothing of tiepoint, so that its peak memory is that of COLMAP. The job file names a stage: `match`
or `reconstruct`. As its last step, the program writes ``result.json`` next to the job file.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_POINTS = 3000
"""Maximum number of a model's 3D points that are stored for pictures."""
_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent process ends (Linux only)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


@contextlib.contextmanager
def timed(seconds: dict[str, list[float]], stage: str) -> Iterator[None]:
    """Measure the wall time and CPU time of the context, and add them in seconds to `seconds[stage]`."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    seconds[stage] = [time.perf_counter() - wall, time.process_time() - cpu]


def match(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Match the descriptors in the database with COLMAP's matcher, without verification.

    Return the result.
    """
    import pycolmap

    options = pycolmap.FeatureMatchingOptions()
    options.use_gpu, options.skip_geometric_verification = False, True
    pairing = pycolmap.ImportedPairingOptions()
    pairing.match_list_path = folder / "pairs.txt"
    seconds: dict[str, list[float]] = {}
    with timed(seconds, "matching"):
        pycolmap.match_image_pairs(
            job["database"], matching_options=options, pairing_options=pairing, device=pycolmap.Device.cpu
        )
    return {"seconds": seconds}


def verify(job: dict[str, Any]) -> None:
    """Verify all matches in the database geometrically."""
    import pycolmap

    two_view = pycolmap.TwoViewGeometryOptions()
    two_view.ransac.random_seed = job["seed"]
    two_view.compute_relative_pose = True
    options = pycolmap.GeometricVerifierOptions()
    options.num_threads = 1
    pycolmap.geometric_verification(
        job["database"], verifier_options=options, two_view_geometry_options=two_view
    )


def mapper_options(job: dict[str, Any]) -> Any:
    """Return the options of the mapper. Given intrinsics are not refined."""
    import pycolmap

    incremental = job["mapper"] == "incremental"
    kind = pycolmap.IncrementalPipelineOptions if incremental else pycolmap.GlobalPipelineOptions
    options: Any = kind()
    options.num_threads, options.random_seed = 1, job["seed"]
    options.multiple_models = True
    if incremental:
        options.extract_colors = False
    else:
        options.mapper.num_threads = 1
    if job["fixed_intrinsics"] and incremental:
        options.ba_refine_focal_length = options.ba_refine_principal_point = False
        options.ba_refine_extra_params = False
        options.mapper.abs_pose_refine_focal_length = options.mapper.abs_pose_refine_extra_params = False
    elif job["fixed_intrinsics"]:
        adjustment = options.mapper.bundle_adjustment
        adjustment.refine_focal_length = adjustment.refine_principal_point = False
        adjustment.refine_extra_params = False
    set_options(options, job["mapper_options"])
    return options


def set_options(options: Any, given: dict[str, Any]) -> None:
    """Set options by dotted names. Each value is converted to the type of its option."""
    for name, value in given.items():
        *path, last = name.split(".")
        place = options
        for part in path:
            place = getattr(place, part)
        setattr(place, last, type(getattr(place, last))(value))


def reconstruct(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Verify the matches if necessary, run the mapper, and write models to `folder`. Return the result."""
    import pycolmap

    seconds: dict[str, list[float]] = {}
    if job["verify"]:
        with timed(seconds, "verification"):
            verify(job)
        copy = Path(job["verified"])
        copy.write_bytes(Path(job["database"]).read_bytes())
    with pycolmap.Database.open(job["database"]) as database:
        inliers = [
            len(database.read_two_view_geometry(a, b).inlier_matches)
            if database.exists_two_view_geometry(a, b)
            else 0
            for a, b in job["pairs"]
        ]
    options = mapper_options(job)
    out = folder / "models"
    out.mkdir()
    call = pycolmap.incremental_mapping if job["mapper"] == "incremental" else pycolmap.global_mapping
    with timed(seconds, "mapping"):
        models = call(job["database"], folder, out, options)
    points = []
    for number in sorted(models):
        model = models[number]
        place = out / str(number)
        place.mkdir(exist_ok=True)
        model.write_binary(str(place))
        ids = sorted(model.points3D)
        step = max(1, -(-len(ids) // MAX_POINTS))
        points.append([[float(f"{v:.6g}") for v in model.points3D[i].xyz] for i in ids[::step]])
    return {
        "seconds": seconds,
        "inliers": inliers,
        "points": points,
        "models": sorted(models),
        "options": options.summary(True),
    }


def main(path: str) -> None:
    """Run the job that a job file describes."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    die_with_parent(job["parent"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    import pycolmap

    pycolmap.logging.minloglevel = 2
    folder = Path(path).parent
    found = {"match": match, "reconstruct": reconstruct}[job["stage"]](job, folder)
    (folder / "result.json").write_text(json.dumps(found), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1])
