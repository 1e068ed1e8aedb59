"""The contract suite is whole: a store's test file that imports `*` collects all of it."""

import ast
from pathlib import Path

from tests.contract import suite


def test_the_suite_lists_every_class_of_its_files_once() -> None:
    files = Path(suite.__file__).parent.rglob("*.py")
    nodes = [node for file in files for node in ast.parse(file.read_text()).body]
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef) and node.name.startswith("Test")]

    assert sorted(classes) == sorted(suite.__all__)


def test_every_file_that_gives_a_store_imports_the_suite() -> None:
    texts = {file.name: file.read_text() for file in Path(__file__).parent.glob("test_*.py")}
    stores = {name: text for name, text in texts.items() if "async def store(" in text}

    without = {name for name, text in stores.items() if "from tests.contract.suite import" not in text}

    assert without == set()
    assert len(stores) >= 7
