"""Leases: a worker that lost them stops and writes nothing; the dead are taken over from, the living never."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Set
from pathlib import Path

import msgspec
import pytest

from laneway import Context, Scheduler
from laneway.core.lifecycle.step import RenewReply
from laneway.core.records.liveness import ProcessMark
from laneway.core.records.states import RunState
from laneway.engine.services.lease_clock import LeaseClock
from laneway.engine.services.renewer import Renewer
from laneway.errors import LeaseLost
from laneway.ports.store import Store
from laneway.testing import FakeClock, Hand
from tests.support.invariants import check_invariants
from tests.support.run_logs import kinds_of, log_of
from tests.support.waits import IN_TIME, as_time_passes, soon, timers, turns, until
from tests.support.watched_store import WatchedStore

LEASE = 15.0


@pytest.fixture
def worker(watched: WatchedStore, clock: FakeClock) -> Scheduler:
    """A scheduler that renews all the time, as far as a test that moves the clock by hand can tell."""
    app = Scheduler(store=watched, clock=clock, renew_every=0.005)

    @app.task
    async def work(n: int = 0) -> int:
        return n

    return app


async def pass_by(watched: WatchedStore, clock: FakeClock, seconds: float) -> None:
    """Move the clock on while the worker renews, as it does in life."""
    while seconds > 0:
        seen = watched.calls["renew"]
        await until(lambda seen=seen: watched.calls["renew"] > seen + 1)  # type: ignore[misc]  # mypy cannot infer it
        await clock.advance(min(1.0, seconds))
        seconds -= 1.0


# Losing a lease


async def test_a_worker_that_lost_its_incarnation_stops_its_handlers_and_writes_nothing(
    watched: WatchedStore, clock: FakeClock, worker: Scheduler
) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @worker.task
    async def slow(*, ctx: Context) -> str:
        if ctx.fence > 1:
            return "again"
        ctx.log("before")
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ctx.log("after")
            stopped.set()
        return "never"

    async with worker.running():
        receipt = await slow.submit()
        await soon(started.wait())
        await clock.advance(0.1)
        [info] = await watched.workers()
        thief = await Hand(watched.store, "thief", tasks={"slow"}).register()
        [taken] = (await thief.reclaim(info.incarnation.id)).lapsed
        await soon(stopped.wait())
        await turns()
        held = await kinds_of(worker, receipt)
        await thief.lapse(taken)
        value = await soon(worker.result(receipt))
        [_, after] = await watched.workers()

    assert held == ["started", "log"]
    assert value == "again"
    assert after.incarnation.id != info.incarnation.id
    assert [event.kind for event in await log_of(worker, receipt)] == [
        "started",
        "log",
        "lapsed",
        "started",
        "result",
        "done",
    ]
    assert (await worker.get(receipt)).crashes == 0


async def test_a_result_that_comes_after_the_incarnation_was_lost_is_not_written(
    watched: WatchedStore, clock: FakeClock
) -> None:
    app = Scheduler(store=watched, clock=clock)  # renews too seldom to hear of it first
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow(*, ctx: Context) -> str:
        started.set()
        await go_on.wait()
        return f"from fence {ctx.fence}"

    async with app.running():
        receipt = await slow.submit()
        await soon(started.wait())
        [info] = await watched.workers()
        thief = await Hand(watched.store, "thief", tasks={"slow"}).register()
        [taken] = (await thief.reclaim(info.incarnation.id)).lapsed
        await thief.release(taken)
        go_on.set()
        value = await soon(app.result(receipt))

    assert value == "from fence 2"
    assert (await kinds_of(app, receipt)).count("done") == 1


async def test_a_single_lease_the_store_does_not_know_is_given_up_and_its_neighbours_are_not(
    watched: WatchedStore, clock: FakeClock, worker: Scheduler
) -> None:
    stopped: list[int] = []
    go_on = asyncio.Event()

    @worker.task
    async def slow(n: int) -> int:
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            stopped.append(n)
            raise
        return n

    def forgetful(incarnation: str) -> RenewReply:
        reply = watched.store.renew(incarnation)
        return msgspec.structs.replace(reply, leases=[lease for lease in reply.leases if lease[0] != 1])

    async with worker.running():
        receipts = [await slow.submit(n=n) for n in (1, 2)]
        await turns()
        watched.renew = forgetful  # type: ignore[method-assign]  # for this one test
        await until(lambda: bool(stopped))
        go_on.set()
        value = await soon(worker.result(receipts[1]))
        await turns()
        lost = await worker.get(receipts[0])

    assert stopped == [1]
    assert value == 2
    assert lost.state is RunState.RUNNING


async def test_a_worker_that_lost_its_incarnation_while_idle_goes_on_as_a_new_one(
    watched: WatchedStore, clock: FakeClock, worker: Scheduler
) -> None:
    async with worker.running():
        await turns()
        [before] = await watched.workers()
        thief = await Hand(watched.store, "thief").register()
        await thief.reclaim(before.incarnation.id)
        await until(lambda: watched.calls["register"] == 2)
        value = await soon(worker.result(await worker.submit("work", {"n": 5})))

    assert value == 5


# Taking over


async def test_the_runs_of_a_lapsed_worker_are_taken_over_after_its_lease_and_not_before(
    watched: WatchedStore, clock: FakeClock, worker: Scheduler
) -> None:
    receipt = await worker.submit("work", {"n": 7})
    dead = await Hand(watched.store, "dead", tasks={"work"}).register()
    await dead.claim()

    async with worker.running():
        await pass_by(watched, clock, LEASE - 0.5)
        before = await worker.get(receipt)
        await pass_by(watched, clock, 7)
        run = await soon(worker.wait(receipt))

    assert (before.state, before.worker) == (RunState.RUNNING, "dead")
    assert (run.state, run.result, run.attempt, run.fence) == (RunState.SUCCEEDED, 7, 1, 2)
    log = await log_of(worker, receipt)
    assert [event.kind for event in log] == ["started", "lapsed", "started", "result", "done"]
    assert log[1].data == {"worker": "dead", "crashes": 1}
    await check_invariants(watched.store)


async def test_a_worker_that_renews_is_never_taken_over_from(
    watched: WatchedStore, clock: FakeClock, worker: Scheduler
) -> None:
    receipt = await worker.submit("work")
    slow = await Hand(watched.store, "slow", tasks={"work"}).register()
    await slow.claim()

    async with worker.running():
        for _ in range(10):
            await pass_by(watched, clock, 5)
            slow.renew()
        run = await worker.get(receipt)

    assert (run.state, run.worker, run.crashes) == (RunState.RUNNING, "slow", 0)


async def test_after_an_outage_nobody_is_taken_for_dead_within_the_grace(
    watched: WatchedStore, clock: FakeClock, worker: Scheduler
) -> None:
    receipt = await worker.submit("work")
    other = await Hand(watched.store, "other", tasks={"work"}).register()
    await other.claim()

    async with worker.running():
        for verb in ("renew", "workers", "reclaim"):
            watched.fail(verb, times=10_000)  # nobody reaches the store ...
        await clock.advance(60)
        watched.heal()  # ... and then everybody does
        await pass_by(watched, clock, LEASE - 1)
        in_grace = await worker.get(receipt)
        other.renew()
        await pass_by(watched, clock, LEASE - 2)
        after = await worker.get(receipt)

    assert (in_grace.state, in_grace.worker) == (RunState.RUNNING, "other")
    assert (after.state, after.worker, after.crashes) == (RunState.RUNNING, "other", 0)


async def test_who_does_not_come_back_after_an_outage_is_taken_over_from_after_the_grace(
    watched: WatchedStore, clock: FakeClock, worker: Scheduler
) -> None:
    receipt = await worker.submit("work", {"n": 3})
    other = await Hand(watched.store, "other", tasks={"work"}).register()
    await other.claim()
    await clock.advance(60)

    async with worker.running():
        await pass_by(watched, clock, LEASE - 1)
        in_grace = await worker.get(receipt)
        await pass_by(watched, clock, 10)
        run = await soon(worker.wait(receipt))

    assert in_grace.worker == "other"
    assert (run.state, run.result) == (RunState.SUCCEEDED, 3)


async def test_a_run_whose_workers_keep_dying_is_quarantined(memory: Store, clock: FakeClock) -> None:
    app = Scheduler(store=memory, clock=clock)

    @app.task(max_crashes=2)
    async def poison() -> None: ...

    receipt = await poison.submit()
    for name in ("first", "second"):
        victim = await Hand(memory, name, tasks={"poison"}).register()
        await victim.claim()
        heir = await Hand(memory, f"heir of {name}", policy=poison.policy).register()
        [lapsed] = (await heir.reclaim(name)).lapsed
        await heir.lapse(lapsed)
        await heir.leave()

    run = await app.get(receipt)
    assert (run.state, run.reason, run.attempt, run.crashes) == (RunState.FAILED, "quarantined", 1, 2)
    assert [event.kind for event in await log_of(app, receipt)] == [
        "started",
        "lapsed",
        "started",
        "lapsed",
        "error",
        "done",
    ]


# A process that is seen to be gone


MARK = """
import msgspec, sys
from laneway.engine.common.processes import mark
print(msgspec.json.encode(mark()).decode(), flush=True)
sys.stdin.read()
"""


class Process:
    """A real process, its mark, and a way to end it."""

    def __init__(self) -> None:
        self.popen = subprocess.Popen([sys.executable, "-c", MARK], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.popen.stdout is not None
        self.mark = msgspec.json.decode(self.popen.stdout.readline(), type=ProcessMark)

    def end(self) -> None:
        if self.popen.stdin is not None and not self.popen.stdin.closed:
            self.popen.stdin.close()
        self.popen.wait(10)

    def kill_without_burying(self) -> None:
        """Kill it and leave it a zombie, as a parent does that does not look."""
        self.popen.kill()

    def close(self) -> None:
        self.popen.kill()
        self.popen.wait(10)
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def process() -> Iterator[Process]:
    process = Process()
    yield process
    process.close()


async def held_by(process: Process, store: Store) -> Hand:
    """Return a worker of that process that holds the first run of `work`."""
    hand = Hand(store, f"worker of {process.mark.pid}", tasks={"work"})
    hand.incarnation = msgspec.structs.replace(hand.incarnation, process=process.mark)
    await hand.register()
    await hand.claim()
    return hand


@pytest.mark.parametrize("ending", [Process.end, Process.kill_without_burying], ids=["ended", "zombie"])
async def test_a_worker_whose_process_is_gone_is_taken_over_from_at_once(
    app: Scheduler, clock: FakeClock, process: Process, ending: Callable[[Process], None]
) -> None:
    @app.task
    async def work() -> str:
        return "by another"

    receipt = await work.submit()
    await held_by(process, await app.open())
    ending(process)
    if ending is Process.kill_without_burying:
        await until(lambda: b") Z" in _stat(process))

    await soon(app.drain())

    assert clock.monotonic() == 0
    run = await app.get(receipt)
    assert (run.state, run.result, run.crashes) == (RunState.SUCCEEDED, "by another", 0)


def _stat(process: Process) -> bytes:
    return Path(f"/proc/{process.popen.pid}/stat").read_bytes()


async def test_a_worker_whose_process_lives_is_not_and_once_it_dies_it_is_within_seconds(
    memory: Store, clock: FakeClock, process: Process
) -> None:
    app = Scheduler(store=memory, clock=clock)

    @app.task
    async def work() -> str:
        return "by another"

    receipt = await work.submit()
    await held_by(process, memory)
    async with app.running():
        await clock.advance(5)
        alive = await app.get(receipt)
        process.end()
        await clock.advance(6)
        run = await soon(app.wait(receipt))

    assert alive.state is RunState.RUNNING
    assert run.result == "by another"


async def test_within_a_grace_the_gone_are_still_taken_over_from(
    memory: Store, clock: FakeClock, process: Process
) -> None:
    app = Scheduler(store=memory, clock=clock)

    @app.task
    async def work() -> str:
        return "by another"

    receipt = await work.submit()
    await held_by(process, memory)
    process.end()
    await clock.advance(60)  # an outage: the next renewal starts a grace

    await soon(app.drain())

    assert await app.result(receipt) == "by another"


# The renewer


class Line:
    """A store's renewal, as the renewer sees it."""

    def __init__(self, *answers: RenewReply | Exception) -> None:
        self.answers = list(answers)

    def renew(self, incarnation: str) -> RenewReply:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def renewer(line: Line, held: Set[tuple[int, int]], lost: list[Set[tuple[int, int]] | None]) -> Renewer:
    return Renewer(line, "w", 0.001, LeaseClock(FakeClock(), LEASE), lambda: held, lost.append)  # type: ignore[arg-type]  # one verb is enough


