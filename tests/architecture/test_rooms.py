"""Every module has a room and a plain name: no folder is crowded, no name is a gerund, no class name is used twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "laneway"
PACKAGES = (
    *("core", "engine", "cli", "sync", "ports", "testing"),
    *(f"stores/{store}" for store in ("memory", "sqlite", "tables", "postgres", "redis")),
)
MOST = 15  # modules of one folder
NOUNS = {"string", "testing"}  # end like gerunds and are none; `laneway.testing` is a public name


def modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_modules_of_a_package_define_a_class_of_the_same_name(package: str) -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for path in modules(PACKAGE / package):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(path.relative_to(PACKAGE).as_posix())

    assert {name: sorted(found) for name, found in homes.items() if len(found) > 1} == {}


def test_no_folder_holds_more_than_fifteen_modules() -> None:
    folders: dict[str, int] = defaultdict(int)
    for path in modules(PACKAGE):
        folders[path.parent.relative_to(PACKAGE).as_posix()] += 1

    assert {folder: count for folder, count in folders.items() if count > MOST} == {}


def test_no_module_is_named_by_a_gerund() -> None:
    named = {path.relative_to(PACKAGE) for path in modules(PACKAGE)}
    named |= {parent for path in named for parent in path.parents}
    gerunds = {path.as_posix() for path in named if path.stem.endswith("ing") and path.stem not in NOUNS}

    assert gerunds == set()
