"""A world for the tests of the rules: a store and a journal that agree, of which a test then spoils something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from laneway import Event, Run
from laneway.core.records.run import Message
from laneway.core.records.states import RunState
from tests.system.oracle.check import wrong
from tests.system.oracle.fire_rules import JobFires
from tests.system.oracle.journal import Accepted, AnyEntry, Ended, Ending, Journal, Started
from tests.system.oracle.record import Asked, Record

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKER, OTHER, PRODUCER = "worker-1", "worker-2", "producer-1"
KINDS: dict[str, tuple[str, ...]] = {
    "succeeded": ("started", "result", "done"),
    "failed": ("started", "error", "done"),
    "cancelled": ("started", "cancel_requested", "done"),
    "dropped": ("dropped", "done"),
}


@dataclass
class World:
    """Runs that were executed as they should be. Times are seconds in the store, nanoseconds in the journal."""

    runs: dict[str, Run] = field(default_factory=dict)
    logs: dict[str, list[Event]] = field(default_factory=dict)
    messages: dict[str, list[Message]] = field(default_factory=dict)
    entries: list[AnyEntry] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    jobs: Sequence[JobFires] = ()
    asked: Asked = field(default_factory=Asked)

    def add(self, run: str, *, at: int, state: str = "succeeded", accepted: int = 0, **facts: Any) -> None:
        """Add a run that was accepted at second `accepted`, and executed from second `at` on for five seconds."""
        begun = state != "dropped"
        defaults: dict[str, Any] = {
            "id": run,
            "number": len(self.runs) + 1,
            "task": "linger",
            "args": {},
            "lane": "wide",
            "user": "ann",
            "state": RunState(state),
            "fence": int(begun),
            "accepted_at": START + timedelta(seconds=accepted, microseconds=len(self.runs)),
            "due_at": START + timedelta(seconds=accepted),
            "started_at": START + timedelta(seconds=at) if begun else None,
            "ended_at": START + timedelta(seconds=at + 5),
            "result": {"fence": 1, "process": WORKER} if state == "succeeded" else None,
            "messages": len(self.messages.get(run, ())),
        }
        self.runs[run] = Run(**defaults | facts)
        self.logs[run] = []
        for kind in KINDS[state]:
            self.log(run, kind, at=at if kind in ("started", "dropped") else at + 5)
        self.entries.append(Accepted(PRODUCER, 0, run))
        if begun:
            how = Ending.RETURNED if state == "succeeded" else Ending.STOPPED
            self.execute(run, at=at, until=at + 5, how=how)

    def execute(
        self,
        run: str,
        *,
        at: int,
        until: int | None = None,
        fence: int = 1,
        process: str = WORKER,
        how: Ending = Ending.RETURNED,
    ) -> None:
        """Write the execution of a handler into the journal; without `until` it goes on."""
        self.entries.append(Started(process, at, run, fence))
        if until is not None:
            self.entries.append(Ended(process, until, run, fence, how))

    def log(self, run: str, kind: str, *, at: int = 0, data: Any = None, first: bool = False) -> None:
        """Add an event, as the last one or as the first."""
        event = Event(run, 0, kind, data, 1, START + timedelta(seconds=at))
        self.logs[run].insert(0 if first else len(self.logs[run]), event)
        self.logs[run] = [msgspec.structs.replace(one, seq=seq) for seq, one in enumerate(self.logs[run], 1)]

    def change(self, run: str, **facts: Any) -> None:
        """Change what the store says of a run."""
        self.runs[run] = msgspec.structs.replace(self.runs[run], **facts)

    def replace(self, old: AnyEntry, new: AnyEntry) -> None:
        """Change an entry of the journal."""
        self.entries[self.entries.index(old)] = new

    def record(self, folder: Path) -> Record:
        """Return the record of this world."""
        path = folder / "journal"
        path.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in self.entries))
        return Record(
            Journal(path),
            self.runs,
            self.logs,
            messages=self.messages,
            jobs=self.jobs,
            counts=self.counts,
            asked=self.asked,
        )

    def wrong(self, folder: Path) -> list[str]:
        """Return what the rules find."""
        return wrong(self.record(folder))
