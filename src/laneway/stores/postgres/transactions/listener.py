"""Listener what other processes say: wake-ups for workers of this one, and that events were written.

One thread, one connection that listens and does little else. What is said while it is not connected is lost, so each
time it has begun to listen, and while it cannot, everybody here is told that something may have been missed. Behind a
pooler nothing can be heard at all: then it only looks, once a second, whether anybody has written.
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
from laneway.stores.postgres.server.connection import Link, connect_bare
from laneway.stores.postgres.server.settings import NOW, lend_nothing, set_up
from laneway.stores.tables.runtime.fork_safety import ConnectionHolder

LOOK = 1.0  # seconds between two looks
STAY = 60  # seconds for which a watcher's word holds
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds before connecting again

# The only text that is put into these is the schema's checked name, and a channel's, which is ours.
_LOOK = "SELECT (SELECT last_value FROM {0}.writes), EXISTS (SELECT 1 FROM {0}.inbox WHERE NOT aside)"
_WATCH = "INSERT INTO {0}.watcher (id, until) VALUES ('%s', {1}) ON CONFLICT (id) DO UPDATE SET until = excluded.until"
_LIVES = "SELECT pg_advisory_lock(hashtextextended('%s', 0))"
_LEAVE = "DELETE FROM {0}.watcher WHERE id = '%s'"

log = logging.getLogger("laneway.postgres")


class Listener(ConnectionHolder):
    """Listens on the process's own channel, and on that of news once somebody attends to it."""

    def __init__(
        self,
        address: Address,
        channel: str,
        heard: Callable[[str], object],
        news: Callable[[], None],
        missed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._address, self.channel = address, channel
        self._heard, self._news, self._missed = heard, news, missed
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._ends: tuple[socket.socket, ...] = ()  # so that it need not wait when it is to stop
        self._link: Link | None = None
        self._attends = False
        self._written = 0
        self._said_at = self._looked_at = 0.0
        self.hears = False
        self._begun = threading.Event()
        self._late = False  # somebody counts on being heard already

    def start(self) -> None:
        """Begin to listen."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._ends = socket.socketpair()
                self._thread = threading.Thread(target=self._serve, name="laneway-postgres-listener", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until it listens for the first time, or for as long as a call may take."""
        if not self._begun.wait(self._address.timeout):
            self._late = True

    def attend(self) -> None:
        """Listen for news, too."""
        if not self._attends:
            self._looked_at = -2.0 * STAY  # so that it is said at once
        self._attends = self._late = True
        self.start()
        self._stir()

    def stop(self) -> None:
        """Listen no more."""
        self._stopped.set()
        self._stir()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        for end in self._ends:
            end.close()

    def close_connection(self) -> None:
        """Close the connection; it is opened again."""
        self.hears = False
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(psycopg.Error):
                link.close()

    def _stir(self) -> None:
        with contextlib.suppress(OSError):
            for end in self._ends[1:]:
                end.send(b".")

    def _serve(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                with self.busy:
                    link = self._link or self._connect()
                    self._take_in(link)
                    self._look(link)
                pause = FIRST_PAUSE
                # Not while busy: a fork must not wait for a second.
                self._rest(link)
            except (psycopg.Error, LanewayError) as error:
                log.debug("not listening: %s", error)
                with self.busy:
                    self.close_connection()
                self._missed()
                self._stopped.wait(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
        with self.busy:
            self._take_leave()
            self.close_connection()

    def _connect(self) -> Link:
        link = self._link = connect_bare(self._address)
        if setting := set_up(self._address):
            link.execute(setting.encode())
        if not self._address.pooled:
            for channel in (self.channel, self._address.news):
                link.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            if self._begun.is_set():
                link.execute(lend_nothing(self._address, self.channel).encode())
            # As long as it listens: who would do a step for one of our workers sees by it that this process lives.
            link.execute(_LIVES.encode() % self.channel.encode())
            self.hears = True
        self._said_at = self._looked_at = -2.0 * STAY
        self._begun.set()
        if self._late:
            # What was said before was not heard.
            self._missed()
        self._late = True
        return link

    def _rest(self, link: Link) -> None:
        """Wait until something comes, or it is time to look."""
        patience = max(0.0, self._looked_at + LOOK - monotonic())
        # Race: a fork may close the connection meanwhile; then there is nothing to wait for.
        with contextlib.suppress(OSError, ValueError, psycopg.OperationalError):
            stirred = self._ends[0].fileno()
            ready, _, _ = select.select([link.fileno(), stirred], [], [], patience)
            if stirred in ready:
                self._ends[0].recv(64)

    def _take_in(self, link: Link) -> None:
        for said in link.notifies(timeout=0):
            if said.channel == self.channel:
                self._heard(said.payload)
            elif said.payload != self.channel:
                self._news()

    def _look(self, link: Link) -> None:
        """Once a second, look for what nobody said; now and then, say that somebody here attends to news."""
        now = monotonic()
        if now < self._looked_at + LOOK:
            return
        self._looked_at = now
        [[written, waiting]] = link.execute(_LOOK.format(self._address.schema).encode()).fetchall()
        if waiting or (self._address.pooled and written != self._written):
            self._missed()
        self._written = written
        if self._attends and now > self._said_at + STAY / 3:
            unsaid, self._said_at = now > self._said_at + STAY, now
            watch = _WATCH.format(self._address.schema, f"{NOW} + {STAY * 1_000_000}")
            link.execute(watch.encode() % self.channel.encode())
            if unsaid:
                # Race: until its word was there, nobody said anything.
                self._news()

    def _take_leave(self) -> None:
        if self._attends and self._link is not None:
            with contextlib.suppress(psycopg.Error):
                self._link.execute(_LEAVE.format(self._address.schema).encode() % self.channel.encode())
