"""Claim ahead: the submission claims for an idle worker, in its own process or another, and not for a dead one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import NamedTuple

import psycopg
import pytest

from laneway.core.lifecycle.step import PushedReply, StepReply
from laneway.core.records.run import Claimed
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.ports.workers import WakeHandle
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.postgres.transactions.claim_ahead import ReplyAhead, read
from laneway.stores.tables.runtime.after_commit import WakeUp
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.postgres.tools import opened, until
from tests.stores.sqlite.test_processes import line, process


class Two(NamedTuple):
    """Two stores on the same tables, as two processes have them."""

    one: Store
    other: Store


@pytest.fixture
async def two(postgres_url: str, clock: FakeClock) -> AsyncIterator[Two]:
    two = Two(PostgresStore(postgres_url, clock), PostgresStore(postgres_url, clock))
    for store in two:
        await store.open()
    yield two
    for store in two:
        await store.close()


@pytest.fixture
async def real(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store whose clock is that of other processes."""
    async with opened(postgres_url) as store:
        yield store


class Told(WakeHandle):
    """Keeps the answers that it receives."""

    def __init__(self, *, is_alive: bool = True) -> None:
        self._loop, self._there = asyncio.get_running_loop(), is_alive
        self.heard: asyncio.Queue[PushedReply | None] = asyncio.Queue()

    @property
    def is_alive(self) -> bool:
        return self._there

    def __call__(self) -> None:
        self._loop.call_soon_threadsafe(self.heard.put_nowait, None)

    def push(self, lent: PushedReply) -> None:
        self._loop.call_soon_threadsafe(self.heard.put_nowait, lent)

    async def next(self) -> PushedReply | None:
        return await asyncio.wait_for(self.heard.get(), 10)


async def lending(store: Store, told: WakeHandle, room: int = 1) -> Hand:
    hand = Hand(store)
    await store.register(hand.incarnation, told)
    await hand.offer_step(room)
    return hand


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_submission_claims_for_who_rests_and_tells_it_the_answer(two: Two, *, elsewhere: bool) -> None:
    told = Told()
    hand = await lending(two.one, told)

    await (two.other if elsewhere else two.one).submit([new_run("a")])

    assert (await two.one.get("a")).state is RunState.RUNNING
    lent = await told.next()
    assert lent is not None
    assert lent.call == hand.last.call + 1
    assert [run.id for run in lent.reply.claimed] == ["a"]
    again = await hand.step(room=1)
    assert again.claimed == lent.reply.claimed
    assert (await hand.succeed(*again.claimed)).refused == []


async def test_an_answer_that_is_too_long_to_be_sent_is_asked_for(two: Two) -> None:
    told = Told()
    hand = await lending(two.one, told)

    await two.other.submit([new_run("a", args={"text": "x" * 60_000})])

    assert await told.next() is None
    assert [run.id for run in await hand.claim()] == ["a"]


async def test_who_has_ended_without_a_word_is_given_nothing(two: Two) -> None:
    told = Told(is_alive=False)
    await lending(two.one, told)

    await two.one.submit([new_run("a")])

    assert (await two.one.get("a")).state is RunState.PENDING
    assert await told.next() is None


async def test_one_of_another_process_that_does_not_listen_any_more_is_given_nothing(two: Two) -> None:
    await lending(two.one, Told())
    await two.one.close()

    await two.other.submit([new_run("a")])

    assert (await two.other.get("a")).state is RunState.PENDING


async def test_beside_one_that_is_not_there_another_is_given_the_run(two: Two) -> None:
    hand, told = Hand(two.one, "ended"), Told(is_alive=False)
    await two.one.register(hand.incarnation, told)
    await hand.offer_step()
    other = await lending(two.one, Told())

    await two.one.submit([new_run("a")])

    assert [run.id for run in await other.claim()] == ["a"]
    assert await hand.claim() == []


