"""Disks that are full, files that cannot be written or are damaged: clear errors, and nothing accepted is lost.

A full disk is a limit on the size of files, which holds for root as well; it meets the log, which is what grows. What
may not be written is tried by a process that obeys the modes of files, whoever runs the tests. All of it is on a disk,
though `make test` has other tests keep their files in memory.
"""

# ruff: noqa: ASYNC240 - a test's loop has nothing else to do while it looks at a file

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laneway import Receipt, Scheduler, StoreUnavailable
from laneway.stores.sqlite import connection
from laneway.stores.sqlite.backup import back_up
from tests.system.harness.forms import report, time_limit
from tests.system.harness.process import Process
from tests.system.harness.stage import Stage
from tests.system.load.app import hold, stroll
from tests.system.oracle.check import check
from tests.system.oracle.journal import Accepted

pytestmark = [pytest.mark.system, time_limit()]

Printed = list[dict[str, Any]]
NOBODY = 65534
DISK = os.environ.get("LANEWAY_TEST_DISK")  # where temporary files are on a disk; None if they are anyway


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="laneway-disk-", dir=DISK) as folder:
        yield Path(folder)


async def submit(stage: Stage, **plan: Any) -> Printed:
    """Let a process submit what the plan says; return what it printed."""
    producer = stage.python(
        "restricted", "-m", "tests.system.load.restricted_producer", msgspec.json.encode(plan).decode()
    )
    assert await producer.ended() == 0, producer.stderr
    assert "Traceback" not in producer.stderr
    return [json.loads(line) for line in producer.stdout.splitlines()]


def accepted(printed: Printed) -> set[str]:
    return {line["accepted"] for line in printed if "accepted" in line}


async def ids(stage: Stage) -> set[str]:
    async with Scheduler(stage.url) as client:
        return {run.id for run in await client.runs(limit=10_000)}


# Full


async def test_a_full_disk_refuses_clearly_and_what_was_accepted_stays(stage: Stage) -> None:
    printed = await submit(stage, count=1000, size=20_000, largest=2 * 2**20)

    *before, refused, after = printed
    report(f"{len(before)} accepted, then: {refused['text']}")
    assert len(before) > 20
    assert refused["error"] == "StoreUnavailable"
    assert refused["text"].startswith(
        f"{stage.file}: it cannot be written (disk I/O error): the disk is full or failing"
    )
    assert "accepted" in after  # there is room again, and the same process goes on
    stored = await ids(stage)
    assert stored >= accepted(printed)
    # A commit that failed says that it may have happened; it happened at most once.
    assert len(stored) <= len(accepted(printed)) + bool(refused["maybe_done"])


async def test_a_worker_survives_a_full_disk_and_goes_on_when_there_is_room(stage: Stage) -> None:
    worker = stage.worker(concurrency=20)
    await stage.ready(worker)
    async with stage.client() as client:
        held = [await client.submit(hold, {"gate": stage.gate()}) for _ in range(10)]
        for receipt in held:
            await stage.started(receipt.run_id)

        with smallest_files(stage, worker):
            stage.open_gate()
            await stage.printed(worker, "the store does not answer")
            await client.submit_many([(stroll, {})] * 20)
            counts = (await (await client.open()).depths()).runs
            assert worker.alive
        await stage.drained(client)

        await stage.stop(worker)
        figures = await check(stage, client)
    assert counts["running"] == 10
    assert "the disk is full or failing" in worker.stderr
    assert (figures.failed, figures.twice, figures.taken_over) == (0, 0, 0)


@contextmanager
def smallest_files(stage: Stage, process: Process) -> Iterator[None]:
    """Let the process append to no file as long as the log is now."""
    size = stage.write_ahead_log().stat().st_size
    assert stage.journal.path.stat().st_size < size / 2
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)


async def test_a_full_file_refuses_clearly_and_its_worker_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, tuned = {"pages": 120}, connection._tuned  # noqa: SLF001 - SQLite has no smaller disk

    def smaller(place: connection.StoreFile) -> sqlite3.Connection:
        db = tuned(place)
        db.execute(f"PRAGMA max_page_count = {most['pages']}")
        return db

    monkeypatch.setattr(connection, "_tuned", smaller)
    monkeypatch.setattr("laneway.engine.client.client.REPEAT_AFTER", ())
    app = Scheduler(f"sqlite:///{tmp_path / 'laneway.db'}")
    let_go = asyncio.Event()

    @app.task
    async def wait(text: str) -> int:
        await let_go.wait()
        return len(text)

    async with app, app.running():
        receipts: list[Receipt] = []

        async def submit_on() -> None:
            while True:
                receipts.append(await app.submit(wait, {"text": "x" * 10_000}))

        with pytest.raises(StoreUnavailable, match=r"the disk is full; free some space on it") as full:
            await submit_on()
        let_go.set()
        most["pages"] = 10_000
        results = [await app.result(receipt, timeout=30) for receipt in receipts]

    assert full.value.maybe_done is False
    assert len(results) > 5
    assert set(results) == {10_000}


# Not to be written


@pytest.fixture
def elsewhere(stage: Stage) -> Iterator[Path]:
    """A folder that every user can enter, with the stage's file in it."""
    folder = Path(tempfile.mkdtemp(prefix="lw-", dir=DISK))
    folder.chmod(0o755)
    stage.file = folder / "laneway.db"
    stage.url = f"sqlite:///{stage.file}"
    stage.sockets.chmod(0o777)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("what", ["file", "folder", "both", "both, in use"])
