"""A job's run, and every way in which it can end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from laneway.core.records.job_tie import Overlap
from laneway.core.records.policy import Lane, Mode, SessionPolicy, TaskPolicy, WhenFull
from laneway.core.records.retry import Retry
from laneway.core.records.run import Claimed, RunFilter
from laneway.core.records.states import RunState
from laneway.core.schedules import Every
from laneway.ports.control import Cancel, Pause
from laneway.ports.sessions import Extent
from laneway.ports.settings import LaneSetting
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run
from laneway.testing.waits import question
from tests.support.jobs import fire_due, fired_runs, kept_job

S, F, C, D = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.DROPPED
MINUTE = 60
ONCE = TaskPolicy(retry=Retry(attempts=1))


class Scene:
    """A job that fires one minute after each end, in the session `chat`, and its run."""

    def __init__(self, store: Store, clock: FakeClock, hand: Hand, run_id: str) -> None:
        self.store, self.clock, self.hand, self.run_id = store, clock, hand, run_id

    async def claim(self) -> Claimed:
        """Start the run."""
        [claimed] = await self.hand.claim()
        assert claimed.id == self.run_id
        return claimed


async def scene(store: Store, clock: FakeClock, **fields: object) -> Scene:
    """Fire the job once."""
    hand = await Hand(store, policy=ONCE).register()
    given = {"session": "chat", "overlap": Overlap.QUEUE} | fields
    await kept_job(store, clock.now(), Every(MINUTE, after="end"), **given)
    await clock.advance(MINUTE)
    await fire_due(store)
    [run_id] = await fired_runs(store)
    await clock.advance(1)
    return Scene(store, clock, hand, run_id)


Ending = Callable[[Scene], Awaitable[object]]


async def succeed(of: Scene) -> None:
    """Let it succeed."""
    await of.hand.succeed(await of.claim())


async def fail(of: Scene) -> None:
    """Let its only attempt fail."""
    await of.hand.fail(await of.claim(), failure=error("broken"))


async def cancel_pending(of: Scene) -> None:
    """Cancel it before it is started."""
    await of.store.change_run("c", of.run_id, Cancel())


async def cancel_running(of: Scene) -> None:
    """Cancel it at work; its handler heeds it."""
    claimed = await of.claim()
    await of.store.change_run("c", of.run_id, Cancel())
    await of.hand.stop(claimed)


async def cancel_waiting(of: Scene) -> None:
    """Cancel it while it waits for an answer."""
    await of.hand.wait(await of.claim(), "ok")
    await of.store.change_run("c", of.run_id, Cancel())


async def cancel_paused(of: Scene) -> None:
    """Cancel it while it is paused."""
    await of.store.change_run("p", of.run_id, Pause())
    await of.store.change_run("c", of.run_id, Cancel())


async def cancel_many(of: Scene) -> None:
    """Cancel it with all that fit."""
    await of.store.cancel_where("c", RunFilter(task="work"))


async def abandon(of: Scene) -> None:
    """Cancel it without waiting for its handler."""
    await of.claim()
    await of.store.change_run("c", of.run_id, Cancel(abandon=True))


async def drop_for_room(of: Scene) -> None:
    """Drop it from its lane, which is full."""
    await of.store.set(LaneSetting(Lane("main", max_pending=1, when_full=WhenFull.DROP_OLD)))
    await of.store.submit([new_run("newer", lane="main")])


async def stop_session(of: Scene) -> None:
    """Stop the oldest of its session, which waits."""
    await of.hand.wait(await of.claim(), "ok")
    await of.store.stop("c", "chat", Extent.OLDEST)


async def stop_all(of: Scene) -> None:
    """Stop all of its session before it is started."""
    await of.store.stop("c", "chat", Extent.ALL)


async def stop_all_running(of: Scene) -> None:
    """Stop all of its session at work, as a reset does."""
    await of.claim()
    await of.store.stop("c", "chat", Extent.ABANDON)


async def interrupt_pending(of: Scene) -> None:
    """Let a message interrupt it before it is started."""
    await of.store.submit([new_run("talk", session="chat", policy=SessionPolicy(mode=Mode.INTERRUPT))])


async def interrupt_waiting(of: Scene) -> None:
    """Let a message interrupt it while it waits."""
    await of.hand.wait(await of.claim(), "ok")
    await of.store.submit([new_run("talk", session="chat", policy=SessionPolicy(mode=Mode.INTERRUPT))])


async def supersede(of: Scene) -> None:
    """Let a message come that ends who asks."""
    await of.hand.wait(await of.claim(), "ok")
    await of.store.submit([new_run("talk", session="chat", policy=SessionPolicy(while_waiting="cancel"))])


async def expire(of: Scene) -> None:
    """Let nobody answer in time."""
    await of.hand.wait(await of.claim(), question("ok", timeout=5))
    await of.clock.advance(5)
    await of.hand.step()


async def quarantine(of: Scene) -> None:
    """Let one worker after the other die with it."""
    for name in ("first", "second", "third"):
        dead = await Hand(of.store, name, policy=ONCE).register()
        if not await dead.claim():
            break
        await of.hand.lapse(*(await of.hand.reclaim(name)).lapsed)


ENDINGS: list[tuple[Ending, RunState]] = [
    (succeed, S),
    (fail, F),
    (cancel_pending, C),
    (cancel_running, C),
    (cancel_waiting, C),
    (cancel_paused, C),
    (cancel_many, C),
    (abandon, C),
    (drop_for_room, D),
    (stop_session, C),
    (stop_all, D),
    (stop_all_running, C),
    (interrupt_pending, D),
    (interrupt_waiting, C),
    (supersede, C),
    (expire, C),
    (quarantine, F),
]
NAMED = pytest.mark.parametrize(("ending", "state"), ENDINGS, ids=[ending.__name__ for ending, _ in ENDINGS])
