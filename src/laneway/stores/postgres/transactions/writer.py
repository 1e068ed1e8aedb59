"""The writer: one thread and one connection per store object, one transaction per batch of waiting work.

**The model.** A writer holds an advisory lock of the schema from the beginning of its transaction to the COMMIT, so the
core's rules run here as they do on SQLite: alone with the tables (decision 26). All waiting work goes into one
transaction. A statement that only writes is sent without waiting for its answer; one COMMIT makes everything durable;
only then are callers answered. Wake-ups are part of the transaction (`pg_notify`): they go out if and only if it is
committed.

**Errors.** If one of several pieces of work fails, all are undone and each is done in a transaction of its own: a bad
one never fails its neighbours. A deadlock or a failed serialisation, which only locks of others can bring about, is
repeated. So is, once and over a new connection, a transaction whose connection was cut: every verb may be repeated.
What broke before the COMMIT was sent has not happened; after it, it may have: `maybe_done`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import psycopg

from laneway.errors import LanewayError, StoreUnavailable
from laneway.stores.postgres.inbox.intake import take_in
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import explained
from laneway.stores.postgres.server.errors import AGAIN, is_answer, meant, was_cut
from laneway.stores.postgres.server.pipeline import Pipe
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.stores.postgres.transactions.step_cache import StepCache
from laneway.stores.postgres.transactions.write_connection import LockTimeout, WriteConnection
from laneway.stores.tables.lending import lend, only_wake, written
from laneway.stores.tables.runtime.after_commit import Effects, Lender, Woken
from laneway.stores.tables.runtime.step_cache import Memory
from laneway.stores.tables.runtime.worker_thread import Ask
from laneway.stores.tables.runtime.writer import Writer

_TRIES = 5  # of a transaction that met others' locks, or whose connection was cut before it
_NOTIFY = "SELECT pg_notify($1::text, $2::text)"
_LONGEST = 7999  # bytes of a notification
log = logging.getLogger("laneway.postgres")


class _Undone(Exception):
    """A transaction that may succeed when it is repeated; `maybe_done` if it may have been committed all the same."""

    def __init__(self, error: psycopg.Error, *, maybe_done: bool = False) -> None:
        super().__init__(str(error))
        self.error, self.maybe_done = error, maybe_done


class _NotLent(Exception):
    """A transaction that failed because of a step that was lent; without that it may succeed."""


class _Commit:
    """One try to commit a batch."""

    def __init__(self, batch: list[Ask]) -> None:
        self.batch = batch
        self.lent = Effects(durable=False, remembers=True)  # of steps that resting workers have lent
        self.taken: Effects | None = None  # of submissions that were taken in from others' transactions
        self.sent = False  # the COMMIT is on its way

    @property
    def own(self) -> list[Effects]:
        """What follows of the commit that no caller asked for."""
        return [self.lent] if self.taken is None else [self.lent, self.taken]

    @property
    def effects(self) -> list[Effects]:
        """All that follows the commit."""
        return [*self.own, *(ask.note for ask in self.batch)]

    @property
    def is_durable(self) -> bool:
        """Whether it must survive a crash of the server. A claim's events make it so: the claimed run goes on then."""
        return any(each.durable or each.events for each in self.effects)


