"""`laneway.testing.servers` starts real standbys of PostgreSQL servers, never as root, and leaves none behind."""

from __future__ import annotations

import os
import pwd
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from laneway.testing.servers import NoServer, PostgresServer, PostgresStandby, postgres_server, postgres_standby
from laneway.testing.servers.databases import execute
from laneway.testing.servers.die_with_parent import children
from tests.testing.processes import has_ended

pytestmark = pytest.mark.system


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        server.execute("CREATE TABLE kept (number int)")
        yield server


def kept(server: PostgresServer) -> list[int]:
    return [number for (number,) in server.execute("SELECT number FROM kept ORDER BY 1")]


def test_a_standby_has_what_was_committed_and_can_only_be_read_until_it_is_promoted(primary: PostgresServer) -> None:
    with postgres_standby(primary) as standby:
        primary.execute("INSERT INTO kept VALUES (1)")
        assert standby.follows
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            standby.execute("INSERT INTO kept VALUES (2)")

        primary.kill()
        standby.promote()

        assert standby.execute("SELECT pg_is_in_recovery()") == [(False,)]
        standby.execute("INSERT INTO kept VALUES (2)")
        assert kept(standby) == [1, 2]


def test_a_commit_waits_for_a_synchronous_standby_and_not_for_another(primary: PostgresServer) -> None:
    def insert(number: int) -> threading.Thread:
        inserting = threading.Thread(target=primary.execute, args=("INSERT INTO kept VALUES (%s)", number))
        inserting.start()
        inserting.join(0.5)
        return inserting

    with postgres_standby(primary, synchronous=False) as standby:
        standby.freeze()
        assert not insert(1).is_alive()
        standby.thaw()
    with postgres_standby(primary) as standby:
        standby.freeze()
        waits = insert(2)
        assert waits.is_alive()
        standby.thaw()
        waits.join(20)
        assert not waits.is_alive()


@pytest.mark.chaos
def test_a_promoted_standby_can_have_a_standby_in_the_place_of_the_one_before(primary: PostgresServer) -> None:
    with postgres_standby(primary) as second:
        primary.kill()
        second.promote()
        with postgres_standby(second, port=primary.port) as first:
            second.execute("INSERT INTO kept VALUES (1)")
            second.kill()
            first.promote()

            assert first.port == primary.port
            assert execute(primary.url, "SELECT number FROM kept") == [(1,)]


def test_one_that_streams_no_more_lacks_what_comes_after(primary: PostgresServer) -> None:
    with postgres_standby(primary, synchronous=False) as standby:
        standby.stop_streaming()
        primary.execute("INSERT INTO kept VALUES (1)")
        primary.kill()
        standby.promote()

        assert kept(standby) == []


@pytest.mark.chaos
def test_a_standby_knows_the_password_of_its_primary() -> None:
    with postgres_server(password="a:b@/c é") as primary, postgres_standby(primary) as standby:
        assert execute(standby.url, "SELECT pg_is_in_recovery()") == [(True,)]


def test_nothing_is_left_of_it_after_its_block(primary: PostgresServer) -> None:
    with postgres_standby(primary) as standby:
        pids = [standby.pid, *children(standby.pid)]
        [_, memory] = (standby.directory / "data/postmaster.pid").read_text(encoding="utf-8").splitlines()[6].split()

    assert len(pids) > 4
    assert all(map(has_ended, pids))
    assert not standby.directory.exists()
    held = [line.split()[1] for line in Path("/proc/sysvipc/shm").read_text(encoding="utf-8").splitlines()]
    assert memory not in held


def test_one_that_cannot_be_made_leaves_nothing_behind(
    primary: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)  # the server may be another user's
        monkeypatch.setattr(tempfile, "tempdir", folder)
        taken = f"port {primary.port} is taken"
        with pytest.raises(NoServer, match=taken), postgres_standby(primary, port=primary.port):
            pass
        primary.kill()
        with pytest.raises(NoServer, match="refused"), postgres_standby(primary):
            pass

        assert list(Path(folder).iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root has to run it as another")
def test_root_lets_nobody_run_it(primary: PostgresServer) -> None:
    with postgres_standby(primary) as standby:
        assert isinstance(standby, PostgresStandby)
        status = Path(f"/proc/{standby.pid}/status").read_text(encoding="utf-8")
        owners = {path.stat().st_uid for path in (standby.directory / "data").rglob("*")}

    nobody = pwd.getpwnam("nobody").pw_uid
    assert f"Uid:\t{nobody}\t{nobody}\t{nobody}\t{nobody}\n" in status
    assert owners == {nobody}
