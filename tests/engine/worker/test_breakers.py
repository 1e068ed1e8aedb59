"""Breakers: a task that keeps failing is held back in all processes, tried once, and let go on when that succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from laneway import Breaker, Context, Lane, Retry, Scheduler, Snooze
from laneway.core.common.instants import instant
from laneway.core.records.breakers import Phase
from laneway.core.records.run import Gate
from laneway.core.records.states import RunState
from laneway.errors import BadSetting, RunFailed
from laneway.ports.gates import CircuitState
from laneway.ports.store import Store
from laneway.testing import FakeClock, Hand
from tests.support.invariants import check_invariants
from tests.support.waits import soon, turns, until


class Service:
    """What the handlers call: it is down until somebody mends it, and remembers who called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.inside = 0
        self.most = 0
        self.up = False
        self.slow: asyncio.Event | None = None

    async def call(self, who: str) -> str:
        self.calls.append(who)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            if self.slow is not None:
                await self.slow.wait()
            if not self.up:
                raise ConnectionError("it is down")
            return who
        finally:
            self.inside -= 1


@pytest.fixture
def service() -> Service:
    return Service()


def calling(app: Scheduler, service: Service, **options: Any) -> Scheduler:
    """Register a task that calls the service, with a breaker, and one beside it without."""
    how: dict[str, Any] = {"breaker": Breaker(5, open_for=60), "retry": None, "name": "mail", **options}

    @app.task(**how)
    async def mail(who: str = "", *, ctx: Context) -> str:
        return await service.call(who or ctx.run_id)

    @app.task
    async def other() -> str:
        return "other"

    return app


async def circuits(app: Scheduler) -> list[CircuitState]:
    return [circuit for state in await app.tasks.list() if state.name == "mail" for circuit in state.circuits]


async def stands(app: Scheduler, **facts: Any) -> None:
    """Wait until the task has one circuit, and it stands so."""

    async def look() -> None:
        found: list[CircuitState] = []
        while len(found) != 1 or any(getattr(found[0], name) != value for name, value in facts.items()):
            await turns(1)
            found = await circuits(app)

    await soon(look())


async def fail(app: Scheduler, times: int, *users: str | None) -> None:
    """Let so many runs fail, of these users in turn."""
    for nth in range(times):
        receipt = await app.submit("mail", {"who": "early"}, user=users[nth % len(users)] if users else None)
        with pytest.raises(RunFailed):
            await soon(app.result(receipt))


@pytest_asyncio.fixture
async def wide(app: Scheduler) -> AsyncIterator[Scheduler]:
    """A scheduler whose lane has room for all that the tests submit."""
    await app.lanes.set(Lane("main", limit=200))
    yield app


async def test_after_five_failures_in_a_row_nothing_starts_for_a_minute(
    wide: Scheduler, service: Service, clock: FakeClock
) -> None:
    app = calling(wide, service)
    async with app.running(concurrency=50):
        await fail(app, 5, "ann", "bob", None)
        waiting = await app.submit("mail", {}, user="cat")
        assert await soon(app.result(await app.submit("other"))) == "other"

        [reason] = await app.why(waiting)
        assert (reason.gate, reason.holder) == (Gate.BREAKER_OPEN, "task mail")
        assert reason.opens_at == instant(clock.now()) + timedelta(seconds=60)
        await clock.advance(59)
        await turns()
        assert len(service.calls) == 5
        service.up = True
        await clock.advance(1)
        await soon(app.result(waiting))
        assert await circuits(app) == []


@pytest.mark.parametrize("concurrency", [1, 50])
async def test_of_fifty_that_wait_exactly_one_is_tried_and_then_all_follow(
    wide: Scheduler, service: Service, clock: FakeClock, concurrency: int
) -> None:
    app = calling(wide, service)
    async with app.running(concurrency=concurrency):
        await fail(app, 5)
        receipts = await app.submit_many([("mail", {"who": f"late {n}"}) for n in range(50)])
        await stands(app, parked=50)
        assert len(service.calls) == 5
        service.slow, service.up, service.most = asyncio.Event(), True, 0
        await clock.advance(60)
        await until(lambda: service.inside == 1)
        await turns()
        await clock.advance(5)
        await turns()

        assert (len(service.calls), service.most) == (6, 1)
        [state] = await circuits(app)
        assert (state.phase, state.probing, state.parked) == (Phase.HALF_OPEN, True, 49)
        service.slow.set()
        await soon(asyncio.gather(*(app.result(receipt) for receipt in receipts)))
        assert service.calls[5:] == [f"late {n}" for n in range(50)]
        assert await circuits(app) == []


