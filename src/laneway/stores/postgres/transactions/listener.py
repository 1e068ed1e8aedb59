"""The listener: receives notifications of other processes, which are wake-ups for workers and notices of new events.

It has one thread, and one connection that does little else. Notifications that are sent while it is not connected are
lost. So whenever it begins to listen, and while it cannot, it reports that notifications may have been missed. Behind a
pooler no notifications arrive: then it only polls, once a second, whether any process has written.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
from collections.abc import Callable
from time import monotonic

import psycopg
from psycopg import sql

from laneway.errors import LanewayError
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import ServerConnection, connect_bare
from laneway.stores.postgres.server.settings import NOW, set_up, stop_claims_ahead
from laneway.stores.tables.runtime.fork_safety import ConnectionHolder

POLL = 1.0  # seconds between two polls
STAY = 60  # seconds for which a row in `watcher` is valid
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds before connecting again

# Only the checked name of the schema and laneway's own channel names are put into these.
_POLL = "SELECT (SELECT last_value FROM {0}.writes), EXISTS (SELECT 1 FROM {0}.inbox WHERE NOT aside)"
_WATCH = "INSERT INTO {0}.watcher (id, until) VALUES ('%s', {1}) ON CONFLICT (id) DO UPDATE SET until = excluded.until"
_ALIVE = "SELECT pg_advisory_lock(hashtextextended('%s', 0))"
_LEAVE = "DELETE FROM {0}.watcher WHERE id = '%s'"

log = logging.getLogger("laneway.postgres")


class Listener(ConnectionHolder):
    """Listens on the process's own channel and on the channel of events, which it reports once they are watched."""

    def __init__(
        self,
        address: Address,
        channel: str,
        notified: Callable[[str], object],
        new_events: Callable[[], None],
        missed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._address, self.channel = address, channel
        self._notified, self._new_events, self._missed = notified, new_events, missed
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._ends: tuple[socket.socket, ...] = ()  # to interrupt its wait
        self._link: ServerConnection | None = None
        self._watches = False
        self._written = 0
        self._renewed_at = self._polled_at = 0.0
        self.is_listening = False
        self._begun = threading.Event()
        self._late = False  # notifications may have been sent already

    def start(self) -> None:
        """Start the thread."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._ends = socket.socketpair()
                self._thread = threading.Thread(target=self._serve, name="laneway-postgres-listener", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until it listens for the first time, at most for the time-out of a call."""
        if not self._begun.wait(self._address.timeout):
            self._late = True

    def watch_events(self) -> None:
        """Report new events, too."""
        if not self._watches:
            self._polled_at = -2.0 * STAY  # so that the next poll is at once
        self._watches = self._late = True
        self.start()
        self._interrupt()

    def stop(self) -> None:
        """Stop, and wait for the thread."""
        self._stopped.set()
        self._interrupt()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        for end in self._ends:
            end.close()

    def close_connection(self) -> None:
        """Close the connection; it is opened again."""
        self.is_listening = False
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(psycopg.Error):
                link.close()

    def _interrupt(self) -> None:
        with contextlib.suppress(OSError):
            for end in self._ends[1:]:
                end.send(b".")

    def _serve(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                with self.busy:
                    link = self._link or self._connect()
                    self._receive(link)
                    self._poll(link)
                pause = FIRST_PAUSE
                # Not under the lock: a fork must not wait for a second.
                self._wait(link)
            except (psycopg.Error, LanewayError) as error:
                log.debug("not listening: %s", error)
                with self.busy:
                    self.close_connection()
                self._missed()
                self._stopped.wait(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
        with self.busy:
            self._unwatch()
            self.close_connection()

    def _connect(self) -> ServerConnection:
        link = self._link = connect_bare(self._address)
        if setting := set_up(self._address):
            link.execute(setting.encode())
        if not self._address.pooled:
            for channel in (self.channel, self._address.news):
                link.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            if self._begun.is_set():
                link.execute(stop_claims_ahead(self._address, self.channel).encode())
            # This lock lasts as long as the connection: it shows to others that a claim ahead for this process makes
            # sense.
            link.execute(_ALIVE.encode() % self.channel.encode())
            self.is_listening = True
        self._renewed_at = self._polled_at = -2.0 * STAY
        self._begun.set()
        if self._late:
            # Earlier notifications were lost.
            self._missed()
        self._late = True
        return link

    def _wait(self, link: ServerConnection) -> None:
        """Wait for a notification, or until it is time to poll."""
        patience = max(0.0, self._polled_at + POLL - monotonic())
        # Race: a fork may close the connection meanwhile; then the wait ends with an error.
        with contextlib.suppress(OSError, ValueError, psycopg.OperationalError):
            interrupted = self._ends[0].fileno()
            ready, _, _ = select.select([link.fileno(), interrupted], [], [], patience)
            if interrupted in ready:
                self._ends[0].recv(64)

    def _receive(self, link: ServerConnection) -> None:
        for notice in link.notifies(timeout=0):
            if notice.channel == self.channel:
                self._notified(notice.payload)
            elif notice.payload != self.channel:
                self._new_events()

    def _poll(self, link: ServerConnection) -> None:
        """Poll once a second for writes without a notification; now and then renew the row in `watcher`."""
        now = monotonic()
        if now < self._polled_at + POLL:
            return
        self._polled_at = now
        [[written, waiting]] = link.execute(_POLL.format(self._address.schema).encode()).fetchall()
        if waiting or (self._address.pooled and written != self._written):
            self._missed()
        self._written = written
        if self._watches and now > self._renewed_at + STAY / 3:
            is_new, self._renewed_at = now > self._renewed_at + STAY, now
            watch = _WATCH.format(self._address.schema, f"{NOW} + {STAY * 1_000_000}")
            link.execute(watch.encode() % self.channel.encode())
            if is_new:
                # Race: before the row was there, no writer sent notices of events.
                self._new_events()

    def _unwatch(self) -> None:
        if self._watches and self._link is not None:
            with contextlib.suppress(psycopg.Error):
                self._link.execute(_LEAVE.format(self._address.schema).encode() % self.channel.encode())