async def test_the_renewer_tells_of_leases_the_store_does_not_know() -> None:
    lost: list[Set[tuple[int, int]] | None] = []
    service = renewer(Line(RenewReply(0, [(1, 1), (3, 1)])), {(1, 1), (2, 1)}, lost)

    service.start()
    await until(lambda: bool(lost))
    service.stop()

    assert lost[0] == {(2, 1)}


async def test_the_renewer_tells_that_the_incarnation_is_lost_once_and_ends() -> None:
    lost: list[Set[tuple[int, int]] | None] = []
    service = renewer(Line(RenewReply(0), LeaseLost("gone")), set(), lost)

    service.start()
    await until(lambda: not any(thread.name == "laneway-renewer" for thread in threading.enumerate()))

    assert lost == [None]


async def test_the_runs_of_a_worker_that_left_are_taken_over_at_once(app: Scheduler) -> None:
    @app.task
    async def work() -> str:
        return "by another"

    receipt = await work.submit()
    left = await Hand(await app.open(), "left", tasks={"work"}).register()
    await left.claim()
    await left.leave()

    await soon(app.drain())

    assert (await app.get(receipt)).result == "by another"


async def test_a_worker_that_stops_while_it_takes_over_does_not_strand_the_runs(
    watched: WatchedStore, clock: FakeClock
) -> None:
    apps = [Scheduler(store=watched, clock=clock), Scheduler(store=watched, clock=clock)]
    for app in apps:
        app.task(name="work")(lambda: "by another")
    receipt = await apps[0].submit("work")
    dead = await Hand(watched.store, "dead", tasks={"work"}).register()
    await dead.claim()
    other = await Hand(watched.store, "other").register()
    async with apps[0].running():
        reached = watched.hold_back("reclaim", answer=True)
        while not reached.is_set():
            await clock.advance(1)
            other.renew()
        await apps[0].stop(0)  # the run of the dead is this worker's now, and it will never hear of it
    watched.let_go("reclaim")

    await soon(apps[1].drain())

    assert (await apps[1].get(receipt)).result == "by another"


