"""Check that the tables agree with each other, and repair them.

**Which table is right.** An ended run has ended. A lease counts more than a shelf entry, and counted rows count more
than their count. A run that is nowhere, or in two places, goes to the due shelf; from there the next step handles it by
the usual rules. At worst it loses its turn.

**Repair** looks again for each kind of mistake in turn, because a repair may reveal the next mistake. It happens in the
transaction that looked, so no other write comes between. At the end the rules start what has room now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from laneway.core.queue.audit import (
    ADMITTED,
    NO_PROBE,
    OUTSIDE,
    Counts,
    Finding,
    Key,
    Spot,
    counted,
    differences,
    list_again,
    miscounted,
    recount,
)
from laneway.core.queue.sessions import SessionBook
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.wakeups import wake_for_work
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import sql_names
from laneway.stores.tables.state.session_counts import SessionCounts
from laneway.stores.tables.state.transaction import Transaction

_SQL = sql_names("check")
_OFF_THE_SHELVES = ("unready", "unpark", "unhold", "undue")


class Rule(NamedTuple):
    """One kind of mistake: the statement that finds it, its description, and the statements that repair it."""

    find: str
    wrong: str
    mends: tuple[str, ...]


RULES = (
    Rule("find_unknown", "a place is taken for it, but there is no such run", ("unlease", *_OFF_THE_SHELVES)),
    Rule("find_undead", "it has ended, but is still to be executed", ("unlease", *_OFF_THE_SHELVES)),
    Rule("find_doubled", "it is in several places", _OFF_THE_SHELVES),
    Rule("find_waiting", "it waits, but for nothing", ("unwait",)),
    Rule("find_late", "it does not wait, but has a question to be answered in time", ("unask",)),
    Rule("find_stranded", "it is pending, but in no place where a claim would meet it", ("put_due",)),
    Rule("find_unheld", "it holds leases, but is not known, so nobody takes over from it", ("bury",)),
    Rule("find_unprobed", NO_PROBE, ("unprobe",)),
    Rule(
        "find_orphans",
        "there are results or events of it, but no run",
        (
            *("drop_outcome", "drop_events", "drop_checkpoint", "drop_prepared", "drop_control", "drop_messages"),
            *("drop_memos", "drop_wait", "drop_transient"),
        ),
    ),
    Rule("find_mistimed", "it is not found when its state says that it is due", ("time_job",)),
    Rule("find_stray_fires", "there are records of its fires, but no job", ("drop_fires",)),
    Rule("find_unnumbered", "its events are more or fewer than counted", ("number_lease", "number_outcome")),
)
# These follow from counts, so `_let_go_on` repairs them when the counts are right.
PARKED = Rule("find_parked", "parked runs could go on, but nothing brings them back", ())
HELD = "held runs could go on, but nothing admits them"


def look(db: Database) -> list[Finding]:
    """Return the mistakes."""
    # All are sent before the first result is read: over a network that is one round trip.
    asked = [(rule.wrong, db.execute(_SQL[rule.find])) for rule in (*RULES, PARKED)]
    findings = [Finding(row[0], wrong) for wrong, found in asked for row in found]
    books = _sessions(db)
    findings += [Finding(f"session {name}", HELD) for name, book in books.items() if book.held and book.admits()]
    return findings + [miscounted(*difference) for difference in _miscounts(db, books)]


def repair(db: Database, after_commit: AfterCommit, now: int) -> list[Finding]:
    """Return the mistakes, and repair them; see `UpkeepStore.check`."""
    findings = look(db)
    if findings:
        for rule in RULES:
            _mend(db, rule)
        _mend_counts(db)
        _let_go_on(db, now)
        wake_for_work(db, after_commit, now)
    return findings


def _mend(db: Database, rule: Rule) -> None:
    for _, *parameters in db.execute(_SQL[rule.find]).fetchall():
        for statement in rule.mends:
            db.execute(_SQL[statement], parameters)


def _mend_counts(db: Database) -> None:
    wrong = _miscounts(db, _sessions(db))
    for (kind, *owner, name), _, count in wrong:
        if kind != "session":
            db.execute(_SQL[f"set_{kind}_{name}"], (count, *owner))
    for table in ("turns", "seats", "asides", "broken"):
        db.execute(_SQL[f"tidy_{table}"])
    _list_again(db, {str(key[1]) for key, _, _ in wrong if key[0] == "session"})


def _list_again(db: Database, names: set[str]) -> None:
    """Rebuild the lists of runs in these sessions from the places of the runs."""
    sessions, spots = SessionCounts(db), _spots(db, _sessions(db))
    for name in names:
        book = sessions[name]
        list_again(book, [spot for spot in spots if spot.session == name])
        [[first, last]] = db.execute(_SQL["last_held"], (name,)).fetchall()
        book.front, book.joined = min(book.front, first or 0), max(book.joined, last or 0)
    sessions.write()


def _let_go_on(db: Database, now: int) -> None:
    transaction = Transaction(db, now)
    for (lane,) in db.execute(_SQL["all_lanes"]).fetchall():
        transaction.flow.reopen(lane, transaction.counts.lanes.users_parked(lane))
    for name, book in _sessions(db).items():
        if book.held and book.admits():
            transaction.flow.let_go_on(name, ())
    transaction.write()


def _miscounts(db: Database, books: Mapping[str, SessionBook]) -> list[tuple[Key, int, int]]:
    return differences(_stored(db, books), recount(_spots(db, books)))


def _spots(db: Database, books: Mapping[str, SessionBook]) -> list[Spot]:
    return [_spot(books, Spot(*row)) for row in db.execute(_SQL["spots"])]


def _spot(books: Mapping[str, SessionBook], spot: Spot) -> Spot:
    book = None if spot.session is None else books.get(spot.session)
    if book is None:
        return spot
    place = ADMITTED if spot.number in book.admitted else OUTSIDE if spot.number in book.outside else ""
    return spot._replace(place=place)


def _stored(db: Database, books: Mapping[str, SessionBook]) -> Counts:
    tables = ("lanes", "paces", "turns", "seats", "asides", "broken")
    asked = [db.execute(_SQL[f"count_{table}"]) for table in tables]
    stored: dict[Key, int] = {tuple(key): count for found in asked for *key, count in found}
    for name, book in books.items():
        stored |= {("session", name, what): count for what, count in counted(book).items()}
    return stored


def _sessions(db: Database) -> Mapping[str, SessionBook]:
    sessions = SessionCounts(db)
    names = [name for (name,) in db.execute(_SQL["sessions"])]
    sessions.fetch(names)
    return {name: sessions[name] for name in names}
