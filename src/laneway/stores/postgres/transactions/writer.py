"""The writer: one thread and one connection per store object, one transaction per batch of waiting work.

**The model.** A writer holds an advisory lock of the schema from the beginning of its transaction to the COMMIT, so the
core's rules run here as they do on SQLite: no other transaction writes (decision 26). All waiting work goes into one
transaction. Statements that only write are sent without waiting; one COMMIT makes everything durable; then callers get
their results. Wake-ups are part of the transaction (`pg_notify`): they go out if and only if it is
committed.

**Errors.** If one of several pieces of work fails, all are undone and each is done in a transaction of its own: a bad
one never fails its neighbours. A deadlock or a failed serialisation, which only other programs' locks can cause, is
repeated. So is, once and over a new connection, a transaction whose connection was cut: every verb may be repeated.
If it breaks before the COMMIT is sent, nothing has happened; after that, everything may have happened: `maybe_done`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import psycopg

from laneway.errors import LanewayError, StoreUnavailable
from laneway.stores.postgres.inbox.intake import take_in
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import diagnosed_error
from laneway.stores.postgres.server.errors import AGAIN, as_laneway_error, is_answer, was_cut
from laneway.stores.postgres.server.pipeline import Pipeline
from laneway.stores.postgres.transactions.claim_ahead import ReplyAhead, chosen, claim_ahead
from laneway.stores.postgres.transactions.database import PostgresDatabase
from laneway.stores.postgres.transactions.write_connection import LockTimeout, WriteConnection
from laneway.stores.tables.runtime.after_commit import AfterCommit, IdleWorker, WakeUp
from laneway.stores.tables.runtime.commit_options import Durability
from laneway.stores.tables.runtime.wakeups import wake_idle
from laneway.stores.tables.runtime.worker_thread import WorkItem
from laneway.stores.tables.runtime.writer import Writer

_TRIES = 5  # of a transaction that was stopped by other locks or by a lost connection
_NOTIFY = "SELECT pg_notify($1::text, $2::text)"
log = logging.getLogger("laneway.postgres")


class _Undone(Exception):
    """A transaction that may succeed when it is repeated; `maybe_done` if it may have been committed all the same."""

    def __init__(self, error: psycopg.Error, *, maybe_done: bool = False) -> None:
        super().__init__(str(error))
        self.error, self.maybe_done = error, maybe_done


class _NotAhead(Exception):
    """A transaction that failed because of a claim that was made ahead; without that it may succeed."""


class _Commit:
    """One try to commit a batch."""

    def __init__(self, batch: list[WorkItem]) -> None:
        self.batch = batch
        self.extra = AfterCommit()  # what follows from claims ahead, and from submissions of the inbox
        self.replies: list[ReplyAhead] = []  # to the steps that were made for idle workers
        self.posted = False  # submissions of the inbox were accepted
        self.sent = False  # the COMMIT is on its way

    @property
    def after_commits(self) -> list[AfterCommit]:
        """All that is to be done after the commit."""
        return [self.extra, *(item.after_commit for item in self.batch)]

    @property
    def is_durable(self) -> bool:
        """Whether it must survive a crash of the server. A claim's events make it so: the claimed run goes on then."""
        return (
            self.posted
            or any(item.options.durability is not Durability.LATER for item in self.batch)
            or any(each.events for each in self.after_commits)
        )


