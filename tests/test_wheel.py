# SPDX-License-Identifier: BSD-3-Clause
"""The wheel, installed into an empty environment outside the checkout, runs the demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    found = subprocess.run(
        command, cwd=cwd, env=outside, capture_output=True, text=True, timeout=900, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_wheel_in_an_empty_environment_runs_the_demo(tmp_path: Path) -> None:
    pytest.importorskip("build", reason="build is not installed")
    source = tmp_path / "source"
    source.mkdir()
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        (source / name).symlink_to(ROOT / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", source, cwd=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile")
    run(*pip, "--no-index", "--no-deps", wheel, cwd=tmp_path)
    # Without a network the dependencies come from the packages of this environment, after the wheel.
    packages = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path
    ).strip()
    dependencies = {str(Path(sysconfig.get_path(k))) for k in ("purelib", "platlib")}
    dependencies |= {p for p in sys.path if p.endswith("site-packages")}
    (Path(packages) / "dependencies.pth").write_text("\n".join(sorted(dependencies)) + "\n")
    place = run(python, "-c", "import tiepoint; print(tiepoint.__file__)", cwd=tmp_path).strip()
    assert Path(place).is_relative_to(packages)
    # Compiled kernels are named by a hash of their sources, so those of the checkout fit the same sources.
    for kernel in (ROOT / "src").rglob("*.nbc"):
        copy = Path(packages) / kernel.relative_to(ROOT / "src")
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(kernel, copy)
    run(scripts / "tiepoint", "demo", "--out", "demo", cwd=tmp_path)
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
