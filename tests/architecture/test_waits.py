"""No test outside tests/system sleeps: it waits for what it needs, or is marked as being about the wall clock."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SLEEPS = {("asyncio", "sleep"), ("time", "sleep")}
POLLS = "support/waits.py"  # the one module that looks again and again for all others
# They still sleep. This list may only become shorter.
STILL = {
    "cli/admin/test_workers.py",
    "cli/jobs/test_jobs_file.py",
    "stores/postgres/inbox/test_caller_transactions.py",
    "stores/postgres/schema/test_layouts.py",
    "stores/postgres/server/test_pooler.py",
    "stores/postgres/tools.py",
    "stores/postgres/transactions/test_locks.py",
    "stores/redis/client/test_client.py",
    "stores/redis/client/test_outages.py",
    "stores/redis/client/test_pubsub.py",
    "stores/redis/tools.py",
    "stores/sqlite/other_process.py",
    "stores/sqlite/test_durability.py",
    "stores/sqlite/test_writer.py",
}


def sleeps(source: str) -> list[int]:
    """Return the lines where a sleep of more than zero stands outside tests of the wall clock."""
    return sorted(_sleeps(ast.parse(source)))


def _sleeps(node: ast.AST) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and "wall_clock" in map(
            _mark, child.decorator_list
        ):
            continue
        if isinstance(child, ast.Call) and _is_sleep(child):
            yield child.lineno
        yield from _sleeps(child)


def _mark(decorator: ast.expr) -> str:
    return decorator.attr if isinstance(decorator, ast.Attribute) else ""


def _is_sleep(call: ast.Call) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name), args=[ast.Constant(value=0)]):
            return False
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name), args=[ast.Constant()]):
            return (module, name) in SLEEPS
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name), args=[ast.Name(id=constant)]):
            return (module, name) in SLEEPS and constant.isupper()
    return False


def test_tests_wait_for_what_they_need_and_not_for_a_time() -> None:
    files = {path.relative_to(TESTS).as_posix(): path for path in TESTS.rglob("*.py")}

    found = {
        name: lines
        for name, path in files.items()
        if not name.startswith("system/") and name != POLLS and (lines := sleeps(path.read_text("utf-8")))
    }

    assert {name: lines for name, lines in found.items() if name not in STILL} == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("async def test() -> None:\n    await asyncio.sleep(0.1)", [2]),
        ("def test() -> None:\n    time.sleep(LONG)", [2]),
        ("async def test() -> None:\n    await asyncio.sleep(0)", []),
        ("async def test(seconds) -> None:\n    await asyncio.sleep(seconds)", []),
        ("@pytest.mark.wall_clock\nasync def test() -> None:\n    await asyncio.sleep(1)", []),
    ],
)
def test_a_sleep_is_seen(source: str, lines: list[int]) -> None:
    assert sleeps(source) == lines
