"""What operators set while everything runs, through `app.lanes`, `app.users`, `app.sessions` and `app.tasks`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from laneway import BadSetting, Lane, Scheduler, SessionPolicy, UnknownLane
from laneway.core.records.run import Gate
from laneway.core.records.states import RunState
from tests.support.waits import soon, turns, until


async def test_a_raised_limit_takes_effect_at_once(app: Scheduler) -> None:
    active, may_end = [], asyncio.Event()

    @app.task
    async def work() -> None:
        active.append(1)
        await may_end.wait()

    await app.lanes.set(Lane("main", limit=1))
    async with app.running():
        receipts = [await work.submit() for _ in range(3)]
        await until(lambda: len(active) == 1)
        await turns()
        before = len(active)
        reasons = await app.why(receipts[-1])
        await app.lanes.set(Lane("main", limit=3))
        await until(lambda: len(active) == 3)
        may_end.set()
        await soon(asyncio.gather(*map(app.wait, receipts)))

    assert before == 1
    assert [(reason.gate, reason.runs) for reason in reasons] == [(Gate.LANE_FULL, (receipts[0].run_id,))]


@pytest.mark.parametrize("what", ["lanes", "users", "sessions", "tasks"])
async def test_what_is_paused_is_accepted_and_held_until_resumed(app: Scheduler, what: str) -> None:
    app.task(name="work")(lambda: "done")
    noun: Any = getattr(app, what)
    name = {"lanes": "main", "users": "ann", "sessions": "chat", "tasks": "work"}[what]

    await noun.pause(name)
    receipt = await app.submit("work", user="ann", session="chat")
    await app.drain()
    held, reasons = await app.get(receipt), await app.why(receipt)
    await noun.resume(name)
    await app.drain()

    assert held.state is RunState.PENDING
    assert (Gate.PAUSED, f"{what[:-1]} {name}") in [(reason.gate, reason.holder) for reason in reasons]
    assert await app.result(receipt) == "done"


async def test_a_disabled_task_refuses_new_runs_and_keeps_the_queued(app: Scheduler) -> None:
    app.task(name="work")(lambda: "done")
    queued = await app.submit("work")

    await app.tasks.disable("work")
    refused = await app.submit("work")
    await app.drain()
    retried = await app.retry(queued)
    await app.tasks.enable("work")
    accepted = await app.submit("work")

    assert [refused.outcome.value, retried.outcome.value, accepted.outcome.value] == ["refused", "refused", "accepted"]
    assert refused.reason == retried.reason == "task_disabled"
    assert await app.result(queued) == "done"


async def test_a_manual_retry_displaces_and_joins_nobody(app: Scheduler) -> None:
    app.task(name="work", retry=None)(lambda: 1 / 0)
    chat: dict[str, Any] = {"session": "chat", "session_policy": SessionPolicy(cap=2)}
    failed = await app.submit("work", **chat)
    await app.drain()
    queued = [await app.submit("work", **chat) for _ in range(2)]

    again = await app.retry(failed)

    assert again.outcome.value == "accepted"
    assert [(await app.get(receipt)).state for receipt in queued] == [RunState.PENDING] * 2


async def test_a_users_own_cap_can_be_set_and_taken_back(app: Scheduler) -> None:
    await app.lanes.set(Lane("main", per_user=1))
    await app.users.set("ann", cap=3)
    [state] = await app.users.get("ann")
    await app.users.set("ann", cap=None)

    assert (state.user, state.lane, state.cap) == ("ann", "main", 3)
    assert await app.users.get("ann") == []


async def test_stop_stop_all_and_reset_tell_what_they_stopped(app: Scheduler) -> None:
    begun = asyncio.Event()

    @app.task
    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    chat = work.using(session="chat")
    async with app.running():
        first = await chat.submit()
        await soon(begun.wait())
        second, later = await chat.submit(), await chat.using(delay=60).submit()
        begun.clear()
        stopped = await app.sessions.stop("chat")
        await soon(begun.wait())
        all_stopped = await app.sessions.stop_all("chat")
        await soon(app.wait(second))
        begun.clear()
        third = await chat.submit()
        await soon(begun.wait())
        reset = await app.sessions.reset("chat")
        ended = await app.get(third)
        await turns()

    assert (stopped.cancelled, stopped.dropped) == ((first.run_id,), ())
    assert (all_stopped.cancelled, all_stopped.dropped) == ((second.run_id,), (later.run_id,))
    assert (reset.cancelled, ended.state, ended.reason) == ((third.run_id,), RunState.CANCELLED, "abandoned")
    assert (await app.sessions.get("chat")).active == 0


async def test_how_much_there_is_of_what(app: Scheduler) -> None:
    app.task(name="work")(lambda: "done")
    for options in ({"session": "chat"}, {"session": "chat"}, {"delay": 60}, {}):
        await app.submit("work", **options)

    depths = await app.depths()

    assert depths.runs == {"pending": 4}
    assert (depths.ready, depths.held, depths.due, depths.parked) == (2, 1, 1, 0)


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda app: app.lanes.set("main"), "'main' is no lane; give a Lane"),
    (lambda app: app.users.set("ann", cap=0), "cap is 0; it must be a whole number, 1 or more"),
    (lambda app: app.users.set("", cap=1), "a user needs a name"),
    (lambda app: app.sessions.set("chat", {"cap": 3}), "is no session policy"),
    (
        lambda app: app.sessions.set("chat", SessionPolicy(mode="steer")),
        "mode, debounce and max_wait belong to a message",
    ),
    (lambda app: app.sessions.set("chat", load="much"), "a load is a share of the window"),
    (lambda app: app.sessions.set("chat", SessionPolicy()), "gives nothing; leave it out"),
    (lambda app: app.sessions.stop("x" * 201), "a session needs a name"),
    (lambda app: app.sessions.list(limit=0), "limit is 0"),
    (lambda app: app.tasks.pause(""), "a task needs a name"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
async def test_wrong_input_is_refused(app: Scheduler, call: Callable[[Scheduler], Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        await call(app)


@pytest.mark.parametrize("verb", ["get", "unset", "pause", "resume"])
async def test_an_unknown_lane_is_said_with_what_was_meant(app: Scheduler, verb: str) -> None:
    with pytest.raises(UnknownLane, match="unknown lane 'mian', did you mean 'main'"):
        await getattr(app.lanes, verb)("mian")
    with pytest.raises(UnknownLane):
        await app.users.set("ann", cap=1, lane="mian")


BAD_NAMES = ["\ud800", 5, None, "two\nlines"]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_a_name_that_is_none_is_refused_wherever_it_is_given(app: Scheduler, name: Any) -> None:
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: app.lanes.get(name),
        lambda: app.lanes.unset(name),
        lambda: app.users.get(name),
        lambda: app.users.set("ann", cap=1, lane=name),
        lambda: app.users.list(after=name),
        lambda: app.users.list(after=("ann", name)),
        lambda: app.sessions.get(name),
        lambda: app.sessions.list(prefix=name),
        lambda: app.sessions.list(after=name),
    ]
    for ask in asked:
        with pytest.raises(BadSetting):
            await ask()
