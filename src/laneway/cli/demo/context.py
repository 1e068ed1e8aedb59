"""What the chapters share: the app, the worker, the results, and how to follow runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from laneway.cli.demo.sandbox import DemoWorker, Sandbox
from laneway.cli.demo.screen import Row, Screen
from laneway.cli.shell.formats import spoken
from laneway.core.records.events import Event
from laneway.engine.client.submissions import Submission
from laneway.scheduler import Scheduler


@dataclass(frozen=True)
class Fact:
    """Something that was verified; `run_id` is a run that shows it."""

    name: str
    text: str
    holds: bool
    run_id: str | None = None


@dataclass
class Followed:
    """A run that is followed: its row on the screen, its events so far, and the delay of each."""

    run_id: str
    row: Row
    events: list[Event] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)

    def see(self, event: Event) -> None:
        """Add an event, and update the row."""
        self.events.append(event)
        self.lags.append((datetime.now(UTC) - event.at).total_seconds())
        row, data = self.row, event.data
        if event.kind == "started":
            row.state, row.text = "running", f"attempt {event.attempt}" if event.attempt > 1 else row.text
        elif event.kind == "progress":
            row.fraction, row.text = data["fraction"], data["text"]
        elif event.kind == "retrying":
            row.state, row.text = "pending", f"{data['error']['message']}; again in {spoken(data['delay'])}"
        elif event.kind == "question":
            row.state, row.text = "waiting", f"asks: {data['question']}"
        elif event.kind == "lapsed":
            row.state, row.text = "pending", "its worker died; to be started again"
        elif event.kind == "done":
            row.state = data["state"]

    def times(self, kind: str) -> list[datetime]:
        """Return when events of a kind were written."""
        return [event.at for event in self.events if event.kind == kind]

    def count(self, kind: str) -> int:
        """Return how many events of a kind there were."""
        return len(self.times(kind))

    @property
    def is_complete(self) -> bool:
        """Tell whether the events are numbered from 1 without a gap and end with `done`."""
        numbers = [event.seq for event in self.events]
        return numbers == list(range(1, len(numbers) + 1)) and self.events[-1].kind == "done"


@dataclass
class DemoContext:
    """The state of the demo: the app, the worker, the facts and receipts so far."""

    app: Scheduler
    sandbox: Sandbox
    screen: Screen
    worker: DemoWorker
    pace: float
    facts: list[Fact]
    receipts: list[str] = field(default_factory=list)

    def fact(self, name: str, text: str, *, holds: bool, run_id: str | None = None) -> None:
        """Record and print a fact."""
        self.facts.append(Fact(name, text, holds, run_id))
        self.screen.fact(text, holds=holds)

    async def submit(self, task: str, args: Mapping[str, Any], **options: Any) -> str:
        """Submit one run and keep its receipt."""
        [run_id] = await self.submit_many([Submission(task, args, **options)])
        return run_id

    async def submit_many(self, items: list[Submission]) -> list[str]:
        """Submit runs and keep their receipts."""
        ids = [receipt.run_id for receipt in await self.app.submit_many(items)]
        self.receipts += ids
        return ids

    async def follow(self, followed: Followed) -> None:
        """Follow a run to its end."""
        async for event in self.app.events(followed.run_id):
            followed.see(event)

    async def pause(self, seconds: float) -> None:
        """Sleep, so that the user can look; not if the screen has no animation."""
        if self.screen.moving:
            await asyncio.sleep(seconds)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self) -> float:
        """Return the seconds."""
        return time.monotonic() - self._began
