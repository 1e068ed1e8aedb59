"""Prefetched answers: how few round trips a call takes, and that no outdated answer is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from laneway import Lane
from laneway.core.records.states import RunState
from laneway.ports.settings import LaneSetting
from laneway.stores.postgres.server.pipeline import Pipeline
from laneway.stores.postgres.store import PostgresStore
from laneway.stores.postgres.transactions.database import TEXTS, PostgresDatabase
from laneway.stores.tables.sql.database import DuplicateError, Query
from laneway.stores.tables.sql.statements import as_json
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.postgres.tools import opened, undone

LANE, READY = "counts.lane", "shelves.ready"


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(postgres_url) as store:
        yield store


@pytest.fixture
def db(postgres_place: str) -> Iterator[PostgresDatabase]:
    with undone(postgres_place) as db:
        yield db


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects an entry for each round trip to the server."""
    made: list[str] = []
    sync = Pipeline._sync

    def counted(pipe: Pipeline) -> None:
        made.append("round_trip")
        sync(pipe)

    monkeypatch.setattr(Pipeline, "_sync", counted)
    return made


# Round trips


async def test_steps_of_a_busy_worker_take_two_round_trips_each(store: PostgresStore, round_trips: list[str]) -> None:
    await store.submit(new_runs(40, "r"))
    hand = await Hand(store).register()
    claimed = await hand.claim(10)
    for _ in range(2):
        round_trips.clear()
        claimed = (await hand.succeed(*claimed, room=10)).claimed
        assert len(round_trips) == 2
        assert len(claimed) == 10


async def test_a_worker_that_was_at_rest_claims_in_two_round_trips(
    store: PostgresStore, round_trips: list[str]
) -> None:
    hand = await Hand(store).register()
    for nth in range(3):
        await store.submit([new_run(f"r{nth}")])
        round_trips.clear()
        [claimed] = await hand.claim()
        assert len(round_trips) == (2 if nth else len(round_trips)), "the first does not know of which lanes to ask"
        await hand.succeed(claimed)


async def test_users_at_their_caps_and_busy_sessions_cost_a_step_few_round_trips(
    store: PostgresStore, round_trips: list[str]
) -> None:
    await store.set(LaneSetting(Lane("main", limit=8, per_user=2)))
    runs = [new_run(f"r{nth}", user=f"u{nth % 4}", session=f"s{nth % 12}") for nth in range(400)]
    await store.submit(runs)
    hand = await Hand(store).register()
    claimed, steps = await hand.claim(8), 0
    round_trips.clear()
    while claimed:
        claimed = (await hand.succeed(*claimed, room=8)).claimed
        steps += 1

    assert (await store.depths()).runs == {"succeeded": 400}
    assert len(round_trips) < 5.5 * steps
    assert await store.check() == []


async def test_a_due_run_is_claimed_in_two_round_trips(postgres_url: str, round_trips: list[str]) -> None:
    clock = FakeClock()
    store = PostgresStore(postgres_url, clock)
    await store.open()
    hand = await Hand(store).register()
    for nth in range(3):
        await store.submit([new_run(f"r{nth}", delay=60)])
        assert await hand.claim() == []
        await clock.advance(60)
        round_trips.clear()
        [claimed] = await hand.claim()
        assert len(round_trips) == (2 if nth else len(round_trips)), "the first does not know of which lanes to ask"
        await hand.succeed(claimed)
    await store.close()


async def test_steps_of_users_at_their_caps_take_five_round_trips_each(
    store: PostgresStore, round_trips: list[str]
) -> None:
    # Leases; freed slots with their counts; the next counts; the ready runs; the COMMIT.
    await store.declare_lanes([Lane("main", limit=4, per_user=2)])
    sessions = [(user, f"{user}/{nth}") for user in ("ann", "bob") for nth in range(3)]
    for nth in range(90):
        await store.submit([new_run(f"{session}-{nth:02}", user=user, session=session) for user, session in sessions])
    hand = await Hand(store).register()
    claimed, counts = await hand.claim(4), list[int]()
    for _ in range(120):
        round_trips.clear()
        claimed = (await hand.succeed(*claimed, room=4)).claimed
        counts.append(len(round_trips))
    assert len(claimed) == 4
    assert max(counts[5:]) == 5


async def test_a_plain_submission_takes_two_round_trips_and_one_more_to_wake_somebody(
    store: PostgresStore, round_trips: list[str]
) -> None:
    await store.submit([new_run("a")])
    round_trips.clear()
    await store.submit([new_run("b")])
    assert len(round_trips) == 2

    hand = await Hand(store).register()
    await hand.claim(10)
    await hand.rest(10)
    round_trips.clear()
    await store.submit([new_run("c")])
    assert len(round_trips) == 3


async def _lending(store: PostgresStore, room: int) -> Hand:
    """Return a worker that has claimed before, and now lets others claim ahead for it."""
    await store.submit([new_run("before")])
    hand = await Hand(store).register()
    await hand.succeed(*await hand.claim(room))
    await hand.offer_step(room)
    return hand


