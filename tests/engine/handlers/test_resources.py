"""Resources: opened once per worker, on its loop, handed to handlers by name, closed when it has stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from laneway import BadSetting, LanewayError, Scheduler
from tests.support.children import handlers as child_handlers
from tests.support.waits import soon


async def test_a_resource_is_opened_once_on_the_loop_and_closed_at_the_stop(app: Scheduler) -> None:
    life: list[tuple[str, Any]] = []

    @app.resource
    async def client() -> AsyncIterator[dict[str, int]]:
        life.append(("opened", (threading.get_ident(), id(asyncio.get_running_loop()))))
        yield {"calls": 0}
        life.append(("closed", threading.get_ident()))

    @app.task
    async def work(client: dict[str, int]) -> int:
        client["calls"] += 1
        return client["calls"]

    @app.task
    def plain(client: dict[str, int]) -> int:
        client["calls"] += 1
        return client["calls"]

    async with app.running():
        counts = [await soon(app.result(await app.submit(task))) for task in (work, plain, work)]
        assert [what for what, _ in life] == ["opened"]

    me = threading.get_ident()
    assert counts == [1, 2, 3]
    assert life == [("opened", (me, id(asyncio.get_running_loop()))), ("closed", me)]


async def test_resources_are_opened_in_order_and_closed_in_reverse_for_each_worker_anew(app: Scheduler) -> None:
    life: list[str] = []

    @app.resource
    def first() -> Iterator[int]:
        life.append("open first")
        yield 1
        life.append("close first")

    @app.resource
    async def second() -> AsyncIterator[int]:
        life.append("open second")
        yield 2
        life.append("close second")

    @app.resource
    async def third() -> int:
        life.append("open third")
        return 3

    @app.task
    async def work(first: int, second: int, third: int, more: int) -> int:
        return first + second + third + more

    for _ in range(2):
        async with app.running():
            assert await soon(app.result(await work.submit(more=4))) == 10

    once = ["open first", "open second", "open third", "close second", "close first"]
    assert life == once * 2


async def test_a_resource_that_cannot_be_opened_keeps_the_worker_from_starting_and_is_named(app: Scheduler) -> None:
    closed = []

    @app.resource
    def first() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.append("first")

    @app.resource
    async def database() -> AsyncIterator[int]:
        raise ConnectionError("nobody there")
        yield 1  # type: ignore[unreachable]  # it makes it a generator

    @app.task
    async def work(database: int) -> int:
        return database

    receipt = await work.submit()
    with pytest.raises(
        LanewayError, match="resource 'database' cannot be opened: ConnectionError: nobody there"
    ) as told:
        await soon(app.work())

    assert isinstance(told.value.__cause__, ConnectionError)
    assert closed == ["first"]
    assert await app.workers.list() == []
    assert (await app.get(receipt)).fence == 0


async def test_a_generator_that_yields_nothing_is_named_too(app: Scheduler) -> None:
    @app.resource
    def nothing() -> Iterator[int]:
        yield from ()

    with pytest.raises(LanewayError, match="resource 'nothing' cannot be opened"):
        await soon(app.drain())


async def test_a_resource_that_cannot_be_closed_is_named_and_the_others_are_closed(app: Scheduler) -> None:
    closed = []

    @app.resource
    def first() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.append("first")

    @app.resource
    async def database() -> AsyncIterator[int]:
        yield 1
        raise ConnectionError("nobody there")

    @app.task
    async def work(database: int) -> int:
        return database

    receipt = await work.submit()
    with pytest.raises(LanewayError, match="resource 'database' cannot be closed: ConnectionError: nobody there"):
        await soon(app.drain())

    assert await app.result(receipt) == 1
    assert closed == ["first"]
    assert await app.workers.list() == []


def test_a_child_process_is_not_offered_a_resource() -> None:
    app = Scheduler("memory://")

    @app.resource
    def text() -> str:
        return "the worker's"

    with pytest.raises(BadSetting, match="resource 'text' is the worker's; a child process cannot have it"):
        app.task(process=True)(child_handlers.echo)


def test_a_resource_is_registered_once_and_takes_nothing() -> None:
    app = Scheduler("memory://")

    @app.resource
    def client() -> int:
        return 1

    with pytest.raises(BadSetting, match="registered twice"):
        app.resource(client)
    with pytest.raises(BadSetting, match="without parameters"):

        @app.resource  # type: ignore[arg-type]  # that is the point
        def wants(something: int) -> int:
            return something


async def test_a_resource_is_no_argument(app: Scheduler) -> None:
    @app.resource
    def client() -> int:
        return 1

    @app.task
    async def work(client: int) -> int:
        return client

    with pytest.raises(LanewayError, match="client"):
        await work.submit(client=2)


async def test_a_resource_that_does_not_close_does_not_keep_a_stop_waiting(caplog: pytest.LogCaptureFixture) -> None:
    app = Scheduler("memory://", grace=0.1)

    @app.resource
    async def stubborn() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    started = asyncio.Event()
    working = asyncio.create_task(app.work(ready=started.set))
    await soon(started.wait())
    assert await soon(app.stop(1)) == []
    await soon(working)

    assert "a resource has not closed within 0.1 s" in caplog.text


async def test_what_a_resource_started_may_stop_the_worker_it_belongs_to() -> None:
    app = Scheduler("memory://", grace=0.1)

    async def enough() -> None:
        await app.stop()

    @app.resource
    async def watcher() -> AsyncIterator[int]:
        watching = asyncio.create_task(enough())
        yield 1
        await watching

    await soon(app.work())

    assert app.status().running is False
