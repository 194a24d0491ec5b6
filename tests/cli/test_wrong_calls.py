# SPDX-License-Identifier: BSD-3-Clause
"""Wrong calls: each message names the error, its cause and a remedy in one to three lines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tiepoint.cli.main import run as command
from tiepoint.store.run_queries import load_heads
from tiepoint.store.store import Store

CODE = """
import numpy as np
class Good:
    def describe(self, patches): return patches[:, ::4, ::4].reshape(len(patches), -1).astype("float32")
class Short:
    def describe(self, patches): return np.zeros((3, 8), np.float32)
class Nan:
    def describe(self, patches): return np.full((len(patches), 8), np.nan, np.float32)
class Returns:
    def describe(self, patches): return None
class Nothing:
    pass
class Args:
    def __init__(self, size): self.size = size
    def describe(self, patches): return np.zeros((len(patches), 8), np.float32)
"""

M = "--task hpatches/matching --data PATCHES"
S = "--store STORE"

CALLS = {
    "frobnicate": "unknown command 'frobnicate'. Known: choose, compare",
    "rnu sift": "did you mean 'run'?",
    "data chekc PATCHES": "did you mean 'check'?",
    "--verison": "--version",
    "run": "needs METHOD, --task TASK and --data DIR",
    "run sift --task hpatches/matching": "needs --data DIR",
    f"run siftt {M}": "did you mean 'sift' or 'rootsift'?",
    f"run extra {M}": "`tiepoint list methods` has all",
    f"run sift,orb {M}": "separate methods by spaces: sift orb",
    f"run dis {M}": "is for dense, but this task is for patches",
    "stress resize --images photos": "method 'resize' is for patches, but pairs of images need methods",
    f"race sift pixels {M} --group noise=mild": "map in group 'noise=mild' has no value for i_aa",
    f"run vgg:text.txt {M}": "takes nothing after a colon; remove ':text.txt'",
    f"run my.module:Class {M}": "as in my/module.py:Class",
    f"run sift+pcaa {M}": "did you mean 'pca'",
    f"run resize?sise=4 {M}": "did you mean 'size'?",
    f"run files: {M}": "files",
    f"run files:nowhere {M}": "no such folder",
    f"run files:empty {M}": "no descriptor file; expected SEQ/IM.csv",
    f"run onnx:nowhere.onnx {M}": "pass a local file",
    f"run m.py {M}": "write it after a colon, as in m.py:MyDescriptor",
    f"run m.py:Goood {M}": "did you mean 'Good'?",
    f"run broken.py:A {M}": "SyntaxError",
    f"run m.py:Nothing {M}": "add one of them",
    f"run m.py:Args {M}": "needs size, as in Args?size=VALUE",
    f"run m.py:Short {M} --jobs 1": "3 descriptors for 20 patches",
    f"run m.py:Nan {M} --jobs 1": "no value is finite",
    f"run m.py:Returns {M} --jobs 1": "more of this kind: i_aa/e1",
    "run sift --task hpatches/mathcing --data PATCHES": "did you mean 'hpatches/matching'",
    "run sift --task matching --data PATCHES": "did you mean 'hpatches/matching'",
    "run sift --task hpatches/matching --data nowhere": "does not exist",
    "run sift --task hpatches/matching --data text.txt": "a file of 6 bytes; pass a folder",
    "run sift --task hpatches/matching --data empty": "the folder is empty; expected strips SEQ/ref.png",
    "run sift --task hpatches/matching --data photos": "found a.jpg; expected strips SEQ/ref.png",
    "run sift --task keypoints/matching --data photos": "found a.jpg",
    "run sift --task keypoints/matching --data PATCHES": "expected: SEQ/1.ppm",
    "run dis --task tss --data photos": "found a.jpg",
    "run dis --task dense/flow --data empty": "the folder is empty",
    "run klt --task pose/relative --data photos": "found a.jpg",
    "run klt --task evd/homography --data empty": "EVD (folders 1, 2, h)",
    "run klt --task wxbs/fundamental --data empty": "WxBS (CATEGORY/PAIR/corrs.txt",
    "keypoints export k --out o --store STORE": "create one with `tiepoint keypoints make`",
    "run klt --task pose/relative --data text.txt": "a file of 6 bytes",
    "run pixels --task hpatches-v1/matching --data PATCHES": "create them with `tiepoint data tasks`",
    f"run sift {M} --protocol exat": "did you mean 'exact'?",
    f"run sift {M} --split ful": "did you mean 'full'?",
    f"run sift {M} --protocols exact": "--protocol",
    f"run sift {M} --jobs many": "--jobs: expected integer",
    f"run sift {M} --device gpu": "cpu, cuda",
    f"run sift {M} --on-bad skip": "error, miss, keep-zeros",
    f"run sift {M} --results-form x": "auto, document, final",
    f"run sift orb {M} --name x": "--name is for a single method, found 2",
    f"run sift {M} -o lists": "key=value",
    "run sift --task hpatches/verification --data PATCHES -o lists=cleann": "did you mean 'clean'?",
    f"run sift {M} --store text.txt": "is a file; pass a folder or a database URL",
    f"run sift {M} --store sqlite:x.db": "lacks slashes",
    f"run sift {M} --cluster foo": "tcp://host:8786",
    "run --config bad.yaml": "bad.yaml, line 2: is not YAML",
    "run --config wrong.yaml": "unknown key of wrong.yaml 'method'",
    "score tss --results nowhere --data photos": "the results folder nowhere does not exist",
    "score hpatches/matching --results nowhere --data PATCHES": "nowhere",
    "describe sift --data PATCHES": "needs --out PATH",
    f"compare --task hpatches/matching rezise {S}": "did you mean 'resize'?",
    f"compare --task hpatches/verification Odd {S}": "method or run of hpatches/verification in the store",
    f"compare --task hpatches/matching --metric mpa {S}": "did you mean 'map'?",
    f"compare --task hpatches/matching --group noise=hrad {S}": "did you mean 'noise=hard'",
    f"compare --task hpatches/matching --test ttest {S}": "bootstrap-t, sign-flip",
    f"compare --task hpatches/matching --dataset ptches {S}": "did you mean 'patches'?",
    "compare --task hpatches/matching --store nowhere": "pass another folder or URL as --store",
    f"compare resize {S}": "compare needs --task TASK: found hpatches/matching, hpatches/verification",
    f"report --format pdf {S}": "csv, html, json, latex, md, parquet",
    f"report --out r.pdf {S}": "r.pdf: a report cannot be written as PDF",
    f"plot scors {S}": "did you mean 'scores'",
    "list method": "did you mean 'methods'",
    f"show zzz {S}": "Known: meanstd",
    f"show resize {S}": "runs of 2 tasks; choose one with --task",
    "import text.txt": "the suffix '.txt' cannot be imported; known suffixes are",
    f'sql "select * from run" {S}': "no such table: run; docs/results-schema.md lists",
    f'sql "delete from runs" {S}': "a query can only read",
    "data make text.txt": "cannot write text.txt: File exists; choose another folder",
    "data get evdd": "did you mean 'evd'?",
    "data cut --data nowhere --out o": "nowhere",
    "data tasks --suite hpatches-v2 --data PATCHES --out o": "did you mean 'hpatches-v1'",
    "keypoints list --store nowhere": "create a keypoint set with `tiepoint keypoints make`",
    "flow show text.txt": "use one of the suffixes .flo",
    "flow show lfs.flo": 'fetch it with "git lfs pull"',
    f"store rm zzz {S}": "`tiepoint store ls` lists the run ids",
    f"store rename sift x {S}": "unknown method in the store 'sift'. Known:",
    f"store prune --older-than soon {S}": "such as 30d or 12h",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("wrong")
    (root / "empty").mkdir()
    (root / "photos").mkdir()
    (root / "photos" / "a.jpg").write_bytes(b"no picture")
    files = {
        "text.txt": "hello\n",
        "m.py": CODE,
        "broken.py": "class A\n",
        "bad.yaml": "methods: [sift\n",
        "wrong.yaml": "method: [sift]\n",
        "lfs.flo": "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 5\n",
    }
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8", newline="\n")
    return root


@pytest.mark.parametrize("call", CALLS, ids=lambda call: re.sub(r"[^a-z0-9]+", "-", call.lower())[:50])
def test_wrong_call_message_has_cause_and_remedy(
    call: str,
    world: Path,
    patches: Path,
    small_store: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(world)
    monkeypatch.setenv("TIEPOINT_STORE", str(tmp_path / "store"))
    places = {"PATCHES": str(patches), "STORE": str(small_store)}
    words = [places.get(word, word) for word in shlex.split(call)]
    assert command(words) == 2
    message = capsys.readouterr().err.replace(str(patches), "PATCHES")
    assert CALLS[call] in message
    assert message.startswith("tiepoint: ")
    assert len(message.splitlines()) <= 3


def test_compare_takes_the_only_task_of_the_methods(
    small_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(small_store) as store:
        heads = load_heads(store)
    both = {h.method for h in heads if h.task == "hpatches/verification"}
    (alone,) = {h.method for h in heads} - both
    words = ["compare", alone, "meanstd", "--store", str(small_store)]
    assert command(words) == 0
    inferred = capsys.readouterr().out
    assert command([*words, "--task", "hpatches/matching"]) == 0
    assert capsys.readouterr().out == inferred
    assert inferred.startswith("hpatches/matching, ")