async def test_a_file_that_cannot_be_written_is_refused_with_advice(stage: Stage, elsewhere: Path, what: str) -> None:
    before = accepted(await submit(stage, count=3))
    with closing(sqlite3.connect(stage.file)) as db:
        if "in use" in what:
            db.execute("SELECT count(*) FROM run").fetchone()  # now the log is there, too
        for file in elsewhere.iterdir():
            file.chmod(0o444 if what != "folder" else 0o666)
        elsewhere.chmod(0o777 if what == "file" else 0o555)

        [refused] = await submit(stage, obey_modes=True)

        elsewhere.chmod(0o755)
        for file in elsewhere.iterdir():
            file.chmod(0o644)

    report(refused["text"])
    assert refused["error"] == "StoreUnavailable"
    assert refused["text"].startswith(f"{stage.file}: it cannot be ")
    assert refused["text"].endswith(f"give this user the right to write it and its folder {elsewhere}")
    assert refused["maybe_done"] is False
    assert await ids(stage) == before
    after = accepted(await submit(stage))
    assert await ids(stage) == before | after


async def test_another_users_lock_file_is_no_hindrance(stage: Stage, elsewhere: Path) -> None:
    before = accepted(await submit(stage, count=3))
    elsewhere.chmod(0o777)
    stage.file.chmod(0o666)
    lock = elsewhere / "laneway.db-lock"
    lock.chmod(0o444)
    if os.geteuid() == 0:
        os.chown(lock, NOBODY, NOBODY)

    printed = await submit(stage, obey_modes=True)

    assert len(accepted(printed)) == 1
    assert await ids(stage) == before | accepted(printed)


# Damaged


def scribble(file: Path) -> None:
    """Overwrite all pages but the first, as a failing disk would. In a process of its own: see `checkpoints`."""
    script = "import sys; f = open(sys.argv[1], 'r+b'); f.seek(4096); f.write(b'\\xa5' * (int(sys.argv[2]) - 4096))"
    subprocess.run([sys.executable, "-c", script, str(file), str(file.stat().st_size)], check=True)


async def doctor(stage: Stage) -> tuple[int, dict[str, Any]]:
    process = stage.laneway("doctor", "--store", stage.url, "--json")
    code = await process.ended()
    return code, json.loads(process.stdout)


async def restored(stage: Stage, backup: Path) -> None:
    """Put the backup in the damaged file's place, as the documentation says."""
    for suffix in ("", "-wal", "-shm"):
        stage.file.with_name(stage.file.name + suffix).unlink(missing_ok=True)
    shutil.copy(backup, stage.file)
    code, found = await doctor(stage)
    assert (code, found["damage"], found["findings"]) == (0, [], [])


async def test_a_file_damaged_while_nobody_uses_it_is_refused_and_a_backup_restores_it(stage: Stage) -> None:
    async with stage.client() as client:
        await client.submit_many([(stroll, {})] * 50)
    backup = stage.folder / "backup.db"
    back_up(stage.file, backup)
    scribble(stage.file)

    [refused] = await submit(stage)
    code, found = await doctor(stage)

    assert (refused["error"], refused["maybe_done"]) == ("StoreUnavailable", False)
    assert "the file is damaged (database disk image is malformed); stop all workers" in refused["text"]
    assert code == 1
    assert found["damage"]
    await restored(stage, backup)
    await all_is_done(stage)


async def test_a_file_damaged_while_a_worker_runs_is_reported_and_a_backup_restores_it(stage: Stage) -> None:
    worker = stage.worker(lease=3, renew_every=1)
    await stage.ready(worker)
    async with stage.client() as client:
        held = [await client.submit(hold, {"gate": stage.gate()}) for _ in range(5)]
        for receipt in held:
            await stage.started(receipt.run_id)
    backup = stage.folder / "backup.db"
    back_up(stage.file, backup)

    with closing(sqlite3.connect(stage.file, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # Another process's commit makes the worker read its pages again.
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE counter SET accepted = accepted + 1")
        scribble(stage.file)
        db.execute("COMMIT")
    await stage.printed(worker, "the file is damaged")
    [refused] = await submit(stage)
    code, _ = await doctor(stage)

    assert (refused["error"], code) == ("StoreUnavailable", 1)
    assert "the file is damaged" in refused["text"]
    assert worker.alive
    worker.kill()
    await restored(stage, backup)
    stage.open_gate()
    await all_is_done(stage)


async def all_is_done(stage: Stage) -> None:
    """Let a worker execute everything, and check that nothing is missing."""
    worker = stage.worker()
    await stage.ready(worker)
    async with stage.client() as client:
        await stage.drained(client)
        await stage.stop(worker)
        figures = await check(stage, client)
    assert figures.failed == 0


async def test_a_backup_of_a_busy_fleet_is_whole(stage: Stage) -> None:
    fleet = [stage.worker(concurrency=5) for _ in range(2)]
    producer = stage.producer(seed=1, count=300)
    await stage.ready(*fleet)
    await stage.submitting(producer)
    known = {line.run for line in stage.journal.of(Accepted)}
    backups = [
        stage.laneway("doctor", "--store", stage.url, "--backup", str(stage.folder / f"b{n}.db")) for n in range(3)
    ]
    for process in backups:
        assert await process.ended() == 0, process.stderr
    await producer.ended()
    await stage.stop(*fleet)

    for number in range(3):
        copy = f"sqlite:///{stage.folder / f'b{number}.db'}"
        async with Scheduler(copy) as client:
            assert {run.id for run in await client.runs(limit=10_000)} >= known
            assert await (await client.open()).check() == []
