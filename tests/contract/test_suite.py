"""The contract suite is whole: a store's test file that imports `*` collects all of it."""

import ast
from pathlib import Path

from tests.contract import suite


def test_the_suite_lists_every_class_of_its_files_once() -> None:
    files = Path(suite.__file__).parent.rglob("*.py")
    nodes = [node for file in files for node in ast.parse(file.read_text()).body]
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef) and node.name.startswith("Test")]

    assert sorted(classes) == sorted(suite.__all__)
