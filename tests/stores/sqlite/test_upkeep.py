"""Upkeep of a SQLite file: check, repair and backup."""

# ruff: noqa: ASYNC240 - a test's loop has nothing else to do while it looks at a file

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from laneway.core.records.states import RunState
from laneway.errors import NotAStore, StoreTooNew, StoreUnavailable
from laneway.ports.store import Store
from laneway.ports.upkeep import OldRuns
from laneway.stores.memory.store import MemoryStore
from laneway.stores.sqlite.backup import back_up
from laneway.stores.sqlite.store import SQLiteStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.sqlite.raw_file import edit
from tests.support.invariants import all_runs, check_drains, check_invariants

# Examining


async def test_what_cannot_be_examined_is_refused(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    with pytest.raises(StoreUnavailable, match="there is no file"):
        await store.examine()
    path.touch()
    with pytest.raises(NotAStore, match="is empty"):
        await store.examine()
    edit(path, "CREATE TABLE note (text)")
    with pytest.raises(NotAStore, match="another program"):
        await store.examine()
    path.write_text("dear diary, " * 1000, encoding="utf-8")
    with pytest.raises(NotAStore, match="not a SQLite database"):
        await store.examine()
    path.unlink()
    await store.open()
    await store.close()
    edit(path, "PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match="layout 99"):
        await store.examine()


async def test_an_examination_sees_instants_of_the_future_and_a_clock_that_was_set_back(
    store: SQLiteStore, clock: FakeClock
) -> None:
    await store.submit([new_run("a")])
    newest = clock.now()
    clock.step(-3600)
    await store.submit([new_run("b")])

    examination = await store.examine()

    assert examination.newest_at == newest
    assert examination.set_back == 3600 * 1_000_000


# Setting right


async def busy(store: Store) -> Hand:
    """Fill every shelf and every table of counts."""
    hand = await Hand(store).register()
    await store.submit(new_runs(4, "ann", lane="background", user="ann"))
    await store.submit(new_runs(4, "chat", session="chat", max_concurrent=2))
    await store.submit([new_run("unknown", task="other"), new_run("later", delay=60, session="chat")])
    running = await hand.claim(6)
    await hand.fail(running[0])
    await store.submit(new_runs(2, "bob", user="bob", priority=3))
    assert await store.check() == []
    return hand


COUNTS = [
    ("UPDATE lane SET active = active + 1", "lane main: active is"),
    ("UPDATE pace SET ready = 0", "priority 3: ready is 0"),
    ("DELETE FROM pace", "ready is 0"),
    ("UPDATE turn SET waiting = waiting + 5", "waiting is"),
    ("DELETE FROM turn", "bob in lane main, priority 3: waiting is 0, counted are 2"),
    ("UPDATE seat SET parked = 0, out = 0", "ann in lane background: parked is 0"),
    ("DELETE FROM seat", "ann in lane background: out is 0, counted are 101"),
    ("UPDATE session SET admitted = '[]'", "session chat: admitted is 0"),
    ("UPDATE session SET held = 9", "session chat: held is 9"),
    ("UPDATE session SET unstarted = 3", "session chat: unstarted is 1"),
    ("""UPDATE session SET rest = '{"outside":[1,2]}'""", "session chat: outside is 2"),
    ("DELETE FROM session", "session chat: admitted is 0"),
    ("UPDATE aside SET runs = 7", "task other in lane main: runs is 7"),
    ("DELETE FROM aside", "task other in lane main: runs is 0"),
]
PLACES = [
    ("DELETE FROM ready", "it is pending, but in no place"),
    ("DELETE FROM due", "run later: it is pending, but in no place"),
    ("DELETE FROM held", "it is pending, but in no place"),
    ("DELETE FROM parked", "it is pending, but in no place"),
    ("INSERT INTO due (rank, number, kind) SELECT 5, number, 0 FROM ready", "it is in several places"),
    ("INSERT INTO due (rank, number, kind) SELECT 5, number, 0 FROM lease", "it is in several places"),
    ("INSERT INTO ready VALUES ('main', 5, 99, 0)", "run number 99: a place is taken for it"),
    ("DELETE FROM worker", "worker hand: it holds leases, but is not known"),
    ("INSERT INTO event VALUES (99, 1, '[]')", "run number 99: there are results or events of it, but no run"),
    ("UPDATE outcome SET events = 9", "its events are more or fewer than counted"),
]


@pytest.mark.parametrize(("statement", "said"), COUNTS + PLACES, ids=lambda part: part)
async def test_what_does_not_agree_is_found_and_set_right(
    path: Path, store: SQLiteStore, clock: FakeClock, statement: str, said: str
) -> None:
    await busy(store)
    edit(path, statement)

    found = await store.check()
    repaired = await store.check(repair=True)

    assert any(said in f"{finding.what}: {finding.wrong}" for finding in found), found
    assert repaired == found
    assert await store.check() == []
    assert (await store.examine()).findings == []
    await check_drains(store, clock)


async def test_a_run_that_has_ended_is_not_executed_again(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    await hand.succeed(*await hand.claim())
    edit(path, "INSERT INTO ready VALUES ('main', 1, 1, 0)", "UPDATE pace SET ready = 1")

    [undead, *_] = await store.check(repair=True)

    assert (undead.what, undead.wrong) == ("run a", "it has ended, but is still to be executed")
    assert await store.check() == []
    assert await hand.claim() == []


async def test_a_repair_wakes_who_rests_for_what_can_start_now(path: Path, store: SQLiteStore) -> None:
    hand = await Hand(store).register()
    edit(path, "UPDATE lane SET active = 30")
    await hand.rest()
    await store.submit([new_run("a")])
    assert (await hand.rest()).claimed == []

    await store.check(repair=True)

    assert await hand.hears()
    assert [run.id for run in await hand.claim()] == ["a"]


async def test_a_repair_lets_go_on_what_a_wrong_count_held_back(path: Path, store: SQLiteStore) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(3, "ann", lane="background", user="ann"))
    await store.submit(new_runs(3, "chat", session="chat"))
    await hand.succeed(*await hand.claim(6))
    await hand.succeed(*await hand.claim(6))
    edit(path, "UPDATE session SET admitted = '[9]', unstarted = 9", "UPDATE seat SET active = 1, out = 0")
    edit(path, "DELETE FROM ready", "UPDATE pace SET ready = 0", "DELETE FROM parked", "DELETE FROM turn")

    await store.check(repair=True)

    assert sorted(run.id for run in await hand.claim(6)) == ["ann-00002", "chat-00002"]


async def test_memory_sets_its_counts_right_too(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    await busy(store)
    book = store._lanes["background"]
    store._lanes["main"].active += 2
    book.seats["ann"].active, book.seats["ann"].parked, book.paces[0].ready = 0, 0, 9
    book.turns.clear()
    store._state.sessions["chat"].admitted = []

    found = await store.check(repair=True)

    assert {finding.what for finding in found} >= {"lane main", "ann in lane background", "session chat"}
    assert await store.check() == []
    await check_drains(store, clock)


# Backing up


async def test_a_backup_is_a_store_with_everything_in_it(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    await busy(store)
    target = path.with_name("backup.db")

    size = await asyncio.to_thread(back_up, path, target)

    assert size == target.stat().st_size
    assert sorted(item.name for item in path.parent.iterdir() if "backup" in item.name) == ["backup.db"]
    copy = SQLiteStore(target, clock)
    assert await all_runs(copy) == await all_runs(store)
    await check_invariants(copy)
    await check_drains(copy, clock)
    await copy.close()
    assert (await store.depths()).runs["running"] > 0


async def test_a_backup_under_load_holds_every_run_accepted_before_it_and_holds_nobody_up(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    await store.submit(new_runs(2000, "before"))
    target, going = path.with_name("backup.db"), True

    async def load() -> int:
        batches = 0
        while going:
            await store.submit(new_runs(20, f"during-{batches:04d}"))
            batches += 1
        return batches

    loading = asyncio.create_task(load())
    await asyncio.to_thread(back_up, path, target)
    going = False
    batches = await loading

    assert batches > 0
    copy = SQLiteStore(target, clock)
    ids = {run.id for run in await all_runs(copy)}
    assert ids >= {run.id for run in new_runs(2000, "before")}
    assert len(ids) % 20 == 0  # batches are in it whole or not at all
    await check_invariants(copy, logs=False)
    await copy.close()


async def test_a_backup_never_overwrites(path: Path, store: SQLiteStore) -> None:
    target = path.with_name("precious.txt")
    target.write_text("mine", encoding="utf-8")

    with pytest.raises(FileExistsError):
        back_up(path, target)
    with pytest.raises(FileExistsError):
        back_up(path, path)

    assert target.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("what", ["missing/backup.db", "."])
async def test_a_backup_that_cannot_be_written_says_so(path: Path, store: SQLiteStore, what: str) -> None:
    with pytest.raises((StoreUnavailable, FileExistsError)):
        back_up(path, path.parent / what)


async def test_a_damaged_store_gives_no_backup(path: Path, store: SQLiteStore) -> None:
    await store.submit(new_runs(2000, "r"))
    await store.close()
    with path.open("r+b") as file:
        file.seek(4096 * 20)
        file.write(b"\xa5" * 4096 * 10)
    target = path.with_name("backup.db")

    with pytest.raises(StoreUnavailable, match="damaged"):
        back_up(path, target)

    assert sorted(item.name for item in path.parent.iterdir() if "backup" in item.name) == []


async def test_pruned_runs_leave_room_that_is_used_again(path: Path, store: SQLiteStore, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    sizes: list[int] = []
    for batch in range(6):
        await store.submit(new_runs(30, f"b{batch}", args={"text": "x" * 20_000}))
        await hand.succeed(*await hand.claim(30), value="y" * 20_000)
        await clock.advance(10)
        hand.renew()
        await store.prune(OldRuns({RunState.SUCCEEDED: 0}))
        with closing(sqlite3.connect(path)) as db:
            sizes += db.execute("PRAGMA page_count").fetchone()

    assert sizes[-1] < 1.2 * sizes[0]
