"""Runs that were submitted together lie bound in one row of a SQLite file, and nobody can tell."""

# ruff: noqa: ASYNC220 - a test's loop has nothing else to do while another process is killed

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.policy import Lane
from laneway.core.run import Alike, Receipt, RunFilter
from laneway.core.step import Step
from laneway.stores.sqlite import SQLiteStore, examining, sheaves, syncing, writer
from laneway.stores.sqlite.backup import back_up
from laneway.stores.sqlite.connection import Place, connect
from laneway.stores.sqlite.database import SQLiteDatabase
from laneway.stores.sqlite.sheaves import BindingDatabase, Sheaves, unbind_all
from laneway.stores.tables import liveness, ruling, stepping, submitting
from laneway.stores.tables.effects import Effects
from laneway.testing import FakeClock, Hand, new_run
from tests.engine.support import until
from tests.stores.behind import locked
from tests.stores.slow_disks import at_rest, real_sync
from tests.stores.test_sqlite_plain import INCARNATION, tables
from tests.support.invariants import check_invariants

pytestmark = pytest.mark.usefixtures("patient")

ALL = RunFilter()


@pytest.fixture
def awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be unbound only because nobody asks for anything."""
    monkeypatch.setattr(writer, "_LULL", 60.0)


def alike(count: int, prefix: str = "r", args: Callable[[int], str] = '{{"number":{}}}'.format) -> Alike:
    ids = [f"{prefix}-{number:04d}" for number in range(count)]
    return Alike("work", "main", ids, [args(number) for number in range(count)])


def bound(path: Path) -> tuple[int, int]:
    """Return how many runs lie in the file bound, and as rows of their own."""
    with closing(sqlite3.connect(path)) as db:
        [row] = db.execute("SELECT (SELECT coalesce(sum(runs), 0) FROM sheaf), (SELECT count(*) FROM run)")
    return row[0], row[1]


async def claimed(store: SQLiteStore, room: int = 1000) -> list[str]:
    await store.set_lane(Lane("main", limit=room))
    hand = await Hand(store).register()
    return [run.id for run in await hand.claim(room)]


# What is bound


@pytest.mark.usefixtures("awake")
async def test_runs_that_come_together_are_bound_on_their_callers_loop_and_are_there_for_whoever_asks(
    path: Path, store: SQLiteStore, doers: list[threading.Thread]
) -> None:
    await at_rest(store)
    batch = alike(20)
    receipts = await store.submit(batch)

    assert bound(path) == (20, 0)
    assert doers == [threading.current_thread()]
    assert receipts[:2] == [Receipt("accepted", "r-0000"), Receipt("accepted", "r-0001", None, 1)]  # type: ignore[arg-type]

    run = await store.get("r-0007")
    assert (run.number, run.state.value, run.task, run.lane, run.args["number"]) == (8, "pending", "work", "main", 7)
    assert bound(path) == (0, 20)
    await check_invariants(store, logs=False)


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.count(),
        lambda store: store.runs(ALL, limit=100),
        lambda store: store.lanes(),
        lambda store: store.depths(),
        lambda store: store.why("r-0003"),
        lambda store: store.events("r-0003"),
        lambda store: store.cancel("call", "r-0003"),
        lambda store: store.set_lane(Lane("main", limit=3)),
        lambda store: store.submit([new_run("s", session="s")]),
        lambda store: store.submit([new_run("d", delay=5)]),
        lambda store: store.submit(alike(300, "s")),
        claimed,
    ],
    ids=["count", "runs", "lanes", "depths", "why", "events", "cancel", "rule", "session", "later", "many", "claim"],
)
@pytest.mark.usefixtures("awake")
async def test_whoever_does_anything_else_finds_them_unbound(
    path: Path, store: SQLiteStore, clock: FakeClock, ask: Callable[[SQLiteStore], Any]
) -> None:
    # As another process, too: it knows of nothing but the file.
    other = SQLiteStore(path, clock)
    await other.open()
    for nth, asked in enumerate((store, other)):
        batch = alike(20, "r" if nth == 0 else "t")
        await store.submit(batch)
        if nth == 0 and ask is not claimed:  # once there is a claim, its worker is known
            assert bound(path)[0] == 20
        await ask(asked)
        assert bound(path)[0] == 0
        assert {run.id for run in await asked.runs(ALL, limit=1000)} >= set(batch.ids)
        await check_invariants(asked, logs=False)
    await other.close()


@pytest.mark.usefixtures("awake")
async def test_they_are_claimed_in_the_order_in_which_they_came(store: SQLiteStore) -> None:
    before = await store.submit([new_run("a")])
    batches = [alike(count, f"b{nth}") for nth, count in enumerate((20, 1, 9))]
    for batch in batches:
        await store.submit(batch)
    wanted = [before[0].run_id, *(run_id for batch in batches for run_id in batch.ids)]
    assert await claimed(store) == wanted


@pytest.mark.usefixtures("awake")
async def test_while_a_worker_rests_nothing_is_bound_and_it_is_woken(path: Path, store: SQLiteStore) -> None:
    hand = await Hand(store).register()
    await hand.rest()
    await store.submit(alike(20))
    assert bound(path) == (0, 20)
    assert await hand.hears()


@pytest.mark.usefixtures("awake")
async def test_few_are_bound_only_beside_others(path: Path, store: SQLiteStore) -> None:
    await store.submit([new_run("a")])
    await store.submit(alike(sheaves.TOGETHER - 1, "b"))
    assert bound(path)[0] == 0
    await store.submit(alike(sheaves.TOGETHER, "c"))
    await store.submit([new_run("d", user="ann", priority=5)])
    assert bound(path) == (sheaves.TOGETHER + 1, sheaves.TOGETHER)
    await check_invariants(store, logs=False)
    assert (await store.get("d")).user == "ann"


@pytest.mark.usefixtures("awake")
async def test_no_more_are_bound_than_are_soon_unbound_and_that_is_not_done_on_a_loop(
    path: Path, store: SQLiteStore, doers: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sheaves, "MOST", 25)
    await at_rest(store)
    await store.submit(alike(20, "a"))
    await at_rest(store)
    await store.submit(alike(20, "b"))

    assert bound(path) == (0, 40)
    loop = threading.current_thread()
    assert [doer is loop for doer in doers] == [True, True, False]  # begun on the loop, then left to the thread
    await check_invariants(store, logs=False)


@pytest.mark.usefixtures("awake")
async def test_a_submission_that_is_refused_unbinds_off_the_loop(path: Path, store: SQLiteStore) -> None:
    await store.disable("mail", disabled=True)
    await store.submit(alike(20))
    [receipt] = await store.submit([new_run("a", task="mail")])
    assert (receipt.outcome, receipt.reason) == ("refused", "task_disabled")
    assert bound(path) == (0, 20)


async def test_what_is_bound_is_unbound_when_nobody_asks_for_anything(path: Path, store: SQLiteStore) -> None:
    await store.submit(alike(20))
    await until(lambda: bound(path) == (0, 20))
    await check_invariants(store, logs=False)


async def test_nobody_waits_for_a_locked_file_only_to_unbind(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever came meanwhile would wait for that, and then for the lock.
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_LULL", 60.0)
        await store.submit(alike(20))
        await at_rest(store)
    with locked(path):
        store._presence.writer.nudge()
        looks = []
        for _ in range(100):
            looks.append(store._presence.writer.busy.locked())
            await asyncio.sleep(0.002)
        assert sum(looks) < 50
        assert bound(path)[0] == 20
    await until(lambda: bound(path) == (0, 20))
    await check_invariants(store, logs=False)


@pytest.mark.usefixtures("awake")
async def test_a_store_that_is_closed_leaves_nothing_bound(path: Path, clock: FakeClock) -> None:
    store = SQLiteStore(path, clock)
    await store.open()
    await store.submit(alike(20))
    assert bound(path)[0] == 20
    await store.close()
    assert bound(path) == (0, 20)


@pytest.mark.parametrize("patience", [0.1])
@pytest.mark.usefixtures("awake")
async def test_a_file_that_stays_locked_is_closed_as_it_is(path: Path, clock: FakeClock, patience: float) -> None:
    store = SQLiteStore(path, clock, busy_timeout=patience)
    await store.open()
    await store.submit(alike(20))
    with locked(path):
        await store.close()
    assert bound(path) == (20, 0)
    await store.open()
    assert await store.count() == {"pending": 20}
    await store.close()


@pytest.mark.usefixtures("awake")
async def test_what_another_process_bound_after_a_fork_is_found(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    await store.set_lane(Lane("main", limit=100))
    hand = await Hand(store).register()
    desk, other = store._presence.writer, SQLiteStore(path, clock)
    with desk.busy:
        desk.let_go()  # as before a fork
    await other.open()
    await other.submit(alike(20))
    assert bound(path)[0] == 20
    assert len(await hand.claim(100)) == 20
    await check_invariants(store, logs=False)
    await other.close()


# Ids


@pytest.mark.usefixtures("awake")
@pytest.mark.parametrize("again", [20, 5])
async def test_a_repeated_submission_is_answered_as_before(path: Path, store: SQLiteStore, again: int) -> None:
    batch = alike(20)
    receipts = await store.submit(batch)
    assert bound(path)[0] == 20

    repeated = await store.submit(batch[:again])
    assert [(each.outcome, each.run_id) for each in repeated] == [
        (each.outcome, each.run_id) for each in receipts[:again]
    ]
    assert await store.count() == {"pending": 20}
    await check_invariants(store, logs=False)


@pytest.mark.usefixtures("awake")
async def test_ids_between_those_that_are_bound_or_known_are_not_bound(path: Path, store: SQLiteStore) -> None:
    ids = [f"{number:04d}" for number in range(60)]
    args = ["1"] * 20
    await store.submit(Alike("work", "main", ids[0::3], args))
    await store.submit(Alike("work", "main", ids[1::3], args))
    assert bound(path) == (0, 40)
    await store.submit(Alike("work", "main", ids[2::3], args))
    assert bound(path) == (0, 60)
    await check_invariants(store, logs=False)


@pytest.mark.usefixtures("awake")
async def test_the_same_id_twice_in_a_batch_makes_one_run(path: Path, store: SQLiteStore) -> None:
    receipts = await store.submit(Alike("work", "main", ["a"] * 10, ["1"] * 10))
    assert {each.run_id for each in receipts} == {"a"}
    assert await store.count() == {"pending": 1}


@pytest.mark.usefixtures("awake")
async def test_two_processes_that_submit_at_once_lose_and_double_nothing(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    other = SQLiteStore(path, clock)
    await other.open()
    chance, ids = random.Random(3), set[str]()

    async def submit(store: SQLiteStore, name: str) -> None:
        for nth in range(30):
            batch = alike(chance.choice((1, 7, 8, 40)), f"{nth:02d}{name}")
            ids.update(batch.ids)
            await store.submit(batch)
            if chance.random() < 0.1:
                await store.count()

    await asyncio.gather(submit(store, "a"), submit(other, "b"))
    found = [run.id for run in await store.runs(ALL, limit=10_000)]
    assert len(found) == len(ids)
    assert set(found) == ids
    assert sorted(await claimed(other, 10_000)) == sorted(ids)
    await check_invariants(store, logs=False)
    await other.close()


@pytest.mark.usefixtures("awake")
async def test_a_process_of_an_older_laneway_takes_no_number_that_is_bound(path: Path, store: SQLiteStore) -> None:
    await store.submit([new_run("a")])
    await store.submit(alike(20, "b"))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        # It knows of `run` and `counter` alone.
        [[number]] = db.execute("SELECT max(accepted, (SELECT max(number) FROM run)) + 1 FROM counter").fetchall()
        columns = "number, id, task, lane, priority, accepted_at, due_at, rank, args"
        db.execute("BEGIN IMMEDIATE")
        db.execute(f"INSERT INTO run ({columns}) VALUES (?, 'old', 'work', 'main', 0, 0, 0, 99, '1')", (number,))
        db.execute("INSERT INTO ready VALUES ('main', 99, ?, 0)", (number,))
        db.execute("UPDATE lane SET pending = pending + 1 WHERE name = 'main'")
        db.execute("UPDATE pace SET ready = ready + 1 WHERE lane = 'main'")
        db.execute("UPDATE turn SET waiting = waiting + 1 WHERE lane = 'main'")
        db.execute("COMMIT")
    await store.submit(alike(20, "c"))
    assert bound(path)[0] == 40
    assert await store.count() == {"pending": 42}
    await store.submit([new_run("z")])
    numbers = [run.number for run in await store.runs(ALL, limit=100)]
    assert len(set(numbers)) == 43
    await check_invariants(store, logs=False)


@pytest.mark.usefixtures("awake")
async def test_numbers_go_on_where_they_were(store: SQLiteStore) -> None:
    await store.submit(alike(20))
    assert await store.count() == {"pending": 20}
    await store.submit([new_run("z")])
    assert (await store.get("z")).number == 21


# Arguments


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), min_size=9, max_size=12))
def test_arguments_come_back_as_they_were(
    empty_file: Path, tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = Path(shutil.copy(empty_file, tmp_path_factory.mktemp("sheaf") / "a.db"))
    batch = Alike(
        "work",
        "main",
        [f"{nth:02d}" for nth in range(len(texts))],
        [json.dumps(text, ensure_ascii=False) for text in texts],
    )
    with closing(connect(Place(path, 1.0))) as db:
        database = BindingDatabase(db, lambda: 1, Sheaves())
        submitting.submit(database, Effects(swift=True, short=True), batch, 1)
        unbind_all(database)
        assert [args for (args,) in db.execute("SELECT args FROM run ORDER BY number")] == list(batch.args)


@pytest.mark.usefixtures("awake")
async def test_a_line_break_is_kept_by_not_binding_it(path: Path, store: SQLiteStore) -> None:
    await store.submit(alike(20, args=lambda number: f'{{"number":\n{number}}}'))
    assert bound(path) == (0, 20)
    assert (await store.get("r-0007")).args == {"number": 7}


@pytest.mark.usefixtures("awake")
async def test_large_arguments_are_not_bound(path: Path, store: SQLiteStore) -> None:
    # Ten thousand of them would keep whoever looks next, and the file, for seconds.
    await store.submit(alike(20, "a", args=lambda _: "1" * sheaves.LARGE))
    assert bound(path) == (20, 0)
    await store.submit(alike(20, "b", args=lambda _: "1" * (sheaves.LARGE + 1)))
    assert bound(path) == (0, 40)
    await check_invariants(store, logs=False)


# Ends


async def test_what_was_killed_before_it_unbound_is_unbound_by_the_next(path: Path, clock: FakeClock) -> None:
    program = Path(__file__).with_name("sqlite_process.py")
    with subprocess.Popen([sys.executable, program, path, "bind"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "bound\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert bound(path) == (50, 0)

    store = SQLiteStore(path, clock)
    await store.open()
    assert bound(path) == (0, 50)
    assert len(await claimed(store)) == 50
    await check_invariants(store, logs=False)
    await store.close()


@pytest.mark.usefixtures("awake")
async def test_what_has_a_receipt_is_there_after_a_power_cut_though_it_was_bound(
    path: Path, store: SQLiteStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cut = tmp_path / "cut"
    cut.mkdir()

    def sync(descriptor: int) -> None:
        real_sync(descriptor)
        for name in (path.name, f"{path.name}-wal"):
            shutil.copy(path.with_name(name), cut / name)

    monkeypatch.setattr(syncing, "sync_file", sync)
    given = [receipt.run_id for nth in range(5) for receipt in await store.submit(alike(20, f"r{nth}"))]
    left = SQLiteStore(cut / path.name, clock)
    await left.open()
    assert {run.id for run in await left.runs(ALL, limit=1000)} == set(given)
    await check_invariants(left, logs=False)
    await left.close()


@pytest.mark.usefixtures("awake")
async def test_a_backup_has_what_was_bound(path: Path, store: SQLiteStore, clock: FakeClock, tmp_path: Path) -> None:
    await store.submit(alike(20))
    back_up(path, tmp_path / "backup.db")
    assert bound(tmp_path / "backup.db") == (20, 0)
    copy = SQLiteStore(tmp_path / "backup.db", clock)
    assert await copy.count() == {"pending": 20}
    await check_invariants(copy, logs=False)
    await copy.close()


@pytest.mark.usefixtures("awake")
async def test_who_examines_the_file_finds_all_runs_and_nothing_wrong(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    await store.submit(alike(20))
    examination = await SQLiteStore(path, clock).examine()
    assert (examination.runs, examination.findings, examination.damage) == ({"pending": 20}, [], [])
    assert await store.count() == {"pending": 20}


@pytest.mark.usefixtures("awake")
async def test_who_examines_the_file_while_others_bind_finds_nothing_wrong(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.submit(alike(20))
    loop, left = asyncio.get_running_loop(), 3

    def unbind_and_be_late(db: SQLiteDatabase) -> None:
        nonlocal left
        unbind_all(db)
        db.raw.execute("COMMIT")
        left -= 1
        if left:
            asyncio.run_coroutine_threadsafe(store.submit(alike(20, f"s{9 - left}")), loop).result(5)
        db.raw.execute("BEGIN")

    monkeypatch.setattr(examining, "unbind_all", unbind_and_be_late)
    examination = await store.examine()
    assert (examination.runs, examination.findings) == ({"pending": 60}, [])


@pytest.mark.parametrize("patience", [0.1])
@pytest.mark.usefixtures("awake")
async def test_who_examines_a_file_that_stays_locked_finds_nothing_wrong_with_what_is_bound(
    path: Path, store: SQLiteStore
) -> None:
    await store.submit(alike(20))
    with locked(path):
        examination = await store.examine()
    assert (examination.findings, examination.damage) == (None, [])


@pytest.mark.usefixtures("awake")
async def test_reads_while_others_bind_see_all_that_had_a_receipt(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    other = SQLiteStore(path, clock)
    await other.open()
    done = 0

    async def submit() -> None:
        nonlocal done
        for nth in range(100):
            await store.submit(alike(10, f"{nth:03d}"))
            done = nth + 1

    submitting_all = asyncio.create_task(submit())
    while not submitting_all.done():
        before = done
        assert (await other.count()).get("pending", 0) >= 10 * before
    await submitting_all
    assert await other.count() == {"pending": 1000}
    await check_invariants(other, logs=False)
    await other.close()


# The same as row by row


@pytest.fixture
def binding(db: sqlite3.Connection, clock: FakeClock) -> BindingDatabase:
    return BindingDatabase(db, clock.now, Sheaves())


@pytest.fixture
def straight(tmp_path: Path, clock: FakeClock) -> Iterator[SQLiteDatabase]:
    with closing(connect(Place(tmp_path / "straight.db", 1.0))) as db:
        yield SQLiteDatabase(db, clock.now)


@pytest.mark.parametrize("seed", range(5))
def test_what_was_bound_leaves_what_the_straight_way_leaves(
    binding: BindingDatabase, straight: SQLiteDatabase, seed: int
) -> None:
    chance, binds = random.Random(seed), 0

    def both(change: Callable[[SQLiteDatabase], object]) -> None:
        assert change(binding) == change(straight)

    def compare() -> None:
        binding.unbind()
        # Only that no number may be given twice is kept, not up to which none was.
        assert tables(binding) | {"counter": []} == tables(straight) | {"counter": []}

    def other_work(change: Callable[[SQLiteDatabase], object]) -> None:
        compare()
        both(change)

    other_work(lambda db: liveness.register(db, INCARNATION, None, 1))
    other_work(lambda db: ruling.set_lane(db, Effects(), Lane("main", limit=9, per_user=2), 1))
    for nth in range(1, 100):
        if chance.random() < 0.2:
            step = Step("hand", nth, room=chance.randrange(5), park=False)
            other_work(lambda db, step=step, nth=nth: stepping.take_step(db, Effects(), step, nth))  # type: ignore[misc]
        else:
            fields: dict[str, Any] = {"user": chance.choice([None, "ann", "bob"]), "priority": chance.choice([0, 0, 5])}
            batch = [new_run(f"r{nth:03d}-{each:02d}", **fields) for each in range(chance.choice([1, 7, 8, 40]))]
            both(lambda db, batch=batch, nth=nth: submitting.submit(db, Effects(short=True), batch, nth))  # type: ignore[misc]
            binds += bool(binding.raw.execute("SELECT count(*) FROM sheaf").fetchone()[0])
    compare()
    assert binds > 10