async def test_a_probe_that_fails_opens_it_for_another_minute(
    wide: Scheduler, service: Service, clock: FakeClock
) -> None:
    app = calling(wide, service)
    async with app.running(concurrency=50):
        await fail(app, 5)
        await app.submit_many([("mail", {})] * 10)
        for tried in range(1, 4):
            await clock.advance(59)
            await turns()
            assert len(service.calls) == 4 + tried
            await clock.advance(1)
            await stands(app, failures=5 + tried, phase=Phase.OPEN)

        assert len(service.calls) == 8


async def test_a_breaker_per_user_leaves_others_alone(wide: Scheduler, service: Service, clock: FakeClock) -> None:
    app = calling(wide, service, breaker=Breaker(3, open_for=60, per="user"))
    async with app.running(concurrency=50):
        await fail(app, 3, "ann")
        await fail(app, 2, "bob")
        held = await app.submit("mail", {"who": "ann"}, user="ann")
        service.up = True
        assert await soon(app.result(await app.submit("mail", {"who": "bob"}, user="bob"))) == "bob"

        assert [(reason.gate, reason.holder) for reason in await app.why(held)] == [
            (Gate.BREAKER_OPEN, "task mail of user ann")
        ]
        assert [(state.user, state.phase) for state in await circuits(app)] == [("ann", Phase.OPEN)]
        await app.tasks.close_breaker("mail", user="ann")
        assert await soon(app.result(held)) == "ann"


async def test_every_attempt_counts_also_of_one_run(wide: Scheduler, service: Service, clock: FakeClock) -> None:
    app = calling(wide, service, retry=Retry(attempts=20, base=0), breaker=Breaker(5, open_for=60))
    async with app.running(concurrency=50):
        receipt = await app.submit("mail", {})
        await stands(app, failures=5, phase=Phase.OPEN, parked=1)

        assert len(service.calls) == 5
        run = await app.get(receipt)
        assert (run.state, run.attempt) == (RunState.PENDING, 6)
        service.up = True
        await clock.advance(60)
        await soon(app.result(receipt))


async def test_a_crash_loop_does_not_run_away_hindsight_2675(memory: Store, clock: FakeClock) -> None:
    """A run that kills its worker each time is tried again for a minute's pay, not for a night's."""
    app = Scheduler(store=memory, clock=clock)
    service = Service()
    calling(app, service, breaker=Breaker(3, open_for=60), max_crashes=1000)
    async with app:
        receipts = await app.submit_many([("mail", {})] * 20)
        policy = app.tasks.get("mail").policy
        started = 0
        for worker in range(100):
            dying = await Hand(memory, f"dying {worker}", tasks={"mail"}).register()
            started += len(await dying.claim(1))
            heir = await Hand(memory, f"heir {worker}", tasks={"mail"}, policy=policy).register()
            await heir.lapse(*(await heir.reclaim(dying.name)).lapsed)
            await heir.leave()
            await clock.advance(1)

        assert started == 3 + 1  # a hundred workers in a hundred seconds: three that opened it, and one probe
        assert {run.state for run in [await app.get(receipt) for receipt in receipts]} == {RunState.PENDING}
        await check_invariants(memory)


async def test_a_probe_whose_worker_was_killed_is_followed_by_the_next(
    memory: Store, clock: FakeClock, service: Service
) -> None:
    async with calling(Scheduler(store=memory, clock=clock), service) as app:
        async with app.running():
            await fail(app, 5)
        receipts = await app.submit_many([("mail", {"who": f"{n}"}) for n in range(3)])
        doomed = await Hand(memory, "doomed", tasks={"mail"}).register()
        assert await doomed.claim(9) == []
        await clock.advance(60)
        [probe] = await doomed.claim(9)
        service.up = True
        await doomed.leave()

        async with app.running(concurrency=9):
            await until(lambda: app.status().running)
            await turns(50)
            while not (await app.get(probe.id)).crashes:
                await clock.advance(0.5)
                await turns()
            assert service.calls[5:] == []  # what died with it counts as failed
            await clock.advance(60)
            await soon(asyncio.gather(*(app.result(receipt) for receipt in receipts)))

        await check_invariants(memory)


