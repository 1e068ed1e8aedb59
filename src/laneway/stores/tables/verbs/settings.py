"""Operator settings, and lanes that code declares. Runs that may start because of them move in the same transaction.

The setting is written first, so that the transaction that follows reads it like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

import msgspec

from laneway.core.queue.shelves import Shelf
from laneway.core.queue.turns import STILL
from laneway.core.records.policy import NO_RULE, Lane, Rule
from laneway.core.records.states import RunState
from laneway.errors import UnknownLane
from laneway.ports.gates import Held
from laneway.ports.settings import (
    BreakerClosed,
    Hold,
    LaneSetting,
    LaneUnset,
    SessionSetting,
    Setting,
    TaskDisabled,
    UserCap,
)
from laneway.stores.tables.rows import controlled_run
from laneway.stores.tables.rows.settings import ruled_sessions
from laneway.stores.tables.runtime.after_commit import AfterCommit
from laneway.stores.tables.runtime.wakeups import wake_for_work
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, as_json, sql_names
from laneway.stores.tables.state import circuits
from laneway.stores.tables.state.transaction import Transaction

_SQL = sql_names("settings")
_decode = msgspec.json.Decoder(Lane).decode


def declare_lanes(db: Database, after_commit: AfterCommit, lanes: Sequence[Lane], now: int) -> None:
    """Write the declared lanes; see `LaneStore.declare_lanes`."""
    last = {lane.name: lane for lane in lanes}
    known = {name: (declared, ruled) for name, declared, ruled in _lane_rules(db, last)}
    changed = [lane for name, lane in last.items() if known.get(name, (None, None))[0] != lane]
    for lane in changed:
        _, ruled = known.get(lane.name, (None, None))
        _set_lane(db, ruled or lane, lane, ruled)
    if changed:
        _reopen(db, after_commit, [lane.name for lane in changed], now)


def put(db: Database, after_commit: AfterCommit, setting: Setting, now: int) -> None:
    """Write an operator setting; see `SettingStore.set`."""
    match setting:
        case LaneSetting(lane):
            _rule_lane(db, after_commit, lane, now)
        case LaneUnset(name):
            _unset_lane(db, after_commit, name, now)
        case UserCap(user, lane_name, cap):
            _set_cap(db, after_commit, user, lane_name, cap, now)
        case SessionSetting(name, rule, throttled):
            _set_session(db, after_commit, name, rule, throttled, now)
        case Hold(what, name, held):
            _hold(db, after_commit, what, name, now, held=held)
        case TaskDisabled(task, disabled):
            _disable(db, after_commit, task, now, disabled=disabled)
        case BreakerClosed(task, of_user):
            _close_breaker(db, after_commit, task, of_user, now)
        case _:
            assert_never(setting)


def _rule_lane(db: Database, after_commit: AfterCommit, lane: Lane, now: int) -> None:
    declared = next((declared for _, declared, _ in _lane_rules(db, [lane.name])), lane)
    _set_lane(db, lane, declared, lane)
    _reopen(db, after_commit, [lane.name], now)


def _unset_lane(db: Database, after_commit: AfterCommit, name: str, now: int) -> None:
    _refuse_unknown(db, name)
    [[_, declared, _]] = _lane_rules(db, [name])
    _set_lane(db, declared, declared, None)
    _reopen(db, after_commit, [name], now)


def _set_cap(db: Database, after_commit: AfterCommit, user: str, lane: str, cap: int | None, now: int) -> None:
    _refuse_unknown(db, lane)
    if cap is None:
        db.execute(_SQL["drop_cap"], (user, lane))
    else:
        db.execute(_SQL["set_cap"], (user, lane, cap))
    _let_user_go_on(db, after_commit, user, now)


def _set_session(
    db: Database, after_commit: AfterCommit, name: str, rule: Rule, throttled: bool | None, now: int
) -> None:
    before, _ = ruled_sessions(db, [name]).get(name, (NO_RULE, False))
    ruled = NO_RULE if rule == NO_RULE and throttled is None else rule.over(before)
    if ruled == NO_RULE:
        db.execute(_SQL["drop_session_rule"], (name,))
    else:
        db.execute(_SQL["set_session_rule"], (name, msgspec.json.encode(ruled).decode()))

    def go_on(transaction: Transaction) -> None:
        book = transaction.counts.sessions[name]
        if not book.idle:
            book.throttled = book.throttled if throttled is None else throttled
            transaction.flow.let_go_on(name, ())

    _change(db, after_commit, now, go_on)


def _hold(db: Database, after_commit: AfterCommit, what: Held, name: str, now: int, *, held: bool) -> None:
    if what is Held.LANE:
        _refuse_unknown(db, name)
        db.execute(_SQL["pause_lane"], (held, name))
        wake_for_work(db, after_commit, now)
        return
    if not db.execute(_SQL["pause" if held else "resume"], (what.value, name)).rowcount:
        return
    if what is Held.TASK:
        wake_for_work(db, after_commit, now)
    elif what is Held.USER:
        _let_user_go_on(db, after_commit, name, now)
    else:
        _change(db, after_commit, now, lambda transaction: _hold_session(transaction, name, held=held))


def _disable(db: Database, after_commit: AfterCommit, task: str, now: int, *, disabled: bool) -> None:
    db.execute(_SQL["disable" if disabled else "enable"], (task,))
    if not disabled:
        _close_breaker(db, after_commit, task, None, now)


def _close_breaker(db: Database, after_commit: AfterCommit, task: str, user: str | None, now: int) -> None:
    circuits.close(db, task, user)
    wake_for_work(db, after_commit, now)


def _lane_rules(db: Database, names: Iterable[str]) -> list[Row]:
    """Return these lanes: name, the declared lane, and the lane that an operator set, if any."""
    rows = db.execute(_SQL["lane_rules"], (as_json(names),))
    return [(name, _decode(declared), None if ruled is None else _decode(ruled)) for name, declared, ruled in rows]


def _set_lane(db: Database, lane: Lane, declared: Lane, ruled: Lane | None) -> None:
    holds = (lane.name, lane.limit, lane.per_user, lane.worker_limit, lane.max_pending, str(lane.when_full))
    said = (msgspec.json.encode(declared).decode(), None if ruled is None else msgspec.json.encode(ruled).decode())
    db.execute(_SQL["set_lane"], (*holds, *said))


def _refuse_unknown(db: Database, name: str) -> None:
    names = [known for (known,) in db.execute(_SQL["lane_names"])]
    if name not in names:
        raise UnknownLane(name, names)


def _change(db: Database, after_commit: AfterCommit, now: int, work: Callable[[Transaction], None]) -> None:
    transaction = Transaction(db, now)
    work(transaction)
    transaction.write()
    if transaction.header.resting:
        wake_for_work(db, after_commit, now)


def _reopen(db: Database, after_commit: AfterCommit, lanes: Sequence[str], now: int) -> None:
    def go_on(transaction: Transaction) -> None:
        for lane in lanes:
            transaction.flow.reopen(lane, transaction.counts.lanes.users_parked(lane))

    _change(db, after_commit, now, go_on)


def _let_user_go_on(db: Database, after_commit: AfterCommit, user: str, now: int) -> None:
    def go_on(transaction: Transaction) -> None:
        for (lane,) in db.execute(_SQL["lanes_parking"], (user,)).fetchall():
            transaction.flow.reopen(lane, {user})

    _change(db, after_commit, now, go_on)


def _hold_session(transaction: Transaction, name: str, *, held: bool) -> None:
    """Hold the admitted runs that do not run, or let them go on, and then the runs that wait behind them."""
    admitted = controlled_run.read(transaction.db, transaction.counts.sessions[name].admitted)
    still = []
    for run in admitted:
        if run.stands is not RunState.PENDING:
            continue
        shelf = transaction.shelves.remove(run, run.hint, run.due_at)
        if shelf is Shelf.DUE:
            # It waits for its next attempt; the pause of the session is checked when that is due.
            transaction.shelves.put_due(run, run.rank)
        elif held:
            transaction.flow.keep_still(run, shelf)
        elif run.kind & STILL:
            still.append(run)
        # A run that was moved may be the next of them, so the tables must show where it is.
        transaction.write_shelves()
    if not held:
        transaction.flow.let_go_on(name, still)
