# SPDX-License-Identifier: BSD-3-Clause
"""Make more than 300 wrong calls and print what a user reads: bad names, folders, files, shapes and values.

    tiepoint demo --out demo
    python bench/wrong_calls.py demo --out messages.txt

A call that ends with code 0, shows a traceback or prints more than three lines is counted at the end. Whether
a message says what to do is for a reader to judge.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from tiepoint.cli.main import run as command
from tiepoint.core.errors import TiepointError

CODE = """
import numpy as np
class Good:
    def describe(self, patches): return patches[:, ::8, ::8].reshape(len(patches), -1).astype("float32")
class Flat:
    def describe(self, patches): return np.zeros(len(patches), np.float32)
class Words:
    def describe(self, patches): return ["a"] * len(patches)
class Wide:
    def describe(self, patches): return np.zeros((len(patches), len(patches), 2), np.float32)
class Raises:
    def describe(self, patches): raise ValueError("not today")
class Imports:
    def describe(self, patches): import nosuchlibrary
class NoArgs:
    def describe(self): return 1
class BadDistance:
    distance = "manhattan"
    def describe(self, patches): return patches[:, ::8, ::8].reshape(len(patches), -1).astype("float32")
class BadInput:
    input = "float16"
    def describe(self, patches): return patches[:, ::8, ::8].reshape(len(patches), -1).astype("float32")
class Matcher:
    def match(self, image1, image2): return np.zeros((3, 2)), np.zeros((4, 2))
class Three:
    def match(self, image1, image2): return np.zeros((3, 3)), np.zeros((3, 3))
class Flow:
    def flow(self, image1, image2): return np.zeros((4, 4, 2), np.float32)
class FloatNan:
    def describe(self, patches): return np.full((len(patches), 4), np.nan)
class Complex:
    def describe(self, patches): return np.ones((len(patches), 4), np.complex64)
class Ragged:
    def describe(self, patches): return [[1.0] * (1 + i % 3) for i in range(len(patches))]
class Nothing:
    def describe(self, patches): pass
class Pair:
    def describe(self, one, two): return one
class MatchDict:
    def match(self, image1, image2): return {"points": np.zeros((3, 2))}
class MatchNan:
    def match(self, image1, image2): return np.full((9, 2), np.nan), np.zeros((9, 2))
class MatchFar:
    def match(self, image1, image2): return np.full((9, 2), 9e6), np.zeros((9, 2))
class MatchOne:
    def match(self, image1, image2): return np.zeros((9, 4))
class FlowFirst:
    def flow(self, image1, image2): return np.zeros((2, *image1.shape[:2]), np.float32)
class Needs:
    def __init__(self, size: int): self.size = size
    def describe(self, patches): return np.zeros((len(patches), self.size), np.float32)
