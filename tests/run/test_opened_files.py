# SPDX-License-Identifier: BSD-3-Clause
"""Features that depend on files, folders or servers outside the cache key are not cached."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import tiepoint as tp
from tiepoint.run import engine
from tiepoint.store.store import Store

HEAD = """
import glob, importlib, os, sqlite3, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
import numpy as np
HERE = Path(__file__).parent

class Mine:
    def __init__(self, which: str = "a"):
        self.which = which
    def describe(self, patches):
        pixels = patches.reshape(len(patches), -1).astype(np.float64)
        noise = np.random.default_rng(int(patches.sum())).normal(size=pixels.shape)
        return pixels + 40 * (self.power() - 1) * noise + 1
    def power(self):
"""
WAYS = {
    "f-string": 'return float((HERE / f"w_{self.which}.txt").read_text())',
    "with_suffix": 'return float(Path(__file__).with_name("w_a").with_suffix(".txt").read_text())',
    "join": 'return float(open(os.path.join(os.path.dirname(__file__), "w_" + self.which + ".txt")).read())',
    "glob": 'return float(Path(sorted(glob.glob(str(HERE / "w_*.txt")))[-1]).read_text())',
    "listing": "return len(os.listdir(HERE / ('w' + 'ays')))",
    "numpy": 'return float(np.loadtxt(f"{HERE}/w_{self.which}.txt"))',
    "memmap": 'return float(np.memmap(f"{HERE}/w_{self.which}.bin", np.uint8, "r")[0])',
    "sqlite": 'return sqlite3.connect(f"{HERE}/w_{self.which}.db").execute("select w from t").fetchone()[0]',
    "command": 'return float(subprocess.check_output(["cat", f"{HERE}/w_{self.which}.txt"]))',
    "shell": 'return float(subprocess.check_output(f"cat {HERE}/w_{self.which}.txt | cat", shell=True))',
    "import": 'return importlib.import_module(f"module_{self.which}").POWER',
    "exec": 'f = {}; exec((HERE / f"module_{self.which}.py").read_text(), f); return f["POWER"]',
    "thread": "f = []; t = threading.Thread(target=self.read, args=(f,)); t.start(); t.join(); return f[0]",
    "pool": 'return float(ThreadPoolExecutor(1).submit(np.loadtxt, f"{HERE}/w_{self.which}.txt").result())',
}  # fmt: skip
READ = """
    def read(self, found):
        found.append(float((HERE / f"w_{self.which}.txt").read_text()))
"""


pytestmark = pytest.mark.filterwarnings(
    "ignore:(The features of .* are not cached|Mine starts |the transform is fitted):UserWarning"
)


def set_power(folder: Path, power: int) -> None:
    """Write files from which a class may read its power."""
    import sqlite3

    (folder / "w_a.txt").write_text(str(power))
    (folder / "w_a.bin").write_bytes(bytes([power]))
    # Python takes a module of the same second and size for unchanged.
    (folder / "module_a.py").write_text(f"POWER = {power}{' ' * power}\n")
    (folder / "w_a.db").unlink(missing_ok=True)
    with sqlite3.connect(folder / "w_a.db") as base:
        base.execute("create table t (w)")
        base.execute("insert into t values (?)", (power,))
    base.close()
    (folder / "ways").mkdir(exist_ok=True)
    for i in range(power):
        (folder / "ways" / str(i)).touch()


@pytest.fixture(scope="module")
def score_of_power(patches: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Scores of classes whose power is in their source."""
    scores = {}
    for power in (1, 9):
        folder = tmp_path_factory.mktemp(f"power{power}")
        (folder / "mine.py").write_text(f"{HEAD}        return {power}\n")
        method = f"{folder / 'mine.py'}:Mine"
        run = tp.evaluate(method, task="hpatches/matching", data=patches, store=folder / "store")
        scores[power] = run.value("map")
    assert scores[1] != scores[9]
    return scores