async def test_a_probe_that_is_cancelled_makes_room_for_the_next(
    wide: Scheduler, service: Service, clock: FakeClock
) -> None:
    app = calling(wide, service)
    async with app.running(concurrency=50):
        await fail(app, 5)
        first, second = await app.submit_many([("mail", {"who": "first"}), ("mail", {"who": "second"})])
        service.slow = asyncio.Event()
        await clock.advance(60)
        await until(lambda: service.inside == 1)

        await app.cancel(first)
        await until(lambda: service.calls[-1] == "second")

        service.up = True
        service.slow.set()
        assert await soon(app.result(second)) == "second"


async def test_a_probe_that_snoozes_tells_nothing(wide: Scheduler, service: Service, clock: FakeClock) -> None:
    snoozed: list[str] = []

    @wide.task(breaker=Breaker(1, open_for=60), retry=None)
    async def mail(who: str) -> str:
        if who == "bad":
            raise ConnectionError("no")
        if who == "sleepy" and not snoozed:
            snoozed.append(who)
            raise Snooze(300)
        return who

    async with wide.running(concurrency=9):
        with pytest.raises(RunFailed):
            await soon(wide.result(await mail.submit(who="bad")))
        sleepy, awake = await mail.submit(who="sleepy"), await mail.submit(who="awake")
        await turns()
        await clock.advance(60)

        assert await soon(wide.result(awake)) == "awake"
        assert (await wide.get(sleepy)).state is RunState.PENDING


async def test_one_that_disables_refuses_what_is_new_until_the_task_is_enabled(
    wide: Scheduler, service: Service, clock: FakeClock
) -> None:
    app = calling(wide, service, breaker=Breaker(2, open_for=60, disable=True))
    async with app.running(concurrency=50):
        kept = await app.submit("mail", {"who": "kept"}, delay=1)
        await fail(app, 2)

        refused = await app.submit("mail", {})
        await clock.advance(3600)
        await turns()

        assert (refused.outcome, refused.reason) == ("refused", "task_disabled")
        assert len(service.calls) == 2
        [state] = [state for state in await app.tasks.list() if state.name == "mail"]
        assert state.disabled
        service.up = True
        await app.tasks.enable("mail")
        assert await soon(app.result(kept)) == "kept"


async def test_closing_it_by_hand_lets_all_start(wide: Scheduler, service: Service) -> None:
    app = calling(wide, service)
    async with app.running(concurrency=50):
        await fail(app, 5)
        receipts = await app.submit_many([("mail", {"who": f"{n}"}) for n in range(9)])
        await turns()
        service.up = True

        await app.tasks.close_breaker("mail")

        assert await soon(asyncio.gather(*(app.result(one) for one in receipts))) == [f"{n}" for n in range(9)]


async def test_draining_leaves_what_waits_for_a_breaker(wide: Scheduler, service: Service) -> None:
    app = calling(wide, service)
    await app.submit_many([("mail", {})] * 9)

    settled = await soon(app.drain(concurrency=1))

    assert (settled, len(service.calls)) == ({"fail": 5}, 5)
    assert (await app.depths()).parked == 4


async def test_two_workers_count_together(memory: Store, clock: FakeClock, service: Service) -> None:
    one, two = (calling(Scheduler(store=memory, clock=clock), service) for _ in range(2))
    async with one, two, one.running(concurrency=1), two.running(concurrency=1):
        receipts = await one.submit_many([("mail", {})] * 20)
        await until(lambda: len(service.calls) >= 5)
        await turns(50)

        # One more may have been under way when the fifth failed.
        assert 5 <= len(service.calls) <= 6
        states = [(await two.get(receipt)).state for receipt in receipts]
        assert states.count(RunState.PENDING) == 20 - len(service.calls)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda app: app.tasks.close_breaker(""), "a task needs a name: text of 1 to 200 characters, not ''"),
        (lambda app: app.tasks.close_breaker("mail", "a\nb"), "the user name 'a\\nb' has characters that cannot"),
    ],
)
async def test_a_wrong_name_is_refused(app: Scheduler, call: Any, message: str) -> None:
    with pytest.raises(BadSetting) as caught:
        await call(app)

    assert str(caught.value).startswith(message)
