# SPDX-License-Identifier: BSD-3-Clause
"""The published HPatches descriptors, imported, compared and reported from the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tiepoint.cli.main import run as command

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
PUBLISHED = DATA / "hpatches_reference_results" / "matching_ap.json"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    if not PUBLISHED.is_file():
        pytest.skip(f"the published results are not at {PUBLISHED}")
    folder = str(tmp_path_factory.mktemp("published") / "store")
    assert command(["import", str(PUBLISHED), "--split", "full", "--store", folder]) == 0
    return folder


@pytest.mark.slow
def test_sosnet_is_better_than_hardnet(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = [
        "compare",
        "--task",
        "hpatches/matching",
        "--group",
        "weighting=cells",
        "--store",
        store,
        "--json",
    ]
    capsys.readouterr()
    assert command(call) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["protocol"] == "hpatches-python"
    assert (found["n_methods"], found["n_scenes"]) == (22, 115)
    best, second = found["methods"][:2]
    assert (best["method"], second["method"]) == ("SOSNet", "hardnet+")
    assert 100 * best["value"] == pytest.approx(53.72, abs=0.005)
    assert 100 * second["difference"] == pytest.approx(-0.96, abs=0.005)


def test_the_report_of_published_results_has_their_groups(store: str, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    assert command(["report", "--store", store, "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert "not separated by these 115 scenes" in page
    assert "i_objects = i_table are the same scene" in page
    assert "116 scenes, grouped by kind" in page
    assert len(page) < 10_000_000