@pytest.mark.parametrize("way", WAYS)
def test_evaluate_computed_file_name_is_not_cached(
    way: str, patches: Path, tmp_path: Path, score_of_power: dict[int, float]
) -> None:
    (tmp_path / "mine.py").write_text(f"{HEAD}        {WAYS[way]}\n{READ}")
    given: Any = {"task": "hpatches/matching", "data": patches}
    method = f"{tmp_path / 'mine.py'}:Mine"
    for power, score in score_of_power.items():
        set_power(tmp_path, power)
        run = tp.evaluate(method, **given, store=tmp_path / "store")
        assert any("not cached because its code opened" in w for w in run.warnings)
        assert not list((tmp_path / "store" / "features").rglob("*.npy"))
        assert run.value("map") == score


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no folder of shared memory")
def test_evaluate_file_in_shared_memory_is_not_cached(patches: Path, tmp_path: Path) -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        set_power(Path(folder), 1)
        (tmp_path / "mine.py").write_text(
            f"{HEAD}        return float(open({folder!r} + '/w_a.txt').read())\n"
        )
        run = tp.evaluate(
            f"{tmp_path / 'mine.py'}:Mine", task="hpatches/matching", data=patches, store=tmp_path / "store"
        )
    assert any("not cached because its code opened" in w for w in run.warnings)
    assert not list((tmp_path / "store" / "features").rglob("*.npy"))


KEYED = {
    "literal": ("", 'return float((HERE / "w_a.txt").read_text())'),
    "attribute": ("?which={}", "return float(Path(self.which).read_text())"),
    "folder": ("?which={}", 'return len(sorted((Path(self.which).parent / "ways").iterdir())) * 0 + 1'),
    "own output": ("", 'p = HERE / ("o" + "ut"); p.write_text("1"); return float(p.read_text())'),
    "temporary file": ("", "import tempfile; f = tempfile.TemporaryFile(); f.write(b'1'); return 1.0"),
    "library": ("", "import json.tool, scipy.stats; return 1.0"),
    "command": ("", 'subprocess.run(["true", "--", "x"]); return 1.0'),
}


@pytest.mark.parametrize("way", KEYED)
def test_evaluate_keyed_files_are_cached(way: str, patches: Path, tmp_path: Path) -> None:
    set_power(tmp_path, 1)
    parameters, body = KEYED[way]
    (tmp_path / "mine.py").write_text(f"{HEAD}        {body}\n")
    which = tmp_path if way == "folder" else tmp_path / "w_a.txt"
    if way == "folder":
        body = body.replace("Path(self.which).parent", "Path(self.which)")
        (tmp_path / "mine.py").write_text(f"{HEAD}        {body}\n")
    run = tp.evaluate(
        f"{tmp_path / 'mine.py'}:Mine{parameters.format(which)}",
        task="hpatches/matching", data=patches, store=tmp_path / "store",
    )  # fmt: skip
    assert not [w for w in run.warnings if "not cached" in w]
    assert list((tmp_path / "store" / "features").rglob("*.npy"))


def test_evaluate_second_task_with_file_already_read_is_not_cached(patches: Path, tmp_path: Path) -> None:
    body = """if not hasattr(Mine, "_kept"):
            Mine._kept = float((HERE / f"w_{self.which}.txt").read_text())
        return Mine._kept"""
    (tmp_path / "mine.py").write_text(f"{HEAD}        {body}\n")
    set_power(tmp_path, 1)
    requests = ["hpatches/matching", "hpatches/verification"]
    from tiepoint.run.engine import evaluate_prepared
    from tiepoint.run.preparation import prepare_all
    from tiepoint.run.request import RunRequest
    from tiepoint.run.session import RunSession

    method = f"{tmp_path / 'mine.py'}:Mine"
    with Store.open(tmp_path / "store") as store, RunSession(store.root) as session:
        for prepared in prepare_all([RunRequest(method, t, patches) for t in requests], store.root):
            run = evaluate_prepared(prepared, store, session)
            assert any("not cached because its code opened" in w for w in run.warnings)
    assert not list((tmp_path / "store" / "features").rglob("*.npy"))


