"""Checking: does the file agree with itself? And setting right what does not.

**What is believed.** A run that has ended has ended. A lease is believed before a shelf, and everything that can be
counted before its count. A run that is in no place, or in two of them, goes to the due shelf, from where the next step
takes it in by the usual rules; at worst it loses its turn.

**Repairing** looks again for each kind of trouble in turn, because mending one may show the next, and happens in the
transaction that looked: nobody can come between. Last, the rules themselves bring back what has room now.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from laneway.core.audit import Counts, Finding, Key, Spot, differences, miscounted, recount
from laneway.stores.sqlite.effects import Effects
from laneway.stores.sqlite.statements import load
from laneway.stores.sqlite.transaction import Transaction
from laneway.stores.sqlite.waking import wake_for_work

_SQL = load("checking")
_OFF_THE_SHELVES = ("unready", "unpark", "unhold", "undue")


class Rule(NamedTuple):
    """One kind of trouble: the statement that finds it, what it is, and the statements that mend it."""

    find: str
    wrong: str
    mends: tuple[str, ...]


RULES = (
    Rule("find_unknown", "a place is taken for it, but there is no such run", ("unlease", *_OFF_THE_SHELVES)),
    Rule("find_undead", "it has ended, but is still to be executed", ("unlease", *_OFF_THE_SHELVES)),
    Rule("find_doubled", "it is in several places", _OFF_THE_SHELVES),
    Rule("find_stranded", "it is pending, but in no place where a claim would meet it", ("put_due",)),
    Rule("find_unheld", "it holds leases, but is not known, so nobody takes over from it", ("bury",)),
    Rule(
        "find_orphans",
        "there are results or events of it, but no run",
        ("drop_outcome", "drop_events", "drop_checkpoint", "drop_control"),
    ),
    Rule("find_unnumbered", "its events are more or fewer than counted", ("number_lease", "number_outcome")),
)
# These follow from counts, so they are mended when those are right.
GATES = (
    Rule("find_parked", "parked runs could go on, but nothing brings them back", ()),  # `_let_go_on` does
    Rule("find_held", "held runs could go on, but nothing admits them", ("join_anew", "hold_nothing")),
)


def look(db: sqlite3.Connection) -> list[Finding]:
    """Return what does not agree."""
    findings = [Finding(row[0], rule.wrong) for rule in (*RULES, *GATES) for row in db.execute(_SQL[rule.find])]
    return findings + [miscounted(*difference) for difference in _miscounts(db)]


def repair(db: sqlite3.Connection, effects: Effects, now: int) -> list[Finding]:
    """Return what did not agree, and set it right; see `UpkeepStore.check`."""
    findings = look(db)
    if findings:
        for rules in (RULES, GATES):
            for rule in rules:
                _mend(db, rule)
            _mend_counts(db)
        _let_go_on(db, now)
        wake_for_work(db, effects)
    return findings


def _mend(db: sqlite3.Connection, rule: Rule) -> None:
    for _, *parameters in db.execute(_SQL[rule.find]).fetchall():
        for statement in rule.mends:
            db.execute(_SQL[statement], parameters)


def _mend_counts(db: sqlite3.Connection) -> None:
    for (kind, *owner, name), _, count in _miscounts(db):
        db.execute(_SQL[f"set_{kind}_{name}"], (count, *owner))
    for table in ("turns", "seats", "sessions", "asides"):
        db.execute(_SQL[f"tidy_{table}"])


def _let_go_on(db: sqlite3.Connection, now: int) -> None:
    transaction = Transaction(db, now)
    for (lane,) in db.execute(_SQL["all_lanes"]).fetchall():
        transaction.flow.reopen(lane, transaction.books.lanes.users_parked(lane))
    transaction.write()


def _miscounts(db: sqlite3.Connection) -> list[tuple[Key, int, int]]:
    return differences(_stored(db), recount(Spot(*row) for row in db.execute(_SQL["spots"])))


def _stored(db: sqlite3.Connection) -> Counts:
    tables = ("lanes", "paces", "turns", "seats", "sessions", "asides")
    return {tuple(key): count for table in tables for *key, count in db.execute(_SQL[f"count_{table}"])}
