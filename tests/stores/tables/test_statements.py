"""Both stores over tables have statements of the same names, and the verbs use no other names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from laneway.stores.postgres.transactions.database import TEXTS as POSTGRES
from laneway.stores.sqlite.database import TEXTS as SQLITE

TABLES = Path(str(files("laneway.stores.tables")))
STORES = {"sqlite": set(SQLITE), "postgres": set(POSTGRES)}


def file_of(node: ast.expr) -> str | None:
    """Return the file that `sql_names("file")` names."""
    match node:
        case ast.Call(func=ast.Name(id="sql_names"), args=[ast.Constant(value=str(file))]):
            return file
    return None


def names_in(tree: ast.Module) -> Iterator[str]:
    """Give the statements that a module names by a constant: `_SQL["name"]`, or `sql_names("file")["name"]`."""
    known = {
        target.id: file
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and (file := file_of(node.value)) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(title))) if name in known:
                yield f"{known[name]}.{title}"
            case ast.Subscript(value=value, slice=ast.Constant(value=str(title))) if file := file_of(value):
                yield f"{file}.{title}"


def test_both_stores_have_the_same_statements() -> None:
    # Others' transactions post submissions into PostgreSQL alone; and there it matters whether a row is known.
    assert set(SQLITE) == {name for name in POSTGRES if not name.startswith(("intake.", "known_counts."))}
    changing = {name.replace("known_counts.", "counts.") for name in POSTGRES if name.startswith("known_counts.")}
    assert changing <= set(POSTGRES)


@pytest.mark.parametrize("store", STORES)
def test_no_two_rooms_have_a_file_of_the_same_name(store: str) -> None:
    stems = [file.stem for file in Path(str(files(f"laneway.stores.{store}"))).glob("sql/*/*.sql")]

    assert len(stems) == len(set(stems))


@pytest.mark.parametrize("store", STORES)
def test_every_statement_that_a_verb_names_is_there(store: str) -> None:
    used = {name for path in TABLES.rglob("*.py") for name in names_in(ast.parse(path.read_text(encoding="utf-8")))}

    assert len(used) > 100
    assert used <= STORES[store]


@pytest.mark.parametrize("store", STORES)
def test_every_statement_says_what_it_does_and_by_which_index(store: str) -> None:
    for file in Path(str(files(f"laneway.stores.{store}"))).glob("sql/*/*.sql"):
        text = file.read_text(encoding="utf-8")
        said = re.findall(r"^-- name: (\w+)\n((?:-- .*\n)+)", text, flags=re.MULTILINE)
        assert len(said) == text.count("-- name: "), file.name
        for title, comment in said:
            assert re.search(r"Index|[Ii]t reads", comment), f"{file.name}: {title}"


def test_no_statement_of_postgres_speaks_of_sqlite_or_runs_over_its_line() -> None:
    for file in Path(str(files("laneway.stores.postgres"))).glob("sql/*/*.sql"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"SQLite|rowid|REPLACE|INDEXED BY|iif\(|json_each|\?\d", text), file.name
        assert max(map(len, text.splitlines())) <= 120, file.name


def test_every_table_that_is_made_up_in_a_statement_has_a_name() -> None:
    """Servers before PostgreSQL 16 want one."""
    for name, text in POSTGRES.items():
        flat = re.sub(r"\s+", " ", text.query)
        for found in re.finditer(r"(?:FROM|JOIN) \( ?(?=SELECT|VALUES)", flat):
            depth, at = 1, found.end()
            while depth:
                depth += {"(": 1, ")": -1}.get(flat[at], 0)
                at += 1
            assert flat[at:].startswith(" AS "), name