def test_evaluate_after_kill_discards_features_with_incomplete_key(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(f"{HEAD}        {WAYS['f-string']}\n")
    given: Any = {"task": "hpatches/matching", "data": patches, "store": tmp_path / "store"}
    method = f"{tmp_path / 'mine.py'}:Mine"
    set_power(tmp_path, 1)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine, "scores_under", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tp.evaluate(method, **given)
    assert list((tmp_path / "store" / "features").rglob("*.npy"))
    set_power(tmp_path, 9)
    after = tp.evaluate(method, **given).value("map")
    assert after == tp.evaluate(method, **{**given, "store": tmp_path / "fresh"}).value("map")


def test_evaluate_method_that_asks_server_is_not_cached(patches: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        stop = threading.Event()

        def serve() -> None:
            server.settimeout(0.1)
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                connection.sendall(b"1")
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        body = f'import socket; return float(socket.create_connection(("127.0.0.1", {port})).recv(1))'
        (tmp_path / "mine.py").write_text(f"{HEAD}        {body}\n")
        try:
            run = tp.evaluate(
                f"{tmp_path / 'mine.py'}:Mine", task="hpatches/matching", data=patches, store=tmp_path / "s"
            )
        finally:
            stop.set()
            thread.join()
    assert any(f"a connection to 127.0.0.1:{port}" in w for w in run.warnings)
    assert not list((tmp_path / "s" / "features").rglob("*.npy"))


def test_evaluate_transform_fitted_on_unkeyed_features_is_fitted_again(patches: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"{HEAD}        {WAYS['f-string']}\n")
    given: Any = {"task": "hpatches/matching", "data": patches, "fit_on": patches}
    scores = []
    for power in (1, 9):
        set_power(tmp_path, power)
        method = f"{tmp_path / 'mine.py'}:Mine+pca?dims=4"
        run = tp.evaluate(method, **given, store=tmp_path / "store")
        fresh = tp.evaluate(method, **given, store=tmp_path / f"fresh{power}")
        assert run.value("map") == fresh.value("map")
        scores.append(run.value("map"))
    assert scores[0] != scores[1]
    assert not list((tmp_path / "store" / "transforms").rglob("*"))


def test_evaluate_method_that_starts_program_is_cached_with_warning(patches: Path, tmp_path: Path) -> None:
    body = 'return float(subprocess.check_output([str(HERE / "tool.sh")]))'
    (tmp_path / "mine.py").write_text(f"{HEAD}        {body}\n")
    tool = tmp_path / "tool.sh"
    tool.write_text("#!/bin/sh\ncat $(dirname $0)/w_a.txt\n")
    tool.chmod(0o755)
    set_power(tmp_path, 1)
    method, given = f"{tmp_path / 'mine.py'}:Mine", {"data": patches, "store": tmp_path / "store"}
    for task in ("hpatches/matching", "hpatches/verification"):
        run = tp.evaluate(method, task=task, **given)  # type: ignore[arg-type]
        assert any("starts tool.sh" in w for w in run.warnings)
        assert not any("not cached" in w for w in run.warnings)
    assert list((tmp_path / "store" / "features").rglob("*.npy"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_evaluate_method_that_forks_is_cached_with_warning(patches: Path, tmp_path: Path) -> None:
    body = "pid = os.fork(); pid or os._exit(0); os.waitpid(pid, 0); return 1.0"
    (tmp_path / "mine.py").write_text(f"{HEAD}        {body}\n")
    run = tp.evaluate(
        f"{tmp_path / 'mine.py'}:Mine", task="hpatches/matching", data=patches, store=tmp_path / "store"
    )
    assert any("starts a child process" in w for w in run.warnings)


@pytest.mark.slow
def test_evaluate_unkeyed_file_opened_in_workers_is_not_cached(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiepoint.run import compute

    monkeypatch.setattr(compute, "MIN_PARALLEL_WORK_S", -1e9)
    (tmp_path / "mine.py").write_text(f"{HEAD}        import time; time.sleep(0.01); {WAYS['f-string']}\n")
    set_power(tmp_path, 1)
    run = tp.evaluate(
        f"{tmp_path / 'mine.py'}:Mine",
        task="hpatches/matching", data=patches, store=tmp_path / "store", jobs=2,
    )  # fmt: skip
    assert any("not cached because its code opened" in w for w in run.warnings)
    assert np.isfinite(run.value("map"))
    assert not list((tmp_path / "store" / "features").rglob("*.npy"))
