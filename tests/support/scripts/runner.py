"""One script, executed as every kind of handler: async or plain, on the worker's process or in a child process.

A *script* is a generator that yields each value that an async handler would await. The async handler awaits the value
and sends the result back; a plain handler has the result already. A child process finds a script by module and name.
The effects of a script are counted in a file, because some of them happen in other processes.
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

Script = Generator[Any, Any, Any]
ScriptFunction = Callable[[Context, str], Script]
AT_ONCE = Retry.delays(0, 0, 0)

app = Scheduler("memory://")  # a child process finds the tasks of this scheduler


class Way(NamedTuple):
    """A way to execute a handler."""

    name: str
    is_async: bool
    process: bool = False


WAYS = [Way("async", True), Way("plain", False), Way("process", False, True), Way("async-process", True, True)]


class Effects:
    """Counts of what scripts did, kept in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self._file = Path(folder) / "effects"

    def done(self, what: str) -> int:
        """Count one more; return the new count."""
        with self._file.open("ab", buffering=0) as file:
            file.write(what.encode() + b"\n")
        return self.counts()[what]

    def counts(self) -> Counter[str]:
        return Counter(self._file.read_text().splitlines() if self._file.exists() else [])


def named(script: ScriptFunction) -> str:
    """Return the name by which any process finds a script."""
    return f"{script.__module__}:{script.__name__}"


def _begun(name: str, folder: str, ctx: Context) -> Script:
    module, _, function = name.partition(":")
    found: ScriptFunction = getattr(import_module(module), function)
    return found(ctx, folder)


@app.task
async def run_script(name: str, folder: str = "", *, ctx: Context) -> Any:
    """Execute a script as an async handler."""
    script = _begun(name, folder, ctx)
    send: Callable[[], Any] = lambda: script.send(None)  # noqa: E731
    while True:
        try:
            awaited = send()
        except StopIteration as end:
            return end.value
        try:
            value = await awaited
        except BaseException as error:  # noqa: BLE001  # the script decides what it catches
            send = lambda error=error: script.throw(error)  # type: ignore[misc]  # noqa: E731
        else:
            send = lambda value=value: script.send(value)  # type: ignore[misc]  # noqa: E731


@app.task
def run_script_plainly(name: str, folder: str = "", *, ctx: Context) -> Any:
    """Execute a script as a plain handler."""
    script, value = _begun(name, folder, ctx), None
    while True:
        try:
            value = script.send(value)
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
    """Register the task `work`, which executes scripts that way, and the tasks that scripts call."""
    handler: Any = run_script.function if way.is_async else run_script_plainly.function
    on.task(name="work", process=way.process, **{"retry": AT_ONCE, **options})(handler)
    for task in (echo, whose, fail, run_script):
        on.task(name=task.name, retry=None)(task.function)
    return on


class ScriptRunner:
    """A scheduler that executes scripts in one way, with a folder of its own, while the clock stands still."""

    def __init__(self, scheduler: Scheduler, way: Way, folder: Path, clock: FakeClock) -> None:
        self.app, self.way, self.folder, self.clock = scheduler, way, str(folder), clock
        self.effects = Effects(folder)

    async def submit(self, script: ScriptFunction, **options: Any) -> str:
        receipt = await self.app.submit("work", {"name": named(script), "folder": self.folder}, **options)
        return receipt.run_id

    async def run(self, script: ScriptFunction, **options: Any) -> str:
        """Submit a script and execute it until it ends or waits; return the run's id."""
        run_id = await self.submit(script, **options)
        await self.drain()
        return run_id

    async def drain(self) -> None:
        await asyncio.wait_for(self.app.drain(), 30)

    async def answer(self, run_id: str, answer: object, name: str | None = None) -> None:
        """Answer, and execute what can go on."""
        await self.app.answer(run_id, answer, name=name)
        await self.drain()

    async def problem(self, run_id: str) -> str:
        """Return the message of the error that a run failed with."""
        run = await self.app.get(run_id)
        assert run.state is RunState.FAILED
        assert run.error is not None
        return run.error.message

    @property
    def counts(self) -> Counter[str]:
        return self.effects.counts()


def add(folder: str, what: str) -> int:
    """Count an effect; return the new count."""
    return Effects(folder).done(what)
