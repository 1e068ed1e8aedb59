"""Checks of a store at rest: all rules, nothing left behind, and a file that is whole."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from laneway import Scheduler
from laneway.core.records.events import LAPSED, RELEASED, RETRYING
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from tests.support.invariants import check_invariants
from tests.support.sessions import session_of
from tests.system.harness.forms import report
from tests.system.harness.stage import Stage
from tests.system.oracle import fire_rules, limit_rules, loss_rules, message_rules, run_rules, step_rules
from tests.system.oracle.grouped import grouped
from tests.system.oracle.journal import Accepted, Ended, Ending, Killed
from tests.system.oracle.limit_rules import most_at_once
from tests.system.oracle.record import Asked, Record

SHOWN = 20  # complaints in the message of a failed test
RULES = (*run_rules.RULES, *limit_rules.RULES, *message_rules.RULES, *step_rules.RULES)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a test prints of a record without faults."""

    runs: int
    attempts: int  # handlers that began
    kills: int
    taken_over: int  # leases of dead workers
    released: int
    retried: int
    failed: int
    twice: int  # handlers that returned although another attempt of the run did
    by_process: Mapping[str, int]  # attempts
    peaks: Mapping[str, int]  # attempts at once, by lane

    @classmethod
    def of(cls, record: Record) -> Figures:
        """Return the figures of a record."""
        kinds = Counter(event.kind for log in record.logs.values() for event in log)
        returned = Counter(entry.run for entry in record.journal.of(Ended) if entry.how is Ending.RETURNED)
        by_lane = grouped(record.attempts, lambda one: record.runs[one.run].lane)
        return cls(
            runs=len(record.runs),
            attempts=len(record.attempts),
            kills=len(record.journal.of(Killed)),
            taken_over=kinds[LAPSED],
            released=kinds[RELEASED],
            retried=kinds[RETRYING],
            failed=sum(run.state is RunState.FAILED for run in record.runs.values()),
            twice=sum(count - 1 for count in returned.values()),
            by_process=Counter(one.process for one in record.attempts),
            peaks={lane: most_at_once(attempts) for lane, attempts in by_lane.items()},
        )

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.attempts} attempts, {self.kills} kills, {self.taken_over} taken over,"
            f" {self.released} released, {self.retried} retried, {self.failed} failed, {self.twice} finished twice"
        )


def wrong(record: Record) -> list[str]:
    """Return what is wrong, by all rules."""
    return [line for rule in RULES for line in rule(record)] + fire_rules.wrong(record.jobs)


def wrong_after_loss(record: Record) -> list[str]:
    """Return what is wrong with a store that lost its last moments."""
    return [line for rule in loss_rules.RULES for line in rule(record)]


async def checked(stage: Stage, client: Scheduler, asked: Asked | None = None) -> Record:
    """Fail with all that is wrong with a store at rest; return its record, and print its figures."""
    store = await client.open()
    record = await Record.read_from(store, stage.journal, asked)
    _fail_if([*wrong(record), *await _left_behind(store, record), *(damage(stage.file) if stage.on_sqlite else [])])
    await check_invariants(store, logs=False)
    report(str(Figures.of(record)))
    return record


async def check(stage: Stage, client: Scheduler) -> Figures:
    """As `checked`, for those who only want the figures."""
    return Figures.of(await checked(stage, client))


async def check_after_loss(stage: Stage, client: Scheduler) -> int:
    """Check a store that lost its last moments; return how many acknowledged runs are gone."""
    store = await client.open()
    await check_invariants(store)
    record = await Record.read_from(store, stage.journal)
    _fail_if(wrong_after_loss(record))
    return sum(entry.run not in record.runs for entry in stage.journal.of(Accepted))


def _fail_if(complaints: Sequence[str]) -> None:
    assert not complaints, f"{len(complaints)} wrong:\n" + "\n".join(complaints[:SHOWN])


def damage(file: Path) -> list[str]:
    """Return what SQLite finds wrong with a copy of its file and log, as they would be after a power cut.

    A copy, because opening the file and closing it again would move the log, which is for laneway to do.
    """
    with TemporaryDirectory(dir=file.parent) as folder:
        for path in (file, file.with_name(f"{file.name}-wal")):
            if path.exists():
                shutil.copy(path, folder)
        with closing(sqlite3.connect(Path(folder, file.name))) as db:
            return [line for (line,) in db.execute("PRAGMA integrity_check") if line != "ok"]


async def _left_behind(store: Store, record: Record) -> list[str]:
    found = [
        f"lane {one.lane.name}: {one.active} active, {one.pending} pending"
        for one in await store.lanes()
        if one.active or one.ready or one.pending
    ]
    found += [f"worker {one.incarnation.id} holds {one.running}" for one in await store.workers() if one.running]
    for session in record.sessions():
        if (state := await session_of(store, session)) is not None:
            found.append(f"session {session} is not idle: {state}")
    return found
