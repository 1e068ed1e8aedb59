"""Accepts the submissions of the inbox, which users' own transactions have committed.

The next writer accepts them, before its own work and in the same transaction, by the rules of every submission. The
user has a receipt that says `accepted` already. So a submission that the rules refuse becomes a run that ends as
`dropped`, with the reason.
"""

from __future__ import annotations

import logging

import msgspec

from laneway.core.queue.turns import FRESH
from laneway.core.records.events import DONE, DROPPED, draft
from laneway.core.records.policy import MAIN
from laneway.core.records.run import NewRun, Receipt, ReceiptOutcome, Why
from laneway.core.records.states import RunState
from laneway.stores.tables.rows import submission_counts
from laneway.stores.tables.rows.leased_run import LeasedRun, logged
from laneway.stores.tables.rows.run_row import encode_ties, row_of
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names
from laneway.stores.tables.state.transaction import Transaction
from laneway.stores.tables.verbs.submissions import submit

MOST = 500  # submissions that one transaction accepts

_SQL = sql_names("intake")
_NOT_YET = Why.SESSION_WAIT
_INSERT, _SETTLE = sql_names("submissions")["insert"], sql_names("settlements")["settle"]
_new_run = msgspec.json.Decoder(NewRun).decode

log = logging.getLogger("laneway.postgres")


def take_in(db: Database, after_commit: AfterCommit, now: int) -> None:
    """Accept the submissions, in the order in which they were posted."""
    batch, unread = list[NewRun](), list[str]()
    for letter, at, body in db.execute(_SQL["posted"], (MOST,)).fetchall():
        try:
            batch.append(_from(at, _new_run(body)))
        except msgspec.DecodeError:
            log.exception("submission %s of the inbox cannot be read, and is left there", letter)
            unread.append(letter)
    if unread:
        db.execute(_SQL["set_aside"], (as_json(unread),))
    if batch:
        receipts = submit(db, after_commit, batch, now, posted=True)
        # A submission whose session has due runs that have not joined yet stays: the next call finds it again, in
        # order.
        judged = [(new, receipt) for new, receipt in zip(batch, receipts, strict=True) if receipt.reason != _NOT_YET]
        for new, receipt in judged:
            if not _stands(new, receipt):
                _drop(db, new, receipt, now)
                after_commit.events = True
        db.execute(_SQL["taken"], (as_json(new.id for new, _ in judged),))


def _from(at: int, new: NewRun) -> NewRun:
    """Return the submission with its delay counted from its post, and not patient: no caller waits for a full lane."""
    later = msgspec.structs.replace(new, delay=0, due_at=at + new.delay) if new.delay else new
    return msgspec.structs.replace(later, patient=False)


def _stands(new: NewRun, receipt: Receipt) -> bool:
    return receipt.outcome is ReceiptOutcome.ACCEPTED and receipt.run_id == new.id


def _drop(db: Database, new: NewRun, receipt: Receipt, now: int) -> None:
    """Write a run for a submission that was not accepted; its state is `dropped`."""
    why = receipt.reason if receipt.outcome is ReceiptOutcome.REFUSED and receipt.reason else receipt.outcome.value
    transaction = Transaction(db, now)
    lane = new.lane if transaction.counts.lanes.knows(new.lane) else MAIN
    facts = (new.id, new.task, new.args, lane, new.user, new.session, new.priority)
    run = LeasedRun(FRESH, 0, transaction.next_number(), *facts, tied=encode_ties(new), noted=True)
    told = {"reason": why} if receipt.run_id == new.id else {"reason": why, "run": receipt.run_id}
    drafts = (draft(DROPPED, told), draft(DONE, {"state": RunState.DROPPED.value}))
    text = logged(run, drafts, now)
    db.insert_new(_INSERT, [row_of(run, None, now, now)])
    outcome = (run.number, RunState.DROPPED.value, run.attempt, run.crashes, run.fence, run.events)
    db.execute(_SETTLE, (*outcome, None, None, now, why, None, None, text))
    submission_counts.count(db, lane, f"dropped {why}")
