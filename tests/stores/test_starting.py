"""A run that is started at once leaves what the step that is done for its worker would, and no other is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from laneway.core.outcome import Succeeded
from laneway.core.policy import Lane
from laneway.core.run import NewRun
from laneway.core.step import Result, Step, StepReply, has_lent
from laneway.ports.gates import Held
from laneway.stores.sqlite.connection import Place, connect
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.tables import liveness, plain, ruling
from laneway.stores.tables.effects import Effects, Woken
from laneway.stores.tables.lending import lend
from laneway.stores.tables.starting import taker
from laneway.stores.tables.stepping import take_step
from laneway.stores.tables.submitting import submit
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.test_sqlite_plain import tables

Change = Callable[[SQLiteDatabase], object]
# They talk to no store.
HANDS = [
    Hand(None, "one", tasks=("work",)),  # type: ignore[arg-type]
    Hand(None, "two", tasks=("work", "strange")),  # type: ignore[arg-type]
]


@pytest.fixture
def other(tmp_path: Path, clock: FakeClock) -> Iterator[SQLiteDatabase]:
    with closing(connect(Place(tmp_path / "other.db", 1.0))) as db:
        yield SQLiteDatabase(db, clock.now)


def effects() -> Effects:
    effects = Effects()
    effects.is_there = lambda _: True
    return effects


def submitted(db: SQLiteDatabase, batch: list[NewRun]) -> tuple[object, list[Woken]]:
    """Submit as a writer does; return the receipts and whom to wake."""
    given, lent = effects(), effects()
    receipts = submit(db, given, batch, db.now())
    lend(db, lent, [given])
    return receipts, [*given.wake, *lent.wake]


def stepped(db: SQLiteDatabase, step: Step) -> StepReply:
    return take_step(db, effects(), step, db.now())


def registered(db: SQLiteDatabase) -> None:
    for hand in HANDS:
        liveness.register(db, hand.incarnation, None, db.now())


@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_is_started_at_once_leaves_what_a_step_would(
    database: SQLiteDatabase, other: SQLiteDatabase, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance, straight = random.Random(seed), list[bool]()

    def counted(*args: Any) -> object:
        found = taker(*args)
        straight.append(found is not None)
        return found

    def both(change: Change) -> Any:
        monkeypatch.setattr(plain, "taker", counted)
        answer = change(database)
        monkeypatch.setattr(plain, "taker", lambda *_: None)
        assert change(other) == answer
        assert tables(database) == tables(other)
        return answer

    both(registered)
    both(lambda db: ruling.set_lane(db, effects(), Lane("main", limit=3), db.now()))
    last, lending = {hand.name: Step(hand.name, 0) for hand in HANDS}, set[str]()
    held = dict[str, list[Result]]()
    for nth in range(200):
        if chance.random() < 0.7:
            hand, room = chance.choice(HANDS), chance.choice([0, 1, 4, 4, 9])
            name = hand.name
            # As a worker: nothing is said in a step that was lent.
            results = [] if name in lending else held.pop(name, [])
            step = Step(
                name, last[name].call + 1, results, room=room, park=room > 0, lends=room > 0 and name not in held
            )
            reply: StepReply = both(lambda db, step=step: stepped(db, step))  # type: ignore[misc]
            last[name] = step
            lending = lending | {name} if has_lent(step, reply) else lending - {name}
            if reply.claimed:
                held[name] = [hand.result(run, Succeeded("null")) for run in reply.claimed]
        else:
            fields = {
                "user": chance.choice([None, None, None, "ann"]),
                "priority": chance.choice([0, 0, 0, 5]),
                "lane": chance.choice(["main", "main", "main", "cron"]),
                "task": chance.choice([*["work"] * 9, "strange"]),
                "delay": chance.choice([0, 0, 0, 0, 0, 30]),
            }
            batch = new_runs(chance.choice([1, 1, 1, 1, 2]), f"r{nth}", **fields)  # type: ignore[arg-type]
            both(lambda db, batch=batch: submitted(db, batch))  # type: ignore[misc]

    assert straight.count(True) > 3
    assert straight.count(False) > 3


def at_rest(db: SQLiteDatabase, room: int = 2) -> None:
    registered(db)
    stepped(db, Step("one", 1, room=room, park=True, lends=True))


def test_a_plain_run_that_comes_alone_is_started_at_once(database: SQLiteDatabase) -> None:
    at_rest(database)

    _, [woken] = submitted(database, [new_run("a")])

    assert woken.answer is not None
    assert [run.id for run in woken.answer.reply.claimed] == ["a"]
    assert tables(database)["ready"] == []


def limited(db: SQLiteDatabase) -> None:
    ruling.set_lane(db, effects(), Lane("main", limit=3, worker_limit=1), db.now())


def strange(db: SQLiteDatabase) -> None:
    submit(db, Effects(), [new_run("strange", task="strange")], db.now())


def elsewhere(db: SQLiteDatabase) -> None:
    submit(db, Effects(), [new_run("elsewhere", lane="cron")], db.now())


def paused(db: SQLiteDatabase) -> None:
    ruling.hold(db, effects(), Held.LANE, "main", db.now(), held=True)


def paused_task(db: SQLiteDatabase) -> None:
    ruling.hold(db, effects(), Held.TASK, "other", db.now(), held=True)


@pytest.mark.parametrize("change", [limited, strange, elsewhere, paused, paused_task])
def test_what_could_be_kept_from_starting_is_not_started_at_once(database: SQLiteDatabase, change: Change) -> None:
    at_rest(database)
    change(database)

    assert taker(database, effects(), "main", "work", database.now()) is None


def test_nobody_takes_a_run_at_once_of_a_task_that_it_does_not_know(database: SQLiteDatabase) -> None:
    at_rest(database)

    assert taker(database, effects(), "main", "strange", database.now()) is None


def test_nobody_takes_a_run_at_once_that_is_not_there_or_has_no_room_for_more(database: SQLiteDatabase) -> None:
    at_rest(database, room=1)
    assert taker(database, effects(), "main", "work", database.now()) is None
    stepped(database, Step("one", 2, room=2, park=True, lends=True))

    assert taker(database, effects(), "main", "work", database.now()) is not None
    assert taker(database, Effects(), "main", "work", database.now()) is None
