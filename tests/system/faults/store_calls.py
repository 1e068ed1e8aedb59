"""Every verb that changes a store, each on a scene that gives it something to do: for lines that are cut around it.

A case sets the scene and returns the call. Nothing in it comes from a clock or a counter, so that two scenes of a case
are alike, and a call that was cut off and repeated must leave the very same store behind as one that was not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.outcome import Failed, Lapsed, Succeeded
from laneway.core.lifecycle.step import Emitted, Saved
from laneway.core.records.breakers import Breaker
from laneway.core.records.events import draft
from laneway.core.records.policy import Lane, Rule, SessionPolicy, TaskPolicy
from laneway.core.records.run import RunFilter
from laneway.core.records.states import RunState
from laneway.core.transfer.pieces import FIRST, Mark, Piece
from laneway.ports.control import Answer, Cancel, Pause, Resume
from laneway.ports.gates import Held
from laneway.ports.jobs import AddJob, EditJob, RemoveJob
from laneway.ports.moves import Arrive, Freeze, OpenUp, Reopen, Shut
from laneway.ports.sessions import Extent
from laneway.ports.settings import BreakerClosed, Hold, LaneSetting, LaneUnset, SessionSetting, TaskDisabled, UserCap
from laneway.ports.store import Store
from laneway.ports.upkeep import OldDeltas, OldRuns
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from laneway.testing.hand import error
from laneway.testing.waits import step_memo, waits
from tests.support.child_runs import child_of, follow_up
from tests.support.jobs import decided, kept_job, new_job

Call = Callable[[], Awaitable[object]]
HOUR = 3600
DONE = Succeeded("1")


@dataclass
class Scene:
    """A fresh store, a clock that stands still, and a worker."""

    store: Store
    clock: FakeClock
    hand: Hand

    @classmethod
    async def set_up(cls, store: Store, clock: FakeClock) -> Scene:
        await store.open()
        policy = TaskPolicy(breaker=Breaker(1, open_for=60))
        return cls(store, clock, await Hand(store, "hand", policy=policy).register())

    async def failed(self) -> None:
        """Let a run fail for good, which opens its task's breaker."""
        await self.store.submit([new_run("failed")])
        await self.hand.fail(*await self.hand.claim())


async def open_again(scene: Scene) -> Call:
    return scene.store.open


async def submit(scene: Scene) -> Call:
    batch = [
        new_run("plain", user="ann"),
        new_run("first", session="chat"),
        new_run("second", session="chat", key="key", user="ann"),
        new_run("later", delay=60),
        new_run("nowhere", lane="nowhere"),
    ]
    return partial(scene.store.submit, batch)


async def submit_to_a_busy_session(scene: Scene) -> Call:
    await scene.store.submit([new_run("active", session="chat"), new_run("queued", session="chat")])
    await scene.hand.claim()
    # None that is refused: nothing is kept of it, so a repeat is judged anew, and counted.
    batch = [new_run(mode, session="chat", policy=SessionPolicy(mode=mode)) for mode in ("steer", "collect")]
    return partial(scene.store.submit, batch)


async def interrupt(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "old", session="chat"))
    await scene.hand.claim()
    return partial(scene.store.submit, [new_run("new", session="chat", policy=SessionPolicy(mode="interrupt"))])


async def register(scene: Scene) -> Call:
    other = Hand(scene.store, "other")

    async def call() -> None:
        await other.register()

    return call


async def claim(scene: Scene) -> Call:
    await scene.store.submit([*new_runs(5, "plain", user="ann"), *new_runs(3, "chat", session="chat")])
    return _stepping(scene.hand, room=4)


async def claim_and_rest(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "plain"))
    return _stepping(scene.hand, room=5, park=True)


async def settle_and_claim(scene: Scene) -> Call:
    hand = scene.hand
    await scene.store.submit([*new_runs(6, "plain"), *new_runs(3, "chat", session="chat")])
    runs = await hand.claim(5)
    results = [hand.result(run, DONE) for run in runs[:3]]
    return _stepping(hand, results=results, room=3)


async def fail_and_open_the_breaker(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "plain"))
    [run] = await scene.hand.claim()
    return _stepping(scene.hand, results=[scene.hand.result(run, Failed(error()))], room=2)


async def wait_and_call(scene: Scene) -> Call:
    await scene.store.submit([new_run("parent")])
    [run] = await scene.hand.claim()
    return _stepping(scene.hand, results=[scene.hand.result(run, waits("ok", child_of(run)))], room=1)


async def leave_follow_ups(scene: Scene) -> Call:
    await scene.store.submit([new_run("parent")])
    [run] = await scene.hand.claim()
    result = scene.hand.result(run, Succeeded("1", (follow_up(run), follow_up(run, 2, delay=60))))
    return _stepping(scene.hand, results=[result], room=1)


