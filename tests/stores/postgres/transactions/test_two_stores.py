"""Two stores of one schema: the next step of one sees the changes of the other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from laneway.core.records.policy import Rule, SessionPolicy
from laneway.ports.gates import Held
from laneway.ports.settings import Hold, SessionSetting, TaskDisabled, UserCap
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import Hand, new_run
from tests.stores.postgres.tools import opened


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(postgres_url) as store:
        yield store


async def test_what_this_store_sets_is_known_to_its_next_step(store: PostgresStore) -> None:
    await store.submit([new_run("a"), new_run("b")])
    hand = await Hand(store).register()
    await hand.succeed(*await hand.claim())
    await store.set(Hold(Held.TASK, "work", held=True))

    assert await hand.claim() == []

    await store.set(Hold(Held.TASK, "work", held=False))
    assert [run.id for run in await hand.claim()] == ["b"]


async def test_what_another_store_sets_is_known_to_the_next_step(store: PostgresStore, postgres_url: str) -> None:
    await store.submit([new_run("a"), new_run("b")])
    hand = await Hand(store).register()
    await hand.succeed(*await hand.claim())
    async with opened(postgres_url) as other:
        await other.set(Hold(Held.TASK, "work", held=True))

        assert await hand.claim() == []

        await other.set(Hold(Held.TASK, "work", held=False))
        assert [run.id for run in await hand.claim()] == ["b"]


async def _something_rare(store: PostgresStore, hand: Hand, chosen: random.Random, at: int) -> None:
    """Do one of the things that seldom happen, then take a step or two."""
    held, steer = chosen.random() < 0.5, SessionPolicy(mode="steer", cap=1000)
    verbs = (
        lambda: store.set(Hold(chosen.choice((Held.TASK, Held.USER, Held.SESSION)), "x", held=held)),
        lambda: store.set(TaskDisabled("gone", disabled=held)),
        lambda: store.set(UserCap("ann", "main", 1 if held else None)),
        lambda: store.set(SessionSetting("s", Rule(max_concurrent=2))),
        lambda: store.submit([new_run(f"m{at}", session="s", policy=steer)]),
        lambda: store.submit([new_run(f"o{at}", task="other"), new_run(f"w{at}", user="ann")]),
    )
    if held or at % 3:
        await chosen.choice(verbs)()
    for run in await hand.claim(3):
        await (hand.wait(run, "who?") if chosen.random() < 0.1 else hand.succeed(run))


async def test_long_lives_of_two_stores_one_at_a_time_or_both_at_once_leave_right_counts(postgres_url: str) -> None:
    chosen = random.Random(5)
    async with opened(postgres_url) as one, opened(postgres_url) as two:
        stores = {store: await Hand(store, f"hand{nth}").register() for nth, store in enumerate((one, two))}
        for at in range(120):
            busy = chosen.choice(([one], [one], [two], [one, two]))
            lives = (_something_rare(store, stores[store], chosen, at * 2 + nth) for nth, store in enumerate(busy))
            await asyncio.gather(*lives)
        assert await one.check() == []
