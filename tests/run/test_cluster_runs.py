"""Runs on a cluster: the same store, whatever dies on the way; workers that do not fit are named."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tiepoint.api import evaluate as api_evaluate
from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import ClusterError, InputError, UnitError
from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.image.reader import write_image
from tiepoint.run import cluster_runs
from tiepoint.run.context import ContextRecipe
from tiepoint.run.engine import evaluate, evaluate_prepared
from tiepoint.run.executors import dask_executor as executor
from tiepoint.run.executors import dask_worker
from tiepoint.run.executors.dask_cluster import connect
from tiepoint.run.executors.dask_executor import DaskExecutor
from tiepoint.run.experiment.config import parse_experiment
from tiepoint.run.experiment.runner import run_experiment
from tiepoint.run.preparation import prepare_all
from tiepoint.run.request import RunRequest
from tiepoint.run.session import RunSession
from tiepoint.store.store import Store

pytest.importorskip("distributed", reason="clusters are Dask's")

pytestmark = pytest.mark.slow

MINE = """
import os, signal, time
from pathlib import Path

def has(path):  # a method that asks for a computed name itself is not cached
    return path.exists()

class Mine:
    name = "mine"

    def __init__(self, fate: str = "none"):
        self.fate = fate

    def describe(self, patches):
        folder = Path(__file__).parent / "fate"
        mean = patches[0].mean()
        if has(folder) and has(folder / f"{mean:.6f}"):
            if has(folder / "slow"):
                time.sleep(0.2)
            elif has(folder / "always"):
                os.kill(os.getpid(), signal.SIGKILL)
            elif not has(folder / "done"):
                (folder / "done").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return patches.reshape(len(patches), -1)[:, :8] + 1.0
