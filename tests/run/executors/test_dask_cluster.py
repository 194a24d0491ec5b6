"""Which cluster is meant: addresses, processes here, files; and what dask-jobqueue makes of a file."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tiepoint import evaluate
from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import FormatError, InputError
from tiepoint.run import costs
from tiepoint.run.costs import cores
from tiepoint.run.executors import dask_cluster
from tiepoint.run.executors.cluster_spec import ClusterFile, read_spec
from tiepoint.run.executors.dask_cluster import known_arguments, queue_cluster

pytest.importorskip("distributed", reason="clusters are Dask's")

pytestmark = pytest.mark.slow
if find_spec("dask_jobqueue") is None:
    pytest.skip("queues are dask-jobqueue's", allow_module_level=True)

JOB: dict[str, Any] = {"cores": 8, "memory": "32GB", "walltime": "04:00:00", "queue": "normal"}


def of(text: dict[str, Any], tmp_path: Path) -> ClusterFile:
    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(text))
    return read_spec(str(path))[0]


def test_what_a_word_means() -> None:
    assert read_spec("tls://host:8786")[0].scheduler == "tls://host:8786"
    assert read_spec("local:3")[0].local == 3
    assert read_spec("local")[0].local == cores()
    assert read_spec({"scheduler": "a.json"})[0].scheduler == "a.json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"slrum": JOB}, "unknown key of .*lab.yaml 'slrum'; did you mean 'slurm'"),
        ({"slurm": JOB, "job": 3}, "unknown key of .* 'job'; did you mean 'jobs'"),
        ({"slurm": JOB | {"wall_time": "1:00"}}, "unknown key of slurm in .* 'wall_time'; .*'walltime'"),
        ({"slurm": {"memory": "1GB"}}, "section slurm has no cores"),
        ({"jobs": 3}, "is required, found none"),
        ({"slurm": JOB, "local": 2}, "found slurm and local"),
        ({"slurm": JOB, "jobs": 2, "adapt": {"maximum": 4}}, "jobs and adapt exclude each other"),
        ({"slurm": JOB, "adapt": {"minimum": 4}}, "adapt.maximum: Field required"),
        ({"slurm": JOB, "jobs": 0}, "jobs: .*greater than or equal to 1, found 0"),
        ({"local": 2, "lifetime": "1h"}, "lifetime applies only to slurm, pbs, lsf, sge; remove it"),
        ({"scheduler": "tcp://h:1", "resources": {"GPU": 1}}, "start your own workers with"),
        ({"local": 1, "security": {"tls_ca": "ca.pem"}}, "'tls_ca'; did you mean 'tls_ca_file'"),
        ({"scheduler": "nowhere.json"}, "the scheduler file nowhere.json does not exist"),
    ],
)
def test_wrong_files_are_told(text: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(text))
    with pytest.raises(InputError, match=message), dask_cluster.connect(str(path)):
        pass


def test_what_is_no_cluster_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="found 'here'"):
        read_spec("here")
    with pytest.raises(InputError, match="does not exist"):
        read_spec(str(tmp_path / "none.yaml"))
    (tmp_path / "broken.yaml").write_text("a: [1\nb")
    with pytest.raises(FormatError, match="line"):
        read_spec(str(tmp_path / "broken.yaml"))
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 0.2)
    with (
        pytest.raises(InputError, match=r"no Dask scheduler answered at tcp://127\.0\.0\.1:9"),
        dask_cluster.connect("tcp://127.0.0.1:9"),
    ):
        pass


def test_without_dask_it_is_said_how_to_get_it(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = ["run", "pixels", "--task", "hpatches/matching", "--data", str(patches), "--cluster", "local:1"]
    assert tiepoint([*line, "--store", str(tmp_path / "s")]) == 2
    assert "pip install 'tiepoint[cluster]'" in capsys.readouterr().err
    assert tiepoint([*line, "--jobs", "2"]) == 2
    assert "--jobs has no effect with --cluster" in capsys.readouterr().err


def test_a_slurm_file_is_the_script_that_dask_jobqueue_submits(tmp_path: Path) -> None:
    text = {"slurm": JOB, "adapt": {"maximum": 4}, "lifetime": "3h50m", "lifetime_stagger": "8m"}
    with queue_cluster(of(text, tmp_path), "lab.yaml") as cluster:
        script = cluster.job_script()
        scheduler = cluster.scheduler
    for line in ("-p normal", "--cpus-per-task=8", "--mem=30G", "-t 04:00:00"):
        assert f"#SBATCH {line}\n" in script
    words = script.splitlines()[-1].split()
    given = dict(pairwise(words))  # of an option that comes twice, the last one counts
    assert given["--nworkers"] == "8"
    assert given["--nthreads"] == "1"
    assert given["--memory-limit"] == "0"
    assert given["--lifetime"] == "3h50m"
    assert given["--lifetime-stagger"] == "8m"
    assert scheduler is not None


def test_a_job_with_a_gpu_is_one_worker_that_offers_it(tmp_path: Path) -> None:
    job = JOB | {"job_extra_directives": ["--gres=gpu:1"], "worker_extra_args": ["--local-directory", "/tmp"]}
    wanted = of({"slurm": job, "jobs": 2, "resources": {"GPU": 1}}, tmp_path)
    with queue_cluster(wanted, "lab.yaml") as cluster:
        script = cluster.job_script()
    assert "#SBATCH --gres=gpu:1" in script
    assert "--resources GPU=1" in script
    assert "--local-directory /tmp" in script
    assert "--nworkers" not in script
    assert dask_cluster.shape(wanted) == (1, 8)


class Queue:
    """A cluster of jobs, each of which is two workers."""

    def __init__(self) -> None:
        self.worker_spec = {"Q-1": {}, "Q-11": {}}
        self.job_cls = SimpleNamespace(failures=[])
        self.calls: list[Any] = []

    def sync(self, call: Any, *given: Any) -> None:
        call(*given)

    def scale_down(self, jobs: list[str]) -> None:
        self.calls.append(jobs)

    def scale(self, jobs: int) -> None:
        self.calls.append(jobs)


@pytest.mark.parametrize(
    ("more", "called"), [({"jobs": 2}, [["Q-1"], 2]), ({"adapt": {"maximum": 2}}, [["Q-1"]])]
)
def test_jobs_whose_workers_came_and_went_are_replaced(
    more: dict[str, Any], called: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, made, met = of({"slurm": JOB} | more, tmp_path), Queue(), dict[Any, float]()
    dask_cluster.replace_finished_jobs(made, wanted, met, [])  # they still wait in the queue
    dask_cluster.replace_finished_jobs(made, wanted, met, ["Q-1-0", "Q-1-1"])
    dask_cluster.replace_finished_jobs(made, wanted, met, ["Q-11-0"])  # a moment of absence is none
    assert made.calls == []
    monkeypatch.setattr(dask_cluster, "JOB_TIMEOUT_S", 0.0)
    dask_cluster.replace_finished_jobs(made, wanted, met, ["Q-11-1"])
    assert made.calls == called
    dask_cluster.replace_finished_jobs(
        made, wanted, met, ["Q-11-1"]
    )  # the next job of that name has not come yet
    assert made.calls == called


@pytest.mark.parametrize("kind", ["pbs", "lsf", "sge"])
def test_other_queues_take_their_own_words(kind: str, tmp_path: Path) -> None:
    job = {"cores": 2, "memory": "4GB", "walltime": "00:30"} | ({"use_stdin": True} if kind == "lsf" else {})
    with queue_cluster(of({kind: job}, tmp_path), "lab.yaml") as cluster:
        assert "--nworkers 2" in cluster.job_script()
    assert "walltime" in known_arguments(type(cluster))


def test_security_goes_to_the_scheduler_and_the_jobs(tmp_path: Path) -> None:
    import distributed

    keys = {"tls_ca_file": "ca.pem", "tls_client_cert": "c.pem", "tls_worker_cert": "w.pem"}
    made = dask_cluster._security(keys, "lab.yaml", distributed)
    assert made.require_encryption
    assert made.get_tls_config_for_role("worker")["cert"] == "w.pem"
    script = (
        dask_cluster._job_queues().slurm.SLURMJob("tls://h:1", name="a", security=made, **JOB).job_script()
    )
    assert "--tls-cert w.pem" in script


def test_job_queues_leave_our_signals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith("dask_jobqueue")]:
        monkeypatch.delitem(sys.modules, name)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    dask_cluster._job_queues()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_gpus_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setattr("distributed.SpecCluster", lambda **given: seen.update(given))
    dask_cluster._local(read_spec("local:3")[0], "cuda", None, 1, "nowhere")
    options = [w["options"] for w in seen["workers"].values()]
    assert [o["env"]["CUDA_VISIBLE_DEVICES"] for o in options] == ["3", "5", "3"]
    assert all(o["resources"] == {"GPU": 1} and o["nthreads"] == 1 for o in options)


def test_a_driver_of_gpus_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(command: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(subprocess, "run", silent)
    assert costs.visible_gpus() == []


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"jobs": 1}, {"adapt": {"maximum": 2}}], ids=["jobs", "adapt"])
@pytest.mark.parametrize("sbatch", ["missing", "failing"])
def test_evaluate_job_not_submitted_raises_soon(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sbatch: str, more: dict[str, Any]
) -> None:
    words = "No such file or directory: 'sbatch'"
    if sbatch == "failing":
        (tmp_path / "sbatch").write_text("#!/bin/sh\necho invalid account >&2\nexit 1\n")
        (tmp_path / "sbatch").chmod(0o755)
        words = "invalid account"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    start = time.monotonic()
    with pytest.raises(
        InputError, match=rf"cannot submit a job to the queue: `sbatch[^`]*` failed: .*{words}"
    ):
        evaluate(
            "meanstd",
            task="hpatches/matching",
            data=patches,
            store=tmp_path / "store",
            cluster={"slurm": {"cores": 1, "memory": "1GB", "interface": "lo"}, **more},
        )
    assert time.monotonic() - start < 25  # at most 10 s of them after the cluster has started
