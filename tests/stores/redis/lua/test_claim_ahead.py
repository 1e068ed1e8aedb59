"""Claim-ahead on Redis: a submission claims for an idle worker that listens, and the wake-up brings the reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from laneway.core.lifecycle.step import StepReply
from laneway.core.records.run import NewRun
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.stores.redis.client.scripts import library
from laneway.stores.redis.store import RedisStore
from laneway.stores.redis.verbs.workers import pushed_reply
from laneway.testing import FakeClock, Hand, new_run, new_runs
from laneway.testing.servers import Server
from tests.stores.postgres.transactions.test_claim_ahead import Told, lending


class Two(NamedTuple):
    """Two stores in one namespace, as two processes have them."""

    one: RedisStore
    other: RedisStore


@pytest.fixture
async def two(redis_url: str, clock: FakeClock) -> AsyncIterator[Two]:
    two = Two(RedisStore(redis_url, clock), RedisStore(redis_url, clock))
    for store in two:
        await store.open()
    yield two
    for store in two:
        await store.close()


async def state(store: Store, run: str) -> RunState:
    return (await store.get(run)).state


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_submission_claims_for_an_idle_worker_and_sends_it_the_reply(two: Two, *, elsewhere: bool) -> None:
    told = Told()
    hand = await lending(two.one, told)

    await (two.other if elsewhere else two.one).submit([new_run("a", args={"n": 1})])

    assert await state(two.one, "a") is RunState.RUNNING
    lent = await told.next()
    assert lent is not None
    assert lent.call == hand.last.call + 1
    assert [run.id for run in lent.reply.claimed] == ["a"]
    assert await hand.step(room=1) == lent.reply  # as after a wake-up that got lost
    assert (await hand.succeed(*lent.reply.claimed)).refused == []
    assert await state(two.one, "a") is RunState.SUCCEEDED


async def test_a_submission_on_the_ordinary_path_is_claimed_as_well(two: Two) -> None:
    told = Told()
    await lending(two.one, told)

    await two.other.submit([new_run("a", session="s", user="u")])

    lent = await told.next()
    assert lent is not None
    assert [(run.id, run.session, run.user) for run in lent.reply.claimed] == [("a", "s", "u")]


@pytest.mark.parametrize(
    "news",
    [
        [new_run("a"), new_run("b", user="u"), new_run("c", session="s"), new_run("d", delay=1)],
        # Those that go straight in: few are found by the step before they are written, many are written before.
        new_runs(1, "plain"),
        new_runs(5, "plain"),
        new_runs(12, "plain"),
        [new_run("long", args={"much": "x" * 2000}), *new_runs(3, "ann", user="ann", priority=3)],
    ],
)
async def test_a_step_made_ahead_leaves_what_a_step_leaves(
    two: Two, redis_url: str, clock: FakeClock, news: list[NewRun]
) -> None:
    async def left(store: RedisStore, *, offers_next: bool) -> tuple[StepReply, list[object]]:
        hand = await Hand(store).register()
        await (hand.offer_step(room=2) if offers_next else hand.step(room=2, park=True))
        await store.submit(news)
        reply = await hand.step(room=2, park=True)
        assert await store.check() == []
        return reply, [*[await store.get(new.id) for new in news], await store.workers()]

    plain = RedisStore(f"{redis_url}-plain", clock)
    await plain.open()
    assert await left(two.one, offers_next=True) == await left(plain, offers_next=False)
    await plain.close()


async def test_a_reply_that_is_too_long_for_a_wake_up_comes_with_the_next_step(two: Two) -> None:
    told = Told()
    hand = await lending(two.one, told)

    await two.other.submit([new_run("a", args={"text": "x" * 100_000})])

    assert await told.next() is None
    assert await state(two.one, "a") is RunState.RUNNING
    assert [run.id for run in await hand.claim()] == ["a"]


async def test_a_worker_whose_process_does_not_listen_gets_nothing(two: Two) -> None:
    await lending(two.one, Told())
    await two.one.close()

    await two.other.submit([new_run("a")])

    assert await state(two.other, "a") is RunState.PENDING


async def test_a_worker_with_room_for_all_leaves_the_others_idle(two: Two) -> None:
    told = [Told() for _ in range(3)]
    for index, standby in enumerate(told):
        hand = Hand(two.one, f"w{index}")
        await two.one.register(hand.incarnation, standby)
        await hand.offer_step(room=5)

    await two.one.submit(new_runs(3, "r"))

    first = await told[0].next()
    assert first is not None
    assert len(first.reply.claimed) == 3
    await two.one.submit([new_run("a")])
    second = await told[1].next()
    assert second is not None
    assert [run.id for run in second.reply.claimed] == ["a"]
    assert [each.heard.empty() for each in told] == [True, True, True]


async def test_runs_that_one_worker_leaves_wake_the_others(two: Two) -> None:
    told = [Told() for _ in range(2)]
    hands = [Hand(two.one, f"w{index}") for index in range(2)]
    for hand, standby in zip(hands, told, strict=True):
        await two.one.register(hand.incarnation, standby)
        await hand.offer_step(room=2)

    await two.one.submit(new_runs(3, "r"))

    first = await told[0].next()
    assert first is not None
    assert len(first.reply.claimed) == 2
    assert await told[1].next() is None
    assert len(await hands[1].claim(2)) == 1


async def test_a_repeat_of_the_step_before_brings_nothing_even_if_there_is_more(two: Two) -> None:
    told = Told()
    hand = await lending(two.one, told, room=2)

    await two.other.submit([new_run(f"r{index}", task="unknown") for index in range(600)])

    lent = await told.next()
    assert lent is not None
    assert lent.reply.more
    again = await hand.repeat_last()
    assert (again.claimed, again.refused, again.more) == ([], [], False)
    assert await hand.step(room=2) == lent.reply


async def test_a_worker_that_stops_releases_what_was_claimed_for_it(two: Two) -> None:
    hand = await lending(two.one, Told())
    await two.other.submit([new_run("a")])

    await hand.release(*(await hand.step(room=0)).claimed)
    await hand.leave()

    assert await state(two.one, "a") is RunState.PENDING


async def test_a_server_makes_no_step_ahead_behind_one_that_it_has_not_made(two: Two, redis_server: Server) -> None:
    """After a fail-over, the worker's next step says whether the server has lost what it was answered."""
    told = Told()
    hand = await lending(two.one, told)
    redis_server.command("FUNCTION", "DELETE", library().name)

    await two.other.submit([new_run("a")])

    assert await state(two.one, "a") is RunState.PENDING
    assert await told.next() is None
    assert [run.id for run in await hand.claim()] == ["a"]


async def test_a_wake_up_of_another_version_only_wakes() -> None:
    assert pushed_reply(b"") is None
    assert pushed_reply(b"\x92\x01\x90") is None
    assert pushed_reply(b"\x07") is None
    assert pushed_reply(b"{of another version}") is None
