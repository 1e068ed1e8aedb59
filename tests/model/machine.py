"""The model test: random commands to a store and to the memory store, compared command by command.

A store author writes:

    def test_my_store_does_what_memory_does() -> None:
        assert compare_with_memory(my_store, examples=105, steps=100) >= 10_000

where `my_store(clock)` is an async context manager that gives an open, empty store on that clock. Each *command* is
sent to both; the answers, then every run, lane, session, worker and job and every new event must be the same. Which
resting workers are woken is the store's own affair, so it is not compared; that nobody sleeps while there is work is
checked. At the end of every example the whole logs are compared, and the store must bring everything to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, ClassVar, TypeVar

import msgspec
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from laneway.core.common.instants import SECOND, instant
from laneway.core.lifecycle.outcome import Succeeded
from laneway.core.lifecycle.step import Emitted, RenewReply, Result, Saved, Step, StepReply
from laneway.core.records.events import draft
from laneway.core.records.memos import Wait
from laneway.core.records.policy import Lane, SessionPolicy
from laneway.core.records.run import Claimed, Gate, NewRun, ReceiptOutcome, Request, Run, RunFilter, Why
from laneway.core.records.states import RunState
from laneway.errors import UnknownRun
from laneway.ports.control import Answer, Resume, RunChange
from laneway.ports.sessions import Extent
from laneway.ports.settings import Setting
from laneway.ports.store import Store
from laneway.ports.upkeep import OldDeltas, OldRuns
from laneway.stores.memory.store import MemoryStore
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Fields, new_run
from laneway.testing.waits import step_memo
from tests.model import commands, job_commands
from tests.model.commands import TASKS, Shape
from tests.model.job_commands import JobCommands
from tests.model.pair import Pair, plain_reclaim, plain_renewal, plain_step
from tests.model.worker import Incarnate, result_of
from tests.support.invariants import all_runs, has_no_place

StoreFactory = Callable[[FakeClock], AbstractAsyncContextManager[Store]]
T = TypeVar("T")

FIRM = (Gate.NOT_DUE, Gate.PAUSED, Gate.LANE_FULL, Gate.USER_AT_CAP, Gate.BREAKER_OPEN)


COMMANDS = commands.chosen(commands.WEIGHTS | job_commands.WEIGHTS, commands.ARGUMENTS | job_commands.ARGUMENTS)


class StoreMachine(JobCommands, RuleBasedStateMachine):
    """Random commands, sent to a store and to memory."""

    factory: ClassVar[StoreFactory]
    commands: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.memory = MemoryStore(self.clock)
        self.opened = type(self).factory(self.clock)
        self.pair = Pair(self.memory, self.loop.run_until_complete(self.opened.__aenter__()))
        self.workers: list[Incarnate] = []
        self.batch: list[NewRun] = []
        self.moved: set[str] = set()  # runs that may have joined their session later than they were due
        self.steered: list[Callable[[Store], Awaitable[object]]] = []  # the control calls so far
        self.clock_was_set = False
        self.named = 0

    @initialize()
    def begin(self) -> None:
        """Start with two workers and a lane that is soon full."""
        self._do(self._declare_lanes([Lane("team", 3), Lane("tight", 3, 1)]))
        self._do(self._register(TASKS))
        self._do(self._register(TASKS[:2]))
        self._do(self._make_job({"rule": "each 5", "name": "first"}))

    @rule(command=COMMANDS)
    def do(self, command: tuple[str, tuple[Any, ...]]) -> None:
        """Do one command to both, then compare."""
        name, given = command
        self._do(getattr(self, f"_{name}")(*given))

    def teardown(self) -> None:
        try:
            self.loop.run_until_complete(self.pair.compare_to_the_end(self.clock))
        finally:
            self.loop.run_until_complete(self.opened.__aexit__(None, None, None))
            self.loop.close()

    # The commands

    async def _submit(self, shapes: list[Shape]) -> None:
        self.batch = [self._new(shape) for shape in shapes]
        await self._send(self.batch)

    async def _flood(self, shape: Shape, times: int) -> None:
        await self._submit([shape] * times)

    async def _submit_again(self, shape: Shape) -> None:
        await self._send([*self.batch, self._new(shape), *self.batch[:1]])

    async def _step(
        self, who: int, outcomes: list[str], room: int, park: bool, read: int = 9, throttled: bool | None = None
    ) -> None:
        worker = self._worker(who)
        settled = []
        for run, name in zip(worker.held, outcomes, strict=False):
            last = await self._waited_for(run) if name == "again" else None
            outcome = worker.outcome(run, name, last)
            if outcome is not None:
                settled.append((run, result_of(run, outcome, read, throttled)))
        await self._make_step(worker, settled, room=room, park=park)

    async def _finish(self, who: int, room: int, park: bool) -> None:
        worker = self._worker(who)
        await self._step(who, ["succeed", "heed"] * len(worker.held), room, park)

    async def _break(self, who: int, shape: Shape, room: int, park: bool) -> None:
        """Let everything fail that a worker holds, with more of it to come."""
        await self._submit([shape] * 3)
        worker = self._worker(who)
        if not worker.held:
            await self._make_step(worker, room=room)
        if worker in self.workers:
            await self._step(who, ["fail"] * len(worker.held), room, park)

    async def _wait(self, who: int, outcomes: list[str], room: int) -> None:
        worker = self._worker(who)
        if not worker.held:
            await self._make_step(worker, room=room)
        if worker in self.workers:
            await self._step(who, outcomes, room, False)

    async def _emit(self, who: int, which: int, kinds: list[str]) -> None:
        worker = self._worker(who)
        lease = _pick([*worker.held, *worker.past], which)
        if lease is not None:
            drafts = tuple(draft(kind, {"n": index}) for index, kind in enumerate(kinds))
            await self._make_step(worker, emitted=[Emitted(lease.number, lease.fence, drafts)])

    async def _settle_late(self, who: int, which: int, above: int) -> None:
        lease = _pick([run for worker in self.workers for run in (*worker.held, *worker.past)], which)
        if lease is not None:
            late = msgspec.structs.replace(lease, fence=lease.fence + above)
            await self._make_step(self._worker(who), late=[result_of(late, Succeeded('"late"'))], room=1)

    async def _repeat(self, who: int, back: int) -> None:
        worker = self._worker(who)
        step = worker.steps[-min(back, len(worker.steps))]
        if await self.pair.same(lambda store: store.step(step), plain_step) is None:
            await self._replace(worker)

    async def _advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    async def _set_clock(self, seconds: float) -> None:
        self.clock_was_set = True
        self.clock.step(seconds)

    async def _renew(self, who: int) -> None:
        worker = self._worker(who)
        if await self.pair.same(partial(_renewed, worker.name), plain_renewal) is None:
            await self._replace(worker)

    async def _renew_all(self) -> None:
        for who in reversed(range(len(self.workers))):
            await self._renew(who)

    async def _reclaim(self, who: int, gone: list[int]) -> None:
        worker, names = self._worker(who), [self._worker(index).name for index in gone]
        reply = await self.pair.same(lambda store: store.reclaim(worker.name, names), plain_reclaim)
        if reply is None:
            await self._replace(worker)
            return
        known = {(run.number, run.fence) for run in worker.held}
        worker.held += [run for run in reply.lapsed if (run.number, run.fence) not in known]

    async def _leave(self, who: int) -> None:
        worker = self._worker(who)
        await self.pair.same(lambda store: store.leave(worker.name))

    async def _register(self, tasks: Sequence[str]) -> None:
        if len(self.workers) == 4:
            del self.workers[0]  # it is not heard of again, as one that was killed
        self.named += 1
        worker = Incarnate(f"w{self.named}", frozenset(tasks))
        self.workers.append(worker)
        await self.pair.same(lambda store: store.register(worker.incarnation, _unheard))

    async def _register_again(self, who: int) -> None:
        worker = self._worker(who)
        await self.pair.same(lambda store: store.register(worker.incarnation, _unheard))

    async def _declare_lanes(self, lanes: Sequence[Lane]) -> None:
        await self.pair.same(lambda store: store.declare_lanes(lanes))

    async def _set(self, setting: Setting) -> None:
        await self.pair.same(lambda store: store.set(setting))

    async def _trim(self, seconds: int, limit: int) -> None:
        await self.pair.same(lambda store: store.prune(OldDeltas(seconds * SECOND), limit=limit))

    async def _prune(self, keep: dict[RunState, int], limit: int) -> None:
        lengths = {state: seconds * SECOND for state, seconds in keep.items()}
        await self.pair.same(lambda store: store.prune(OldRuns(lengths), limit=limit))
        await self.pair.forget_pruned()

    # Control

    async def _steer(self, which: int, change: RunChange) -> None:
        runs = await all_runs(self.memory)
        # Mostly one that can be changed; of those that run or were started, there would be too few otherwise.
        open_ = [run for run in runs if not run.ended]
        started = [run for run in open_ if run.fence]
        among = _pick([runs, open_, started or open_, started or open_], which)
        if among:
            await self._steer_this(among[which // 4 % len(among)], change)

    async def _steer_this(self, run: Run, change: RunChange) -> None:
        call = self._call()
        await self._steered(lambda store: store.change_run(call, run.id, change))

    async def _resume(self, which: int) -> None:
        paused = await all_runs(self.memory, RunFilter(state=RunState.PAUSED))
        if paused and which % 4:
            await self._steer_this(paused[which % len(paused)], Resume())
        else:
            await self._steer(which, Resume())

    async def _resume_all(self) -> None:
        for run in await all_runs(self.memory, RunFilter(state=RunState.PAUSED)):
            await self._steer_this(run, Resume())

    async def _cancel_where(self, wanted: RunFilter, after: int, limit: int) -> None:
        until = self.named if limit % 2 else None
        call = self._call()
        await self._steered(lambda store: store.cancel_where(call, wanted, after=after, until=until, limit=limit))

    async def _stop(self, session: str, extent: Extent) -> None:
        call = self._call()
        await self._steered(lambda store: store.stop(call, session, extent))

    async def _steer_again(self, back: int) -> None:
        if self.steered:
            await self.pair.same(self.steered[-min(back, len(self.steered))])

    async def _reply(self, which: int, policy: SessionPolicy, key: str | None) -> None:
        """Send a message to the session of a run that asks, mostly of its own user."""
        asking = [run for run in await self._asking() if run.session is not None and not has_no_place(run)]
        run = _pick(asking, which)
        if run is not None:
            user, self.named = run.user if which % 4 else "bob", self.named + 1
            fields = Fields(session=run.session, user=user, policy=policy, key=key, args={"n": which % 2})
            self.batch = [new_run(f"r{self.named:04d}", **fields)]
            await self._send(self.batch)

    async def _asking(self) -> list[Run]:
        waiting = await all_runs(self.memory, RunFilter(state=RunState.WAITING))
        return [run for run in waiting if run.wait and run.wait.questions]

    async def _answer(self, which: int, name: str | None) -> None:
        run = _pick(await self._asking(), which)
        if run is None or which % 8 == 0:
            await self._steer(which, Answer(f"{which}", name))
        else:
            await self._steer_this(run, Answer(f"{which}", name))

    async def _keep(self, who: int, which: int, names: list[str]) -> None:
        worker = self._worker(who)
        lease = _pick([*worker.held, *worker.past], which)
        if lease is not None:
            self.named += 1
            memos = [step_memo(name, self.named, nth=nth) for nth, name in enumerate(names, 1)]
            await self._make_step(worker, saved=[Saved(lease.number, lease.fence, memo=memo) for memo in memos])

    async def _save(self, who: int, which: int) -> None:
        worker = self._worker(who)
        lease = _pick([*worker.held, *worker.past], which)
        if lease is not None:
            self.named += 1
            state, prepared = (str(self.named), None) if which % 2 else (None, f'{{"n":{self.named}}}')
            await self._make_step(worker, saved=[Saved(lease.number, lease.fence, state, prepared)])

    async def _overdue(self, who: int, which: int) -> None:
        worker = self._worker(who)
        lease = _pick([*worker.held, *worker.past], which)
        if lease is not None:
            await self._make_step(worker, overdue=[(lease.number, lease.fence)])

    async def _steered(self, call: Callable[[Store], Awaitable[object]]) -> None:
        self.steered.append(call)
        await self.pair.same(call)
        # What was paused before it was due joins at the tail, whenever it was accepted.
        self.moved |= {run.id for run in await all_runs(self.memory, RunFilter(state=RunState.PAUSED)) if not run.fence}

    def _call(self) -> str:
        self.named += 1
        return f"call {self.named}"

    # What several of them do

    async def _send(self, batch: Sequence[NewRun]) -> None:
        before = await self._superseded()
        receipts = await self.pair.same(lambda store: store.submit(batch)) or []
        if await self._superseded() > before:
            self.moved |= {new.id for new in batch}  # one of them went to the head of its session
        # What was steered may become a run when nobody has looked yet at who is due.
        taken = zip(batch, receipts, strict=True)
        self.moved |= {new.id for new, receipt in taken if receipt.outcome is ReceiptOutcome.STEERED}

    async def _make_step(
        self,
        worker: Incarnate,
        ended: Sequence[tuple[Claimed, Result]] = (),
        *,
        late: Sequence[Result] = (),
        emitted: Sequence[Emitted] = (),
        room: int = 0,
        park: bool = False,
        saved: Sequence[Saved] = (),
        overdue: Sequence[tuple[int, int]] = (),
    ) -> None:
        results = [*(result for _, result in ended), *late]
        call, going_on = worker.steps[-1].call + 1, (list(saved), list(overdue))
        step = Step(worker.name, call, results, list(emitted), room, park, *going_on)
        # A result may open gates before the claim; without one, what is closed stays closed.
        shut = set() if results else await self._shut()
        reply = await self.pair.same(lambda store: store.step(step), plain_step)
        if reply is None:
            await self._replace(worker)
            return
        assert shut.isdisjoint(run.id for run in reply.claimed), "a claim started what a closed gate should have held"
        settled = [run for run, _ in ended]
        worker.steps.append(step)
        asked = [request for request in reply.requests if request.request is not Request.STEER]
        worker.told = {(request.number, request.fence): request.request for request in asked}
        worker.past += settled
        worker.held = [run for run in worker.held if run not in settled] + reply.claimed
        await self._check_claims(reply)

    # Comparing

    def _do(self, command: Coroutine[Any, Any, None]) -> None:
        async def compared() -> None:
            await command
            await self.pair.compare()

        type(self).commands += 1
        self.loop.run_until_complete(compared())

    async def _shut(self) -> set[str]:
        """Return the pending runs that no claim can start now, by what is said of why they wait."""
        found = set()
        for run in await all_runs(self.memory, RunFilter(state=RunState.PENDING)):
            # A session may go on within the claim, and a worker that is taken for dead may still ask.
            firm = [reason for reason in await self.memory.why(run.id) if reason.gate in FIRM]
            if any(reason.gate is not Gate.LANE_FULL or reason.runs for reason in firm):
                found.add(run.id)
        return found

    async def _check_claims(self, reply: StepReply) -> None:
        """Assert that a claim broke no limit and no session's order. What runs already may be over a lowered limit."""
        if not reply.claimed:
            return
        lanes = {state.lane.name: state for state in await self.memory.lanes()}
        caps = {
            (user.user, user.lane): user.cap for user in await self.memory.users(limit=1000) if user.cap is not None
        }
        runs = {run.id: run for run in await all_runs(self.memory)}
        for claim in reply.claimed:
            state = lanes[claim.lane]
            users = [run for run in runs.values() if run.worker and (run.lane, run.user) == (claim.lane, claim.user)]
            cap = state.lane.per_user if claim.user is None else caps.get((claim.user, claim.lane), state.lane.per_user)
            assert not state.paused, claim
            assert state.active <= state.lane.limit, (claim, state)
            assert claim.user is None or cap is None or len(users) <= cap, (claim, state)
            if claim.session is not None and claim.fence == 1 and not self.clock_was_set:
                self._check_session_order(runs[claim.id], runs.values(), reply.now)

    def _check_session_order(self, claimed: Run, runs: Iterable[Run], now: int) -> None:
        for run in runs:
            waits = run.session == claimed.session and run.fence == 0 and not run.ended and run.due_at <= instant(now)
            if waits and not has_no_place(run) and run.id not in self.moved and claimed.id not in self.moved:
                assert (claimed.due_at, claimed.number) < (run.due_at, run.number), (claimed, run)

    # Small things

    async def _superseded(self) -> int:
        return sum(run.reason == Why.SUPERSEDED for run in await all_runs(self.memory))

    async def _waited_for(self, run: Claimed) -> Wait | None:
        try:
            return (await self.memory.recall(run.id)).wait
        except UnknownRun:
            return None  # it was pruned long after this worker had lost it

    def _new(self, shape: Shape) -> NewRun:
        self.named += 1
        return shape.new(f"r{self.named:04d}")

    def _worker(self, who: int) -> Incarnate:
        return self.workers[who % len(self.workers)]

    async def _replace(self, worker: Incarnate) -> None:
        """Go on without a worker that is lost, with a new one if they become few."""
        self.workers.remove(worker)
        if len(self.workers) < 2:
            await self._register(TASKS)


def compare_with_memory(
    factory: StoreFactory, *, examples: int, steps: int, derandomize: bool = True, part: int | None = None
) -> int:
    """Compare a store with memory in so many examples of so many commands; return how many commands were compared.

    Each `part` has examples of its own.
    """
    machine = type("ComparedWithMemory", (StoreMachine,), {"factory": staticmethod(factory), "commands": 0})
    if part is not None and derandomize:
        machine = seed(part)(machine)
    budget = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=derandomize,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=budget)
    commands: int = machine.commands  # type: ignore[attr-defined] # made by `type`
    return commands


async def _renewed(name: str, store: Store) -> RenewReply:
    return store.renew(name)


def _pick(items: Sequence[T], which: int) -> T | None:
    return items[which % len(items)] if items else None


def _unheard() -> None:
    """Be woken, and do nothing."""
