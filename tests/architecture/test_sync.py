"""The blocking face is made from the async one, and leaves no call out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laneway import Scheduler
from laneway.sync import Sync
from tools.sync_face import FOLDER, made

NAMES = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}


def is_awaited(member: object) -> bool:
    """Tell whether callers await it, iterate over it with `async for`, or enter it with `async with`."""
    function = inspect.unwrap(member) if callable(member) else member
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def awaited(owner: type) -> Iterator[str]:
    for name, member in inspect.getmembers(owner):
        if is_awaited(member) and (name in NAMES or not name.startswith("_")):
            yield name


@pytest.mark.parametrize(("path", "text"), made().items(), ids=lambda given: getattr(given, "stem", ""))
def test_a_generated_file_is_fresh(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "the async face has changed: run `make sync`"


def test_nothing_else_is_among_the_generated_files() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {"__init__.py", *(path.name for path in made())}


@pytest.mark.parametrize("name", sorted(awaited(Scheduler)))
def test_every_coroutine_of_the_scheduler_has_a_blocking_form(name: str) -> None:
    blocking = getattr(Sync, NAMES.get(name, name))

    ours, theirs = inspect.signature(blocking), inspect.signature(getattr(Scheduler, name))
    assert not is_awaited(blocking)
    assert list(ours.parameters.values()) == list(theirs.parameters.values())


def held(app: Scheduler) -> dict[str, Any]:
    """Return what a scheduler holds that is awaited: its lanes, its sessions, ..."""
    held = {name: value for name, value in vars(app).items() if not name.startswith("_") and value is not app.sync}
    return {name: value for name, value in held.items() if any(awaited(type(value)))}


def test_every_part_of_the_scheduler_has_a_blocking_form() -> None:
    app = Scheduler("memory://")

    assert sorted(held(app)) == ["jobs", "lanes", "sessions", "tasks", "users", "workers"]
    for name, part in held(app).items():
        blocking = type(getattr(app.sync, name))
        assert [call for call in awaited(type(part)) if not callable(getattr(blocking, call))] == []
