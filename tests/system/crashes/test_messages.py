"""Messages to sessions of every kind while workers and producers are killed: what became of each is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest

from laneway import Scheduler
from tests.system.harness.forms import on_both_stores, report, seeded, sized, time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.harness.until import until
from tests.system.load import message_app
from tests.system.load.message_producer import Plan
from tests.system.load.messages import has_key, shape_of
from tests.system.oracle.check import checked
from tests.system.oracle.journal import JournalWriter, Killed, Received, Sent, SessionStopped
from tests.system.oracle.message_rules import fates
from tests.system.oracle.record import Asked, Record

pytestmark = pytest.mark.system

MESSAGES, SESSIONS = sized(2_800, 100_000), sized(128, 1_000)
KILLS = sized(9, 300)
WORKERS, PRODUCERS = 3, 2

# What must have become of some messages, or the test has shown nothing.
USUAL = {
    "a run: succeeded",
    "a run: failed error",
    "a run: cancelled",
    "a run: dropped interrupted",
    "a run: dropped session_full",
    "merged: succeeded",
    "steered and read: succeeded",
    "refused session_busy",
    "refused session_full",
}


@dataclass
class Traffic:
    """The processes of the test. A killed one is replaced, a producer by one that goes on where it was."""

    stage: Stage
    random: Random
    client: Scheduler
    each: int  # messages of a producer
    kills: int
    seed: int = 0
    workers: list[Process] = field(default_factory=list)
    producers: dict[int, Process] = field(default_factory=dict)

    def begin(self) -> None:
        """Start all processes."""
        self.seed = self.random.randrange(1_000_000)
        self.workers = [self._worker() for _ in range(WORKERS)]
        for place in range(PRODUCERS):
            self._produce(place, place * self.each, [])

    def _worker(self) -> Process:
        return self.stage.laneway("worker", "tests.system.load.message_app:app", "--json", concurrency=8)

    def _produce(self, place: int, first: int, again: list[int]) -> None:
        plan = Plan(
            seed=self.seed,
            producers=PRODUCERS,
            sessions=SESSIONS,
            each=self.each,
            first=first,
            end=(place + 1) * self.each,
            rest=0.04,
            again=again,
        )
        arguments = ("-m", "tests.system.load.message_producer", msgspec.json.encode(plan).decode())
        self.producers[place] = self.stage.python("producer", *arguments)

    def over(self) -> bool:
        """Tell whether the producers have sent everything."""
        for producer in self.producers.values():
            assert producer.exit_code in (None, 0), f"{producer.name} ended with {producer.exit_code}"
        return not any(producer.alive for producer in self.producers.values())

    async def kill_somebody(self) -> None:
        """Wait for a random point of the work, and kill a worker, or sometimes a producer that is at work."""
        # A message is four entries or so.
        goal = len(self.stage.journal.entries()) + self.random.randint(1, 4 * PRODUCERS * self.each // self.kills)
        await until(lambda: len(self.stage.journal.entries()) >= goal or self.over(), "the work goes on", within=60)
        talking = [place for place, process in self.producers.items() if process.alive]
        if talking and self.random.random() < 0.25:
            self._replace_producer(self.random.choice(talking))
        else:
            self.workers.pop(self.random.randrange(WORKERS)).kill()
            self.workers.append(self._worker())

    def _replace_producer(self, place: int) -> None:
        self.producers[place].kill()
        journal = self.stage.journal
        sent = {number for entry in journal.of(Sent) for number in entry.numbers if number // self.each == place}
        answered = {receipt.number for entry in journal.of(Received) for receipt in entry.receipts}
        again = sorted(number for number in sent - answered if has_key(number))
        self._produce(place, max(sent, default=place * self.each - 1) + 1, again)

    async def stop_some_session(self) -> None:
        """Stop a session that may be stopped, as its user would do."""
        sessions = await self.client.sessions.list(limit=1000)
        names = [session.name for session in sessions if shape_of(session.name).stopped]
        if names:
            name, everything = self.random.choice(names), self.random.random() < 0.5
            stopped = await (self.client.sessions.stop_all if everything else self.client.sessions.stop)(name)
            writer = JournalWriter(self.stage.journal.path, "test")
            facts: dict[str, Any] = {"cancelled": stopped.cancelled, "dropped": stopped.dropped}
            writer.write(SessionStopped, session=name, everything=everything, **facts)
            writer.close()


@on_both_stores
@time_limit(short=180, long=3600)
async def test_every_message_is_answered_or_it_is_known_why_not(stage: Stage) -> None:
    async with Scheduler(stage.url, lanes=message_app.LANES) as client:
        traffic = Traffic(stage, seeded(), client, stage.some_of(MESSAGES // PRODUCERS), stage.some_of(KILLS))
        traffic.begin()
        for _ in range(traffic.kills):
            await traffic.kill_somebody()
            await traffic.stop_some_session()
        await until(traffic.over, "everything is sent", within=sized(120, 3000))
        await stage.drained(client, within=sized(60, 600))
        for worker in traffic.workers:
            await stage.printed(worker, '"event":"ready"')  # the newest one may not handle signals yet
        await stage.stop(*traffic.workers)

        record = await checked(stage, client, Asked(lanes=message_app.LANES, shape_of=shape_of))
    found = _reported(record)
    assert found.total() == PRODUCERS * traffic.each
    # A part of the traffic may lack the rarest of them.
    missing = USUAL - found.keys()
    assert len(missing) <= (0 if traffic.each == MESSAGES // PRODUCERS else 2), missing


def _reported(record: Record) -> Counter[str]:
    """Print and return how many messages became what."""
    found = fates(record)
    lines = [f"{count:7} {fate}" for fate, count in sorted(found.items(), key=lambda pair: -pair[1])]
    kills = len(record.journal.of(Killed))
    head = f"{found.total()} messages, {len(record.runs)} runs, {len(record.attempts)} attempts, {kills} kills"
    report("\n  ".join([head, *lines]))
    return found
