"""What holds of a store after every command, whatever the command was."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from laneway.core.events import DONE, STARTED
from laneway.core.liveness import WorkerInfo
from laneway.core.policy import Lane
from laneway.core.run import Run, RunFilter
from laneway.core.states import RunState
from laneway.ports.lanes import LaneState
from laneway.ports.sessions import SessionState
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand

PAGE = 500
HEIR = "heir of all"


async def all_runs(store: Store, wanted: RunFilter | None = None) -> list[Run]:
    """Return every run that fits, oldest first, read page by page."""
    found: list[Run] = []
    before = None
    while page := await store.runs(wanted or RunFilter(), limit=PAGE, before=before):
        found += page
        before = page[-1].number
    return found[::-1]


async def check_invariants(store: Store, *, logs: bool = True) -> None:
    """Assert that what the store says of its runs, lanes, sessions, workers and (`logs`) events agrees.

    It only reads, so it can follow any command. That what may start can also be claimed, `check_drains` shows.
    """
    runs = await all_runs(store)
    await check_counts(store, runs)
    assert await store.check() == []
    for run in runs if logs else ():
        await check_log(store, run)


async def check_counts(store: Store, runs: list[Run]) -> None:
    """Assert that lanes, sessions, workers and counts agree with `runs`, which are all the store has."""
    _check_numbers(runs)
    assert await store.count() == Counter(run.state.value for run in runs)
    await _check_lanes(store, runs)
    await _check_sessions(store, runs)
    await _check_workers(store, runs)


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
    """Assert that the run's log has no gap, a `started` for every fence and, if it has ended, one `done`, the last."""
    events = await store.events(run.id, limit=100_000)
    kinds = [event.kind for event in events]
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), run
    assert kinds.count(STARTED) == run.fence, run
    assert kinds.count(DONE) == run.ended, run
    assert not run.ended or (kinds[-1] == DONE and events[-1].data == {"state": run.state.value}), run
    assert all(first.attempt <= second.attempt for first, second in pairwise(events)), run


async def check_drains(store: Store, clock: FakeClock) -> None:
    """Bring every run to its end and assert that it comes there: nothing is stranded, no slot and no place leaked.

    It takes over from all incarnations there are, so the test is over after it.
    """
    runs = await all_runs(store)
    heir = await Hand(store, HEIR, tasks={run.task for run in runs}).register()
    others = [worker.incarnation.id for worker in await store.workers() if worker.incarnation.id != HEIR]
    more = True
    while more:
        reply = await heir.reclaim(*others)
        more = reply.more
        await heir.release(*reply.lapsed)
    for run in await all_runs(store, RunFilter(state=RunState.PAUSED)):
        await store.resume(f"drain {run.id}", run.id)
    await _run_all(heir, clock)

    runs = await all_runs(store)
    assert [run for run in runs if not run.ended] == []
    assert [state for state in await store.lanes() if state.active or state.ready] == []
    for session in sorted({run.session for run in runs if run.session is not None}):
        assert await store.session(session) is None
    await check_invariants(store)


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
        assert run.request is None or run.state is RunState.RUNNING, run
        assert (run.started_at is not None) == (run.fence > 0), run


async def _check_lanes(store: Store, runs: list[Run]) -> None:
    active = Counter(run.lane for run in runs if run.state is RunState.RUNNING)
    pending = Counter(run.lane for run in runs if run.state is RunState.PENDING)
    states = await store.lanes()
    assert [state.lane.name for state in states] == sorted({state.lane.name for state in states})
    assert {state.lane.name: state.active for state in states if state.active} == active
    assert all(0 <= state.ready <= pending[state.lane.name] for state in states), states
    check_somebody_is_awake(states, await store.workers())


def check_somebody_is_awake(lanes: Iterable[LaneState], workers: Sequence[WorkerInfo]) -> None:
    """Assert that not everybody rests while there is work."""
    alive = [worker for worker in workers if not worker.left]
    if alive and any(state.ready and state.active < state.lane.limit for state in lanes):
        assert not all(worker.idle for worker in alive), (lanes, workers)


async def _check_workers(store: Store, runs: list[Run]) -> None:
    running = sum(run.state is RunState.RUNNING for run in runs)
    workers = await store.workers()
    assert sum(worker.running for worker in workers) == running, workers
    assert all(worker.running and not worker.idle for worker in workers if worker.left), workers


async def _check_sessions(store: Store, runs: list[Run]) -> None:
    by_session: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.session is not None:
            by_session[run.session].append(run)
    for name, members in by_session.items():
        # Only a run that was never started and has been resumed has events: its due time does not tell if it joined.
        new = [run for run in members if run.fence == 0 and run.state is RunState.PENDING]
        resumed = {run.id for run in new if await store.events(run.id, limit=1)}
        _check_session(await store.session(name), members, new, resumed)


def _check_session(state: SessionState | None, runs: list[Run], new: list[Run], resumed: set[str]) -> None:
    # A paused run that was started keeps its place, one that was not has none.
    active = sum(run.fence > 0 and not run.ended for run in runs)
    # The others join some time after they are due.
    joined = sum(run.due_at == run.accepted_at and run.id not in resumed for run in new)
    if state is None:
        assert active == joined == 0, runs
        return
    unstarted = state.admitted - active
    assert unstarted in (0, 1), (state, runs)
    assert joined <= unstarted + state.held <= len(new), (state, runs)
    assert state.admitted + state.held > 0, state
    assert not state.held or unstarted or state.admitted >= state.max_concurrent, (state, runs)