class PostgresWriter(Writer):
    """Does work inside transactions. `channel` is that of this process; `far` tells which workers are elsewhere."""

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
        self.connection = WriteConnection(address, channel)
        self.cache = StepCache(pooled=address.pooled)
        self.missed = False  # wake-ups may have been missed

    def look(self) -> bool:
        """Tell whether wake-ups may have been missed."""
        missed, self.missed = self.missed, False
        return missed

    def let_go(self) -> None:
        """Close the connection."""
        self.cache.clear()
        self.connection.close()

    # From a batch to its transactions

    def transact(self, batch: list[Ask]) -> None:
        """Do the batch in one transaction, or each in one of its own if one of them fails."""
        if len(batch) == 1:
            self._alone(batch[0])
            return
        try:
            self._repeated(batch)
        except LanewayError as error:
            # A server's refusal of one piece of work concerns that alone; all fail only where the server does.
            if isinstance(error, StoreUnavailable) or isinstance(error.__cause__, psycopg.OperationalError):
                raise
            self._one_by_one(batch)
        except Exception:  # noqa: BLE001 - whose it is comes out when each is done alone
            self._one_by_one(batch)

    def _one_by_one(self, batch: list[Ask]) -> None:
        for ask in batch:
            self._alone(ask)

    def _alone(self, ask: Ask) -> None:
        try:
            self._repeated([ask])
        except Exception as error:  # noqa: BLE001 - it goes to its caller
            ask.error = error

    def _repeated(self, batch: list[Ask]) -> None:
        """Do the batch in a transaction that is repeated where that may help."""
        cuts, maybe_done, lends = 0, False, True
        for left in reversed(range(_TRIES)):
            try:
                self._commit(_Commit(batch), lends=lends)
                return
            except _NotLent:
                log.exception("a step that was lent could not be done")
                lends = False
            except _Undone as undone:
                cuts, maybe_done = cuts + was_cut(undone.error), maybe_done or undone.maybe_done
                if not left or cuts > 1:
                    raise meant(undone.error, self._address, maybe_done=maybe_done) from undone.error
            except StoreUnavailable as error:
                error.maybe_done = error.maybe_done or maybe_done
                raise

    # One transaction

    def _commit(self, commit: _Commit, *, lends: bool) -> None:
        """Do the transaction, and what follows it. Raises _Undone where a repeat may help."""
        try:
            memory = self._transaction(commit, lends=lends)
        except LockTimeout as timeout:
            raise self._locked_out(timeout.error) from timeout.error
        except psycopg.Error as error:
            raise self._broken(commit, error) from error
        except Exception:
            # The work's own: nothing of it is to stay.
            self.connection.roll_back()
            raise
        self.connection.committed()
        self.cache.keep(memory)
        self.tell_of(commit.own)

    def _transaction(self, commit: _Commit, *, lends: bool) -> Memory | None:
        """Begin, do all the work, and commit; return what is known after it."""
        link, first = self.connection.opened(), commit.batch[0].note
        # Nothing in here may swallow an error: the pipe would go on without its transaction.
        with Pipe(link) as pipe:
            db = PostgresDatabase(pipe)
            # What is remembered is not asked. If others have written meanwhile, it is asked once that is known.
            header = self.connection.begin(db, first.ahead(self.cache.memory, self.cache.lanes))
            db.now = self._now or (lambda: header.now)
            memory = self.cache.begin(header.number)
            if header.posted:
                memory, commit.taken = None, self.known_to(Effects())
                take_in(db, commit.taken, db.now())
            for ask in commit.batch:
                db.expect(*ask.note.ahead(memory, self.cache.lanes))  # unless it was asked above, and is still true
                memory = _done(ask, db, memory)
            memory = self._lend(db, commit, memory, lends=lends)
            self._notify(db, commit.effects, watched=header.watched)
            if not commit.is_durable:
                db.say("SET LOCAL synchronous_commit TO off")
            db.say("COMMIT")
            commit.sent = True
        return memory

    def _lend(self, db: PostgresDatabase, commit: _Commit, memory: Memory | None, *, lends: bool) -> Memory | None:
        """Do the steps that were lent, or else only have their workers woken; return what is known after it."""
        lent, effects = self.known_to(commit.lent), commit.effects
        if not any(each.lender for each in effects):
            return memory
        if not lends:
            only_wake(db, lent, effects)
            return None
        lent.memory = memory
        try:
            lend(db, lent, effects, self.cache.lanes)
        except psycopg.Error:
            raise
        except Exception as error:
            raise _NotLent from error
        memory, lent.memory = lent.memory, None
        return memory

    def _notify(self, db: PostgresDatabase, effects: list[Effects], *, watched: bool) -> None:
        for woken in (worker for each in effects for worker in each.wake):
            if self._far(woken):
                db.say(_NOTIFY, woken.socket or "", written(woken, _LONGEST))
        if watched and any(each.events for each in effects):
            db.say(_NOTIFY, self._address.news, self._channel)

    # What broke

    def _locked_out(self, error: psycopg.Error) -> Exception:
        if self.connection.cut_off_frozen():
            return _Undone(error)
        self.let_go()
        return meant(error, self._address)

    def _broken(self, commit: _Commit, error: psycopg.Error) -> Exception:
        self.let_go()
        if commit.sent:
            # If it was committed, a repeat finds nobody to wake, and workers that rest here were not notified.
            self.tell_of([_without_answers(each) for each in commit.effects])
        cut = was_cut(error)
        if cut or isinstance(error, AGAIN):
            return _Undone(error, maybe_done=commit.sent and cut)
        return explained(error, self._address, maybe_done=commit.sent and not is_answer(error))


def _done(ask: Ask, db: PostgresDatabase, memory: Memory | None) -> Memory | None:
    """Do one piece of work; return what is known after it."""
    effects: Effects = ask.note
    effects.wake, effects.events, effects.lender = [], False, None  # it may have been tried before
    effects.memory = memory if effects.remembers else None
    value: Any = ask.work(db)
    ask.value, known, effects.memory = value, effects.memory, None
    return known


def _without_answers(effects: Effects) -> Effects:
    """Return what follows a COMMIT that may have failed: a worker that was given something asks for it."""
    effects.wake = [woken._replace(answer=None) for woken in effects.wake]
    return effects