async def say_and_save(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "plain"))
    one, other = await scene.hand.claim(2)
    emitted = [Emitted(one.number, one.fence, tuple(draft("log", nth) for nth in range(3)))]
    saved = [
        Saved(one.number, one.fence, '{"at":1}'),
        Saved(other.number, other.fence, memo=step_memo("pay", 5)),
    ]
    return _stepping(scene.hand, emitted=emitted, saved=saved, overdue=[(other.number, other.fence)])


async def renew(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "plain"))
    await scene.hand.claim(2)
    scene.clock.step(5)

    async def call() -> object:
        return scene.hand.renew()

    return call


async def reclaim(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "plain"))
    await scene.hand.claim(2)
    heir = await Hand(scene.store, "heir").register()
    return partial(heir.reclaim, "hand")


async def settle_what_lapsed(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "plain"))
    await scene.hand.claim(2)
    heir = await Hand(scene.store, "heir").register()
    lapsed = (await heir.reclaim("hand")).lapsed
    return _stepping(heir, results=[heir.result(run, Lapsed()) for run in lapsed], room=1)


async def leave(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "plain"))
    await scene.hand.claim()
    return scene.hand.leave


async def cancel(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "chat", session="chat"))
    return partial(scene.store.change_run, "call", "chat-00000", Cancel())


async def cancel_what_runs(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "chat", session="chat"))
    await scene.hand.claim()
    return partial(scene.store.change_run, "call", "chat-00000", Cancel())


async def abandon(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "chat", session="chat"))
    await scene.hand.claim()
    return partial(scene.store.change_run, "call", "chat-00000", Cancel(abandon=True))


async def cancel_where(scene: Scene) -> Call:
    await scene.store.submit([*new_runs(8, "ann", user="ann"), *new_runs(2, "ben", user="ben")])
    await scene.hand.claim(2)
    return partial(scene.store.cancel_where, "call", RunFilter(user="ann"), limit=5)


async def pause(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "chat", session="chat"))
    return partial(scene.store.change_run, "call", "chat-00000", Pause())


async def resume(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "chat", session="chat"))
    await scene.store.change_run("before", "chat-00000", Pause())
    return partial(scene.store.change_run, "call", "chat-00000", Resume())


async def answer(scene: Scene) -> Call:
    await scene.store.submit([new_run("asking", session="chat"), new_run("behind", session="chat")])
    [run] = await scene.hand.claim()
    await scene.hand.wait(run, "ok")
    return partial(scene.store.change_run, "call", "asking", Answer('"yes"'))


async def stop(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "chat", session="chat"))
    await scene.hand.claim()
    return partial(scene.store.stop, "call", "chat", Extent.OLDEST)


async def stop_all(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "chat", session="chat"))
    await scene.hand.claim()
    return partial(scene.store.stop, "call", "chat", Extent.ALL)


async def declare_lanes(scene: Scene) -> Call:
    return partial(scene.store.declare_lanes, [Lane("mine", 3), Lane("yours", 4, per_user=1)])


async def set_lane(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "plain"))
    return partial(scene.store.set, LaneSetting(Lane("main", 1, per_user=1)))


async def unset_lane(scene: Scene) -> Call:
    await scene.store.set(LaneSetting(Lane("main", 1)))
    await scene.store.submit(new_runs(3, "plain"))
    return partial(scene.store.set, LaneUnset("main"))


async def set_cap(scene: Scene) -> Call:
    await scene.store.set(UserCap("ann", "main", 1))
    await scene.store.submit(new_runs(3, "plain", user="ann"))
    await scene.hand.claim(3)
    return partial(scene.store.set, UserCap("ann", "main", 2))


async def set_session(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "chat", session="chat"))
    return partial(scene.store.set, SessionSetting("chat", Rule(max_concurrent=2), throttled=False))


async def hold(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "chat", session="chat"))
    return partial(scene.store.set, Hold(Held.SESSION, "chat", held=True))


async def let_go(scene: Scene) -> Call:
    await scene.store.set(Hold(Held.USER, "ann", held=True))
    await scene.store.submit(new_runs(3, "plain", user="ann"))
    await scene.hand.claim(3)
    return partial(scene.store.set, Hold(Held.USER, "ann", held=False))


async def disable(scene: Scene) -> Call:
    return partial(scene.store.set, TaskDisabled("work", disabled=True))


async def close_breaker(scene: Scene) -> Call:
    await scene.failed()
    await scene.store.submit(new_runs(2, "plain"))
    await scene.hand.claim(2)
    return partial(scene.store.set, BreakerClosed("work"))


async def add_job(scene: Scene) -> Call:
    return partial(scene.store.change_job, AddJob(new_job(scene.clock.now(), id="j")))


