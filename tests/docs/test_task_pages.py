# SPDX-License-Identifier: BSD-3-Clause
"""The pages of the tasks name every option, metric and protocol, and runs in the docs name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tiepoint.methods.registry import METHODS
from tiepoint.tasks import TASKS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    "hpatches",
    "hpatches-v1",
    "keypoints",
    "tss",
    "dense",
    "pose",
    "wxbs",
    "evd",
    "homography",
    "mmim",
    "satast",
    "semantic",
    "sfm",
    "stress",
)
FAMILIES = re.compile(r"(_including_zeros|_with_zeros)$|(?<=_at_)\d+$")


@pytest.mark.parametrize("name", [entry.name for entry in TASKS if entry.package is None])
def test_the_page_of_a_task_names_all_it_takes_and_gives(name: str) -> None:
    task = TASKS.load(name)
    (page,) = [page for page in PAGES if name.split("/")[0] == page]
    text = (DOCS / "tasks" / f"{page}.md").read_text(encoding="utf-8")
    assert [option for option in task.options.model_fields if option not in text] == []
    assert [protocol for protocol in task.protocols if protocol not in text] == []
    metrics = {FAMILIES.sub("", metric) for metric in task.info.metrics} - {"metadata"}
    assert sorted(metric for metric in metrics if metric not in text) == []


def test_runs_in_the_docs_name_methods_and_tasks_that_exist() -> None:
    found = 0
    for page in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        for block in re.findall(r"```[a-z]*\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S):
            for line in re.findall(r"^tiepoint run ([^-].*)$", block.replace("\\\n", " "), flags=re.M):
                methods = re.split(r"\s-", line)[0].split()
                tasks = [t for given in re.findall(r"--task (\S+)", line) for t in given.split(",")]
                known = [task in TASKS or re.match(r'example/|"\$|[A-Z]', task) for task in tasks]
                assert all(known), line
                plain = [m for m in methods if re.fullmatch(r"[a-z0-9,_-]+", m)]
                assert [m for m in plain if m not in METHODS] == [], f"{page.name}: {line}"
                found += 1
    assert found > 10


def test_pages_that_render_data_install_its_photographs() -> None:
    """`data make` needs scikit-image, which of all extras only `demo` installs."""
    found = 0
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        extras = {
            e
            for names in re.findall(r"pip install [^\n]*tiepoint\[([a-z,]+)\]", text)
            for e in names.split(",")
        }
        if extras and re.search(r"^tiepoint data make ", text, flags=re.M):
            assert "demo" in extras, page.name
            found += 1
    assert found > 1
