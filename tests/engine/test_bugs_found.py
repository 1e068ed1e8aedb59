"""Bugs found in src: each test says what should hold, and failed when it was written."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, cast

import pytest

from laneway import (
    BadArguments,
    BadSetting,
    Context,
    Lane,
    Retry,
    Scheduler,
    StoreUnavailable,
    UnknownTask,
)
from laneway.core.states import RunState
from laneway.core.step import RenewReply, Step, StepReply
from laneway.engine import processes
from laneway.engine.executor import Stop
from laneway.engine.renewer import Renewer
from laneway.errors import BadURL, LeaseLost, UsageError
from laneway.ports.store import Store
from laneway.stores.memory import MemoryStore
from laneway.testing import FakeClock, Hand
from tests.engine.support import WatchedStore, as_time_passes, scheduler_on, soon, turns, until

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypeCheckers

AT_ONCE = 3.0  # real seconds for what should come at once


@pytest.fixture
def url() -> str:
    return "memory://"


# Runs that hang


@pytest.mark.parametrize("error", [StopIteration, GeneratorExit])
async def test_a_plain_handler_that_raises_what_no_future_can_carry_fails_its_attempt(
    app: Scheduler, error: type[BaseException]
) -> None:
    @app.task(retry=None)
    def first_of_none() -> int:
        raise error("nothing there")

    receipt = await first_of_none.submit()
    work = asyncio.create_task(app.work())
    try:
        run = await app.wait(receipt, timeout=AT_ONCE)
    finally:
        await app.stop(0)
        await work

    assert run.state is RunState.FAILED
    assert run.error is not None
    assert run.error.type == error.__name__


async def test_a_handler_that_is_stopped_before_its_first_turn_is_settled_too(memory: Store, clock: FakeClock) -> None:
    class StopsAfterClaim(WatchedStore):
        async def step(self, step: Step) -> StepReply:
            reply = await super().step(step)
            if reply.claimed:
                asyncio.get_running_loop().call_soon(self.time_out)
            return reply

        def time_out(self) -> None:
            # As the sweep does when another handler blocked the loop for longer than this one's time-out.
            assert app._worker is not None
            for execution in app._worker._executions._running.values():
                execution.stop(Stop.TIMED_OUT)

    app = scheduler_on(StopsAfterClaim(memory), clock)

    @app.task(timeout=1, retry=None)
    async def work() -> None: ...

    receipt = await work.submit()
    working = asyncio.create_task(app.work())
    await turns()
    await app.stop(0)
    await soon(working)

    # Its task was cancelled before it began, so nobody settled the run; its slot, its lease and the renewer of the
    # stopped worker would stay for as long as the process lives.
    run = await app.get(receipt)
    assert run.state is not RunState.RUNNING


async def test_a_stop_while_a_claim_is_under_way_gives_the_run_back(watched: WatchedStore, clock: FakeClock) -> None:
    app = scheduler_on(watched, clock)
    started = asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    working = asyncio.create_task(app.work())
    await turns()
    reached = watched.hold("step")
    receipt = await work.submit()
    await soon(reached.wait())
    stop = asyncio.create_task(app.stop(0.01))
    await asyncio.sleep(0.05)
    watched.let_go("step")
    await soon(asyncio.gather(stop, working))

    run = await app.get(receipt)
    assert (run.state, run.attempt, run.crashes) == (RunState.PENDING, 1, 0)


async def test_a_stop_waits_for_runs_whose_claim_was_under_way(watched: WatchedStore, clock: FakeClock) -> None:
    app = scheduler_on(watched, clock)

    @app.task
    async def work() -> str:
        await turns(5)
        return "done"

    working = asyncio.create_task(app.work())
    await turns()
    reached = watched.hold("step")
    receipt = await work.submit()
    await soon(reached.wait())
    stop = asyncio.create_task(app.stop(30))
    await turns()
    watched.let_go("step")
    await soon(asyncio.gather(stop, working))

    assert (await app.get(receipt)).state in {RunState.SUCCEEDED, RunState.PENDING}


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
    apps = [scheduler_on(watched, clock), scheduler_on(watched, clock)]
    for app in apps:
        app.task(name="work")(lambda: "by another")
    receipt = await apps[0].submit("work")
    dead = await Hand(watched.store, "dead", tasks={"work"}).register()
    await dead.claim()
    other = await Hand(watched.store, "other").register()
    async with apps[0].running():
        reached = watched.hold("reclaim", answer=True)
        while not reached.is_set():
            await clock.advance(1)
            other.renew()
        await apps[0].stop(0)  # the run of the dead is this worker's now, and it will never hear of it
    watched.let_go("reclaim")

    await soon(apps[1].drain())

    assert (await apps[1].get(receipt)).result == "by another"


async def test_drain_takes_over_all_runs_of_the_dead_however_many(memory: Store, clock: FakeClock) -> None:
    app = scheduler_on(memory, clock)
    app.task(name="work")(lambda: None)
    await memory.set_lanes([Lane("main", limit=5000)])
    await app.submit_many([("work", {}) for _ in range(1200)])
    dead = await Hand(memory, "dead", tasks={"work"}).register()
    await dead.claim(1200)
    living = await Hand(memory, "living").register()
    for _ in range(4):
        await clock.advance(5)
        living.renew()

    await soon(app.drain())

    states = await memory.count()
    assert states == {"succeeded": 1200}


async def test_two_loops_may_submit_at_the_same_time(lossy: Scheduler) -> None:
    @lossy.task
    def work(n: int) -> int:
        return n

    await lossy.open()
    mine = asyncio.create_task(lossy.submit("work", {"n": 1}))
    await asyncio.sleep(0)  # it has asked, and its batch goes out with the loop's next turn
    other = threading.Thread(target=lambda: asyncio.run(lossy.submit("work", {"n": 2})))
    other.start()
    other.join(5)

    receipt = await asyncio.wait_for(mine, AT_ONCE)

    assert (await lossy.get(receipt)).args == {"n": 1}


async def test_a_store_that_fails_in_an_unforeseen_way_is_heard_by_the_submitter(
    lossy: Scheduler, watched: WatchedStore
) -> None:
    lossy.task(name="work")(lambda: None)
    watched.breaks("submit", RuntimeError("disk full"))

    with pytest.raises(RuntimeError, match="disk full"):
        await asyncio.wait_for(lossy.submit("work"), AT_ONCE)


async def test_the_first_call_is_repeated_too_when_the_store_is_out_of_reach(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    lossy.task(name="work")(lambda: None)
    await lossy.aclose()
    watched.fail("open", times=2)

    receipt = await as_time_passes(clock, lossy.submit("work"))

    assert [run.id for run in await lossy.runs()] == [receipt.run_id]


# Workers that die


async def test_a_worker_that_lost_its_incarnation_survives_a_failing_registration(
    watched: WatchedStore, clock: FakeClock
) -> None:
    app = scheduler_on(watched, clock, renew_every=0.005)
    app.task(name="work")(lambda: "done")

    async with app.running():
        await turns()
        [info] = await watched.workers()
        watched.fail("register", times=2)
        thief = await Hand(watched.store, "thief").register()
        await thief.reclaim(info.incarnation.id)
        receipt = await app.submit("work")
        value = await as_time_passes(clock, app.result(receipt, timeout=AT_ONCE))

    assert value == "done"


async def test_news_of_an_old_incarnation_does_not_harm_the_new_one(memory: Store, clock: FakeClock) -> None:
    asked, answer = threading.Event(), threading.Event()

    class SlowRenewal(WatchedStore):
        def renew(self, incarnation: str) -> RenewReply:
            if asked.is_set():
                return super().renew(incarnation)
            asked.set()
            answer.wait(10)
            raise LeaseLost("gone")

    store = SlowRenewal(memory)
    app = scheduler_on(store, clock, renew_every=0.005)
    gates = {fence: asyncio.Event() for fence in (1, 2, 3)}
    began: list[int] = []

    @app.task
    async def work(*, ctx: Context) -> int:
        began.append(ctx.fence)
        await gates[ctx.fence].wait()
        return ctx.fence

    async with app.running():
        receipt = await work.submit()
        await asyncio.to_thread(asked.wait, 5)
        await until(lambda: began == [1])
        [info] = await store.workers()
        thief = await Hand(memory, "thief").register()
        [taken] = (await thief.reclaim(info.incarnation.id)).lapsed
        await thief.release(taken)
        gates[1].set()  # its step hears that the incarnation is lost; a new one claims the run
        await until(lambda: began == [1, 2])
        answer.set()  # only now does the renewer of the old one hear of it
        await asyncio.sleep(0.05)
        store.fail("step")  # one step of the new one gets no answer, as happens
        gates[2].set()
        await clock.advance(5)
        gates[3].set()
        value = await as_time_passes(clock, app.result(receipt, timeout=AT_ONCE))

    assert value == 2


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
    app = scheduler_on(watched, clock, renew_every=0.005)
    watched.breaks("renew", RuntimeError("what was that"))

    async with app.running():
        await asyncio.sleep(0.1)
        renewals = watched.calls["renew"]

    assert renewals > 1


async def test_news_of_an_old_incarnation_does_not_harm_one_that_is_being_registered(
    memory: Store, clock: FakeClock
) -> None:
    asked, answer = threading.Event(), threading.Event()

    class SlowRenewal(WatchedStore):
        def renew(self, incarnation: str) -> RenewReply:
            if asked.is_set():
                return super().renew(incarnation)
            asked.set()
            answer.wait(10)
            raise LeaseLost("gone")

    store = SlowRenewal(memory)
    app = scheduler_on(store, clock, renew_every=0.005)
    app.task(name="work")(lambda: "done")

    async with app.running():
        await asyncio.to_thread(asked.wait, 5)
        [info] = await store.workers()
        thief = await Hand(memory, "thief").register()
        await thief.reclaim(info.incarnation.id)
        assert app._worker is not None
        registering = store.hold("register")
        app._worker._bell.ring()  # its step hears that the incarnation is lost
        await soon(registering.wait())
        answer.set()  # and now the renewer of the old one hears of it
        await asyncio.sleep(0.05)
        store.fail("register")
        store.let_go("register")
        receipt = await app.submit("work")
        value = await as_time_passes(clock, app.result(receipt, timeout=30))

    assert value == "done"


async def test_a_stop_that_comes_while_the_worker_starts_stops_it(watched: WatchedStore, clock: FakeClock) -> None:
    app = scheduler_on(watched, clock)
    opening = watched.hold("open")
    working = asyncio.create_task(app.work())
    await soon(opening.wait())

    stopping = asyncio.create_task(app.stop())
    await turns()
    watched.let_go("open")
    await turns()
    ended = working.done()
    working.cancel()
    await asyncio.gather(working, stopping, return_exceptions=True)

    assert ended


async def test_one_step_without_an_answer_at_the_end_does_not_lose_results(
    watched: WatchedStore, clock: FakeClock
) -> None:
    app = scheduler_on(watched, clock)
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> str:
        started.set()
        await go_on.wait()
        return "done"

    receipt = await work.submit()
    working = asyncio.create_task(app.work())
    await soon(started.wait())
    stopping = asyncio.create_task(app.stop(30))
    await turns()
    watched.fail("step")  # locked for a moment, say
    go_on.set()
    await as_time_passes(clock, asyncio.gather(stopping, working))

    assert await app.result(receipt) == "done"


@pytest.mark.parametrize("verb", ["workers", "reclaim"])
async def test_drain_takes_over_from_the_dead_also_when_the_store_fails_once(
    watched: WatchedStore, clock: FakeClock, verb: str
) -> None:
    app = scheduler_on(watched, clock)
    app.task(name="work")(lambda: "by another")
    receipt = await app.submit("work")
    dead = await Hand(watched.store, "dead", tasks={"work"}).register()
    await dead.claim()
    living = await Hand(watched.store, "living").register()
    for _ in range(4):
        await clock.advance(5)
        living.renew()
    watched.fail(verb)

    await as_time_passes(clock, app.drain())

    assert (await app.get(receipt)).result == "by another"


async def test_a_retry_at_the_very_same_instant_does_not_end_the_worker(app: Scheduler) -> None:
    @app.task(timeout=60, retry=Retry.delays(0))
    async def work(*, ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("once")
        return ctx.attempt

    receipt = await work.submit()
    await soon(app.drain())

    assert await app.result(receipt) == 2


async def test_two_workers_are_not_started_by_two_calls_at_the_same_time(
    watched: WatchedStore, clock: FakeClock
) -> None:
    app = scheduler_on(watched, clock)
    watched.hold("open")
    calls = [asyncio.create_task(app.work()) for _ in range(2)]
    await turns()
    watched.let_go("open")
    await turns()
    workers = len(await watched.workers())
    await app.stop(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    assert workers == 1


async def test_a_start_that_is_cancelled_leaves_nothing_working(watched: WatchedStore, clock: FakeClock) -> None:
    app = scheduler_on(watched, clock)
    watched.hold("open")

    async def block() -> None:
        async with app.running():
            pytest.fail("it was cancelled")

    entering = asyncio.create_task(block())
    await turns()
    entering.cancel()
    await asyncio.gather(entering, return_exceptions=True)
    watched.let_go("open")
    await turns()

    workers = await watched.workers()
    await app.stop(0)
    assert workers == []


def test_a_scheduler_can_work_again_after_its_loop_was_abandoned() -> None:
    clock = FakeClock()
    app = scheduler_on(MemoryStore(clock), clock)
    app.task(name="work")(lambda: "done")
    abandoned = asyncio.new_event_loop()
    working = abandoned.create_task(app.work())
    for _ in range(20):
        abandoned.call_soon(abandoned.stop)
        abandoned.run_forever()
    abandoned.set_exception_handler(lambda *_: None)
    working._log_destroy_pending = False  # type: ignore[attr-defined]  # it is the point
    for task in asyncio.all_tasks(abandoned):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is the point
    abandoned.close()

    async def again() -> str:
        receipt = await app.submit("work")
        async with app.running():
            return str(await app.result(receipt, timeout=AT_ONCE))

    assert asyncio.run(again()) == "done"


# Charged, though nobody is to blame


async def test_work_that_is_cancelled_gives_back_a_handler_that_needs_a_moment_to_clean_up(app: Scheduler) -> None:
    started = asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await turns(10)  # closes a connection, say

    receipt = await work.submit()
    working = asyncio.create_task(app.work())
    await soon(started.wait())
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await turns()

    run = await app.get(receipt)
    assert (run.state, run.attempt, run.crashes) == (RunState.PENDING, 1, 0)


async def test_a_thread_that_ends_after_the_stop_is_settled_and_not_charged_a_crash(url: str, clock: FakeClock) -> None:
    started, go_on = threading.Event(), threading.Event()
    async with Scheduler(url, clock=clock, renew_every=0.005) as app:

        @app.task
        def work() -> str:
            started.set()
            go_on.wait(10)
            return "done"

        receipt = await work.submit()
        working = asyncio.create_task(app.work())
        await asyncio.to_thread(started.wait, 5)
        await soon(app.stop(0))
        await soon(working)
        go_on.set()
        await asyncio.sleep(0.1)

        run = await app.get(receipt)
        assert run.state in {RunState.SUCCEEDED, RunState.PENDING}
        assert run.crashes == 0


async def test_a_plain_handler_that_never_began_is_given_back(watched: WatchedStore, clock: FakeClock) -> None:
    app = scheduler_on(watched, clock, concurrency=1, renew_every=0.005, grace=0.01)
    started, go_on = threading.Event(), threading.Event()

    @app.task
    def work(wait: bool) -> None:
        if wait:
            started.set()
            go_on.wait(10)

    await work.submit(wait=True)
    working = asyncio.create_task(app.work())
    await asyncio.to_thread(started.wait, 5)
    [info] = await watched.workers()
    thief = await Hand(watched.store, "thief").register()
    await thief.reclaim(info.incarnation.id)  # the worker loses the run; its only thread goes on
    queued = await work.submit(wait=False)
    await until(lambda: watched.calls["register"] == 2)
    await turns()
    await soon(app.stop(0.01))
    await soon(working)
    go_on.set()

    run = await app.get(queued)
    assert (run.state, run.crashes) == (RunState.PENDING, 0)


async def test_a_renewal_that_failed_is_tried_again_before_a_short_lease_is_over(memory: Store) -> None:
    watched = WatchedStore(memory)
    await Hand(watched, "hand").register()
    watched.fail("renew")
    renewer = Renewer(watched, "hand", 0.05, set, lambda lost: None)

    renewer.start()
    await asyncio.sleep(0.4)
    renewer.stop()

    assert watched.calls["renew"] >= 3


def test_a_process_that_may_not_be_looked_at_is_not_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # /proc mounted with hidepid: boot id and our own entries are there, those of other users are not.
    mine = processes.mark()
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(mine.boot)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to(mine.namespace)
    monkeypatch.setattr(processes, "_PROC", tmp_path)

    assert not processes.is_gone(mine)


# Memory


async def test_executions_that_have_ended_are_not_kept_until_their_deadline(lossy: Scheduler) -> None:
    @lossy.task(timeout=3600)
    async def work() -> None: ...

    async with lossy.running():
        receipts = await lossy.submit_many([("work", {}) for _ in range(500)])
        await soon(asyncio.gather(*map(lossy.wait, receipts)))
        assert lossy._worker is not None
        kept = len(lossy._worker._executions._deadlines._heap)

    assert kept < 100


async def test_a_line_of_log_costs_no_step_of_its_own(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    @lossy.task
    async def work(*, ctx: Context) -> None:
        ctx.log("quickly")

    async with lossy.running():
        await turns()
        watched.calls.clear()
        await soon(lossy.wait(await lossy.submit("work")))
        await clock.advance(0.5)
        steps = watched.calls["step"]

    assert steps == 2


# Answers that are wrong


async def test_submit_many_that_fails_half_way_says_that_something_was_stored(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    lossy.task(name="work")(lambda: None)
    await lossy.open()
    first_part = watched.submit

    async def only_the_first_part(batch: Any) -> Any:
        if watched.batches:
            watched.fail("submit")
        return await first_part(batch)

    watched.submit = only_the_first_part  # type: ignore[method-assign]  # for this one test
    with pytest.raises(StoreUnavailable) as caught:
        await as_time_passes(clock, lossy.submit_many([("work", {}) for _ in range(600)]))

    assert len(await lossy.runs(limit=1000)) == 500
    assert caught.value.maybe_done


async def test_waiting_by_the_beginning_of_an_id_goes_on_when_another_run_begins_so(app: Scheduler) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    receipt = await work.submit(n=1)
    waiting = asyncio.create_task(app.result(receipt.run_id[:8]))
    await turns()
    await asyncio.sleep(0.02)
    await work.submit(n=2)
    await app.drain()

    assert await soon(waiting) == 1


async def test_a_run_that_has_ended_has_its_result_at_once(app: Scheduler) -> None:
    @app.task
    async def work() -> str:
        return "done"

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt, timeout=0) == "done"


@pytest.mark.filterwarnings("error")
async def test_a_wrong_timeout_is_refused_and_leaves_no_coroutine_behind(app: Scheduler) -> None:
    @app.task
    async def work() -> None: ...

    receipt = await work.submit()

    for ask in (app.result, app.wait):
        with pytest.raises(BadSetting, match=r"^timeout is -1"):
            await ask(receipt, timeout=-1)


@pytest.mark.parametrize("what", ["a plain function", None, 5])
async def test_what_is_no_task_is_refused_with_what_to_do(app: Scheduler, what: Any) -> None:
    def work() -> None: ...

    with pytest.raises(UsageError):
        await app.submit(cast("Any", work) if what == "a plain function" else what)


async def test_the_task_of_another_scheduler_is_unknown_here(app: Scheduler) -> None:
    other = Scheduler("memory://")
    theirs = other.task(name="theirs")(lambda: None)

    with pytest.raises(UnknownTask):
        await app.submit(theirs)
    assert await app.runs() == []


@pytest.mark.parametrize(
    "options",
    [
        {"at": "2026-01-01"},
        {"delay": ""},
        {"delay": False},
        {"priority": True},
        {"priority": ""},
        {"session": "chat", "session_policy": {"max_concurrent": 2}},
    ],
    ids=str,
)
async def test_an_option_of_the_wrong_type_is_refused_and_nothing_is_stored(
    app: Scheduler, options: dict[str, Any]
) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(BadSetting):
        await app.submit(work, **options)
    assert await app.runs() == []


@pytest.mark.parametrize("item", [("work",), ("work", {}, "ann", "chat", 0, 0, None, None, None, "?"), "work", 5])
async def test_an_item_of_many_that_is_none_is_refused(app: Scheduler, item: Any) -> None:
    app.task(name="work")(lambda: None)

    with pytest.raises(UsageError):
        await app.submit_many([item, item])


@pytest.mark.parametrize("limit", [-1, 1.5, "10"])
async def test_a_wrong_limit_of_a_list_is_refused(app: Scheduler, limit: Any) -> None:
    with pytest.raises(BadSetting):
        await app.runs(limit=limit)


async def test_a_state_that_is_no_text_is_refused(app: Scheduler) -> None:
    with pytest.raises(BadSetting):
        await app.runs(state=5)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("after", [-1, "5"])
async def test_a_wrong_cursor_is_refused(app: Scheduler, after: Any) -> None:
    @app.task
    async def work() -> None: ...

    receipt = await work.submit()
    await app.drain()

    with pytest.raises(UsageError):
        await anext(app.events(receipt, after=after))


@pytest.mark.parametrize("run", [None, 5, object()])
async def test_what_stands_for_no_run_is_refused(app: Scheduler, run: Any) -> None:
    @app.task
    async def work() -> None: ...

    await work.submit()

    with pytest.raises(UsageError):
        await app.get(run)


@pytest.mark.parametrize("setting", ["lease", "renew_every", "grace", "busy_timeout"])
async def test_a_setting_may_be_a_timedelta_or_is_refused(clock: FakeClock, setting: str) -> None:
    started = asyncio.Event()
    settings: dict[str, Any] = {setting: timedelta(seconds=6)}
    try:
        app = Scheduler("memory://", clock=clock, **settings)
    except BadSetting:
        return  # also an answer

    @app.task
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    await work.submit()
    working = asyncio.create_task(app.work())
    await soon(started.wait())
    await soon(app.stop(0.001))
    await soon(working)


def test_a_store_without_its_slashes_is_told_what_is_missing() -> None:
    with pytest.raises(BadURL) as caught:
        Scheduler("memory")

    assert "did you mean 'memory'" not in str(caught.value)
    assert "memory:// is not a store" not in str(caught.value)
    assert "memory://" in str(caught.value)


def test_a_password_among_the_parameters_is_not_shown() -> None:
    with pytest.raises(BadURL) as caught:
        Scheduler("postgresql://host/db?user=ann&password=secret")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["", 5])
def test_a_name_that_is_none_is_refused_not_replaced(app: Scheduler, name: Any) -> None:
    with pytest.raises(BadSetting):
        app.task(name=name)(lambda: None)


# Handlers that are given, or give, something else than meant


async def test_one_annotation_that_cannot_be_resolved_leaves_the_others_alone(app: Scheduler) -> None:
    # Annotations of this file are strings, and one of them can be resolved by a type checker only.
    async def work(price: OnlyForTypeCheckers, count: int, ctx: Context) -> str:
        return ctx.task

    task = app.task(work)

    assert task.parameters.context == "ctx"
    with pytest.raises(BadArguments):
        await task.submit(price="1.10", count="many")


async def test_an_optional_context_is_given_too(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(ctx: Optional[Context] = None) -> bool:  # noqa: UP045 - either spelling
        return ctx is not None

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) is True


async def test_a_context_with_a_note_is_given_too(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(ctx: Annotated[Context, "mine"]) -> str:
        return ctx.task

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) == "work"


async def test_a_partial_of_a_handler_is_given_its_context(app: Scheduler) -> None:
    async def work(n: int, step: int, ctx: Context) -> str:
        return f"{ctx.task} {n} {step}"

    task = app.task(name="work", retry=None)(partial(work, step=2))
    receipt = await task.submit(n=1)
    await app.drain()

    assert await app.result(receipt) == "work 1 2"


@dataclass
class Order:
    price: OnlyForTypeCheckers


async def test_a_class_with_a_field_that_cannot_be_resolved_is_taken_as_it_is_or_refused(app: Scheduler) -> None:
    async def work(order: Order) -> None: ...

    try:
        task = app.task(work)
    except BadSetting:
        return  # also an answer
    await task.submit(order={"price": "1.10"})


def test_a_callable_whose_signature_cannot_be_read_is_refused(app: Scheduler) -> None:
    with pytest.raises(BadSetting):
        app.task(name="clock")(time.time)


def test_a_positional_only_context_is_refused(app: Scheduler) -> None:
    async def work(ctx: Context, /) -> None: ...

    with pytest.raises(BadSetting):
        app.task(work)


async def test_a_wrapped_async_handler_is_awaited(app: Scheduler) -> None:
    async def work(n: int) -> int:
        return n

    def wrapper(n: int) -> Any:  # what a decorator leaves that knows nothing of async
        return work(n)

    task = app.task(name="work", retry=None)(wrapper)
    receipt = await task.submit(n=5)
    await app.drain()

    assert await app.result(receipt) == 5


async def test_an_object_with_an_async_call_is_awaited(app: Scheduler) -> None:
    class Work:
        async def __call__(self, n: int) -> int:
            return n

    task = app.task(name="work", retry=None)(Work())
    receipt = await task.submit(n=5)
    await app.drain()

    assert await app.result(receipt) == 5


async def test_a_number_reaches_the_handler_as_its_annotation_says(app: Scheduler) -> None:
    @app.task
    async def work(share: float) -> str:
        return type(share).__name__

    receipt = await work.submit(share=1)
    await app.drain()

    assert await app.result(receipt) == "float"


async def test_odd_text_can_be_logged(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(*, ctx: Context) -> str:
        ctx.log(b"caf\xe9".decode(errors="surrogateescape"))  # what another program printed
        ctx.progress(0.5, "\ud800")
        return "done"

    receipt = await work.submit()
    await app.drain()

    assert await app.result(receipt) == "done"


async def test_an_event_that_is_no_number_is_refused_like_arguments_are(app: Scheduler) -> None:
    @app.task(retry=None)
    async def work(*, ctx: Context) -> None:
        ctx.emit("measured", float("nan"))

    receipt = await work.submit()
    await app.drain()

    assert (await app.get(receipt)).state is RunState.FAILED


async def test_the_result_is_told_in_the_singular(app: Scheduler) -> None:
    @app.task
    async def work() -> Any:
        return object()

    receipt = await work.submit()
    await app.drain()

    error = (await app.get(receipt)).error
    assert error is not None
    assert error.message.startswith("the result of work is not JSON")


async def test_arguments_that_were_taken_can_be_read_from_any_depth_of_the_stack(app: Scheduler) -> None:
    value: list[Any] = []
    for _ in range(700):
        value = [value]

    @app.task
    async def work(value: Any) -> None: ...

    async def deeper(levels: int) -> Any:
        return await (deeper(levels - 1) if levels else app.get(receipt))

    try:
        receipt = await work.submit(value=value)
    except BadArguments:
        return  # also an answer, and the better one

    assert (await deeper(300)).args == {"value": value}


async def test_a_task_that_is_registered_while_working_is_executed_or_refused(app: Scheduler) -> None:
    async with app.running():
        await turns()
        try:
            late = app.task(name="late")(lambda: "done")
        except BadSetting:
            return
        receipt = await late.submit()
        assert await app.result(receipt, timeout=1) == "done"
