"""The layers of the package, the sizes of its files, the weight of its import."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "tiepoint"
LAYERS = [
    "model", "formats", "geometry", "kernels", "metrics", "stats", "methods",
    "datasets", "tasks", "store", "run", "report", "compat", "cli",
]  # fmt: skip
FILES = sorted(SOURCE.rglob("*.py"))


def imports_of(path: Path) -> set[tuple[str, ...]]:
    """Names below tiepoint that a module imports, anywhere in it: ("kernels", "nearest"), …"""
    tree = ast.parse(path.read_text())
    parts = ("tiepoint", *path.relative_to(SOURCE).with_suffix("").parts)
    package = parts[:-1]
    found = set()
    for node in ast.walk(tree):
        names: list[tuple[str, ...]] = []
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = tuple(node.module.split(".")) if node.module else ()
            full = base + module
            names = [(*full, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        for name in names:
            if name[0] == "tiepoint" and len(name) > 1:
                found.add(name[1:])
    return found


def test_a_module_imports_only_from_its_package_and_those_above() -> None:
    offenders = []
    for path in FILES:
        package = path.relative_to(SOURCE).parts[0]
        if package in LAYERS:
            below = set(LAYERS[LAYERS.index(package) + 1 :])
            found = {name[0] for name in imports_of(path)} & below
            offenders += [f"{path.relative_to(SOURCE)} imports {name}" for name in sorted(found)]
    assert not offenders


def test_other_packages_import_kernels_and_none_of_its_modules() -> None:
    modules = {p.stem for p in (SOURCE / "kernels").glob("*.py")}
    offenders = [
        f"{path.relative_to(SOURCE)} imports {'.'.join(name)}"
        for path in FILES
        if path.parent.name != "kernels"
        for name in sorted(imports_of(path))
        if name[0] == "kernels" and len(name) > 1 and (len(name) > 2 or name[1] in modules - {"nearest"})
    ]
    assert not offenders


def test_geometry_and_metrics_name_no_protocol() -> None:
    """Rules come as values; the protocol that needs them is a matter of `tasks/`."""
    names = re.compile(r"hbench|hpatches|workbench|bojanic|tss|loftr|d2net|[\"']exact[\"']", re.IGNORECASE)
    offenders = [
        f"{path.relative_to(SOURCE)}, line {number}: {line.strip()}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] in ("geometry", "metrics")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if names.search(line)
    ]
    assert not offenders


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {str(p.relative_to(SOURCE)): len(p.read_text().splitlines()) for p in FILES}
    assert not {name: n for name, n in lengths.items() if n > 400}


def test_the_median_file_is_shorter_than_120_lines() -> None:
    assert statistics.median(len(p.read_text().splitlines()) for p in FILES) < 120


def test_every_file_names_its_licence() -> None:
    heads = ("# SPDX-License-Identifier: BSD-3-Clause\n", "__version__")
    assert not [str(p.relative_to(SOURCE)) for p in FILES if not p.read_text().startswith(heads)]


def test_importing_tiepoint_imports_nothing_heavy() -> None:
    code = "import sys, tiepoint; print(*sorted(m.split('.')[0] for m in sys.modules))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    heavy = {"pandas", "sqlalchemy", "numba", "torch", "cv2", "matplotlib", "pyarrow", "scipy"}
    assert not loaded & heavy


def test_at_most_ten_public_verbs() -> None:
    import tiepoint

    verbs = [n for n in tiepoint.__all__ if callable(getattr(tiepoint, n)) and n[0].islower()]
    assert len(verbs) <= 10
