"""Layers of the package and its folders, sizes of files and functions, heavy imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "tiepoint"
TESTS = Path(__file__).parent
LAYERS = [
    "core", "formats", "geometry", "kernels", "metrics", "stats", "methods",
    "datasets", "tasks", "store", "run", "score", "report", "serve", "compat", "cli",
]  # fmt: skip
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {tuple(p.relative_to(SOURCE).with_suffix("").parts): p for p in FILES}
MODULES |= {name[:-1]: path for name, path in MODULES.items() if name[-1] == "__init__"}
Name = tuple[str, ...]


def short(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    yield
    tree_of.cache_clear()


@cache
def imports_of(path: Path) -> frozenset[Name]:
    """Names below tiepoint that a module imports, anywhere in it: ("kernels", "nearest"), …"""
    package = ("tiepoint", *path.relative_to(SOURCE).parts[:-1])
    found: set[Name] = set()
    for node in ast.walk(tree_of(path)):
        names: list[Name] = []
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = tuple(node.module.split(".")) if node.module else ()
            names = [(*base, *module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        found |= {name[1:] for name in names if name[0] == "tiepoint" and len(name) > 1}
    return frozenset(found)


def imported_modules(path: Path) -> Iterator[Name]:
    """The modules of tiepoint a module imports from."""
    for name in imports_of(path):
        while name and name not in MODULES:
            name = name[:-1]
        if name:
            yield name


def test_a_module_imports_only_from_its_package_and_those_above() -> None:
    offenders = []
    for path in FILES:
        package = path.relative_to(SOURCE).parts[0]
        if package in LAYERS:
            below = set(LAYERS[LAYERS.index(package) + 1 :])
            found = {name[0] for name in imports_of(path)} & below
            offenders += [f"{short(path)} imports {name}" for name in sorted(found)]
    assert not offenders


def test_rooms_of_a_package_do_not_import_each_other_in_a_circle() -> None:
    """In every folder, its modules and sub-folders form layers as well; imports inside functions count."""
    offenders = []
    for folder in sorted({p.parent for p in FILES} - {SOURCE}):
        place = folder.relative_to(SOURCE).parts
        edges: dict[str, set[str]] = {}
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            for name in imported_modules(path):
                if name[: len(place)] == place and len(name) > len(place) and name[len(place)] != parts[0]:
                    edges.setdefault(parts[0], set()).add(name[len(place)])
        rooms = {p.name for p in folder.iterdir() if p.is_dir()}
        offenders += ["/".join(place) + ": " + " -> ".join(c) for c in circles(edges) if rooms & set(c)]
    assert not offenders


def test_only_tasks_datasets_and_score_import_ground_truth() -> None:
    """Users pass ground truth to `score`; no method runs there."""
    offenders = [
        short(path)
        for path in FILES
        if path.relative_to(SOURCE).parts[0] not in ("datasets", "tasks", "score")
        and any("ground_truth" in name for name in imports_of(path))
    ]
    assert not offenders


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """One circle for every member that is on any."""
    found = []
    for start in sorted(edges):
        before: dict[str, str] = {}
        todo = [start]
        while todo:
            here = todo.pop()
            for there in sorted(edges.get(here, ())):
                if there == start:
                    way = [start]
                    while here != start:
                        way.insert(0, here)
                        here = before[here]
                    found.append([start, *way])
                    todo = []
                    break
                if there not in before:
                    before[there] = here
                    todo.append(there)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "d": {"a"}}) == []
    assert circles({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}})[0] == ["a", "b", "c", "a"]


def test_other_packages_import_kernels_and_none_of_its_modules() -> None:
    from tiepoint import kernels

    modules = {p.stem for p in (SOURCE / "kernels").iterdir()} - set(kernels.__all__)
    offenders = [
        f"{short(path)} imports {'.'.join(name)}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] != "kernels"
        for name in sorted(imports_of(path))
        if name[0] == "kernels" and len(name) > 1 and (len(name) > 2 or name[1] in modules)
    ]
    assert not offenders


def test_cache_keys_are_built_in_one_module() -> None:
    """Other modules of `run` hash what identifies a run or a worker, and no cached file."""
    kinds = {"features", "records", "results", "imported"}
    offenders = [
        f"{short(path)}, line {node.lineno}"
        for path in FILES
        if short(path) != "run/cache_keys.py"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "hash_json"
        and isinstance(node.args[0], ast.List)
        and node.args[0].elts
        and isinstance(node.args[0].elts[0], ast.Constant)
        and node.args[0].elts[0].value in kinds
    ]
    assert not offenders
    identities = {
        "context.py", "finish.py", "preparation.py", "importers/imported_result.py",
        "importers/workbench/importer.py", "importers/zeb.py", "subset/choose.py",
    }  # fmt: skip
    hashing = {
        path.relative_to(SOURCE / "run").as_posix()
        for path in (SOURCE / "run").rglob("*.py")
        if ("core", "hashing", "hash_json") in imports_of(path)
    }
    assert hashing == identities | {"cache_keys.py"}


def test_geometry_and_metrics_name_no_protocol() -> None:
    """Rules come as values; the protocol that needs them is a matter of `tasks/`."""
    names = re.compile(r"hbench|hpatches|workbench|bojanic|tss|loftr|d2net|[\"']exact[\"']", re.IGNORECASE)
    offenders = [
        f"{short(path)}, line {number}: {line.strip()}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] in ("geometry", "metrics")
        for number, line in enumerate(lines_of(path), start=1)
        if names.search(line)
    ]
    assert not offenders


FOR_USERS = {
    "datasets/hpatches/splits.py: official_lengths",
    "datasets/image_pairs/native_json.py: write_pairs",
    "formats/matches/native.py: write_matches",
    "geometry/flow/warp.py: unflip",
    "kernels/threads.py: set_threads",
}
"""What the package itself does not need; the documentation shows it to users."""


def test_nothing_is_there_for_tests_alone() -> None:
    """A function below the tasks is called by the package, or it is gone."""
    imported = {name for path in FILES if path.stem != "__init__" for name in imports_of(path)}
    attributes = {n.attr for path in FILES for n in ast.walk(tree_of(path)) if isinstance(n, ast.Attribute)}
    unused = set()
    for path in FILES:
        place = path.relative_to(SOURCE).with_suffix("").parts
        if place[0] not in ("formats", "geometry", "kernels", "metrics", "stats", "datasets"):
            continue
        body = tree_of(path).body
        used = [{n.id for n in ast.walk(node) if isinstance(n, ast.Name)} for node in body]
        for k, node in enumerate(body):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                here = any(node.name in names for names in used[:k] + used[k + 1 :])
                # Imported from its module, through the front door of its package, or used by way of a module.
                names = {(*place, node.name), (place[0], node.name)}
                if not here and not names & imported and node.name not in attributes:
                    unused.add(f"{short(path)}: {node.name}")
    assert unused <= FOR_USERS


def test_no_file_is_longer_than_500_lines() -> None:
    assert not {short(p): n for p in FILES if (n := len(lines_of(p))) > 500}


def test_no_function_is_longer_than_100_lines() -> None:
    functions = {
        f"{short(path)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {name: n for name, n in functions.items() if n > 100}


def test_a_file_is_not_named_after_its_folder() -> None:
    assert not [short(path) for path in FILES if path.parent != SOURCE and repeats_its_folder(path)]


def repeats_its_folder(path: Path) -> bool:
    name, folder = path.stem.lstrip("_").removeprefix("test_"), path.parent.name
    return name.startswith((f"{folder}_", f"{folder.removesuffix('s')}_"))


def test_tests_mirror_the_tree() -> None:
    """A folder of tests is one of the package; its files are named after a module or a behaviour."""
    others = tuple(TESTS / name for name in ("", "conformance", "docs", "fuzz", "other_systems"))
    files = [p for p in TESTS.rglob("test_*.py") if p.parent not in others]
    assert not {str(p.parent) for p in files if not (SOURCE / p.parent.relative_to(TESTS)).is_dir()}
    assert not [str(p) for p in files if repeats_its_folder(p)]


TASK_ROOMS = {"__init__", "task", "data", "compare", "score", "protocols", "steps", "results", "imported"}
FAMILY_ROOMS = {
    "dense": {"options"},
    "hpatches": {"pair_lists"},
    "keypoints": {"bojanic", "distractors", "neighbours", "options", "workbench"},
    "pairs": {"point_transfer"},
    "pipeline": {
        "child", "database", "files", "launch", "mapping", "matches", "matching", "merging", "pairs", "views",
    },
}  # fmt: skip
"""What the tasks of a family share beyond the rooms of a task."""


def functions_of(path: Path) -> list[str]:
    return [node.name for node in tree_of(path).body if isinstance(node, ast.FunctionDef)]


def test_task_folders_same_rooms() -> None:
    """A folder with `task.py` is a task; other folders are families, whose rooms have the same names."""
    offenders = []
    for folder in sorted({p.parent for p in (SOURCE / "tasks").rglob("*.py")} - {SOURCE / "tasks"}):
        rooms = {p.stem for p in folder.glob("*.py")}
        extra = set() if "task" in rooms else FAMILY_ROOMS.get(folder.name, set())
        offenders += [f"{short(folder)}/{room}.py" for room in sorted(rooms - TASK_ROOMS - extra)]
    assert not offenders


def test_task_folders_same_role_functions() -> None:
    offenders = []
    for path in sorted((SOURCE / "tasks").rglob("*.py")):
        role = path.stem
        named = any(name == role or name.startswith(f"{role}_") for name in functions_of(path))
        if role in ("compare", "score") and (path.parent / "task.py").is_file() and not named:
            offenders.append(short(path))
    assert not offenders


def capabilities() -> list[str]:
    tree = tree_of(SOURCE / "tasks" / "capabilities.py")
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def test_capability_one_caller_module() -> None:
    callers: dict[str, list[str]] = {name: [] for name in capabilities()}
    for path in FILES:
        if path.relative_to(SOURCE).parts[0] != "tasks":
            for name in imports_of(path):
                if name[:2] == ("tasks", "capabilities") and name[2] in callers:
                    callers[name[2]].append(short(path))
    assert {name: found for name, found in callers.items() if len(found) != 1} == {}


def test_capabilities_all_documented() -> None:
    page = (TESTS.parent / "docs" / "adding-a-task.md").read_text()
    section = page.partition("\n## Capabilities\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| `(.+)` \|$", section, re.M)
    assert [name for name, _ in rows] == capabilities()
    for name, caller in rows:
        assert ("tasks", "capabilities", name) in imports_of(SOURCE / caller)


def test_task_interface_small() -> None:
    assert len(lines_of(SOURCE / "tasks" / "base.py")) < 150


def test_every_file_names_its_licence() -> None:
    heads = ("# SPDX-License-Identifier: BSD-3-Clause\n", "__version__")
    assert not [short(p) for p in FILES if not p.read_text().startswith(heads)]


def test_importing_tiepoint_imports_nothing_heavy() -> None:
    code = "import sys, tiepoint; print(*sorted(m.split('.')[0] for m in sys.modules))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    heavy = {
        "numpy",
        "pandas",
        "sqlalchemy",
        "numba",
        "torch",
        "cv2",
        "matplotlib",
        "pyarrow",
        "scipy",
        "distributed",
    }
    assert not loaded & heavy


@pytest.mark.parametrize("module", ["run.engine", "report.compare.runs", "tasks.capabilities"])
def test_modules_of_stored_runs_import_no_compiler(module: str) -> None:
    code = f"import sys, tiepoint.{module}; print(*sys.modules)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "torch", "cv2", "pandas"} & set(made.stdout.split())


def test_at_most_ten_public_verbs() -> None:
    import tiepoint

    verbs = [n for n in tiepoint.__all__ if callable(getattr(tiepoint, n)) and n[0].islower()]
    assert len(verbs) <= 10
