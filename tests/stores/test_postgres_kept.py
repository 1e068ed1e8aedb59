"""What seldom changes is not asked again as long as nobody has written it, here or elsewhere."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from laneway.core.policy import Rule, SessionPolicy
from laneway.errors import UsageError
from laneway.ports.gates import Held
from laneway.stores.postgres import PostgresStore
from laneway.stores.postgres.database import TEXTS, PostgresDatabase
from laneway.stores.tables.database import Answer
from laneway.stores.tables.transaction import glancing
from laneway.testing import Hand, new_run, new_runs
from tests.stores.postgres_tools import opened

SELDOM = glancing()[1].name


class Uses(list[bool]):
    """Tells for each time that it was needed whether the answer was known."""


@pytest.fixture
def uses(monkeypatch: pytest.MonkeyPatch) -> Uses:
    """Compare every answer that was kept with what the tables say."""
    found, execute = Uses(), PostgresDatabase.execute

    def compared(db: PostgresDatabase, name: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Answer:
        if name == SELDOM:
            kept = db.kept.get(name)
            found.append(kept is not None)
            assert kept is None or list(kept) == db.pipe.send(TEXTS[name].query).fetchall()
        return execute(db, name, values)

    monkeypatch.setattr(PostgresDatabase, "execute", compared)
    return found


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(postgres_url) as store:
        yield store


async def test_steps_of_the_only_writer_ask_once(store: PostgresStore, uses: Uses) -> None:
    await store.submit(new_runs(40, "r"))
    hand = await Hand(store).register()
    claimed = await hand.claim(10)
    uses.clear()
    for _ in range(3):
        claimed = (await hand.succeed(*claimed, room=10)).claimed

    assert uses == [True] * 3


async def test_what_this_store_sets_is_known_to_its_next_step(store: PostgresStore, uses: Uses) -> None:
    await store.submit([new_run("a"), new_run("b")])
    hand = await Hand(store).register()
    await hand.succeed(*await hand.claim())
    await store.hold(Held.TASK, "work", held=True)
    uses.clear()

    assert await hand.claim() == []
    assert uses == [False]

    await store.hold(Held.TASK, "work", held=False)
    assert [run.id for run in await hand.claim()] == ["b"]


async def test_what_another_store_sets_is_known_to_the_next_step(
    store: PostgresStore, postgres_url: str, uses: Uses
) -> None:
    await store.submit([new_run("a"), new_run("b")])
    hand = await Hand(store).register()
    await hand.succeed(*await hand.claim())
    async with opened(postgres_url) as other:
        await other.hold(Held.TASK, "work", held=True)

        assert await hand.claim() == []

        await other.hold(Held.TASK, "work", held=False)
        assert [run.id for run in await hand.claim()] == ["b"]


async def test_what_was_undone_is_not_kept(store: PostgresStore, uses: Uses) -> None:
    hand = await Hand(store).register()
    await hand.claim()

    def fail(db: Any, _: object) -> None:
        db.execute("ruling.disable", ("work",))
        db.execute(SELDOM)
        raise UsageError("no")

    with pytest.raises(UsageError):
        await store._write(fail)

    assert [receipt.run_id for receipt in await store.submit([new_run("a", delay=1)])] == ["a"]
    assert uses[-1] is False


async def test_what_was_kept_goes_with_the_connection(store: PostgresStore, uses: Uses) -> None:
    hand = await Hand(store).register()
    await hand.claim()
    store._here.writer.let_go()
    await hand.claim()

    assert uses[-1] is False


async def _something_rare(store: PostgresStore, hand: Hand, chosen: random.Random, at: int) -> None:
    """Do one of the things that seldom happen, then take a step or two."""
    held, steer = chosen.random() < 0.5, SessionPolicy(mode="steer", cap=1000)
    verbs = (
        lambda: store.hold(chosen.choice((Held.TASK, Held.USER, Held.SESSION)), "x", held=held),
        lambda: store.disable("gone", disabled=held),
        lambda: store.set_cap("ann", "main", 1 if held else None),
        lambda: store.set_session("s", Rule(max_concurrent=2)),
        lambda: store.submit([new_run(f"m{at}", session="s", policy=steer)]),
        lambda: store.submit([new_run(f"o{at}", task="other"), new_run(f"w{at}", user="ann")]),
    )
    if held or at % 3:
        await chosen.choice(verbs)()
    for run in await hand.claim(3):
        await (hand.wait(run, "who?") if chosen.random() < 0.1 else hand.succeed(run))


async def test_many_verbs_of_two_stores_never_use_an_answer_that_is_not_true_any_more(
    postgres_url: str, uses: Uses
) -> None:
    """Long lives of two stores, one at a time or both at once."""
    chosen = random.Random(5)
    async with opened(postgres_url) as one, opened(postgres_url) as two:
        stores = {store: await Hand(store, f"hand{nth}").register() for nth, store in enumerate((one, two))}
        for at in range(120):
            busy = chosen.choice(([one], [one], [two], [one, two]))
            lives = (_something_rare(store, stores[store], chosen, at * 2 + nth) for nth, store in enumerate(busy))
            await asyncio.gather(*lives)
        assert await one.check() == []
    assert set(uses) == {True, False}
