"""Checks that must hold for a store after every command."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from laneway.core.records.breakers import Phase
from laneway.core.records.events import DONE, STARTED, TRIMMED, Event
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.policy import NO_RULE, Lane
from laneway.core.records.run import NewRun, Request, Run, RunFilter
from laneway.core.records.states import RunState
from laneway.ports.control import Answer, Resume
from laneway.ports.gates import Held, TaskState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import SessionState
from laneway.ports.settings import BreakerClosed, Hold, LaneSetting, SessionSetting
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand
from tests.support.jobs import check_jobs
from tests.support.sessions import session_of

PAGE = 500
CROWD = 200  # runs
HEIR = "heir of all"


class Seen(NamedTuple):
    """What a check has read from a store, so that the next check need not read it again."""

    runs: list[Run]
    lanes: list[LaneState]
    workers: list[WorkerInfo]
    tasks: list[TaskState]


async def all_runs(store: Store, wanted: RunFilter | None = None) -> list[Run]:
    """Return every run that fits, oldest first, read page by page."""
    found: list[Run] = []
    before = None
    while page := await store.runs(wanted or RunFilter(), limit=PAGE, before=before):
        found += page
        before = page[-1].number
        if len(page) < PAGE:
            break
    return found[::-1]


async def check_invariants(store: Store, *, logs: bool = True) -> Seen:
    """Assert that what the store says of its runs, lanes, sessions, workers, jobs and (`logs`) events agrees.

    It only reads, so it can follow any command. That what may start can also be claimed, `check_drains` shows.
    It returns what it has read, for `check_drains`.
    """
    return await _check_all(store, await all_runs(store), logs=logs)


async def _check_all(store: Store, runs: list[Run], *, logs: bool, drained: bool = False) -> Seen:
    # Many at once, here and below: what they cost is mostly the way there and back.
    sessions = _check_no_sessions(store, runs) if drained else _check_sessions(store, runs)
    found, seen, *_ = await asyncio.gather(
        store.check(), _check_counts(store, runs), sessions, check_waits(store, runs), check_jobs(store, runs)
    )
    assert found == [], found
    # What a crowd comes to when it is drained is alike: a part of its logs is read. What a test did is read whole.
    step = max(1, -(-len(runs) // CROWD)) if drained else 1
    read = runs[::step] if logs else []
    for first in range(0, len(read), PAGE):
        await asyncio.gather(*(check_log(store, run) for run in read[first : first + PAGE]))
    return seen


async def check_counts(store: Store, runs: list[Run]) -> None:
    """Assert that lanes, sessions, workers and counts agree with `runs`, which are all the store has."""
    await asyncio.gather(_check_counts(store, runs), _check_sessions(store, runs))


async def _check_counts(store: Store, runs: list[Run]) -> Seen:
    _check_numbers(runs)
    depths, lanes, workers, tasks = await asyncio.gather(store.depths(), store.lanes(), store.workers(), store.tasks())
    assert depths.runs == Counter(run.state.value for run in runs)
    _check_lanes(lanes, runs)
    check_somebody_is_awake(lanes, workers)
    if all(_is_open(state) for state in lanes if state.pending):
        check_nobody_sleeps_behind_a_breaker(tasks, workers)
    _check_workers(workers, runs)
    return Seen(runs, lanes, workers, tasks)


def check_limits(runs: Iterable[Run], lanes: Iterable[Lane]) -> None:
    """Assert that no lane and no user is over its limit. Not an invariant: a limit may be lowered below what runs."""
    running = [run for run in runs if run.state is RunState.RUNNING]
    per_lane = Counter(run.lane for run in running)
    per_user = Counter((run.lane, run.user) for run in running if run.user is not None)
    for lane in lanes:
        assert per_lane[lane.name] <= lane.limit, lane
        if lane.per_user is not None:
            assert all(n <= lane.per_user for (name, _), n in per_user.items() if name == lane.name), lane


async def check_log(store: Store, run: Run) -> None:
    """Assert that the run's log has no gap, a `started` for every fence and, if it has ended, one `done`, the last.

    Where deltas were trimmed, a mark covers their numbers.
    """
    events = await store.events(run.id, limit=100_000)
    kinds = [event.kind for event in events]
    check_numbers(events)
    assert kinds.count(STARTED) == run.fence, run
    assert kinds.count(DONE) == run.ended, run
    assert not run.ended or (kinds[-1] == DONE and events[-1].data == {"state": run.state.value}), run
    assert all(first.attempt <= second.attempt for first, second in pairwise(events)), run


async def check_waits(store: Store, runs: Sequence[Run]) -> None:
    """Assert that every waiting run waits for something, and that no called run is executed whose caller cannot wait.

    A called run that has ended lets its caller go on, and one whose caller has ended is cancelled, or told to stop.
    """
    known = {run.id: run for run in runs}
    for run in runs:
        if run.wait is not None:
            assert run.wait == (await store.recall(run.id)).wait, run
            assert run.wait.questions or run.wait.calls, run
            assert all(question.until is not None for question in run.wait.questions), run
            assert not [call for call in run.wait.calls if known[call.run_id].ended], run
        if is_called(run) and not run.ended and run.parent in known and known[run.parent].ended:
            assert run.request is Request.CANCEL, (run, known[run.parent])


def is_called(run: Run) -> bool:
    """Tell whether another run called this one."""
    return run.ties is not None and run.ties.call is not None


def has_no_place(run: Run) -> bool:
    """Tell whether the run names a session and takes no place in it, as one that is called, or a fire beside others."""
    return run.ties is not None and bool(run.ties.session)


def check_numbers(events: Sequence[Event], after: int = 0) -> None:
    """Assert that events read from a cursor on follow one another without a gap that no mark covers."""
    for nth, event in enumerate(events):
        first = event.data["first"] if event.kind == TRIMMED else event.seq
        if event.kind == TRIMMED:
            assert event.data == {"first": first, "last": event.seq, "events": event.seq - first + 1}, event
        # The cursor may lie inside of what the first of them covers.
        assert first == after + 1 or (nth == 0 and first <= after < event.seq), (event, after)
        after = event.seq


async def check_drains(store: Store, clock: FakeClock, seen: Seen | None = None) -> None:
    """Bring every run to its end and assert that it comes there: nothing is stranded, no slot and no place leaked.

    It takes over from all incarnations there are, so the test is over after it. `seen` is what the store says, if that
    is known.
    """
    seen = seen or await _see(store)
    heir = await Hand(store, HEIR, tasks=_tasks(seen.runs)).register()
    others = [worker.incarnation.id for worker in seen.workers if worker.incarnation.id != HEIR]
    if await _take_over(heir, others):
        seen = await _see(store)
    await _open_all(store, seen)
    runs = seen.runs
    for run in runs:
        if run.state is RunState.PAUSED or run.request is Request.PAUSE:
            await store.change_run(f"drain {run.id}", run.id, Resume())
    await _answer_some(store, runs, clock)
    await _run_all(heir, clock)

    runs = await all_runs(store)
    assert [run for run in runs if not run.ended] == []
    # That lanes are empty then, follows from what is checked of them and of their runs.
    await _check_all(store, runs, logs=True, drained=True)


async def _see(store: Store) -> Seen:
    return Seen(*await asyncio.gather(all_runs(store), store.lanes(), store.workers(), store.tasks()))


async def _take_over(heir: Hand, others: Sequence[str]) -> int:
    """Release the runs that other workers hold; return how many there were."""
    taken, more = 0, True
    while more:
        reply = await heir.reclaim(*others)
        more = reply.more
        if reply.lapsed:
            await heir.release(*reply.lapsed)
        taken += len(reply.lapsed)
    return taken


def _tasks(runs: Iterable[Run | NewRun]) -> set[str]:
    """Return the tasks of these runs and of all that they may leave behind."""
    tasks: set[str] = set()
    for run in runs:
        tasks.add(run.task)
        if run.ties is not None:
            tasks |= _tasks((*run.ties.then, *run.ties.on_failure))
    return tasks


async def _answer_some(store: Store, runs: Iterable[Run], clock: FakeClock) -> None:
    """Answer every other run that asks and can still be answered; the rest is left to its deadline."""
    for run in runs:
        asked = run.wait.questions if run.wait is not None else ()
        if asked and run.number % 2 and min(question.until or 0 for question in asked) > clock.now():
            await store.change_run(f"drain {run.id}", run.id, Answer("1", name=asked[-1].name))


async def _open_all(store: Store, seen: Seen) -> None:
    """Undo what an operator has paused or disabled, and nothing else: a run that is stuck must stay stuck."""
    lanes, tasks = seen.lanes, seen.tasks
    sessions, users = await asyncio.gather(store.sessions(limit=10_000), store.users(limit=10_000))
    paused = {(Held.LANE, state.lane.name) for state in lanes if state.paused}
    paused |= {(Held.TASK, state.name) for state in tasks if state.paused}
    paused |= {(Held.USER, state.user) for state in users if state.paused}
    paused |= {(Held.SESSION, state.name) for state in sessions if state.paused}
    for what, name in sorted(paused):
        await store.set(Hold(what, name, held=False))
    for lane in [state.lane for state in lanes if state.lane.worker_limit is not None]:
        await store.set(LaneSetting(msgspec.structs.replace(lane, worker_limit=None)))
    for task, user in [(state.name, circuit.user) for state in tasks for circuit in state.circuits]:
        await store.set(BreakerClosed(task, user))
    for session in [state.name for state in sessions if state.ruled != NO_RULE]:
        await store.set(SessionSetting(session, NO_RULE))


async def _run_all(heir: Hand, clock: FakeClock) -> None:
    reply = await heir.step(room=100)
    while reply.claimed or reply.more or reply.due_in is not None:
        if not reply.claimed and not reply.more and reply.due_in:
            await clock.advance(reply.due_in / 1_000_000)
        reply = await heir.succeed(*reply.claimed, room=100)


def _check_numbers(runs: list[Run]) -> None:
    numbers = [run.number for run in runs]
    assert numbers == sorted(set(numbers))
    assert len({run.id for run in runs}) == len(runs)
    for run in runs:
        assert (run.ended_at is not None) == run.ended, run
        assert (run.worker is not None) == (run.state is RunState.RUNNING), run
        assert run.request is None or run.state is RunState.RUNNING or _will_pause(run), run
        assert (run.wait is not None) == (run.state is RunState.WAITING), run
        assert (run.started_at is not None) == (run.fence > 0), run


def _will_pause(run: Run) -> bool:
    return run.state is RunState.WAITING and run.request is Request.PAUSE


def _check_lanes(states: list[LaneState], runs: list[Run]) -> None:
    active = Counter(run.lane for run in runs if run.state is RunState.RUNNING)
    pending = Counter(run.lane for run in runs if run.state is RunState.PENDING)
    assert [state.lane.name for state in states] == sorted({state.lane.name for state in states})
    assert {state.lane.name: state.active for state in states if state.active} == active
    assert {state.lane.name: state.pending for state in states if state.pending} == pending
    assert all(0 <= state.ready <= pending[state.lane.name] for state in states), states


def check_somebody_is_awake(lanes: Iterable[LaneState], workers: Sequence[WorkerInfo]) -> None:
    """Assert that at least one worker is awake while there is work."""
    alive = [worker for worker in workers if not worker.left]
    if alive and any(_has_work(state) for state in lanes):
        assert not all(worker.idle for worker in alive), (lanes, workers)


def _has_work(state: LaneState) -> bool:
    return state.ready > 0 and _is_open(state)


def _is_open(state: LaneState) -> bool:
    # Of a lane with a limit per worker nobody may be able to take more.
    return not state.paused and state.active < state.lane.limit and state.lane.worker_limit is None


def check_nobody_sleeps_behind_a_breaker(tasks: Iterable[TaskState], workers: Sequence[WorkerInfo]) -> None:
    """Assert that a worker that knows the task is awake while runs wait for a circuit that is closed.

    One that is half open is tried by whoever was told when.
    """
    for task in tasks:
        left = any(circuit.parked and circuit.phase is Phase.CLOSED for circuit in task.circuits)
        knowing = [worker for worker in workers if not worker.left and task.name in worker.incarnation.tasks]
        if left and knowing and not task.paused:
            assert not all(worker.idle for worker in knowing), (task, workers)


def _check_workers(workers: list[WorkerInfo], runs: list[Run]) -> None:
    running = sum(run.state is RunState.RUNNING for run in runs)
    assert sum(worker.running for worker in workers) == running, workers
    assert all(worker.running and not worker.idle for worker in workers if worker.left), workers


async def _check_sessions(store: Store, runs: list[Run]) -> None:
    by_session: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.session is not None and not has_no_place(run):
            by_session[run.session].append(run)
    states = await asyncio.gather(*(session_of(store, name) for name in by_session))
    for state, members in zip(states, by_session.values(), strict=True):
        _check_session(state, members)


async def _check_no_sessions(store: Store, runs: list[Run]) -> None:
    """Assert that of the sessions of these runs, which have all ended, none is left."""
    sessions = sorted({run.session for run in runs if run.session is not None})
    states = await asyncio.gather(*(session_of(store, name) for name in sessions))
    assert [name for name, state in zip(sessions, states, strict=True) if state is not None] == []


def _check_session(state: SessionState | None, runs: list[Run]) -> None:
    active = sum(run.fence > 0 and not run.ended for run in runs)
    # Paused ones keep their place, if they had one; runs of the future join some time after they are due.
    new = [run for run in runs if run.fence == 0 and not run.ended]
    # A window that a message extended may end at the very instant of acceptance, if the clock was set back.
    joined = sum(run.due_at == run.accepted_at and run.state is RunState.PENDING and not run.messages for run in new)
    if state is None:
        assert active == joined == 0, runs
        return
    assert state.active == active, (state, runs)
    assert joined <= state.queued <= len(new), (state, runs)
    assert state.windows <= len(new) - state.queued, (state, runs)
    idle = not (state.active or state.queued or state.windows)
    assert not idle or state.paused or state.ruled != NO_RULE, state
