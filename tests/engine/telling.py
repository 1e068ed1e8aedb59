"""Handlers that keep, ask, call and leave runs behind, each told once and executed in every way there is.

A *story* is a generator that yields whatever is awaited where an event loop runs: an async handler awaits it, a plain
one has it already. Children find them by module and name. What a story does is counted in a file, because some of it
is done in processes of its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from laneway import Context, GiveUp, Retry, Scheduler
from laneway.core.records.states import RunState
from laneway.testing import FakeClock

Story = Generator[Any, Any, Any]
Tale = Callable[[Context, str], Story]
AT_ONCE = Retry.delays(0, 0, 0)

app = Scheduler("memory://")  # for children: their tasks are those of the scheduler that they find here


class Way(NamedTuple):
    """A way to execute a handler."""

    name: str
    is_async: bool
    process: bool = False


WAYS = [Way("async", True), Way("plain", False), Way("process", False, True), Way("async-process", True, True)]


class Effects:
    """What was done in a folder, and how often."""

    def __init__(self, folder: str | Path) -> None:
        self._file = Path(folder) / "effects"

    def done(self, what: str) -> int:
        """Note that it was done; return how often it was by now."""
        with self._file.open("ab", buffering=0) as file:
            file.write(what.encode() + b"\n")
        return self.counts()[what]

    def counts(self) -> Counter[str]:
        return Counter(self._file.read_text().splitlines() if self._file.exists() else [])


def named(story: Tale) -> str:
    """Return what a child finds a story by."""
    return f"{story.__module__}:{story.__name__}"


def _begun(name: str, folder: str, ctx: Context) -> Story:
    module, _, function = name.partition(":")
    tale: Tale = getattr(import_module(module), function)
    return tale(ctx, folder)


@app.task
async def tell(name: str, folder: str = "", *, ctx: Context) -> Any:
    """Tell a story where a loop runs."""
    telling = _begun(name, folder, ctx)
    send: Callable[[], Any] = lambda: telling.send(None)  # noqa: E731
    while True:
        try:
            awaited = send()
        except StopIteration as end:
            return end.value
        try:
            value = await awaited
        except BaseException as error:  # noqa: BLE001  # the story's, whatever it is
            send = lambda error=error: telling.throw(error)  # type: ignore[misc]  # noqa: E731
        else:
            send = lambda value=value: telling.send(value)  # type: ignore[misc]  # noqa: E731


@app.task
def tell_plainly(name: str, folder: str = "", *, ctx: Context) -> Any:
    """Tell a story where everything blocks."""
    telling, value = _begun(name, folder, ctx), None
    while True:
        try:
            value = telling.send(value)
        except StopIteration as end:
            return end.value


@app.task
async def echo(value: Any, *, ctx: Context) -> Any:
    return value


@app.task
async def whose(*, ctx: Context) -> list[Any]:
    return [ctx.user, ctx.session, ctx.parent, dict(ctx.trace)]


@app.task
async def fail(text: str = "no") -> None:
    raise GiveUp(text)


def register(on: Scheduler, way: Way, **options: Any) -> Scheduler:
    """Give a scheduler the task `work`, which tells stories that way, and those that stories name."""
    handler: Any = tell.function if way.is_async else tell_plainly.function
    on.task(name="work", process=way.process, **{"retry": AT_ONCE, **options})(handler)
    for task in (echo, whose, fail, tell):
        on.task(name=task.name, retry=None)(task.function)
    return on


class Teller:
    """A scheduler that tells stories in one way, in a folder of its own, while the clock stands still."""

    def __init__(self, scheduler: Scheduler, way: Way, folder: Path, clock: FakeClock) -> None:
        self.app, self.way, self.folder, self.clock = scheduler, way, str(folder), clock
        self.effects = Effects(folder)

    async def submit(self, story: Tale, **options: Any) -> str:
        receipt = await self.app.submit("work", {"name": named(story), "folder": self.folder}, **options)
        return receipt.run_id

    async def run(self, story: Tale, **options: Any) -> str:
        """Submit a story and tell it as far as that goes now; return the run's id."""
        run_id = await self.submit(story, **options)
        await self.drain()
        return run_id

    async def drain(self) -> None:
        await asyncio.wait_for(self.app.drain(), 30)

    async def answer(self, run_id: str, answer: object, name: str | None = None) -> None:
        """Answer, and tell on."""
        await self.app.answer(run_id, answer, name=name)
        await self.drain()

    async def problem(self, run_id: str) -> str:
        """Return what a run has failed with."""
        run = await self.app.get(run_id)
        assert run.state is RunState.FAILED
        assert run.error is not None
        return run.error.message

    @property
    def counts(self) -> Counter[str]:
        return self.effects.counts()


def add(folder: str, what: str) -> int:
    """Do something; return how often it was done by now."""
    return Effects(folder).done(what)
