"""Claims stay fast beside old snapshots: rows continue under a new era, and lanes have a floor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.store import PostgresStore
from laneway.testing import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs

KEYS = {
    "lane": "name",
    "pace": "lane, priority",
    "turn": 'lane, "user", priority',
    "seat": 'lane, "user"',
    "worker": "id",
}


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url, FakeClock())
    await store.open()
    yield store
    await store.close()


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    address = Address.parse(url)
    with psycopg.connect(address.conninfo, autocommit=True, options=f"-c search_path={address.schema}") as link:
        return link.execute(statement.encode()).fetchall()


def below_the_floor(url: str) -> list[tuple[Any, ...]]:
    return rows(url, "SELECT number, rank, floor FROM ready JOIN lane ON name = ready.lane WHERE rank < floor")


async def test_rows_that_are_written_often_go_on_under_new_eras_and_stay_one_of_each(
    store: PostgresStore, postgres_url: str
) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(3, "first", user="ann"))
    held = await hand.claim(2)
    for n in range(80):
        await store.submit([new_run(user="ann"), new_run(user="ann")])
        held = (await hand.succeed(*held, room=1 + n % 2)).claimed
        assert len(held) == 1 + n % 2

    for table, key in KEYS.items():
        [[twice]] = rows(postgres_url, f"SELECT count(*) - count(DISTINCT ({key})) FROM {table}")
        [[eras]] = rows(postgres_url, f"SELECT max(era) FROM {table}")
        assert (table, twice, eras > 0) == (table, 0, True)


async def test_only_the_turn_of_runs_without_a_user_outlives_its_last_run(
    store: PostgresStore, postgres_url: str
) -> None:
    hand = await Hand(store).register()
    for _ in range(3):
        await store.submit([new_run(), new_run(user="ann")])
        await hand.succeed(*await hand.claim(2))

    assert rows(postgres_url, 'SELECT "user", waiting FROM turn') == [("", 0)]
    assert await store.check() == []


async def test_the_floor_of_a_lane_rises_with_what_is_claimed(store: PostgresStore, postgres_url: str) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(20, "run"))
    [[before]] = rows(postgres_url, "SELECT floor FROM lane WHERE name = 'main'")

    await hand.claim(10)

    [[after]] = rows(postgres_url, "SELECT floor FROM lane WHERE name = 'main'")
    [[first]] = rows(postgres_url, "SELECT min(rank) FROM ready WHERE lane = 'main'")
    assert before < after <= first


async def test_a_more_urgent_run_lowers_the_floor_and_is_claimed_first(store: PostgresStore, postgres_url: str) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(20, "run"))
    await hand.claim(5)

    await store.submit([new_run("urgent", priority=3)])
    await store.submit([new_run("urgent too", priority=3, user="ann"), new_run("lowly", priority=-3, user="ann")])

    assert below_the_floor(postgres_url) == []
    assert [run.id for run in await hand.claim(3)] == ["urgent", "urgent too", "run-00005"]
    assert below_the_floor(postgres_url) == []


async def test_a_run_that_was_set_aside_is_claimed_though_others_went_on(
    store: PostgresStore, postgres_url: str
) -> None:
    stranger, hand = await Hand(store, "stranger").register(), Hand(store, "other", tasks=("mail",))
    await hand.register()
    await store.submit([new_run("mail", task="mail")])
    for n in range(5):
        await store.submit([new_run(f"work {n}"), new_run(user="ann")])
        await stranger.succeed(*await stranger.claim(2))
        assert below_the_floor(postgres_url) == []

    assert [run.id for run in await hand.claim(2)] == ["mail"]


async def test_a_run_that_is_given_back_is_claimed_again(store: PostgresStore, postgres_url: str) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(12, "run"))
    first = await hand.claim(4)

    await hand.release(*first)

    assert below_the_floor(postgres_url) == []
    claimed = [run.id for run in await hand.claim(12)]
    assert sorted(claimed) == [f"run-{n:05d}" for n in range(12)]