async def change_job(scene: Scene) -> Call:
    job = await kept_job(scene.store, scene.clock.now())
    spec = msgspec.structs.replace(job.spec, description="another")
    return partial(scene.store.change_job, EditJob(msgspec.structs.replace(job, spec=spec, call="change")))


async def remove_job(scene: Scene) -> Call:
    await kept_job(scene.store, scene.clock.now())
    return partial(scene.store.change_job, RemoveJob("j"))


async def fire(scene: Scene) -> Call:
    await kept_job(scene.store, scene.clock.now())
    scene.clock.step(HOUR)
    due = await scene.store.due_jobs()
    return partial(scene.store.fire, decided(due.jobs, due.now))


async def end_a_fire(scene: Scene) -> Call:
    await (await fire(scene))()
    [run] = await scene.hand.claim()
    return _stepping(scene.hand, results=[scene.hand.result(run, DONE)])


async def restart_time(scene: Scene) -> Call:
    await kept_job(scene.store, scene.clock.now())
    scene.clock.step(-HOUR)
    return scene.store.restart_time


async def prune(scene: Scene) -> Call:
    await scene.store.submit(new_runs(4, "plain"))
    await scene.hand.succeed(*await scene.hand.claim(3))
    scene.clock.step(HOUR)
    return partial(scene.store.prune, OldRuns({RunState.SUCCEEDED: SECOND}))


async def trim(scene: Scene) -> Call:
    await scene.store.submit(new_runs(2, "plain"))
    runs = await scene.hand.claim(2)
    for run in runs:
        await scene.hand.emit(run, "delta", "a", "b", "c")
    await scene.hand.succeed(*runs)
    scene.clock.step(HOUR)
    return partial(scene.store.prune, OldDeltas(SECOND))


async def shut(scene: Scene) -> Call:
    await scene.store.submit(new_runs(3, "later", delay=60))
    await scene.hand.rest()
    return partial(scene.store.move, Shut("move", "redis://there"))


async def freeze(scene: Scene) -> Call:
    await (await shut(scene))()
    return partial(scene.store.move, Freeze("move"))


async def reopen_a_source(scene: Scene) -> Call:
    await (await freeze(scene))()
    return partial(scene.store.move, Reopen("move"))


async def arrive(scene: Scene) -> Call:
    await scene.store.submit([*new_runs(3, "plain", user="ann"), *new_runs(2, "chat", session="chat")])
    return partial(scene.store.move, Arrive("move", "redis://there"))


async def unpack(scene: Scene) -> Call:
    await (await arrive(scene))()
    return partial(scene.store.unpack, "move", await _pieces(), ("run", "7"))


async def reopen_a_target(scene: Scene) -> Call:
    await (await unpack(scene))()
    return partial(scene.store.move, Reopen("move"))


async def open_up(scene: Scene) -> Call:
    await (await unpack(scene))()
    return partial(scene.store.move, OpenUp("move"))


async def _pieces() -> Sequence[Piece]:
    """Return all that a store has in which one run has ended and others wait."""
    store = MemoryStore(FakeClock())
    hand = await Hand(store, "there").register()
    await store.submit([*new_runs(3, "moved", user="ann"), *new_runs(2, "talk", session="talk")])
    await hand.succeed(*await hand.claim())
    pieces: list[Piece] = []
    mark: Mark | None = FIRST
    while mark is not None:
        page = await store.pack(mark)
        pieces += page.pieces
        mark = page.mark
    return pieces


def _stepping(hand: Hand, **what: object) -> Call:
    """Return a call that makes a new step the first time, and the same again every other time, as a worker does."""
    made: list[bool] = []

    async def call() -> object:
        if made:
            return await hand.repeat_last()
        made.append(True)
        return await hand.step(**what)  # type: ignore[arg-type]  # its own names

    return call


CASES = (
    *(open_again, submit, submit_to_a_busy_session, interrupt, register, claim, claim_and_rest, settle_and_claim),
    *(fail_and_open_the_breaker, wait_and_call, leave_follow_ups, say_and_save, renew, reclaim, settle_what_lapsed),
    *(leave, cancel, cancel_what_runs, abandon, cancel_where, pause, resume, answer, stop, stop_all, declare_lanes),
    *(set_lane, unset_lane, set_cap, set_session, hold, let_go, disable, close_breaker, add_job, change_job),
    *(remove_job, fire, end_a_fire, restart_time, prune, trim),
    *(shut, freeze, reopen_a_source, arrive, unpack, reopen_a_target, open_up),
)
# Their answer says what they changed: a repeat finds nothing left to do, and has another answer.
TOLD_ONCE = frozenset({remove_job, fire, prune, trim, reopen_a_source, reopen_a_target})
SUBMISSIONS = frozenset({submit, submit_to_a_busy_session, interrupt})