"""
"""Does what a folder beside it says about an image: nothing that its key depends on."""


@pytest.fixture
def client(workers: Any) -> Any:
    """A client of two workers, whatever the last test did to them."""
    from distributed import TimeoutError as TooLong

    try:
        workers.wait_for_workers(2, timeout=60)
    except TooLong:
        workers.restart(timeout=120)
    return workers


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    """Two workers, one of which may die without that a task is tried again by Dask itself."""
    import dask
    from distributed import Client, LocalCluster

    options = {"distributed.scheduler.allowed-failures": 0}
    with (
        dask.config.set(options),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL,
            memory_limit=0,
        ) as cluster,
        Client(cluster) as made,
    ):  # fmt: skip
        yield made


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def fate(mine: Path, patches: Path, *words: str, images: tuple[str, ...] = ("v_bb/e3",)) -> None:
    """Let the method do something to an image from now on."""
    from tiepoint.formats.hpatches.patch_strip import read_strip

    folder = mine.parent / "fate"
    folder.mkdir()
    for image in images:
        (folder / f"{read_strip(patches / f'{image}.png')[0].mean():.6f}").touch()
    for word in words:
        (folder / word).touch()


def made_dense(root: Path) -> Path:
    """Two pairs in the layout of TSS."""
    from tiepoint.formats.image.mask import write_mask

    rng = np.random.default_rng(0)
    for name, move in (("near", 1.0), ("far", 9.0)):
        folder = root / "S" / name
        folder.mkdir(parents=True)
        for i in (1, 2):
            write_image(folder / f"image{i}.png", rng.integers(0, 256, (40, 60, 3)).astype(np.uint8))
            write_flo(folder / f"flow{i}.flo", np.full((40, 60, 2), [move, 0.0]))
            write_mask(folder / f"mask{i}.png", np.ones((40, 60), bool))
    return root


def made_pairs(root: Path, sequences: Path) -> Path:
    """A pair file with a homography as the truth."""
    entries = [
        {
            "name": scene, "scene": scene, "image0": str(sequences / scene / "1.png"),
            "image1": str(sequences / scene / "2.png"), "H": [[1, 0, -9], [0, 1, 8], [0, 0, 1]],
        }
        for scene in ("v_a", "i_b")
    ]  # fmt: skip
    root.mkdir()
    (root / "pairs.json").write_text(json.dumps(entries))
    return root / "pairs.json"


def contents(root: Path, out: Path) -> dict[str, bytes]:
    """Features and records of a store, and what it exports."""
    for form in ("csv", "json", "parquet"):
        assert (
            tiepoint(["report", "--format", form, "--out", str(out / f"a.{form}"), "--store", str(root)]) == 0
        )
    files = [*root.glob("features/*/*/*.npy"), *root.glob("records/*/*")]
    found = {str(p.relative_to(root)): p.read_bytes() for p in files}
    return found | {p.name: p.read_bytes() for p in out.iterdir()}


def test_all_families_leave_the_same_store(
    client: Any, patches: Path, sequences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cv2", reason="keypoints and pairs are described by OpenCV")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)  # relative names mean the same in workers, which were started elsewhere
    (tmp_path / "mine.py").write_text(MINE)
    dense, pairs = made_dense(tmp_path / "dense"), made_pairs(tmp_path / "pairs", sequences)
    both = ("exact", "hpatches-python")
    fitted = {"fit_on": patches}
    requests = [
        RunRequest("mine.py:Mine", "hpatches/matching", patches, both),
        RunRequest("mine.py:Mine", "hpatches/retrieval", patches, both),
        RunRequest("pixels+pca", "hpatches/matching", patches, **fitted),  # type: ignore[arg-type]
        RunRequest("orb", "keypoints/matching", sequences),
        RunRequest("zero", "tss", dense.relative_to(tmp_path)),
        RunRequest("orb?matcher=mnn", "evd/homography", pairs),
    ]
    found, rows, said = [], [], []
    for name, cluster in (("here", None), ("far", client)):
        steps: dict[str, list[int]] = {}

        def progress(stage: str, done: int, total: int, steps: dict[str, list[int]] = steps) -> None:
            steps[stage] = [*steps.get(stage, []), done]
            assert done <= total

        with (
            Store.open(Path(name) / "s") as store,
            RunSession(store.root, cluster, said.append) as shared,
        ):
            prepared = prepare_all(requests, store.root)
            shared.submit(prepared, store, progress)
            rows.append([evaluate_prepared(one, store, shared, progress).rows() for one in prepared])
        assert steps["mine: features"] == list(range(49))
        out = tmp_path / f"{name}-out"
        out.mkdir()
        found.append(contents(tmp_path / name / "s", out))
    assert rows[0] == rows[1]
    assert len(found[0]) > 60
    assert found[0].keys() == found[1].keys()
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []
    assert [words for words in said if "dashboard" not in words] == []
    assert not list((tmp_path / "far" / "s").glob(".cluster*"))


def test_an_experiment_file_runs_on_a_cluster(client: Any, sequences: Path, tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="ORB is OpenCV's")
    experiment = parse_experiment(
        {
            "experiment": {"name": "e"},
            "dataset": {"path": str(sequences)},
            "keypoints": {"generator": "orb", "max_features": 60},
            "descriptors": [{"name": "d", "type": "orb"}],
            "evaluation": {"protocols": "exact", "pair_matching": True},
        },
        "e.yaml",
    )
    rows = []
    for name, cluster in (("here", None), ("far", client)):
        with Store.open(tmp_path / name) as store:
            found = list(run_experiment(experiment, store, cluster=cluster, report=len))
        assert [outcome.error for outcome in found] == [None, None]
        runs = [outcome.run for outcome in found if outcome.run is not None]
        rows.append([[r for r in run.rows() if r["metric"] != "processing_time_ms"] for run in runs])
    assert rows[0] == rows[1]


def test_a_worker_that_is_killed_changes_nothing(
    client: Any, patches: Path, mine: Path, tmp_path: Path
) -> None:
    request = RunRequest(f"{mine}:Mine", "hpatches/matching", patches)
    with Store.open(tmp_path / "a") as store:
        alone = evaluate(request, store)
    fate(mine, patches)
    with Store.open(tmp_path / "b") as store:
        assert evaluate(request, store, cluster=client).rows() == alone.rows()
    assert (mine.parent / "fate" / "done").exists()


def test_what_kills_every_worker_is_named_and_the_rest_is_done(
    client: Any, patches: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "MIN_BATCHES", 3)  # batches of several jobs
    monkeypatch.setattr(executor, "BATCHES_PER_WORKER", 1)
    fate(mine, patches, "always")
    request = RunRequest(f"{mine}:Mine", "hpatches/matching", patches)
    with (
        Store.open(tmp_path / "s") as store,
        pytest.raises(UnitError, match=r"1 of 48 failed: v_bb/e3: its worker died .* tcp://127.0.0.1:\d+"),
    ):
        evaluate(request, store, cluster=client)
    assert len(list((tmp_path / "s" / "features").glob("*/*/meta.json"))) == 47


def test_bad_input_is_told_as_it_is_in_one_process(
    client: Any, patches: Path, tables: Path, tmp_path: Path
) -> None:
    (tables / "v_bb" / "e1.csv").write_text("nan,1,1,1\n" * 20)
    (tables / "v_cc" / "t4.csv").write_text("1,2\n" * 19)
    told = []
    for cluster in (None, client):
        with Store.open(tmp_path / "s") as store, pytest.raises(InputError) as found:
            evaluate(RunRequest(f"files:{tables}", "hpatches/matching", patches), store, cluster=cluster)
        told.append(str(found.value))
    assert told[0] == told[1]


def test_runs_that_share_bad_features_are_told_the_same(client: Any, patches: Path, tmp_path: Path) -> None:
    (tmp_path / "nan.py").write_text(
        "import numpy as np\n\nclass Nan:\n    def describe(self, patches):\n"
        "        return np.full((len(patches), 4), np.nan)\n"
    )
    requests = [
        RunRequest(f"{tmp_path / 'nan.py'}:Nan", f"hpatches/{task}", patches)
        for task in ("matching", "retrieval")
    ]
    told = []
    with Store.open(tmp_path / "s") as store, RunSession(store.root, client, len) as shared:  # type: ignore[arg-type]
        prepared = prepare_all(requests, store.root)
        shared.submit(prepared, store)
        for one in prepared:
            with pytest.raises(InputError) as found:
                evaluate_prepared(one, store, shared)
            told.append(str(found.value))
    assert "nan.py" in told[0] or "Nan" in told[0]
    assert not isinstance(found.value, ClusterError)
    assert told[0].partition(":")[0] == told[1].partition(":")[0]


def test_an_error_of_a_method_names_the_worker(client: Any, patches: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "class Bad:\n    def describe(self, patches):\n        raise RuntimeError('this and that')\n"
    )
    request = RunRequest(f"{tmp_path / 'bad.py'}:Bad", "hpatches/matching", patches)
    with (
        Store.open(tmp_path / "s") as store,
        pytest.raises(UnitError, match=r"i_aa/.*this and that.*\(worker tcp://127.0.0.1:\d+ on"),
    ):
        evaluate(request, store, cluster=client)


def test_an_interrupted_command_takes_its_work_back_and_resumes(
    client: Any, patches: Path, mine: Path, tmp_path: Path
) -> None:
    images = [f"{p.parent.name}/{p.stem}" for p in patches.glob("*/*.png")]
    fate(mine, patches, "slow", images=tuple(images))
    request = RunRequest(f"{mine}:Mine", "hpatches/matching", patches)

    def stop(stage: str, done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with Store.open(tmp_path / "s") as store, pytest.raises(KeyboardInterrupt):
        evaluate(request, store, stop, cluster=client)
    deadline = time.monotonic() + 60
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.processing().values())
    made = set((tmp_path / "s" / "features").glob("*/*/meta.json"))
    assert 5 <= len(made) < 20
    before = {p: p.stat().st_mtime_ns for p in made}
    (mine.parent / "fate" / "slow").unlink()
    (mine.parent / "fate" / "done").touch()
    with Store.open(tmp_path / "s") as store:
        evaluate(request, store, cluster=client)
    assert {p: p.stat().st_mtime_ns for p in made} == before


def test_a_stream_of_items_leaves_what_one_by_one_does(patches: Path, tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        recipe = ContextRecipe("hpatches/matching", str(patches), {}, "pixels", {}, str(tmp_path / name), 1)
        context = recipe.build()
        extract = context.method.extract

        def streamed(payloads: Any, extract: Any = extract) -> Any:
            for item, payload in payloads:
                yield item, partial(extract, item, payload)

        arguments = {key: (key, feature) for key, feature in list(context.feature_keys.items())[:5]}
        done: list[int] = []
        if name == "a":
            for argument in arguments.values():
                cluster_runs.make_feature(context, argument)
        else:
            cluster_runs.make_feature(context, arguments["i_aa/ref"])
            own = replace(context, method=replace(context.method, stream=streamed))
            assert cluster_runs.feature_stream(own, arguments, partial(done.append, 1)) == dict.fromkeys(
                arguments, 0.0
            )
            assert len(done) == 4
        found.append({k: context.features.content(f) for k, (_, f) in arguments.items()})
    assert found[0] == found[1]
    assert None not in found[0].values()


def test_an_object_of_the_session_runs_here(
    client: Any, patches: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Own:
        def describe(self, images: np.ndarray) -> np.ndarray:
            return images.reshape(len(images), -1)[:, :4] + 1.0

    run = api_evaluate(Own(), task="hpatches/matching", data=patches, store=tmp_path / "s", cluster=client)
    assert len(run.rows())
    assert "Own cannot be sent to the cluster; running it locally" in caplog.text


def fake(name: str, value: str | None) -> None:
    """Change what a worker says of itself (called in the worker)."""
    from tiepoint.run.context import ContextRecipe
    from tiepoint.run.executors import dask_worker as own

    kept = own.__dict__.setdefault(
        "_kept", {"open_task": ContextRecipe.open_task, "version": own.__version__}
    )
    own._fit.clear()
    own._contexts.clear()
    own.__version__ = kept["version"]
    ContextRecipe.open_task = kept["open_task"]  # type: ignore[method-assign]
    own.TOKEN = ".cluster-"
    if name == "version":
        own.__version__ = str(value)
    elif name == "data":

        def another(self: Any, family: str) -> Any:
            found = kept["open_task"](self, family)
            found.data_hash = "other"
            return found

        ContextRecipe.open_task = another  # type: ignore[method-assign]
    elif name == "folder":
        own.TOKEN = "elsewhere-"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("version", "has tiepoint 0.0 where the submitting process has"),
        ("data", "sees another content of .*patches"),
        ("folder", "does not see the folder of the store"),
    ],
)
def test_a_worker_that_does_not_fit_is_named(
    client: Any, patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, message: str
) -> None:
    monkeypatch.setattr(executor, "SHARED_S", 0.2)
    bad = next(iter(client.scheduler_info()["workers"]))
    client.run(fake, what, "0.0", workers=[bad])
    request = RunRequest("pixels", "hpatches/matching", patches)
    try:
        with Store.open(tmp_path / "s") as store, pytest.raises(InputError, match=message) as found:
            evaluate(request, store, cluster=client)
        assert bad in str(found.value)
        assert not list((tmp_path / "s" / "features").glob("*"))
        if what != "version":
            return
        # One that joins later is checked before it does anything.
        monkeypatch.setattr(
            DaskExecutor, "check", lambda self, remotes: dask_worker.write_token(self.expected)
        )
        with Store.open(tmp_path / "t") as store, pytest.raises(ClusterError, match=message) as late:
            evaluate(request, store, cluster=client)
        assert bad in str(late.value)
    finally:
        client.run(fake, "", None)


def test_work_for_a_gpu_needs_a_worker_that_offers_one(client: Any, patches: Path, tmp_path: Path) -> None:
    request = RunRequest(
        "pixels", "hpatches/matching", patches, method_options={"device": "cuda"}, on_cluster=True
    )
    with Store.open(tmp_path / "s") as store, pytest.raises(InputError, match=r"no worker .* offers a GPU"):
        evaluate(request, store, cluster=client)


def test_a_lost_scheduler_is_an_error_and_the_store_resumes(
    patches: Path, mine: Path, tmp_path: Path
) -> None:
    images = [f"{p.parent.name}/{p.stem}" for p in patches.glob("*/*.png")]
    fate(mine, patches, "slow", images=tuple(images))
    where = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    line = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--port",
        "0",
        "--dashboard-address",
        ":0",
    ]
    scheduler = subprocess.Popen([*line, "--host", "127.0.0.1", "--scheduler-file", str(where)], **quiet)  # type: ignore[call-overload]
    line = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(where), "--no-nanny"]
    worker = subprocess.Popen([*line, "--nthreads", "1", "--no-dashboard"], **quiet)  # type: ignore[call-overload]
    killed = threading.Event()

    def kill(stage: str, done: int, total: int) -> None:
        if stage == "mine: features" and done == 3:
            scheduler.kill()
            killed.set()

    request = RunRequest(f"{mine}:Mine", "hpatches/matching", patches)
    try:
        deadline = time.monotonic() + 120
        while not where.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        with (
            Store.open(tmp_path / "s") as store,
            pytest.raises(
                ClusterError, match=r"connection to the Dask scheduler at tcp://.* was lost; finished"
            ),
        ):
            evaluate(request, store, kill, cluster={"scheduler": str(where)})
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert killed.is_set()
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "s" / "features").glob("*/*/meta.json")}
    assert 3 <= len(made) < 20
    (mine.parent / "fate" / "slow").unlink()
    (mine.parent / "fate" / "done").touch()
    with Store.open(tmp_path / "s") as store, Store.open(tmp_path / "other") as other:
        assert evaluate(request, store).rows() == evaluate(request, other).rows()
    assert {p: p.stat().st_mtime_ns for p in made} == made


def test_the_command_runs_on_processes_of_this_machine(
    patches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "s")
    line = ["run", "pixels", "meanstd", "--task", "hpatches/matching", "--data", str(patches), "--json"]
    assert tiepoint([*line, "--cluster", "local:1", "--store", store]) == 0
    far = capsys.readouterr()
    assert tiepoint([*line, "--jobs", "1", "--store", str(tmp_path / "t")]) == 0
    assert json.loads(far.out)["scores"] == json.loads(capsys.readouterr().out)["scores"]
    # What is done needs no cluster: none is looked for.
    assert tiepoint([*line, "--cluster", "tcp://127.0.0.1:9", "--store", store]) == 0


def test_schedulers_started_here_bear_with_dying_workers() -> None:
    with connect({"local": 1, "resources": {"GPU": 1}}) as cluster:
        scheduler = cluster.client.cluster.scheduler
        assert scheduler.allowed_failures == 10
        assert scheduler.WORKER_SATURATION == 1.0
        cluster.client.wait_for_workers(1, timeout=60)
        (worker,) = cluster.client.scheduler_info()["workers"].values()
        assert worker["nthreads"] == 1
        assert worker["resources"] == {"GPU": 1}


def test_without_any_worker_a_local_cluster_fails_and_others_wait() -> None:
    said: list[str] = []
    cluster = SimpleNamespace(client=SimpleNamespace(status="running"), keep=None, local=False)
    alone: Any = SimpleNamespace(
        cluster=cluster,
        _workers=lambda every=False: {},
        _last_worker_s=-1e6,
        _absence_reported=False,
        report=said.append,
    )
    for _ in range(2):
        executor.DaskExecutor._check_connection(alone)
    assert said == ["the cluster has no workers at the moment; waiting for one"]
    cluster.local = True
    with pytest.raises(ClusterError, match="all workers of the local cluster have died"):
        executor.DaskExecutor._check_connection(alone)
