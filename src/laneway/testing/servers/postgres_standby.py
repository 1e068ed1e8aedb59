"""A standby of a PostgreSQL server: it has all that the other has, a moment later, and can take its place."""

from __future__ import annotations

from pathlib import Path

from laneway.testing.servers.binaries import NoServer
from laneway.testing.servers.postgres import PostgresServer, Setting, on_some_port, written
from laneway.testing.servers.single import wait_until

BACKUP = "pg_basebackup"
PROMOTES_WITHIN = 30  # seconds

_STATE = "SELECT sync_state FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"


class PostgresStandby(PostgresServer):
    """A server that follows another, and can only be read until it is promoted."""

    @property
    def follows(self) -> bool:
        """Tell whether it is a standby still."""
        return self.execute("SELECT pg_is_in_recovery()") == [(True,)]

    def stop_streaming(self) -> None:
        """Let it hear nothing of what its primary does from here on; return when it does not."""
        self.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.execute("SELECT pg_reload_conf()")
        wait_until(lambda: not self.execute("SELECT 1 FROM pg_stat_wal_receiver"), "the standby streams no more")

    def promote(self) -> None:
        """Let it follow nobody any more; return when it can be written."""
        if self.execute("SELECT pg_promote(true, %s)", PROMOTES_WITHIN) != [(True,)]:
            raise NoServer(f"{self.url} was not promoted within {PROMOTES_WITHIN} s")


def start_standby(primary: PostgresServer, port: int | None, directory: Path) -> PostgresStandby:
    """Start a standby that streams from the primary, on a free port if none is named. Raises NoServer."""
    programs = primary.programs
    if not (programs.folder / BACKUP).exists():
        raise NoServer(f"a standby is made by {BACKUP}, and there is none in {programs.folder}")
    programs.own(directory)
    data, name = directory / "data", directory.name
    programs.run(
        programs.folder / BACKUP, "-D", data, "-d", primary.url, "-R", "-X", "stream", "-c", "fast", "--no-sync"
    )
    # Who stands in for the primary waits for no standby of its own, or nothing could be written.
    own: dict[str, Setting] = {
        "cluster_name": name,
        "unix_socket_directories": str(directory),
        "synchronous_standby_names": "",
    }
    with (data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
        file.writelines(written(own))
    standby = on_some_port(port, lambda port: PostgresStandby(programs, port, directory, primary.password))
    try:
        _wait_for(primary, name, "async")
    except BaseException:
        standby.end()
        raise
    return standby


def wait_for_standbys(primary: PostgresServer, standby: PostgresStandby) -> None:
    """Let the primary acknowledge a commit only when a standby has it, too; return when that holds."""
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.execute("SELECT pg_reload_conf()")
    _wait_for(primary, standby.directory.name, "sync")
    # The process that lets the others know of such a setting is the one that does this.
    primary.execute("CHECKPOINT")


def _wait_for(primary: PostgresServer, name: str, state: str) -> None:
    wait_until(lambda: primary.execute(_STATE, name) == [(state,)], f"{name} streams, {state}")
