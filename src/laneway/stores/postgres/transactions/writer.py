"""The writer: one thread and one connection per store object, one transaction per batch of whatever waits.

**The model.** Whoever writes holds an advisory lock of the schema from the beginning of its transaction to its COMMIT,
so the core's rules run here as they do on SQLite: alone with the tables (decision 26). All that waits goes into one
transaction. What only writes is sent without waiting for its answer; one COMMIT makes everything durable; only then are
callers answered. Wake-ups are part of the transaction (`pg_notify`), so they go out if and only if it is committed.

**Errors.** If one of several pieces of work fails, all are undone and each is done in a transaction of its own: a bad
one never fails its neighbours. A deadlock or a failed serialisation, which only locks of others can bring about, is
tried again, and so is, once and over a new connection, what a cut of the connection ended: every verb may be repeated.
What broke before the COMMIT was sent has not happened; after it, it may have: `maybe_done`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors as pg

from laneway.errors import LanewayError, StoreUnavailable
from laneway.stores.postgres.inbox.intake import take_in
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import Link, connect, explained
from laneway.stores.postgres.server.errors import AGAIN, is_answer, meant, was_cut
from laneway.stores.postgres.server.pipeline import Pipe
from laneway.stores.postgres.server.settings import LEND_NOTHING, begin_to_write, cut_off_frozen, set_up
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.stores.tables.desk import Ask
from laneway.stores.tables.effects import Effects, Lender, Woken
from laneway.stores.tables.lending import lend, only_wake, written
from laneway.stores.tables.remembering import Memory
from laneway.stores.tables.writing import Writer

_TRIES = 5  # of a transaction that met others' locks, or a connection that was cut before it
_LANES = 4  # of which to ask ahead what a step may need of them
log = logging.getLogger("laneway.postgres")
_LEND_NOTHING = LEND_NOTHING.format("$1::text")
_NOTIFY = "SELECT pg_notify($1::text, $2::text)"
_LONGEST = 7999  # bytes that can be said at once


class _Undone(Exception):
    """A transaction that may go well when it is tried again; if its COMMIT was `sent`, it may have been done, too."""

    def __init__(self, error: psycopg.Error, *, sent: bool = False) -> None:
        super().__init__(str(error))
        self.error, self.sent = error, sent


class _LockedOut(Exception):
    """Somebody kept the lock for too long."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


class _NotLent(Exception):
    """A transaction that failed because of a step that was lent; without that it may go well."""


