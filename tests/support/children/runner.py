"""Execute handlers in real child processes, and record what they emit and save."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from laneway.core.lifecycle.outcome import Failed, Outcome, Succeeded
from laneway.core.records.events import Draft
from laneway.core.records.run import Claimed, Failure
from laneway.engine.children.pool import ChildHandle, ChildPool
from laneway.engine.children.protocol import Checkpoint, Keep
from tests.support.waits import IN_TIME, until


class ChildRunner:
    """Executes handlers in child processes and records their events and checkpoints."""

    def __init__(self, children: ChildPool) -> None:
        self.children = children
        self.drafts: list[Draft] = []
        self.saved: list[Any] = []
        self.go_on: Callable[[Any], bool] = lambda _: True
        self._said = asyncio.Event()

    def begin(self, function: Callable[..., Any], state: Any = None, **args: Any) -> ChildHandle:
        run = Claimed(1, "run-1", "a-task", json.dumps(args), 7, 2, 0, "main", "ann", "chat", 0, "w")
        text = None if state is None else json.dumps(state)
        carried = {"traceparent": "00-ab-cd-01"}
        return self.children.attempt(function, run, self._hear, self._save, state=text, carried=carried)

    async def call(self, function: Callable[..., Any], **args: Any) -> Outcome | None:
        return await asyncio.wait_for(self.begin(function, **args).outcome(), IN_TIME)

    async def value(self, function: Callable[..., Any], **args: Any) -> Any:
        outcome = await self.call(function, **args)
        assert isinstance(outcome, Succeeded), outcome
        return json.loads(outcome.result)

    async def failure(self, function: Callable[..., Any], **args: Any) -> Failure:
        outcome = await self.call(function, **args)
        assert isinstance(outcome, Failed), outcome
        return outcome.failure

    async def emitted(self, kind: str, data: Any = None) -> Any:
        """Wait until the handler has emitted this; return the data."""
        async with asyncio.timeout(IN_TIME):
            while True:
                for said, text in self.drafts:
                    if said == kind and (data is None or json.loads(text) == data):
                        return json.loads(text)
                self._said.clear()
                await self._said.wait()

    async def ready(self, function: Callable[..., Any], **args: Any) -> tuple[ChildHandle, asyncio.Task[Any]]:
        """Begin a handler and wait until it logs "ready"."""
        execution = self.begin(function, **args)
        ending = asyncio.create_task(execution.outcome())
        await self.emitted("log", {"text": "ready"})
        return execution, ending

    @property
    def lines(self) -> list[str]:
        return [json.loads(data)["text"] for kind, data in self.drafts if kind == "log"]

    def _hear(self, draft: Draft) -> None:
        self.drafts.append(draft)
        self._said.set()

    async def _save(self, what: Checkpoint | Keep) -> bool:
        await asyncio.sleep(0)
        assert isinstance(what, Checkpoint)
        self.saved.append(json.loads(what.state))
        return self.go_on(self.saved[-1])


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def is_gone(pid: int) -> bool:
    """Return whether a process ends in time. The system lets us wait only for processes that are our children."""
    try:
        await until(lambda: not is_running(pid))
    except TimeoutError:
        return False
    return True
