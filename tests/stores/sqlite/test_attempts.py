"""Memos, waits and links between runs on SQLite: older files, the rows in the tables, crashes and cost."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from laneway.core.lifecycle.outcome import Failed, Succeeded, settle
from laneway.core.lifecycle.step import Result, Step
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.run import Claimed, RunFilter, RunLinks
from laneway.core.records.states import TERMINAL, RunState
from laneway.errors import NotWaiting
from laneway.ports.control import Answer, Cancel
from laneway.ports.upkeep import OldRuns
from laneway.stores.sqlite.database import TEXTS, SQLiteDatabase
from laneway.stores.sqlite.store import SQLiteStore
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.verbs import steps, submissions, workers
from laneway.testing import FakeClock, Hand, new_run, new_runs
from laneway.testing.hand import error
from laneway.testing.waits import step_memo, waits
from tests.stores.sqlite.old_layouts import as_layout
from tests.stores.sqlite.raw_file import edit, rows
from tests.stores.sqlite.tracing import traced
from tests.support.child_runs import child_of, follow_up
from tests.support.invariants import check_drains, check_invariants

INCARNATION = Hand(None, "hand").incarnation  # type: ignore[arg-type]  # it talks to no store


async def asking(store: SQLiteStore, hand: Hand, run_id: str = "a", session: str | None = "chat") -> Claimed:
    """Let a run ask a question; return it as it was claimed."""
    await store.submit([new_run(run_id, session=session)])
    [run] = await hand.claim()
    await hand.wait(run, "ok")
    return run


# Older files


async def test_runs_of_the_fifth_layout_go_on_and_may_ask_and_call(path: Path, clock: FakeClock) -> None:
    newest = path.with_name("newest.db")
    old = SQLiteStore(newest, clock)
    hand = await Hand(old).register()
    await old.submit([new_run("running"), new_run("queued", session="chat"), new_run("later", delay=60)])
    [running] = await hand.claim()
    await old.close()
    as_layout(5, newest, path)
    assert rows(path, "PRAGMA user_version") == [(5,)]
    store = SQLiteStore(path, clock)
    await store.open()
    hand.store = store

    await hand.wait(running, "ok", child_of(running))
    [queued, child] = await hand.claim(2)
    await hand.succeed(child, value=7)
    await hand.wait(queued, "name")
    await store.change_run("call", "queued", Answer('"ann"'))

    assert (await store.get("running")).state is RunState.PENDING
    assert [memo.value for memo in (await store.recall("running")).memos] == ["7"]
    assert [memo.value for memo in (await store.recall("queued")).memos] == ['"ann"']
    await check_invariants(store)
    await check_drains(store, clock)
    await store.close()


# The rows in the tables


async def test_a_run_that_keeps_nothing_leaves_no_row_and_no_ties(store: SQLiteStore, path: Path) -> None:
    hand = await Hand(store).register()
    await store.submit([*new_runs(5, "plain"), new_run("chat", session="chat")])

    await hand.succeed(*await hand.claim(6))

    assert rows(path, "SELECT * FROM memo UNION ALL SELECT *, 1 FROM wait") == []
    assert rows(path, "SELECT count(*) FROM run WHERE ties IS NULL") == [(6,)]


async def test_only_a_run_that_waits_has_a_deadline_and_a_session_that_is_asked_something_a_note_of_it(
    store: SQLiteStore, path: Path
) -> None:
    hand = await Hand(store).register()
    await asking(store, hand)
    until = rows(path, "SELECT until IS NOT NULL FROM wait") + rows(path, "SELECT rest ->> '$.asking' FROM session")

    await store.change_run("call", "a", Answer("1"))

    assert until == [(1,), ("[1]",)]
    assert rows(path, "SELECT until, request FROM wait") == [(None, None)]
    assert rows(path, "SELECT rest ->> '$.asking' FROM session") == [(None,)]


async def test_the_deadline_of_a_run_that_ends_goes_with_it(store: SQLiteStore, path: Path) -> None:
    hand = await Hand(store).register()
    await asking(store, hand)

    await store.change_run("call", "a", Cancel())

    assert rows(path, "SELECT until FROM wait") == [(None,)]
    assert (await hand.rest()).due_in is None


async def test_a_memo_that_takes_the_place_of_another_is_the_last_written(store: SQLiteStore, path: Path) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    [run] = await hand.claim()

    await hand.keep(run, step_memo("first", 1), step_memo("second", 2), step_memo("first", 3))

    assert rows(path, "SELECT name, body ->> '$.value' FROM memo ORDER BY id") == [("second", "2"), ("first", "3")]


async def test_memos_and_waits_are_pruned_with_their_run(store: SQLiteStore, path: Path, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await asking(store, hand)
    await store.change_run("call", "a", Cancel())
    await store.submit([new_run("b")])
    [run] = await hand.claim()
    await hand.keep(run, step_memo("paid"))
    await hand.succeed(run)
    await clock.advance(60)

    assert await store.prune(OldRuns(dict.fromkeys(TERMINAL, 1))) == 2

    assert rows(path, "SELECT number FROM memo UNION ALL SELECT number FROM wait") == []
    assert await store.check() == []


async def test_a_session_that_is_only_named_is_found_by_people_and_takes_no_place(
    store: SQLiteStore, path: Path
) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("parent", session="chat")])
    [parent] = await hand.claim()
    await hand.wait(parent, child_of(parent))
    [child] = await hand.claim()

    found = await store.runs(RunFilter(session="chat"), limit=10)

    assert [(run.id, run.session) for run in found] == [(child.id, "chat"), ("parent", "chat")]
    assert rows(path, "SELECT session FROM run ORDER BY number") == [("chat",), (None,)]
    assert rows(path, "SELECT admitted FROM session") == [("[1]",)]


# Findings of a check

WRONG = [
    ("DELETE FROM wait", "run a: it waits, but for nothing"),
    ("UPDATE wait SET until = 5 WHERE number = 2", "run b: it does not wait, but has a question"),
    ("UPDATE session SET rest = NULL", "session chat: asking is 0, counted are 1"),
    ("INSERT INTO memo VALUES (9, 99, 'step', 'x', '{}')", "run number 99: there are results"),
    ("INSERT INTO wait VALUES (99, NULL, NULL, '{}')", "run number 99: there are results"),
]


@pytest.mark.parametrize(("statement", "said"), WRONG, ids=lambda part: part)
async def test_what_does_not_agree_about_waiting_is_found_and_set_right(
    path: Path, store: SQLiteStore, clock: FakeClock, statement: str, said: str
) -> None:
    hand = await Hand(store).register()
    await asking(store, hand)
    await asking(store, hand, "b", None)
    await store.change_run("call", "b", Answer("1"))
    assert await store.check() == []
    edit(path, statement)

    found = await store.check()
    repaired = await store.check(repair=True)

    assert any(said in f"{finding.what}: {finding.wrong}" for finding in found), found
    assert repaired == found
    assert await store.check() == []
    await check_drains(store, clock)


# Crashes: a trigger makes SQLite give up at a point in the middle of the transaction

POINTS = [
    "INSERT ON run",
    "INSERT ON memo",
    "INSERT ON wait",
    "INSERT ON event",
    "INSERT ON outcome",
    "DELETE ON lease",
]


@contextmanager
def giving_up(path: Path, point: str) -> Iterator[None]:
    edit(path, f"CREATE TRIGGER crash AFTER {point} BEGIN SELECT RAISE(ABORT, 'here'); END")
    yield
    edit(path, "DROP TRIGGER crash")


async def everything(store: SQLiteStore) -> list[object]:
    found = await store.runs(RunFilter(), limit=100)
    return [(run, await store.recall(run.id), await store.events(run.id)) for run in found]


@pytest.mark.parametrize("point", POINTS)
async def test_a_step_that_fails_half_way_leaves_nothing_and_its_repeat_everything_once(
    path: Path, store: SQLiteStore, clock: FakeClock, point: str
) -> None:
    """One step in which a called run returns, a run asks and calls, and one succeeds with follow-ups."""
    hand = await Hand(store).register()
    then = RunLinks(then=(new_run("then"),))
    await store.submit([new_run("caller"), new_run("asks", session="chat"), new_run("leaves", ties=then)])
    caller, asks, leaves = await hand.claim(3)
    await hand.wait(caller, child_of(caller))
    [child] = await hand.claim()
    before = await everything(store)
    results = [
        hand.result(child, Succeeded("7")),
        hand.result(asks, waits("ok", child_of(asks))),
        hand.result(leaves, Succeeded("1", (follow_up(leaves),))),
    ]

    with giving_up(path, point), pytest.raises(sqlite3.Error, match="here"):
        await hand.step(results=results)
    halfway = await everything(store)
    await hand.repeat_last()
    done = await everything(store)
    await hand.repeat_last()

    assert halfway == before
    assert await everything(store) == done
    assert len(done) == 4 + 3  # the called run, the held ones, and the follow-ups
    assert [memo.value for memo in (await store.recall("caller")).memos] == ["7"]
    await check_invariants(store)
    await check_drains(store, clock)


@pytest.mark.parametrize("point", ["INSERT ON memo", "INSERT ON event", "UPDATE ON outcome", "UPDATE ON wait"])
async def test_an_answer_that_fails_half_way_leaves_the_run_waiting(path: Path, store: SQLiteStore, point: str) -> None:
    hand = await Hand(store).register()
    await asking(store, hand)
    before = await everything(store)

    with giving_up(path, point), pytest.raises(sqlite3.Error, match="here"):
        await store.change_run("call", "a", Answer("1"))
    halfway = await everything(store)
    await store.change_run("call", "a", Answer("1"))

    assert halfway == before
    assert (await store.get("a")).state is RunState.PENDING
    await check_invariants(store)


async def test_what_ends_unanswered_before_a_submission_stays_so_when_that_is_done_again(
    store: SQLiteStore, clock: FakeClock
) -> None:
    hand = await Hand(store).register()
    await asking(store, hand)
    await store.submit([new_run("known")])
    await clock.advance(60)

    # A known id behind a new one: the batch is undone and done again.
    receipts = await store.submit([new_run("new"), new_run("known"), new_run("next", session="chat")])

    assert [receipt.run_id for receipt in receipts] == ["new", "known", "next"]
    ended = await store.get("a")
    assert (ended.state, ended.reason) == (RunState.CANCELLED, "unanswered")
    assert [event.kind for event in await store.events("a")].count("done") == 1
    await check_invariants(store)
    await check_drains(store, clock)


async def test_a_late_answer_ends_the_run_also_in_the_file(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await asking(store, hand)
    await clock.advance(60)

    with pytest.raises(NotWaiting):
        await store.change_run("call", "a", Answer("1"))

    assert rows(path, "SELECT state, reason FROM outcome") == [("cancelled", "unanswered")]
    await check_invariants(store)


async def test_results_of_one_step_see_what_the_ones_before_them_brought(store: SQLiteStore, clock: FakeClock) -> None:
    """The caller ends before the run it called, and its message to others, are settled by the same worker."""
    hand = await Hand(store).register()
    await store.submit([new_run("caller")])
    [caller] = await hand.claim()
    await hand.wait(caller, "ok", child_of(caller))
    [child] = await hand.claim()
    await store.change_run("call", "caller", Answer("1"))
    [caller] = await hand.claim()

    reply = await hand.step(
        results=[hand.result(caller, Failed(error(kind="gave_up"))), hand.result(child, Succeeded("7"))], room=5
    )

    assert reply.refused == []
    assert (await store.get(child.id)).state is RunState.CANCELLED
    await check_invariants(store)
    await check_drains(store, clock)


# Cost


def test_runs_that_keep_nothing_ask_and_write_nothing_about_memos_and_waits(
    db: sqlite3.Connection,
    database: SQLiteDatabase,
) -> None:
    workers.register(database, INCARNATION, None, 1)
    after_commit, policy = AfterCommit(), TaskPolicy()

    with traced(db) as texts:
        submissions.submit(database, after_commit, [*new_runs(20, "r"), new_run("s", session="s")], 1)
        reply = steps.take_step(database, after_commit, Step("hand", 1, room=100), 1)
        results = [Result(run.number, run.fence, settle(run, Succeeded("1"), policy)) for run in reply.claimed]
        steps.take_step(database, after_commit, Step("hand", 2, results, room=100), 1)

    assert not [
        text for text in texts if re.match(r"(INSERT INTO|UPDATE|DELETE FROM|SELECT body FROM) (memo|wait)\b", text)
    ]


def test_a_follow_up_that_nobody_waits_for_ends_as_cheaply_as_any_run(
    db: sqlite3.Connection, database: SQLiteDatabase
) -> None:
    workers.register(database, INCARNATION, None, 1)
    policy = TaskPolicy()
    asked = []
    for call, ties in ((1, None), (3, RunLinks(parent="p", depth=1, trace={"id": "x"}))):
        submissions.submit(database, AfterCommit(), [new_run(f"{call}-{n}", ties=ties) for n in range(20)], 1)
        reply = steps.take_step(database, AfterCommit(), Step("hand", call, room=100), 1)
        results = [Result(run.number, run.fence, settle(run, Succeeded("1"), policy)) for run in reply.claimed]
        with traced(db) as texts:
            steps.take_step(database, AfterCommit(), Step("hand", call + 1, results, room=100), 1)
        asked.append(len(texts))

    assert asked[0] == asked[1]


def test_who_is_late_is_found_without_reading_who_is_not(db: sqlite3.Connection) -> None:
    [step] = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {TEXTS['waits.late']}", (1, 1))]

    assert step == "SEARCH wait USING COVERING INDEX wait_until (until<?)"
