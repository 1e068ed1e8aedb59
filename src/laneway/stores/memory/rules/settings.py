"""What operators set in the memory store: limits, caps, rules, and what is paused or disabled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from laneway.core.queue.circuits import key_of
from laneway.core.queue.shelves import Shelf
from laneway.core.queue.turns import STILL
from laneway.core.records.breakers import CLOSED
from laneway.core.records.policy import NO_RULE, Lane, Rule
from laneway.core.records.states import RunState
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
from laneway.stores.memory.state.state import MemoryState


class OperatorSettings:
    """Applies settings of operators, and lets runs start that may start then."""

    def __init__(self, state: MemoryState) -> None:
        self._state, self._flow = state, state.flow

    def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        """Store the declarations; see `LaneStore`."""
        for name in self._state.put_lanes(lanes):
            self._reopen(name)

    def set(self, setting: Setting) -> None:
        """Set this; see `SettingStore`."""
        match setting:
            case LaneSetting(lane):
                self._set_lane(lane)
            case LaneUnset(name):
                self._unset_lane(name)
            case UserCap(user, lane_name, cap):
                self._set_cap(user, lane_name, cap)
            case SessionSetting(name, rule, throttled):
                self._set_session(name, rule, throttled)
            case Hold(what, name, held):
                self._hold(what, name, held=held)
            case TaskDisabled(task, disabled):
                self._disable(task, disabled=disabled)
            case BreakerClosed(task, of_user):
                self._close_breaker(key_of(task, of_user))
            case _:
                assert_never(setting)

    def _set_lane(self, lane: Lane) -> None:
        self._state.ruled_lanes[lane.name] = lane
        self._state.declared.setdefault(lane.name, lane)
        self._state.judge_lane(lane.name)
        self._reopen(lane.name)

    def _unset_lane(self, name: str) -> None:
        self._state.lane(name)
        self._state.ruled_lanes.pop(name, None)
        self._state.judge_lane(name)
        self._reopen(name)

    def _set_cap(self, user: str, lane: str, cap: int | None) -> None:
        self._state.lane(lane)
        if cap is None:
            self._state.caps.pop((user, lane), None)
        else:
            self._state.caps[user, lane] = cap
        self._judge_user(user)

    def _set_session(self, name: str, rule: Rule, throttled: bool | None) -> None:
        state = self._state
        ruled = NO_RULE if rule == NO_RULE and throttled is None else rule.over(state.ruled_sessions.get(name, NO_RULE))
        if ruled == NO_RULE:
            state.ruled_sessions.pop(name, None)
        else:
            state.ruled_sessions[name] = ruled
        if name in state.sessions:
            book = state.sessions[name]
            book.ruled = ruled
            book.judge()
            if throttled is not None:
                book.throttled = throttled
            self._flow.let_go_on(name, ())

    def _hold(self, what: Held, name: str, *, held: bool) -> None:
        state = self._state
        if what is Held.LANE:
            state.lane(name).paused = held
        elif what is Held.TASK:
            _put(state.paused_tasks, name, held)
        elif what is Held.USER:
            _put(state.paused_users, name, held)
            self._judge_user(name)
        else:
            _put(state.paused_sessions, name, held)
            if name in state.sessions and state.sessions[name].paused is not held:
                self._hold_session(name, held=held)

    def _disable(self, task: str, *, disabled: bool) -> None:
        _put(self._state.disabled_tasks, task, disabled)
        if not disabled:
            self._close_breaker(task)

    def _close_breaker(self, key: str) -> None:
        self._state.circuits.put(key, CLOSED)

    def _hold_session(self, name: str, *, held: bool) -> None:
        state = self._state
        book = state.sessions[name]
        book.paused = held
        waiting = [run for run in map(state.numbered, book.admitted) if run.state is RunState.PENDING]
        if held:
            for run in waiting:
                if run.shelf in (Shelf.READY, Shelf.PARKED):
                    state.heaps.remove(run)
                    self._flow.keep_still(run, run.shelf)
        else:
            still = [run for run in waiting if run.kind & STILL]
            for run in still:
                state.heaps.remove(run)
            self._flow.let_go_on(name, still)

    def _reopen(self, lane: str) -> None:
        self._flow.reopen(lane, set(self._state.lanes[lane].seats))

    def _judge_user(self, user: str) -> None:
        self._state.judge_user(user)
        for name, book in self._state.lanes.items():
            if user in book.seats:
                self._flow.reopen(name, {user})


def _put(names: set[str], name: str, there: bool) -> None:
    if there:
        names.add(name)
    else:
        names.discard(name)