async def test_a_step_that_is_done_for_a_worker_takes_one_round_trip_more_than_to_wake_it(
    store: PostgresStore, round_trips: list[str]
) -> None:
    hand = await _lending(store, room=1)
    round_trips.clear()
    await store.submit([new_run("a")])

    assert len(round_trips) == 4
    assert (await store.get("a")).state is RunState.RUNNING
    [claimed] = await hand.claim()
    assert claimed.id == "a"
    assert await store.check() == []
    await hand.succeed(claimed)
    assert await store.check() == []


async def test_a_step_that_is_done_for_a_worker_knows_all_that_its_transaction_has_written(
    store: PostgresStore,
) -> None:
    busy = await Hand(store, "busy").register()
    await store.submit(new_runs(4, "b", user="ann"))
    claimed = await busy.claim(4)
    hand = await _lending(store, room=20)

    submissions = [store.submit([new_run(f"r{nth}", user="bob" if nth % 2 else None)]) for nth in range(8)]
    await asyncio.gather(*submissions, busy.succeed(*claimed), *(store.submit(new_runs(2, f"s{n}")) for n in "xy"))

    given = await hand.claim(20)
    given += (await hand.step(room=20)).claimed
    assert sorted(run.id for run in given) == sorted(
        [*(f"r{nth}" for nth in range(8)), *(run.id for n in "xy" for run in new_runs(2, f"s{n}"))]
    )
    await hand.succeed(*given)
    assert (await store.depths()).runs == {"succeeded": 17}
    assert await store.check() == []


# Answers


def _pending(db: PostgresDatabase) -> int:
    [[*_, pending, _paused, _priority, _v, _ready]] = db.execute(LANE, ("main",)).fetchall()
    return int(pending)


def test_an_answer_that_was_asked_ahead_is_used_once(db: PostgresDatabase, round_trips: list[str]) -> None:
    db.expect(Query(LANE, ("main",)), Query(LANE, ("main",)))

    assert [_pending(db), _pending(db)] == [0, 0]
    assert len(round_trips) == 2


@pytest.mark.parametrize("way", ["execute", "each", "insert"])
def test_what_was_asked_before_its_table_was_written_is_asked_again(db: PostgresDatabase, way: str) -> None:
    db.expect(Query(LANE, ("main",)))
    if way == "execute":
        db.execute("counts.set_runs", (0, 7, "main"))
    elif way == "each":
        db.each("counts.set_runs", [(0, 7, "main")])
    else:
        db.execute("counts.set_runs", (0, 7, "main"))
        db.expect(Query(LANE, ("main",)))
        db.insert("counts.set_pace", [("main", 0, 1, 1), ("main", 5, 1, 1)])
        assert len(db.execute(LANE, ("main",)).fetchall()) == 2
        return

    assert _pending(db) == 7


def test_a_statement_that_writes_behind_a_with_is_known_to_write(db: PostgresDatabase) -> None:
    db.insert("shelves.put_ready", [("main", rank, rank, 0) for rank in (1, 2)])
    db.expect(Query(LANE, ("main",)))
    db.execute("shelves.drop_ready", ("main", 1, 1))

    assert db._expected == {}


def test_what_is_written_elsewhere_leaves_an_answer_as_it_is(db: PostgresDatabase, round_trips: list[str]) -> None:
    db.expect(Query(LANE, ("main",)))
    db.execute("settlements.free", ("[1]",))
    db.each("counts.set_runs", [])

    assert _pending(db) == 0
    assert len(round_trips) == 1


def test_a_page_is_as_long_as_it_was_expected(db: PostgresDatabase) -> None:
    db.insert_uniform("submissions.insert_uniform", 1, 0, ("work", "main", 0), ["a", "b", "c"], ["1", "2", "3"])
    db.execute("submissions.ready_uniform", (1,))
    key = ("main", -(2**62), 0)

    db.expect(Query(READY, key, 2))
    rows, more = db.page(READY, key, 50)
    assert (len(rows), more) == (2, True)

    rows, more = db.page(READY, key, 50)
    assert (len(rows), more) == (3, False)


@pytest.mark.parametrize("ids", [["a"], ["b", "b"]])
def test_ids_that_were_looked_for_ahead_are_refused_before_anything_is_written(
    db: PostgresDatabase, ids: list[str]
) -> None:
    shared = ("work", "main", 0)
    db.insert_uniform("submissions.insert_uniform", 1, 0, shared, ["a"], ["{}"])
    db.expect(Query("acceptance.known", (as_json(ids),)))

    with pytest.raises(DuplicateError):
        db.insert_uniform("submissions.insert_uniform", 2, 1, shared, ids, ["{}"] * len(ids))

    assert db.execute("settlements.id", (2,)).fetchall() == []


def test_texts_say_which_tables_they_write() -> None:
    assert TEXTS["shelves.drop_ready"].writes == {"lane", "ready"}
    assert TEXTS["counts.set_pace"].writes >= {"pace"}
    assert TEXTS["transaction.header"].writes == frozenset()
