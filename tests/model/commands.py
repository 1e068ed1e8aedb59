"""The random commands of the model test: how often each comes, and what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

from laneway.core.records.policy import PLAIN, Drop, Lane, Mode, Rule, SessionPolicy, WhenFull, WhileWaiting
from laneway.core.records.run import NewRun, RunFilter, RunLinks
from laneway.core.records.states import TERMINAL, RunState
from laneway.ports.control import Cancel, Pause
from laneway.ports.gates import Held
from laneway.ports.sessions import Extent
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
from laneway.testing.hand import new_run

TASKS = ("work", "mail", "scan")
SESSIONS = ("s1", "s2", "s3")
LANES = ("main", "team", "tight")


class Shape(msgspec.Struct, frozen=True):
    """What a random submission looks like."""

    task: str
    lane: str
    user: str | None
    session: str | None
    priority: int
    delay: float
    policy: SessionPolicy
    key: str | None
    n: int
    throttled: bool | None
    inside: bool
    ties: RunLinks | None

    def new(self, run_id: str) -> NewRun:
        """Return such a submission."""
        fields = msgspec.structs.asdict(self)
        throttled, fields["args"] = fields.pop("throttled"), {"n": fields.pop("n")}
        if self.session is None:
            return new_run(run_id, **fields | {"policy": None})
        new = new_run(run_id, **fields)
        arrival = msgspec.structs.replace(new.arrival or PLAIN, throttled=throttled)
        return msgspec.structs.replace(new, arrival=arrival)


POLICIES = st.builds(
    SessionPolicy,
    mode=st.sampled_from([Mode.QUEUE] * 4 + [Mode.COLLECT, Mode.COLLECT, Mode.STEER, Mode.STEER, *Mode]),
    max_concurrent=st.sampled_from([None, None, 1, 2, 3]),
    cap=st.sampled_from([None, None, None, 1, 3]),
    drop=st.sampled_from([None, None, *Drop]),
    debounce=st.sampled_from([0] * 6 + [1, 5]),
    max_wait=st.sampled_from([None, 5, 8]),
    pass_on_retry=st.sampled_from([None, None, True, False]),
    while_waiting=st.sampled_from([None, None, *WhileWaiting]),
)
AFTER = new_run("after", args={"n": 7})
LATER = new_run("later", task="mail", lane="nowhere", delay=2, ties=RunLinks(then=(AFTER,)))
TALK = new_run("talk", session="s1", policy=SessionPolicy(mode=Mode.INTERRUPT, max_concurrent=2))
TIES = (
    RunLinks(then=(AFTER,)),
    RunLinks(then=(AFTER, LATER), on_failure=(TALK,), trace={"id": "x"}),
    RunLinks(on_failure=(LATER, AFTER)),
    RunLinks(then=(TALK,), on_failure=(AFTER,)),
)
SHAPES = st.builds(
    Shape,
    task=st.sampled_from(["work"] * 6 + ["mail", "scan"]),
    lane=st.sampled_from(["tight"] * 4 + ["main", "team", "nowhere"]),
    user=st.sampled_from([None, "ann", "ann", "ann", "bob"]),
    session=st.sampled_from([None] * 3 + [*SESSIONS] * 2),
    priority=st.sampled_from([0] * 8 + [1, -1, 100, -100]),
    delay=st.sampled_from([0] * 8 + [1, 2.5, 30]),
    policy=POLICIES,
    key=st.sampled_from([None] * 8 + ["k1", "k2"]),
    n=st.sampled_from([0, 0, 0, 1]),
    throttled=st.sampled_from([None] * 8 + [True, False]),
    inside=st.sampled_from([False] * 9 + [True]),
    ties=st.sampled_from([None] * 8 + [*TIES]),
)
OUTCOMES = st.sampled_from(
    ["succeed"] * 4
    + ["fail", "fail", "release", "hopeless", "keep", "keep", "snooze", "heed"]
    + ["ask", "ask", "call", "call", "ask and call", "again", "leave"]
)
WAITS = st.sampled_from(["ask", "ask", "ask", "call", "ask and call", "again", "leave"])
WHO = st.integers(0, 3)
WHICH = st.integers(0, 9)
STATES = [RunState(name) for name in ("pending", "running", "paused", "waiting", "failed")]
FILTERS = st.builds(
    RunFilter,
    state=st.sampled_from([None, None, *STATES]),
    task=st.sampled_from([None, None, "work", "mail"]),
    lane=st.sampled_from([None, None, "tight", "main"]),
    user=st.sampled_from([None, None, "ann", "bob"]),
    session=st.sampled_from([None, None, None, "s1"]),
)
ANY = st.integers(0, 200)
LIMITS = st.builds(
    Lane,
    st.sampled_from(["tight", *LANES]),
    st.integers(1, 4),
    st.sampled_from([None, 1, 1, 2, 3]),
    worker_limit=st.sampled_from([None, None, None, 1, 2]),
    max_pending=st.sampled_from([None, None, None, 2, 6]),
    when_full=st.sampled_from(WhenFull),
)
RULES = st.builds(
    Rule,
    max_concurrent=st.sampled_from([None, 1, 2, 3]),
    cap=st.sampled_from([None, 1, 3]),
    drop=st.sampled_from([None, *Drop]),
    pass_on_retry=st.sampled_from([None, True, False]),
    while_waiting=st.sampled_from([None, *WhileWaiting]),
)
# Mostly not: what is held or disabled soon holds up everything.
SELDOM = st.sampled_from([True, False, False])
NAMES = {
    Held.LANE: (*LANES, "nowhere"),
    Held.USER: ("ann", "bob", "nobody"),
    Held.SESSION: SESSIONS,
    Held.TASK: TASKS,
}
HELD = st.sampled_from(Held).flatmap(lambda what: st.tuples(st.just(what), st.sampled_from(NAMES[what])))


# What an operator sets.
HOLDS = st.builds(lambda held, what: Hold(what[0], what[1], held), SELDOM, HELD)
SETTINGS: st.SearchStrategy[Setting] = st.one_of(
    st.builds(LaneSetting, LIMITS),
    st.builds(LaneUnset, st.sampled_from([*LANES, "nowhere"])),
    st.builds(
        UserCap, st.sampled_from(["ann", "bob"]), st.sampled_from([*LANES, "nowhere"]), st.sampled_from([None, 1, 2])
    ),
    HOLDS,
    HOLDS,
    st.builds(TaskDisabled, st.sampled_from(TASKS), SELDOM),
    st.sampled_from([BreakerClosed("work", user) for user in ("ann", "", None)] + [*map(BreakerClosed, TASKS)]),
    st.builds(SessionSetting, st.sampled_from(SESSIONS), RULES, st.sampled_from([None, None, True, False])),
)

# How often each command comes, and what it is given. Most of the time runs come, start and end: only then do caps,
# sessions and turns have anything to decide, and the rare commands something to disturb.
WEIGHTS = {
    "submit": 4,
    "flood": 3,
    "step": 6,
    "finish": 8,
    "break": 4,
    "wait": 6,
    "advance": 3,
    "renew_all": 2,
    "renew": 1,
    "reclaim": 2,
    "declare_lanes": 2,
    "set": 4,
    "stop": 2,
    "repeat": 2,
    "emit": 2,
    "settle_late": 1,
    "submit_again": 1,
    "leave": 1,
    "register": 1,
    "register_again": 1,
    "set_clock": 1,
    "prune": 1,
    "trim": 1,
    "steer": 4,
    "cancel_where": 1,
    "resume": 2,
    "resume_all": 1,
    "steer_again": 1,
    "answer": 3,
    "reply": 3,
    "save": 1,
    "keep": 1,
    "overdue": 1,
}
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "submit": st.tuples(st.lists(SHAPES, min_size=1, max_size=5)),
    "flood": st.tuples(SHAPES, st.integers(2, 6)),
    "step": st.tuples(
        WHO,
        st.lists(OUTCOMES, max_size=4),
        st.integers(0, 5),
        st.booleans(),
        st.integers(0, 2),
        st.sampled_from([None] * 6 + [True, False]),
    ),
    "finish": st.tuples(WHO, st.integers(0, 6), st.booleans()),
    "break": st.tuples(WHO, SHAPES, st.integers(1, 6), st.booleans()),
    "wait": st.tuples(WHO, st.lists(WAITS, min_size=1, max_size=3), st.integers(1, 5)),
    "advance": st.tuples(st.sampled_from([0.000001, 0.5, 1, 2, 5, 5, 7, 8, 16, 60])),
    "renew_all": st.tuples(),
    "renew": st.tuples(WHO),
    "reclaim": st.tuples(WHO, st.sampled_from([[], [], [], [0], [1]])),
    "declare_lanes": st.tuples(st.lists(LIMITS, min_size=1, max_size=2)),
    "set": st.tuples(SETTINGS),
    "stop": st.tuples(st.sampled_from(SESSIONS), st.sampled_from([Extent.OLDEST, *Extent])),
    "repeat": st.tuples(WHO, st.integers(1, 3)),
    "emit": st.tuples(WHO, WHICH, st.lists(st.sampled_from(["log", "delta", "delta"]), min_size=1, max_size=4)),
    "settle_late": st.tuples(WHO, WHICH, st.integers(0, 1)),
    "submit_again": st.tuples(SHAPES),
    "leave": st.tuples(WHO),
    "register": st.tuples(st.sampled_from([TASKS, TASKS, TASKS[:2], TASKS[1:]])),
    "register_again": st.tuples(WHO),
    "set_clock": st.tuples(st.sampled_from([-3600, -5, 5, 3600])),
    "prune": st.tuples(
        st.dictionaries(st.sampled_from(sorted(TERMINAL)), st.sampled_from([0, 5, 60])), st.integers(0, 6)
    ),
    "trim": st.tuples(st.sampled_from([0, 0, 5, 60]), st.sampled_from([0, 1, 2, 100])),
    "steer": st.tuples(ANY, st.sampled_from([Cancel()] * 3 + [Cancel(abandon=True)] + [Pause()] * 4)),
    "cancel_where": st.tuples(FILTERS, ANY, st.sampled_from([1, 2, 3, 500])),
    "resume": st.tuples(ANY),
    "resume_all": st.tuples(),
    "steer_again": st.tuples(st.integers(1, 4)),
    "answer": st.tuples(ANY, st.sampled_from([None, None, "quick", "slow", "slow", "nobody asked"])),
    "reply": st.tuples(ANY, POLICIES, st.sampled_from([None] * 4 + ["k1"])),
    "save": st.tuples(WHO, WHICH),
    "keep": st.tuples(WHO, WHICH, st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, max_size=3)),
    "overdue": st.tuples(WHO, WHICH),
}


def chosen(weights: Mapping[str, int], arguments: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Return commands, each as often as it weighs, with what it is given."""
    names = [name for name, weight in weights.items() for _ in range(weight)]
    return st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), arguments[name]))
