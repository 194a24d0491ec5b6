# SPDX-License-Identifier: BSD-3-Clause
"""Every figure of the two tools of the TSS kit that was recorded, cell by cell at six decimals."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tss_world import score_results

from tiepoint.datasets.tss import TssDataset, TssPair
from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.flow.tss import PairResult, read_pair_result
from tiepoint.tasks.tss.data import TssOptions, compare_result
from tiepoint.tasks.tss.results import tss_score_rows, write_scores_csv

REPO = Path(__file__).parents[3]
DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", REPO.parent / "shared" / "data"))
GOLDEN = DATA.parent / "golden" / "tss.json"
SYNTHETIC = REPO / "tests" / "data" / "synthetic_tss"
UNKNOWN = np.float32(1e10)
TOOLS = {"tss-cpp": "cpp", "tss-matlab": "matlab_emulated"}
UNRELIABLE = {("tss-matlab", "unknown_block_nan")}
"""The recorded figures themselves are marked as depending on how a shim treats NaN times 0."""

needs_data = pytest.mark.skipif(not (DATA / "tss").is_dir(), reason=f"no TSS sample in {DATA}")
needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason=f"no recorded figures at {GOLDEN}")


@cache
def golden() -> dict:
    return json.loads(GOLDEN.read_text())


def golden_cases() -> list[str]:
    return sorted(golden()["cases"]) if GOLDEN.is_file() else []


@cache
def pairs(subset: str) -> tuple[TssPair, ...]:
    return tuple(p for p in TssDataset(DATA / "tss").pairs if p.subset == subset)


@cache
def shipped(key: str) -> dict:
    return dict(read_pair_result(DATA / "tss" / "Results" / key).arrays)


@cache
def truth(key: str) -> dict:
    t = TssDataset(DATA / "tss")[key].truth()
    return {"flow1": t.flow1, "flow2": t.flow2, "mask1": t.mask1, "mask2": t.mask2}


def without(arrays: dict, *names: str) -> dict:
    return {k: v for k, v in arrays.items() if k not in names}


def each(arrays: dict, what: str, change) -> dict:
    return {k: change(v) if k.startswith(what) else v for k, v in arrays.items()}


def block(flow: np.ndarray, value: float) -> np.ndarray:
    out = flow.copy()
    h, w = flow.shape[:2]
    out[h // 4 : h // 2, w // 4 : w // 2] = value
    return out


def ramp(mask: np.ndarray) -> np.ndarray:
    w = mask.shape[1]
    return np.tile(((np.arange(w) * 255) // (w - 1)).astype(np.uint8), (mask.shape[0], 1))


def stretched(a: np.ndarray) -> np.ndarray:
    out = np.repeat(a, 2, axis=1)
    if a.ndim == 3:
        out[..., 0] *= 2
    return out


def halved(a: np.ndarray) -> np.ndarray:
    part = a[::2, ::2].copy()
    return part if a.ndim == 2 else np.where(part >= 1e9, part, part / 2)


def native(key: str, block_value: float | None = None) -> dict:
    def flow(f: np.ndarray) -> np.ndarray:
        inside = (np.abs(f) <= 1e9).all(axis=2, keepdims=True)
        out = np.where(inside, f + np.array([3, -2], np.float32), np.float32(0))
        return out if block_value is None else block(out, block_value)

    arrays = each(truth(key), "flow", flow)
    return each(arrays, "mask", lambda m: np.where(m > 0, 255, 0).astype(np.uint8))


def invert(m: np.ndarray) -> np.ndarray:
    return 255 - m


def make(case: str, key: str) -> dict:
    """The arrays a case hands to the tool, from its description in words."""
    s, g = shipped(key), truth(key)
    masks = ("mask1", "mask2")
    builders = {
        "empty_dirs": dict,
        "flow1_only": lambda: without(s, "flow2"),
        "flow1_only_no_masks": lambda: {"flow1": s["flow1"]},
        "flow1_subsampled2": lambda: {**s, "flow1": s["flow1"][::2, ::2], "mask1": s["mask1"][::2, ::2]},
        "flow1_subsampled2_no_masks": lambda: without({**s, "flow1": s["flow1"][::2, ::2]}, *masks),
        "gt_as_result": lambda: g,
        "gt_flows_no_masks": lambda: without(g, *masks),
        "gt_subsampled2": lambda: {k: halved(v) for k, v in g.items()},
        "inverted_mask1": lambda: {**s, "mask1": invert(s["mask1"])},
        "inverted_masks": lambda: each(s, "mask", invert),
        "mask1_only": lambda: without(s, "mask2"),
        "masks_01_native": lambda: each(g, "mask", lambda m: (m > 0).astype(np.uint8)),
        "masks_01_resized": lambda: each(s, "mask", lambda m: (m > 0).astype(np.uint8)),
        "native_offset": lambda: native(key),
        "native_unknown_1e10": lambda: native(key, 1e10),
        "native_unknown_nan": lambda: native(key, np.nan),
        "native_unknown_neg1e10": lambda: native(key, -1e10),
        "no_flows": lambda: without(s, "flow1", "flow2"),
        "no_masks": lambda: without(s, *masks),
        "shipped": lambda: s,
        "soft_masks_native": lambda: each(g, "mask", ramp),
        "soft_masks_resized": lambda: each(s, "mask", ramp),
        "stretched_x": lambda: {k: stretched(v) for k, v in s.items()},
        "unknown_block_1e10": lambda: each(s, "flow", lambda f: block(f, 1e10)),
        "unknown_block_nan": lambda: each(s, "flow", lambda f: block(f, np.nan)),
        "zero_masks": lambda: each(s, "mask", np.zeros_like),
    }
    return builders[case]()


def damaged(case: str, key: str, tmp_path: Path) -> PairResult:
    """Results with flow2.flo four bytes short or long, read from files."""
    folder = tmp_path / key
    folder.mkdir(parents=True)
    for i in (1, 2):
        write_flo(folder / f"flow{i}.flo", shipped(key)[f"flow{i}"])
    data = (folder / "flow2.flo").read_bytes()
    (folder / "flow2.flo").write_bytes(data[:-4] if case == "truncated_flow" else data + b"\0\0\0\0")
    read = read_pair_result(folder)
    assert read.problems
    return PairResult({**read.arrays, **{k: shipped(key)[k] for k in ("mask1", "mask2")}}, read.problems)


def assert_rows(rows: list, recorded: list) -> None:
    assert len(rows) == len(recorded)
    for row, cells in zip(rows, recorded, strict=True):
        assert [row.row, row.src, row.ref, row.flip] == [*cells[:3], cells[4]]
        for name, ours, theirs in zip(
            range(51), [row.seg, *row.accuracy], [cells[3], *cells[5:]], strict=True
        ):
            if theirs is None:
                assert np.isnan(ours), (row.row, name)
            else:
                # recorded values are printed with six decimals or more
                assert abs(ours - theirs) <= 5.0000001e-7, (row.row, name, ours, theirs)


@needs_data
@needs_golden
@pytest.mark.parametrize("protocol", TOOLS)
@pytest.mark.parametrize("name", golden_cases())
def test_every_recorded_case(name: str, protocol: str, tmp_path: Path) -> None:
    case = golden()["cases"][name]
    recorded = case[TOOLS[protocol]]
    if not recorded:
        pytest.skip("the MATLAB tool has no usePrec")
    if (protocol, case["case"]) in UNRELIABLE:
        pytest.skip("the recorded figures are marked as unreliable")
    options = TssOptions(missing="zero", auto_flip=case["autoFlip"], use_prec=case["usePrec"])
    records = []
    for subset in recorded:
        for pair in pairs(subset):
            if case["case"] in ("truncated_flow", "overlong_flow"):
                result = damaged(case["case"], pair.key, tmp_path)
            else:
                result = PairResult(make(case["case"], pair.key))
            records.append(compare_result(pair, result, protocol, options))
    found = tss_score_rows(records, protocol, use_prec=case["usePrec"])
    for subset, cells in recorded.items():
        assert_rows(found[subset], cells)


@needs_data
def test_scores_csv_has_the_bytes_of_the_kit(tmp_path: Path) -> None:
    records, warnings = score_results(DATA / "tss" / "Results", DATA / "tss", "tss-cpp")
    assert warnings == []
    written = write_scores_csv(records, tmp_path)
    assert [p.parent.name for p in written] == ["FG3DCar", "JODS"]
    for path in written:
        theirs = DATA / "tss" / "Results" / path.parent.name / "scores.csv"
        assert path.read_bytes() == theirs.read_bytes()


OPTION_SETS = {
    "": {},
    "+autoFlip": {"auto_flip": True},
    "+usePrec": {"use_prec": True},
    "+autoFlip+usePrec": {"auto_flip": True, "use_prec": True},
}


@pytest.mark.parametrize("protocol", TOOLS)
@pytest.mark.parametrize("name", OPTION_SETS)
def test_synthetic_set_under_all_options(name: str, protocol: str) -> None:
    kind = TOOLS[protocol]
    figures = json.loads((SYNTHETIC / "figures.json").read_text())
    recorded = figures[kind].get(("default" if kind == "cpp" else kind) + name)
    if recorded is None:
        pytest.skip("the MATLAB tool has no usePrec")
    options = {"missing": "zero", **OPTION_SETS[name]}
    records, _ = score_results(SYNTHETIC / "Results", SYNTHETIC / "Dataset", protocol, options)
    rows = tss_score_rows(records, protocol, use_prec="usePrec" in name)
    assert_rows(rows["SYN"], recorded)


def test_synthetic_averages_as_published() -> None:
    options = {"missing": "zero"}
    records, warnings = score_results(SYNTHETIC / "Results", SYNTHETIC / "Dataset", "tss-cpp", options)
    average, plain = tss_score_rows(records, "tss-cpp")["SYN"][-2:]
    found = [average.seg, *(average.accuracy[t - 1] for t in (1, 5, 10, 50)), plain.seg, plain.accuracy[4]]
    expected = [0.695562, 0.203501, 0.607407, 0.700752, 0.878646, 0.724638, 0.586420]
    assert np.abs(np.array(found) - expected).max() < 5.1e-7
    assert len(warnings) == 3


def test_no_score_needs_opencv(tmp_path: Path) -> None:
    """The same bytes where OpenCV cannot be imported."""
    import subprocess

    code = (
        "import sys; sys.modules['cv2'] = None\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from tss_world import score_results\n"
        "from tiepoint.tasks.tss.results import write_scores_csv\n"
        "for protocol in ('tss-cpp', 'tss-matlab', 'exact'):\n"
        "    records, _ = score_results(sys.argv[1], sys.argv[2], protocol, {'missing': 'zero'})\n"
        "    write_scores_csv(records, sys.argv[3] + '/' + protocol, protocol=protocol)\n"
    )
    arguments = [SYNTHETIC / "Results", SYNTHETIC / "Dataset", tmp_path]
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True)
    for protocol in ("tss-cpp", "tss-matlab", "exact"):
        records, _ = score_results(
            SYNTHETIC / "Results", SYNTHETIC / "Dataset", protocol, {"missing": "zero"}
        )
        (own,) = write_scores_csv(records, tmp_path / "own" / protocol, protocol=protocol)
        assert own.read_bytes() == (tmp_path / protocol / "SYN" / "scores.csv").read_bytes()
