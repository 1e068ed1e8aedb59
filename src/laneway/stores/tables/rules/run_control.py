"""Changes of runs by calls and by session policies, in whatever state the runs are.

`core.lifecycle.control` and `core.lifecycle.arrivals` decide what follows.

**Many runs in one call.** Removing one run may start others, among them runs that the call will remove next. So moves
are written after each run, and the tables show where the next one is; only counts are written at the end. The end of a
run may also change the runs that it called and the run that called it: rows of these that were read before are out of
date, see `fresh`.

**Race**: none with a worker's step. Whichever commits first wins: a settled run has no lease to write a request to, and
a settlement finds the request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from laneway.core.lifecycle import control
from laneway.core.lifecycle.control import Change
from laneway.core.records.events import Draft
from laneway.core.records.memos import Memo, MemoKind, Question, Wait
from laneway.core.records.run import Failure, MessageKind, NewRun, Request, Why
from laneway.core.records.states import TERMINAL, RunState
from laneway.stores.tables.rows import controlled_run, keys, leases, memos, submission_counts
from laneway.stores.tables.rows.controlled_run import ControlledRun
from laneway.stores.tables.rows.leased_run import append, log_on, logged
from laneway.stores.tables.rules.endings import Endings
from laneway.stores.tables.rules.inboxes import Inboxes
from laneway.stores.tables.rules.placement import Placement
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.wakeups import wake_holder
from laneway.stores.tables.sql.statements import sql_names
from laneway.stores.tables.state.transaction import Transaction

_SQL = sql_names("run_control")
_SETTLE = sql_names("settlements")["settle"]
_failure = msgspec.json.Decoder(Failure).decode


def _at_once() -> None:
    """Write nothing: the tables are up to date."""


class RunControl:
    """Changes runs in one transaction; implements `core.lifecycle.arrivals.Floor` and `endings.Beside`.

    Each changed run keeps `call`, so that a repeat is recognised. `flush` is called before runs are looked up.
    """

    def __init__(
        self, transaction: Transaction, after_commit: AfterCommit, call: str = "", flush: Callable[[], None] = _at_once
    ) -> None:
        self._transaction, self._after_commit, self._call, self._flush = transaction, after_commit, call, flush
        self._db, self._now = transaction.db, transaction.now
        self._beside: set[int] = set()  # numbers of runs that changed because another run changed
        self._abandons = False  # the call under way abandons: so do its effects on runs that were called
        self._placement, self.endings = Placement(transaction), Endings(transaction, after_commit, self)

    # For session policies

    def queued(self, session: str) -> list[ControlledRun]:
        """Return the runs that have joined and were never started; see `Floor`."""
        self._flush()
        book = self._transaction.counts.sessions[session]
        first = [book.unstarted] if book.unstarted else []
        return self.read(first + [number for (number,) in self._db.execute(_SQL["held"], (session,))])

    def active(self, session: str) -> list[ControlledRun]:
        """Return the runs that were started and have not ended; see `Floor`."""
        self._flush()
        return self.read(sorted(self._transaction.counts.sessions[session].active))

    def future(self, session: str) -> list[ControlledRun]:
        """Return the runs that have not joined yet; see `Floor`."""
        queued = {run.number for run in self.queued(session)}
        numbers = [number for (number,) in self._db.execute(_SQL["future"], (session,))]
        return self.read([number for number in numbers if number not in queued])

    def run(self, number: int) -> ControlledRun:
        """Return a run by its number; see `Floor`."""
        self._flush()
        [run] = self.read([number])
        return run

    def drop(self, run: ControlledRun, why: Why) -> None:
        """Drop a run that was never started; see `Floor`."""
        submission_counts.count(self._db, run.lane, f"dropped {why}")
        keys.free(self._db, run.number)
        self.apply(run, control.drop(run.stands, why))

    def supersede(self, run: ControlledRun, by: str) -> None:
        """End a run that waits for an answer; see `Floor`."""
        self._flush()  # the message that supersedes it is a run now, and may be the next to start
        self.apply(run, control.supersede(by))

    def answer(self, run: ControlledRun, answer: str, question: Question | None = None) -> None:
        """Answer a question, by default the first; see `Floor`."""
        question = question or (run.wait or Wait()).questions[0]
        memo = Memo(kind=MemoKind.ANSWER, name=question.name, value=answer, about=question.about, attempt=run.attempt)
        memos.put(self._db, [(run.number, memo)])
        self.apply(run, control.go_on(run.requested, control.answered(question, answer)))

    def cancel(
        self, run: ControlledRun, *, clears: bool = False, abandon: bool = False, why: Why | None = None
    ) -> bool:
        """Cancel a run; see `Floor`."""
        lapsed = run.died is not None or (run.holder is not None and leases.is_dead(self._db, run.holder, self._now))
        change = control.cancel(run.stands, run.requested, lapsed=lapsed, abandon=abandon, why=why)
        if clears and not run.cleared:
            run.cleared = True
            self._db.execute(_SQL["clear"], (run.number,))
        if change is None:
            return False
        before, self._abandons = self._abandons, abandon
        self.apply(run, change)
        self._abandons = before
        return True

    # For other runs that are affected

    def named(self, ids: Collection[str]) -> list[ControlledRun]:
        """Return the runs of these ids; see `Beside`."""
        self._transaction.write_shelves()
        return self.read(controlled_run.numbers(self._db, ids))

    def cancel_called(self, run: ControlledRun) -> None:
        """Cancel a run whose caller has ended; see `Beside`."""
        self._do_beside(run, lambda: self.cancel(run, abandon=self._abandons, why=Why.PARENT_ENDED))

    def let_go_on(self, run: ControlledRun, change: Change) -> None:
        """End the wait of a run; see `Beside`."""
        self._do_beside(run, lambda: self.apply(run, change))

    def expire(self, run: ControlledRun) -> None:
        """End a run whose question was not answered in time."""
        self._do_beside(run, lambda: self.apply(run, control.expire(run.wait or Wait(), self._now)))

    def say(self, run: ControlledRun, *drafts: Draft) -> None:
        """Append events to the run's log; see `Beside`."""
        log_on(self._db, run, drafts, self._now, leased=run.holder is not None)
        self._beside.add(run.number)

    def fresh(self, run: ControlledRun) -> ControlledRun:
        """Return the run, read again if it has changed since."""
        return self.read([run.number])[0] if run.number in self._beside else run

    def _do_beside(self, run: ControlledRun, work: Callable[[], object]) -> None:
        self._beside.add(run.number)
        call, self._call = self._call, ""
        work()
        self._call = call

    # The change itself

    def read(self, numbers: Collection[int]) -> list[ControlledRun]:
        """Return these runs, in this order, and load the counts they are part of."""
        if not numbers:
            return []
        runs = controlled_run.read(self._db, numbers)
        self._transaction.counts.fetch(runs)
        return runs

    def apply(self, run: ControlledRun, change: Change) -> None:
        """Change one run: its place, its log and its record."""
        text = logged(run, change.drafts, self._now)
        if change.state in TERMINAL:
            self._end(run, change, text)
        else:
            append(self._db, run, text)
            if change.state is RunState.RUNNING:
                self._request(run, change.request)
            else:
                self._placement.move(run, change.state)
                self._settle(run, change, run.due_at)
        self._remember(run)
        self._transaction.write_shelves()
        self._after_commit.events = self._after_commit.changed_others = True

    def take(self, run: ControlledRun, new: NewRun, lane: str, kind: MessageKind) -> None:
        """Append a message to a run."""
        Inboxes(self._transaction).append(run, new, lane, kind, leased=run.holder is not None)
        self._after_commit.events = self._after_commit.changed_others = True
        if kind is MessageKind.STEERED:
            self._tell(run)

    def _tell(self, run: ControlledRun) -> None:
        """Wake up the worker that executes the run: the run has a request."""
        # The worker of a lapsed lease is gone.
        if run.died is None and run.holder is not None:
            wake_holder(self._db, self._after_commit, run.holder)

    def _request(self, run: ControlledRun, request: Request | None) -> None:
        self._db.execute(_SQL["request"], (request, run.events, run.number))
        self._transaction.requested = True
        self._tell(run)

    def _end(self, run: ControlledRun, change: Change, text: str) -> None:
        self._placement.take_out(run)
        self._settle(run, change, None, self._now, text)
        if self._transaction.inboxes:
            Inboxes(self._transaction).close(run, cleared=run.cleared)
        failure = None if run.error is None else _failure(run.error)
        self.endings.close(run, change.state, reason=change.reason, failure=failure)
        self._transaction.flow.end(run)

    def _settle(
        self,
        run: ControlledRun,
        change: Change,
        due_at: int | None = None,
        ended_at: int | None = None,
        log: str | None = None,
    ) -> None:
        # An ended run keeps its due time.
        facts, times = (run.attempt, run.crashes, run.fence, run.events), (due_at, run.started_at, ended_at)
        reason = change.reason if change.state in TERMINAL else run.reason
        ending = (reason, run.error, None, log)
        self._db.execute(_SETTLE, (run.number, change.state.value, *facts, *times, *ending))

    def _remember(self, run: ControlledRun) -> None:
        if self._call:
            self._db.execute(_SQL["remember"], (run.number, self._call))
        elif run.call is not None:
            self._db.execute(_SQL["forget"], (run.number,))