async def test_a_worker_that_lost_its_incarnation_survives_a_failing_registration(
    watched: WatchedStore, clock: FakeClock
) -> None:
    app = Scheduler(store=watched, clock=clock, renew_every=0.005)
    app.task(name="work")(lambda: "done")

    async with app.running():
        await turns()
        [info] = await watched.workers()
        watched.fail("register", times=2)
        thief = await Hand(watched.store, "thief").register()
        await thief.reclaim(info.incarnation.id)
        receipt = await app.submit("work")
        value = await as_time_passes(clock, app.result(receipt))

    assert value == "done"


class SlowRenewal(WatchedStore):
    """A store whose first renewal fails when it is let."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.asked, self._answer = threading.Event(), threading.Event()

    def renew(self, incarnation: str) -> RenewReply:
        if self.asked.is_set():
            return super().renew(incarnation)
        self._renewer = threading.current_thread()
        self.asked.set()
        self._answer.wait(IN_TIME)
        raise LeaseLost("gone")

    async def fails(self) -> None:
        """Let it fail, and wait until its renewer has told so and ended."""
        self._answer.set()
        await until(lambda: not self._renewer.is_alive())
        await turns()


async def test_news_of_an_old_incarnation_does_not_harm_the_new_one(memory: Store, clock: FakeClock) -> None:
    store = SlowRenewal(memory)
    app = Scheduler(store=store, clock=clock, renew_every=0.005)
    gates = {fence: asyncio.Event() for fence in (1, 2, 3)}
    began: list[int] = []

    @app.task
    async def work(*, ctx: Context) -> int:
        began.append(ctx.fence)
        await gates[ctx.fence].wait()
        return ctx.fence

    async with app.running():
        receipt = await work.submit()
        await asyncio.to_thread(store.asked.wait, 5)
        await until(lambda: began == [1])
        [info] = await store.workers()
        thief = await Hand(memory, "thief").register()
        [taken] = (await thief.reclaim(info.incarnation.id)).lapsed
        await thief.release(taken)
        gates[1].set()  # its step hears that the incarnation is lost; a new one claims the run
        await until(lambda: began == [1, 2])
        await store.fails()  # only now does the renewer of the old one learn it
        store.fail("step")  # one step of the new one gets no answer, as happens
        gates[2].set()
        await clock.advance(5)
        gates[3].set()
        value = await as_time_passes(clock, app.result(receipt))

    assert value == 2


async def test_news_of_an_old_incarnation_does_not_harm_one_that_is_being_registered(
    memory: Store, clock: FakeClock
) -> None:
    store = SlowRenewal(memory)
    app = Scheduler(store=store, clock=clock, renew_every=0.005)
    app.task(name="work")(lambda: "done")

    async with app.running():
        await asyncio.to_thread(store.asked.wait, 5)
        [info] = await store.workers()
        thief = await Hand(memory, "thief").register()
        await thief.reclaim(info.incarnation.id)
        registering = store.hold_back("register")
        store.wake()  # its step learns that the incarnation is lost
        await soon(registering.wait())
        await store.fails()  # and now the renewer of the old one learns it
        store.fail("register")
        store.let_go("register")
        receipt = await app.submit("work")
        value = await as_time_passes(clock, app.result(receipt))

    assert value == "done"


@pytest.mark.wall_clock
async def test_a_renewal_that_failed_is_tried_again_before_a_short_lease_is_over(memory: Store) -> None:
    watched = WatchedStore(memory)
    await Hand(watched, "hand").register()
    watched.fail("renew")
    renewer = Renewer(watched, "hand", 0.05, LeaseClock(FakeClock(), LEASE), set, lambda lost: None)

    renewer.start()
    await timers(0.4)
    renewer.stop()

    assert watched.calls["renew"] >= 3


async def test_looking_after_others_goes_on_after_an_unforeseen_error(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    async with lossy.running():
        await turns()
        watched.breaks("workers", RuntimeError("what was that"))
        await clock.advance(10)
        watched.calls.clear()
        await clock.advance(10)
        looks = watched.calls["look"]

    assert looks == 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_renewing_goes_on_after_an_unforeseen_error(watched: WatchedStore, clock: FakeClock) -> None:
    app = Scheduler(store=watched, clock=clock, renew_every=0.005)
    watched.breaks("renew", RuntimeError("what was that"))

    async with app.running():
        await until(lambda: watched.calls["renew"] > 2)