"""

P = "--task hpatches/matching --data demo/patches"
K = "--task keypoints/matching --data demo/sequences"
R = "--task pose/relative --data demo/pose/pairs.json"
T = "--task tss --data demo/dense"
S = "--store demo/store"

COMMANDS = f"""
tiepoint runn sift
compair sift orb
reprot
--help-me
datasets
data gett
data make demo --width big
data make /proc/nothing
data get nosuch
data get hpatches --from nowhere.zip
data get hpatches --from text.txt
data cut --data demo/patches --out cut
data cut --data empty --out cut
data cut --data demo/sequences --out cut --side 1
data cut --data demo/sequences --out cut --max-patches 0
data tasks --suite hpatches-v3 --data demo/patches --out t
data tasks --suite hpatches-v1 --data empty --out t
data tasks --suite hpatches --data demo/patches --out t --split z
data pack nowhere
data pack empty
data check
data check nowhere
data check text.txt
data check --store nowhere
keypoints make k
keypoints make k --data demo/sequences --detector sfit
keypoints make k --data demo/sequences --detector sift?threshold=0.1
keypoints make k --data empty --detector sift
keypoints make k --data demo/sequences --detector sift --mode fixed
keypoints make a/b --data demo/sequences --detector sift
keypoints subset none --out x {S}
keypoints intersect a b --out c {S}
keypoints import text.txt {S}
flow show nowhere.flo
flow show empty
flow show short.flo
flow show a.npy
flow convert short.flo b.flo
flow convert demo/dense out
flow warp text.txt short.flo --out w.png
flow convert good.flo b.xyz
pairs show sift x --out p.png {S}
pairs show nobody x {S}
pairs show klt nosuchpair {S}
run sift --task hpatches/matching --data demo/patches --data2 x
run {P}
run "" {P}
run sift, {P}
run SIFT2 {P}
run root-sift {P}
run sift+l2norm {P}
run sift+root+pca=64 {P}
run sift?n_features=many {P}
run sift?=3 {P}
run sift?sigma {P}
run loftr {P}
run klt {P}
run farneback {K}
run resize {K}
run sift {T}
run sift --task hpatch/matching --data demo/patches
run sift --task tss/flow --data demo/dense
run sift --task hpatches --data demo/patches
run sift --task "" --data demo/patches
run sift --task pose --data demo/pose
run sift --task pose/relative --data demo/pose/left.png
run sift --task pose/relative --data broken.json
run sift --task pose/relative --data list.json
run sift --task pose/relative --data lost.json
run sift --task pose/relative --data nok.json
run sift --task hpatches/matching --data demo
run sift --task keypoints/matching --data demo
run dis --task tss --data demo
run dis --task dense/pck --data demo/sequences
run klt --task semantic/pck --data demo/sequences
run klt --task wxbs/points --data demo/dense
run sift --task hpatches-v1/matching --data demo/patches --benchmark easy
run sift --task hpatches/matching --data demo/sequences
run sift --task keypoints/matching --data demo/patches
run sift --task hpatches/matching --data "demo/patches "
run sift --task hpatches/matching --data text.txt
run sift {P} --protocol hpatches-pyton
run sift {P} --protocol exact,exat
run sift {R} --protocol superglu
run sift {P} --split test
run sift {P} --jobs -1
run sift {P} --device cuda:9
run sift {P} --device tpu
run sift {P} --store text.txt
run sift {P} --store sqlite:x.db
run sift {P} --store mysql://h/db
run sift {P} --store postgresql://127.0.0.1:1/none
run sift {P} --store /proc/none
run sift {P} -o scenes=i_brik
run sift {P} -o split
run sift {P} -o thresholds=1
run sift {K} -o scenes=i_brik
run sift {K} -o tau_px=far
run sift {K} -o tau_px=-2
run sift {R} -o estimator=ransac
run sift {R} -o threshold_px=0
run dis {T} -o missing=ignore
run dis {T} -o subsets=FG3D
run sift {P} --name ""
run sift {P} --fit-on nowhere
run sift {P} --write-results text.txt
run sift {P} --cluster tcp://127.0.0.1:1 --store fresh
run sift {P} --cluster nowhere.yaml
run sift {P} --config exp.yaml
run --config nowhere.yaml
run --config empty.yaml
run --config keys.yaml
run --config text.txt
run m.py {P}
run m.py:Nobody {P}
run m.py:Flat {P}
run m.py:Words {P}
run m.py:Wide {P}
run m.py:Raises {P}
run m.py:Imports {P}
run m.py:NoArgs {P}
run m.py:BadDistance {P}
run m.py:BadInput {P}
run m.py:Matcher {R}
run m.py:Three {R}
run m.py:Flow {T}
run m.py:Needs?size=big {P}
run m.py:Good {R}
run m.py:Good?x=1 {P}
run nowhere.py:Good {P}
run files:demo/patches {P}
run files:demo {T}
run torch:nowhere.pt {P}
run onnx:text.txt {P}
run vismatch:nothing {R}
score hpatches/matching --results demo/patches --data demo/patches
score tss --results empty --data demo/dense
score tss --results demo/sequences --data demo/dense
score tss --results text.txt --data demo/dense
score pose/relative --results empty --data demo/pose/pairs.json
score hpatches-v1/matching --results empty --data demo/patches
score sfm/poses --results text.txt --data empty
score tsss --results empty --data demo/dense
score tss --results empty --data demo/dense --missing none
compare sift --task keypoints/matching {S}
compare sift sfit --task hpatches/matching {S}
compare sift orb {S}
compare sift orb --task hpatches/mathing {S}
compare sift orb --task tss {S}
compare sift orb --task hpatches/matching --metric ap {S}
compare sift orb --task hpatches/matching --group noise=medium {S}
compare sift orb --task hpatches/matching --group noise {S}
compare sift orb --task hpatches/matching --protocol hpatches-v2 {S}
compare sift orb --task hpatches/matching --baseline klt {S}
compare sift orb --task hpatches/matching --allow data {S}
compare sift orb --task hpatches/matching --margin -1 {S}
compare sift orb --task hpatches/matching --out t.xls {S}
compare sift orb --task hpatches/matching --store nowhere
report --format word {S}
report nobody {S}
report --out /proc/x.html {S}
report --names nowhere.yaml --format latex {S}
report --task hpatches/mtching {S}
report --protocol exat {S}
report --table all --format md {S}
plot curve {S}
plot scores --out s.bmp {S}
plot scores --columns 3 --task hpatches/matching {S}
show {S}
show 000000 {S}
show sift {S}
show sift --task tss {S}
export sift --out o {S}
export klt --out o --form superpoint {S}
serve --port 99999 {S}
serve --host 0.0.0.0 {S}
serve --store nowhere
list run {S}
list methods --family patch
import nowhere.p
import broken.json
sql "selct 1" {S}
sql "select nothing from runs" {S}
sql "drop table runs" {S}
plan --task hpatches/matching {S}
plan --detect 0 --task hpatches/matching {S}
race sift {P}
race sift orb --replay --task tss {S}
store ls --store nowhere
store rm nobody {S}
store rename nobody x {S}
store merge nowhere {S}
store merge text.txt {S}
store prune --older-than 3years {S}
store prune {S}
run hpatches/matching --task sift --data demo/patches
compare hpatches/matching --task sift {S}
run --task hpatches/matching --data demo/patches
run sift --task hpatches/matching --data ../demo/patches
run sift --task hpatches/matching --data ~/demo/patches
run sift --task keypoints/matching --data demo/dense
run klt --task pose/relative --data demo/sequences
run sift {P} -o tau_px=3
run dis {T} -o estimator=opencv
run sift {P} --store fresh/a.html
run sift {P} --store demo/patches
run files:points.csv {P}
run files:windows {P}
run m.py:FloatNan {P}
run m.py:Complex {P}
run m.py:Ragged {P}
run m.py:Nothing {P}
run m.py:Pair {P}
run m.py:MatchDict {R}
run m.py:MatchNan {R}
run m.py:MatchFar {R}
run m.py:MatchOne {R}
run m.py:FlowFirst {T}
run latin.py:Good {P}
run tabs.py:Good {P}
run m:Good {P}
run sift --task pose/relative --data bom.json
run --config tabs.yaml
report --names latin.yaml --format latex {S}
run "files:caf\udce9" {P}
run exec:nowhere {P}
run exec:text.txt {P}
run exec:false {P}
run "exec:echo hello" {P}
run exec: {P}
run lightglue:sift2 {R}
run lightglue:disk {P}
run disk?weights=nowhere.pth {K}
run hf:nowhere {R}
run hf:empty {R}
run onnx-pairs:text.txt {R}
run kornia:LoFTRR {R}
run colmap-sift {K}
run colmap-sift --task sfm/reconstruct --data demo/sequences
run colmap-sift --task sfm/reconstruct --data empty
run colmap-sift --task sfm/reconstruct --data demo/rooms -o seeds=0
run colmap-sift --task sfm/reconstruct --data demo/rooms -o mapper=globl
run dis --task sfm/reconstruct --data demo/rooms
export colmap-sift --form colmap --out text.txt {S}
choose sift --images demo/sequences/i_brick
choose sift orb --images empty
choose sift orb --images demo/sequences/v_camera --limit 0
choose resize orb --images demo/sequences/v_camera
race sift orb --task hpatches/matching {S}
race sift {P} --goal better
race sift orb {P} --about world
race sift orb {P} --group noise=mild
stress sift --images empty
stress resize --images demo/sequences/v_camera
stress sift --images demo/sequences/v_camera --kinds turn
stress sift --images demo/sequences/v_camera --metric map
run sift {K} --subset informative
run sift {K} --subset informative:0
score tss --data demo/dense
score tss --results demo/dense --data demo/dense/DEMO
describe sift --data demo/sequences --out d
describe klt --data demo/patches --out d
flow convert good.flo
pairs show klt --out p.png {S}
store merge demo/store --store demo/store
sql {S}
"""

K0 = "np.diag([500., 500., 1.])"
PYTHON = f"""
tp.evaluate("sfit", task="hpatches/matching", data="demo/patches")
tp.evaluate("sift", task="hpatches/match", data="demo/patches")
tp.evaluate("sift", task="hpatches/matching", data="nowhere")
tp.evaluate("sift", task="hpatches/matching")
tp.evaluate([], task="hpatches/matching", data="demo/patches")
tp.evaluate(object(), task="hpatches/matching", data="demo/patches")
tp.evaluate(lambda patches: patches, task="hpatches/matching", data="demo/patches")
tp.evaluate("sift", task="hpatches/matching", data="demo/patches", protocol="exat")
tp.evaluate("sift", task="hpatches/matching", data="demo/patches", options={{"lists": "x"}})
tp.load("nobody", store="demo/store")
tp.load("sift", store="demo/store")
tp.compare(["sift", "orb"], task="hpatches/matching", store="nowhere")
tp.compare("sift", task="hpatches/matching", group="noise=mild", store="demo/store")
tp.write_report([], "r.pdf")
tp.score.matching(np.ones((3, 4)), np.ones((3, 5)), np.arange(3))
tp.score.matching(np.ones((3, 4)), np.ones((3, 4)), np.arange(4))
tp.score.matching(np.ones((3, 4)), np.ones((3, 4)), np.array([0, 1, 9]))
tp.score.matching(np.full((3, 4), np.nan), np.zeros((3, 4)), np.arange(3))
tp.score.verification(np.zeros(4), np.zeros(5))
tp.score.verification(np.zeros(4), np.array([0, 1, 2, 3]))
tp.score.verification(np.zeros(4), np.ones(4, bool))
tp.score.retrieval(np.zeros(3), np.zeros(3, bool))
tp.score.retrieval(np.zeros((2, 3)), np.zeros((2, 3), bool))
tp.score.pose(np.zeros((5, 2)), np.zeros((4, 2)), {K0}, {K0}, np.eye(4), sizes=((640, 480), (640, 480)))
tp.score.pose(np.zeros((5, 3)), np.zeros((5, 3)), {K0}, {K0}, np.eye(4), sizes=((640, 480), (640, 480)))
tp.score.pose(np.zeros((5, 2)), np.zeros((5, 2)), np.eye(2), {K0}, np.eye(4), sizes=((640, 480), (640, 480)))
tp.score.pose(np.zeros((5, 2)), np.zeros((5, 2)), {K0}, {K0}, np.eye(3), sizes=((640, 480), (640, 480)))
tp.score.pose(np.zeros((5, 2)), np.zeros((5, 2)), {K0}, {K0}, 2 * np.eye(4), sizes=((640, 480), (640, 480)))
tp.score.pose(np.zeros((5, 2)), np.zeros((5, 2)), {K0}, {K0}, np.eye(4))
tp.score.homography(np.zeros((5, 2)), np.zeros((5, 2)), np.zeros((3, 3)), sizes=((640, 480), (640, 480)))
tp.score.homography(np.zeros((5, 2)), np.zeros((5, 2)), np.eye(3), sizes=(640, 480))
tp.score.flow(np.zeros((4, 5)), np.zeros((4, 5, 2)))
tp.score.flow(np.zeros((4, 5, 2)), np.zeros((5, 4, 2)))
tp.score.flow(np.zeros((4, 5, 2)), np.zeros((4, 5, 2)), np.ones((4, 4), bool))
tp.score.flow(np.zeros((4, 5, 2)), np.zeros((4, 5, 2)), np.zeros((4, 5), bool))
tp.score.matching(np.ones((3, 4)), np.ones((3, 4)), np.arange(3), protocol="hbench")
tp.score.nosuch
tp.evaluate("sift", "hpatches/matching", "demo/patches")
tp.evaluate("sift", task="hpatches/matching", data=None)
tp.evaluate("sift", task=None, data="demo/patches")
tp.evaluate("sift", task="hpatches/matching", data="demo/patches", protocol=1)
tp.evaluate("sift", task="hpatches/matching", data="demo/patches", jobs="two")
tp.evaluate("sift", task="hpatches/matching", data="demo/patches", store=3)
tp.evaluate("sift", task="hpatches/matching", data="demo/patches", protocols="exact")
tp.evaluate(np.zeros(3), task="hpatches/matching", data="demo/patches")
tp.evaluate(["sift", None], task="hpatches/matching", data="demo/patches")
tp.compare([], task="hpatches/matching", store="demo/store")
tp.compare([tp.load("klt", store="demo/store"), tp.load("zero", store="demo/store")])
tp.load("", store="demo/store")
tp.load("klt", "demo/store")
tp.write_report(tp.load("klt", store="demo/store"), "r.xyz")
tp.load("klt", store="demo/store").plot("nothing")
tp.score.matching([["a", "b"]], [["a", "b"]], [0])
tp.score.matching(np.ones(4), np.ones(4), np.arange(1))
tp.score.matching(np.zeros((0, 4)), np.zeros((0, 4)), np.zeros(0, int))
tp.score.matching(np.ones((3, 4)), np.arange(3), np.ones((3, 4)))
tp.score.matching(np.ones((3, 4)), np.ones((3, 4)), np.eye(3))
tp.score.flow(np.zeros((2, 4, 5)), np.zeros((2, 4, 5)))
tp.score.flow(np.full((4, 5, 2), np.nan), np.full((4, 5, 2), np.nan))
tp.score.homography(np.eye(3), np.zeros((5, 2)), np.zeros((5, 2)), sizes=((640, 480), (640, 480)))
tp.score.verification([0.1, 0.2], ["same", "other"])
tp.score.retrieval(np.zeros((2, 3)), np.array([1, 2]))
tp.score.pose(np.zeros((5, 2)), np.zeros((5, 2)), 500.0, {K0}, np.eye(4), sizes=((640, 480), (640, 480)))
tp.tools.race(["sift", "orb"], task="hpatches/matching")
tp.tools.choose(["sift", "orb"], images="nowhere")
tp.tools.races
"""


def make_world(root: Path, demo: Path) -> None:
    """Copy the demo and write the files that the calls name."""
    shutil.copytree(demo, root / "demo")
    (root / "empty").mkdir()
    pair = '{"pairs": [{"image0": "no.png", "image1": "no.png"}]}'
    files = {
        "text.txt": "hello\n",
        "m.py": CODE,
        "broken.json": '{"pairs": [',
        "list.json": "[1, 2, 3]",
        "lost.json": pair,
        "nok.json": pair.replace("no.png", "demo/pose/left.png"),
        "exp.yaml": "runs: []\n",
        "empty.yaml": "",
        "keys.yaml": "methods: [sift]\ntaks: [hpatches/matching]\ndata: demo/patches\n",
    }
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8", newline="\n")
    (root / "bom.json").write_bytes(b"\xef\xbb\xbf" + pair.replace("\n", "\r\n").encode())
    (root / "latin.py").write_bytes("# Mögliche Größen\n".encode("latin-1") + CODE.encode())
    (root / "latin.yaml").write_bytes("methods: {sift: Größe}\n".encode("latin-1"))
    (root / "tabs.py").write_text("class Good:\n\tx = 1\n        y = 2\n", encoding="utf-8", newline="\n")
    (root / "tabs.yaml").write_text("methods:\n\t- sift\n", encoding="utf-8", newline="\n")
    (root / "points.csv").write_text("1;2;3\r\n", encoding="utf-8", newline="")
    for strip in sorted((demo / "patches").glob("*/*.png")):
        table = root / "windows" / strip.parent.name / f"{strip.stem}.csv"
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_bytes(b"\xef\xbb\xbf" + b"0,5;1,5\r\n" * 3)
    np.save(root / "a.npy", np.zeros((3, 3)))
    (root / "short.flo").write_bytes(b"PIEH" + np.array([40, 30], "<i4").tobytes() + bytes(100))
    (root / "good.flo").write_bytes(b"PIEH" + np.array([4, 3], "<i4").tobytes() + bytes(96))


def called(line: str) -> tuple[object, str]:
    """Run one command line. Return its exit code and what it printed to standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: object = command(shlex.split(line))
        except SystemExit as e:
            code = e.code
        except Exception as e:
            code, _ = f"{type(e).__name__} escaped", err.write(str(e))
    return code, err.getvalue().strip() or f"(standard output) {out.getvalue().strip()[:300]}"