async def test_who_has_room_for_all_lets_the_others_rest(two: Two) -> None:
    told = [Told() for _ in range(3)]
    hands = [Hand(two.one, f"w{index}") for index in range(3)]
    for hand, standby in zip(hands, told, strict=True):
        await two.one.register(hand.incarnation, standby)
        await hand.offer_step(room=5)

    await two.one.submit(new_runs(3, "r"))

    first = await told[0].next()
    assert first is not None
    assert len(first.reply.claimed) == 3
    assert [each.heard.empty() for each in told] == [True, True, True]
    await two.one.submit([new_run("a")])
    second = await told[1].next()
    assert second is not None
    assert [run.id for run in second.reply.claimed] == ["a"]


async def test_submissions_of_one_moment_are_claimed_by_one_step(two: Two) -> None:
    told = Told()
    await lending(two.one, told, room=9)

    await asyncio.gather(*(two.one.submit([new_run(f"r{index}")]) for index in range(5)))

    assert (await two.one.depths()).runs in ({"running": 5}, {"running": 1, "pending": 4})


def test_a_notification_says_what_it_brings() -> None:
    def replied(text: str) -> ReplyAhead:
        run = Claimed(1, "a", "work", text, 1, 1, 0, "main", None, None, 0, "me")
        return ReplyAhead(WakeUp("me", "there"), PushedReply(7, StepReply(claimed=[run], now=3, due_in=5)))

    short, long = replied("{}"), replied("x" * 9_000)
    assert read(short.text) == ("me", short.reply)
    assert read(long.text) == ("me", None)
    assert read("me\n{of another version") == ("me", None)


def sessions(database: str) -> set[int]:
    """Return the connections of stores to this database."""
    with psycopg.connect(database) as link:
        found = link.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'laneway' AND datname = current_database()"
        )
        return {pid for [pid] in found}


@pytest.mark.system
async def test_a_living_process_is_given_a_run_and_a_killed_one_is_not(
    postgres_url: str, postgres_database: str, real: PostgresStore
) -> None:
    before = sessions(postgres_database)
    with process(postgres_url, "lend") as lender:
        assert await line(lender) == "lent"
        its = sessions(postgres_database) - before
        assert its
        os.kill(lender.pid, signal.SIGSTOP)  # or it may end the run before the test looks
        await real.submit([new_run("a")])
        assert (await real.get("a")).state is RunState.RUNNING
        os.kill(lender.pid, signal.SIGCONT)
        assert await line(lender) == "a"
        assert await line(lender) == "lent"

        os.kill(lender.pid, signal.SIGKILL)
        lender.wait(10)
        # Race: the server notices only in some moments that the process is gone.
        await until(lambda: not its & sessions(postgres_database))
        await real.submit([new_run("b")])

        assert (await real.get("b")).state is RunState.PENDING


@pytest.mark.system
async def test_what_a_killed_process_was_given_comes_back(postgres_url: str, real: PostgresStore) -> None:
    with process(postgres_url, "lend") as lender:
        assert await line(lender) == "lent"
        os.kill(lender.pid, signal.SIGSTOP)
        await real.submit([new_run("a")])
        assert (await real.get("a")).state is RunState.RUNNING
        os.kill(lender.pid, signal.SIGKILL)
        lender.wait(10)
        heir = await Hand(real, "heir").register()

        await heir.lapse(*(await heir.reclaim("lender")).lapsed)

        [claimed] = await heir.claim()
        assert (claimed.id, claimed.crashes) == ("a", 1)


@pytest.mark.system
async def test_a_child_that_outlives_a_killed_process_does_not_stand_for_it(
    postgres_url: str, real: PostgresStore
) -> None:
    with process(postgres_url, "lend_and_fork") as lender:
        assert await line(lender) == "lent"
        child = int(await line(lender))
        os.kill(lender.pid, signal.SIGKILL)
        lender.wait(10)

        await real.submit([new_run("a")])

        assert (await real.get("a")).state is RunState.PENDING
        os.kill(child, signal.SIGKILL)