class PostgresWriter(Writer):
    """Does work inside transactions. `channel` is that of this process.

    `reply` hands replies to workers of this process; `is_far` tells whether a worker is in another process, `is_alive`
    whether a claim may be made for it.
    """

    def __init__(
        self,
        address: Address,
        now: Callable[[], int] | None,
        wake: Callable[[list[WakeUp]], None],
        publish: Callable[[], None],
        reply: Callable[[list[ReplyAhead]], None],
        is_far: Callable[[WakeUp], bool],
        is_alive: Callable[[IdleWorker], bool],
        channel: str,
    ) -> None:
        super().__init__("laneway-postgres-writer", wake, publish)
        self._address, self._now, self._channel = address, now, channel
        self._reply, self._is_far, self._is_alive = reply, is_far, is_alive
        self.connection = WriteConnection(address, channel)
        self.missed = False  # wake-ups may have been missed

    def look(self) -> bool:
        """Return whether wake-ups may have been missed."""
        missed, self.missed = self.missed, False
        return missed

    def close_connection(self) -> None:
        """Close the connection."""
        self.connection.close()

    # From a batch to its transactions

    def commit(self, batch: list[WorkItem]) -> None:
        """Do the batch in one transaction, or each in one of its own if one of them fails."""
        if len(batch) == 1:
            self._alone(batch[0])
            return
        try:
            self._repeated(batch)
        except LanewayError as error:
            # An error of one piece of work concerns it alone; all fail only if the server fails.
            if isinstance(error, StoreUnavailable) or isinstance(error.__cause__, psycopg.OperationalError):
                raise
            self._one_by_one(batch)
        except Exception:  # noqa: BLE001 - each is repeated alone, and then the error goes to its caller
            self._one_by_one(batch)

    def _one_by_one(self, batch: list[WorkItem]) -> None:
        for item in batch:
            self._alone(item)

    def _alone(self, item: WorkItem) -> None:
        try:
            self._repeated([item])
        except Exception as error:  # noqa: BLE001 - it goes to its caller
            item.error = error

    def _repeated(self, batch: list[WorkItem]) -> None:
        """Do the batch in a transaction, and repeat it if that may help."""
        cuts, maybe_done, ahead = 0, False, True
        for left in reversed(range(_TRIES)):
            try:
                self._commit(_Commit(batch), ahead=ahead)
                return
            except _NotAhead:
                log.exception("a claim could not be made ahead")
                ahead = False
            except _Undone as undone:
                cuts, maybe_done = cuts + was_cut(undone.error), maybe_done or undone.maybe_done
                if not left or cuts > 1:
                    raise as_laneway_error(undone.error, self._address, maybe_done=maybe_done) from undone.error
            except StoreUnavailable as error:
                error.maybe_done = error.maybe_done or maybe_done
                raise

    # One transaction

    def _commit(self, commit: _Commit, *, ahead: bool) -> None:
        """Do the transaction, and what follows it. Raises _Undone if a repeat may help."""
        try:
            self._transaction(commit, ahead=ahead)
        except LockTimeout as timeout:
            raise self._locked_out(timeout.error) from timeout.error
        except psycopg.Error as error:
            raise self._broken(commit, error) from error
        except Exception:
            # An error of the work itself: undo it.
            self.connection.roll_back()
            raise
        self.connection.committed()
        self.follow_up([commit.extra])
        self._reply(commit.replies)
        for each in commit.replies:
            self.note_lanes(each.reply.reply)

    def _transaction(self, commit: _Commit, *, ahead: bool) -> None:
        """Begin, do all the work, and commit."""
        link = self.connection.opened()
        # Nothing in here may swallow an error: the pipeline would go on outside the transaction.
        with Pipeline(link) as pipe:
            db = PostgresDatabase(pipe)
            header = self.connection.begin(db, commit.batch[0].options.prefetch())
            db.now = self._now or (lambda: header.now)
            if header.posted:
                commit.posted = True
                take_in(db, commit.extra, db.now())
            for item in commit.batch:
                db.expect(*item.options.prefetch())  # those that were not prefetched above, or are out of date
                self._do(item, db)
            self._claim_ahead(db, commit, ahead=ahead)
            self._notify(db, commit, watched=header.watched)
            if not commit.is_durable:
                db.say("SET LOCAL synchronous_commit TO off")
            db.say("COMMIT")
            commit.sent = True

    def _do(self, item: WorkItem, db: PostgresDatabase) -> None:
        """Do one piece of work."""
        item.reset()  # it may have been tried before
        item.value = item.work(db, item.after_commit)

    def _claim_ahead(self, db: PostgresDatabase, commit: _Commit, *, ahead: bool) -> None:
        """Make the steps of the chosen idle workers, or only wake the workers up."""
        workers = chosen(commit.after_commits)
        if not ahead:
            wake_idle(db, commit.extra, workers)
        elif workers:
            try:
                commit.replies = claim_ahead(db, commit.extra, workers[0], self.recent_lanes, self._is_alive)
            except psycopg.Error:
                raise
            except Exception as error:
                raise _NotAhead from error

    def _notify(self, db: PostgresDatabase, commit: _Commit, *, watched: bool) -> None:
        after_commits = commit.after_commits
        sent = [(wake_up, wake_up.incarnation) for each in after_commits for wake_up in each.wake_ups]
        sent += [(reply.wake_up, reply.text) for reply in commit.replies]
        for wake_up, text in sent:
            if self._is_far(wake_up):
                db.say(_NOTIFY, wake_up.address or "", text)
        if watched and any(each.events for each in after_commits):
            db.say(_NOTIFY, self._address.news, self._channel)

    # What broke

    def _locked_out(self, error: psycopg.Error) -> Exception:
        if self.connection.cut_off_frozen():
            return _Undone(error)
        self.close_connection()
        return as_laneway_error(error, self._address)

    def _broken(self, commit: _Commit, error: psycopg.Error) -> Exception:
        self.close_connection()
        if commit.sent:
            # If it was committed, a repeat finds no idle worker to wake up, and those of this process were not woken.
            # Workers for which a claim was made request the reply.
            self.follow_up(commit.after_commits)
            self._wake([reply.wake_up for reply in commit.replies])
        cut = was_cut(error)
        if cut or isinstance(error, AGAIN):
            return _Undone(error, maybe_done=commit.sent and cut)
        return diagnosed_error(error, self._address, maybe_done=commit.sent and not is_answer(error))
