"""The ledger of messages: sessions of every kind, three workers, killed at random, and what became of each message."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest

from laneway import Scheduler
from tests.system.harness.stage import Process, Stage, on_both_stores, say, seeded, sized, time_limit, until
from tests.system.load import message_app
from tests.system.load.message_producer import Plan
from tests.system.load.messages import has_key, shape_of
from tests.system.oracle import account_rules, ledger
from tests.system.oracle.accounts import Accounts
from tests.system.oracle.journal import What
from tests.system.oracle.notes import Notepad, Notes, Stopped, beside

pytestmark = pytest.mark.system

MESSAGES, SESSIONS = sized(2_800, 100_000), sized(128, 1_000)
KILLS = sized(9, 300)
WORKERS, PRODUCERS = 3, 2

# What must have happened to some messages, or the test has shown nothing.
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
    """The processes of the test: who is killed is replaced, a producer by one that goes on where it was."""

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
        goal = len(self.stage.journal.lines()) + self.random.randint(1, 2 * PRODUCERS * self.each // self.kills)
        await until(lambda: len(self.stage.journal.lines()) >= goal or self.over(), "the work goes on", within=60)
        talking = [place for place, process in self.producers.items() if process.alive]
        if talking and self.random.random() < 0.25:
            self._replace_producer(self.random.choice(talking))
        else:
            self.workers.pop(self.random.randrange(WORKERS)).kill()
            self.workers.append(self._worker())

    def _replace_producer(self, place: int) -> None:
        self.producers[place].kill()
        notes = Notes.read_from(beside(self.stage.journal.path))
        sent = [number for number in notes.sent if number // self.each == place]
        again = [number for number in notes.unsure() if number // self.each == place and has_key(number)]
        self._produce(place, max(sent, default=place * self.each - 1) + 1, again)

    async def stop_some_session(self) -> None:
        """Stop a session that may be stopped, as its user would."""
        sessions = await self.client.sessions.list(limit=1000)
        names = [session.name for session in sessions if shape_of(session.name).stopped]
        if names:
            name, everything = self.random.choice(names), self.random.random() < 0.5
            stopped = await (self.client.sessions.stop_all if everything else self.client.sessions.stop)(name)
            pad = Notepad(beside(self.stage.journal.path), "test")
            pad.write(Stopped(name, everything, stopped.cancelled, stopped.dropped))
            pad.close()


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
            await stage.said(worker, '"event":"ready"')  # the last to come may not know yet how to stop
        await stage.stop(*traffic.workers)

        store = await client.open()
        notes = Notes.read_from(beside(stage.journal.path))
        accounts = await Accounts.read_from(store, stage.journal, notes)
        await ledger.fail_if(stage, store, accounts.books, account_rules.wrong(accounts))
    fates = _shown(accounts)
    assert fates.total() == PRODUCERS * traffic.each
    # Who is sent a part of the traffic may not meet the rarest of them.
    missing = USUAL - fates.keys()
    assert len(missing) <= (0 if traffic.each == MESSAGES // PRODUCERS else 2), missing


def _shown(accounts: Accounts) -> Counter[str]:
    """Print and return how many messages became what."""
    fates = accounts.fates()
    lines = [f"{count:7} {fate}" for fate, count in sorted(fates.items(), key=lambda pair: -pair[1])]
    kills = len(accounts.books.journal.of(What.DEATH))
    head = (
        f"{fates.total()} messages, {len(accounts.runs)} runs, {len(accounts.books.attempts)} attempts, {kills} kills;"
    )
    zeros = "lost 0, out of order 0, over a limit or a cap 0, two in a serial session 0, unread 0, left behind 0"
    say("\n  ".join([head, zeros, *lines]))
    return fates