def evaluated(line: str) -> tuple[object, str]:
    """Evaluate one Python expression. Return the name of its exception and the message."""
    import tiepoint as tp

    err = io.StringIO()
    with contextlib.redirect_stdout(err), contextlib.redirect_stderr(err):
        try:
            return 0, repr(eval(line, {"tp": tp, "np": np}))[:300]
        except (TiepointError, TypeError, ValueError, AttributeError) as e:
            return type(e).__name__, str(e)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("demo", type=Path, help="folder that `tiepoint demo --out` wrote")
    parser.add_argument("--out", type=Path, help="file for all calls and messages; default standard output")
    args = parser.parse_args()
    demo, out = args.demo.resolve(), args.out.resolve() if args.out else None
    calls = [(line, called) for line in COMMANDS.strip().splitlines()]
    calls += [(line, evaluated) for line in PYTHON.strip().splitlines()]
    texts, odd = [], []
    with tempfile.TemporaryDirectory() as folder:
        make_world(Path(folder), demo)
        os.chdir(folder)
        for number, (line, make) in enumerate(calls, 1):
            code, message = make(line)
            texts.append(f"[{number}] {line}\n    -> {code}\n    " + message.replace("\n", "\n    "))
            if code == 0 or "Traceback" in message or "escaped" in str(code) or len(message.splitlines()) > 3:
                odd.append(number)
        os.chdir(demo)
    text = "\n\n".join(texts) + f"\n\n{len(calls)} calls; to look at: {odd}\n"
    if out is None:
        sys.stdout.write(text.encode(errors="backslashreplace").decode())
    else:
        out.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        print(f"{len(calls)} calls, messages in {out}; to look at: {odd}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