class PostgresWriter(Writer):
    """Does work inside transactions. `channel` is that of this process; `far` tells who is elsewhere."""

    def __init__(
        self,
        address: Address,
        now: Callable[[], int] | None,
        wake: Callable[[list[Woken]], None],
        tell: Callable[[], None],
        is_there: Callable[[Lender], bool],
        far: Callable[[Woken], bool],
        channel: str,
    ) -> None:
        super().__init__("laneway-postgres-writer", wake, tell, is_there)
        self._address, self._now, self._far, self._channel = address, now, far, channel
        self._link: Link | None = None
        self._begins, self._cut_off = begin_to_write(address), cut_off_frozen(address).encode()
        self._opened = False  # whether there was a connection ever
        self._again = False  # it is not the first, and nothing was written over it yet
        self._memory: Memory | None = None
        self._lanes: list[str] = []  # that the last step has claimed from: the next one may
        self._number = 0  # of the last transaction: who has the next has missed nothing
        self.missed = False

    def transact(self, batch: list[Ask]) -> None:
        """Do the batch in one transaction, or each in one of its own if one of them fails."""
        if len(batch) == 1:
            self._alone(batch[0])
            return
        try:
            self._try(batch)
        except LanewayError as error:
            # What a server says of one piece of work is said of that alone; all fail only where the server does.
            if isinstance(error, StoreUnavailable) or isinstance(error.__cause__, psycopg.OperationalError):
                raise
            self._one_by_one(batch)
        except Exception:  # noqa: BLE001 - whose it is comes out when each is done alone
            self._one_by_one(batch)

    def look(self) -> bool:
        """Tell whether wake-ups may have been missed."""
        missed, self.missed = self.missed, False
        return missed

    def let_go(self) -> None:
        """Close the connection."""
        self._memory = None
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(psycopg.Error):
                link.close()

    def _one_by_one(self, batch: list[Ask]) -> None:
        for ask in batch:
            self._alone(ask)

    def _alone(self, ask: Ask) -> None:
        try:
            self._try([ask])
        except Exception as error:  # noqa: BLE001 - it goes to its caller
            ask.error = error

    def _try(self, batch: list[Ask]) -> None:
        cuts, sent, lends = 0, False, True
        for left in reversed(range(_TRIES)):
            try:
                self._once(batch, lends=lends)
                return
            except _NotLent:
                log.exception("a step that was lent could not be done")
                lends = False
            except _Undone as undone:
                # A call may be made again, whether it was done or not: that a line was cut once, nobody hears of.
                cuts, sent = cuts + was_cut(undone.error), sent or undone.sent
                if not left or cuts > 1:
                    raise meant(undone.error, self._address, maybe_done=sent) from undone.error
            except StoreUnavailable as error:
                error.maybe_done = error.maybe_done or sent
                raise

    def _once(self, batch: list[Ask], *, lends: bool) -> None:
        sent, effects = False, list[Effects]()  # whether the COMMIT was sent, and what follows it
        try:
            link = self._link or self._connect()
            # Nothing in here may swallow an error: the pipe would go on without its transaction.
            with Pipe(link) as pipe:
                db = PostgresDatabase(pipe)
                lent, taken = self.known_to(Effects(durable=False, remembers=True)), self.known_to(Effects())
                memory, posted, watched = self._begin(db, batch[0].note)
                if posted:
                    take_in(db, taken, db.now())
                    memory = None
                for ask in batch:
                    db.expect(*ask.note.ahead(memory, self._lanes))  # unless it was asked above, and is still true
                    memory = _done(ask, db, memory)
                effects = [lent, taken, *(ask.note for ask in batch)]
                memory = self._lend(db, lent, effects, memory, lends=lends)
                self._notify(db, effects, watched=watched)
                # Who was given a run goes on when the server crashes, so that it was given is not to be forgotten.
                if not (posted or any(each.durable or each.events for each in effects if each is not taken)):
                    db.say("SET LOCAL synchronous_commit TO off")
                db.say("COMMIT")
                sent = True
            self._again = False
            self._remember(memory)
            self.tell_of([lent, taken])
        except _LockedOut as kept:
            if self._cut_off_frozen():
                raise _Undone(kept.error) from kept.error
            self.let_go()
            raise meant(kept.error, self._address) from kept.error
        except psycopg.Error as error:
            self.let_go()
            if sent:
                # If it was done, a repeat finds nobody to wake any more, and who rests here has not heard of it.
                self.tell_of([_without_answers(each) for each in effects])
            if isinstance(error, AGAIN) or was_cut(error):
                raise _Undone(error, sent=sent and was_cut(error)) from error
            raise explained(error, self._address, maybe_done=sent and not is_answer(error)) from error
        except Exception:
            # The work's own: nothing of it is to stay.
            self._roll_back()
            raise

    def _lend(
        self, db: PostgresDatabase, lent: Effects, done: list[Effects], memory: Memory | None, *, lends: bool
    ) -> Memory | None:
        """Do the steps that were lent, or else only have their workers woken; return what is known after it."""
        if not any(each.lender for each in done):
            return memory
        if not lends:
            only_wake(db, lent, done)
            return None
        lent.memory = memory
        try:
            lend(db, lent, done, self._lanes)
        except psycopg.Error:
            raise
        except Exception as error:
            raise _NotLent from error
        memory, lent.memory = lent.memory, None
        return memory

    def _begin(self, db: PostgresDatabase, first: Effects) -> tuple[Memory | None, bool, bool]:
        """Begin, and ask what the first piece of work will; return what is remembered, is posted, and is watched."""
        *_, look = [db.pipe.send(statement) for statement in self._begins]
        if self._again:
            db.say(_LEND_NOTHING, self._channel)
        # What the memory spares is not asked here: if others have written meanwhile, it is asked behind the answer.
        db.expect(*first.ahead(self._memory, self._lanes))
        try:
            [[number, now, posted, watched]] = look.fetchall()
        except (pg.LockNotAvailable, pg.QueryCanceled) as error:
            raise _LockedOut(error) from error
        db.now = self._now or (lambda: now)
        memory = self._memory if number == self._number + 1 else None
        self._memory, self._number = None, number
        return memory, posted, watched

    def _remember(self, memory: Memory | None) -> None:
        # Behind a pooler the server may be another next time: it may lack what this one has, and count on from there.
        self._memory = None if self._address.pooled else memory
        if memory is not None:
            self._lanes = list(memory.lanes)[:_LANES] or self._lanes

    def _connect(self) -> Link:
        link = self._link = connect(self._address, again=self._opened)
        self._opened, self._again = True, self._opened
        if setting := set_up(self._address):
            link.execute(setting.encode())
        return link

    def _cut_off_frozen(self) -> bool:
        self._roll_back()
        with contextlib.suppress(psycopg.Error):
            if self._link is not None and self._link.execute(self._cut_off).fetchall():
                log.warning("a process stood still while it had the lock of %s; it was cut off", self._address.shown)
                return True
        return False

    def _roll_back(self) -> None:
        try:
            if self._link is not None:
                self._link.execute("ROLLBACK")
        except psycopg.Error:
            self.let_go()

    def _notify(self, db: PostgresDatabase, effects: list[Effects], *, watched: bool) -> None:
        for woken in (worker for each in effects for worker in each.wake):
            if self._far(woken):
                db.say(_NOTIFY, woken.socket or "", written(woken, _LONGEST))
        if watched and any(each.events for each in effects):
            db.say(_NOTIFY, self._address.news, self._channel)


def _done(ask: Ask, db: PostgresDatabase, memory: Memory | None) -> Memory | None:
    """Do one piece of work; return what is known after it."""
    effects: Effects = ask.note
    effects.wake, effects.events, effects.lender = [], False, None  # it may have been tried before
    effects.memory = memory if effects.remembers else None
    value: Any = ask.work(db)
    ask.value, known, effects.memory = value, effects.memory, None
    return known


def _without_answers(effects: Effects) -> Effects:
    """Return what follows a COMMIT that may have failed: who was given something asks for it."""
    effects.wake = [woken._replace(answer=None) for woken in effects.wake]
    return effects
