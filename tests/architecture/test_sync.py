"""The blocking face offers every call of the scheduler, with the same parameters: none can be forgotten or drift."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from laneway import Scheduler
from laneway.sync import Sync

NAMES = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}


def is_awaited(member: object) -> bool:
    """Tell whether callers await it, iterate over it with `async for`, or enter it with `async with`."""
    function = inspect.unwrap(member) if callable(member) else member
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def awaited(owner: type) -> Iterator[str]:
    for name, member in inspect.getmembers(owner):
        if is_awaited(member) and (name in NAMES or not name.startswith("_")):
            yield name


def blocking(annotation: Any) -> Any:
    """Return what the blocking twin's annotation is, both as they are written."""
    return annotation.replace("AsyncIterator[Scheduler]", "Iterator[Self]").replace("AsyncIterator", "Iterator")


@pytest.mark.parametrize("name", sorted(awaited(Scheduler)))
def test_every_coroutine_of_the_scheduler_has_a_blocking_twin(name: str) -> None:
    twin: Callable[..., Any] | None = getattr(Sync, NAMES.get(name, name), None)
    assert twin is not None, f"laneway.sync.Sync lacks {name}"
    assert not is_awaited(twin)

    theirs, ours = inspect.signature(getattr(Scheduler, name)), inspect.signature(twin)

    assert list(ours.parameters.values()) == list(theirs.parameters.values())
    if name != "__aenter__":
        assert ours.return_annotation == blocking(theirs.return_annotation)


def held(app: Scheduler) -> dict[str, Any]:
    """Return what a scheduler holds that is awaited: its lanes, its sessions, ..."""
    held = {name: value for name, value in vars(app).items() if not name.startswith("_") and value is not app.sync}
    return {name: value for name, value in held.items() if any(awaited(type(value)))}


def test_what_a_scheduler_holds_and_is_awaited_has_a_blocking_twin_too() -> None:
    app = Scheduler("memory://")

    assert sorted(held(app)) == ["jobs", "lanes", "sessions", "tasks", "users", "workers"]
    for name, value in held(app).items():
        twin = type(getattr(app.sync, name))
        for call in awaited(type(value)):
            ours, theirs = (inspect.signature(getattr(owner, call)) for owner in (twin, type(value)))
            assert not is_awaited(getattr(twin, call))
            assert (name, call, str(ours).replace("List[", "list[")) == (
                name,
                call,
                str(theirs).replace("List[", "list["),
            )
