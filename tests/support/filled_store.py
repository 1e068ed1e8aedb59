"""A store that contains something of every kind: what a move must transfer. Nothing is executed."""

from __future__ import annotations

from laneway.core.lifecycle.step import Emitted, Saved
from laneway.core.records.breakers import Breaker
from laneway.core.records.events import deltas, draft
from laneway.core.records.policy import Lane, Mode, Rule, SessionPolicy, TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import Gate, RunLinks
from laneway.core.records.states import RunState
from laneway.ports.control import Answer, Cancel, Pause
from laneway.ports.gates import Held
from laneway.ports.settings import Hold, LaneSetting, SessionSetting, TaskDisabled, UserCap
from laneway.ports.store import Store
from laneway.ports.upkeep import OldDeltas, OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from laneway.testing.waits import step_memo
from tests.support.child_runs import child_of
from tests.support.jobs import all_jobs, fire_due, kept_job

DAY = 24 * 3600
FRAGILE = TaskPolicy(retry=Retry(attempts=1, base=0), breaker=Breaker(2, open_for=3 * DAY))
STEER, COLLECT = SessionPolicy(mode=Mode.STEER), SessionPolicy(mode=Mode.COLLECT)
WINDOW = SessionPolicy(debounce=3 * DAY)
KEYED = new_run("keyed", args={"n": 1}, user="ann", key="order 7")
FOLLOWED = new_run("followed", ties=RunLinks(then=(new_run("t"),), on_failure=(new_run("f"),), trace={"id": "x"}))


async def furnish(store: Store, clock: FakeClock) -> None:
    """Fill an empty store."""
    await store.declare_lanes([Lane("main", limit=50, per_user=2), Lane("narrow", limit=9, max_pending=1)])
    hand = await Hand(store, "mixed", tasks={"work", "fragile"}).register()
    await _history(store, hand, clock)
    await _jobs(store, hand, clock)
    await _attempts(store, hand)
    await _sessions(store, hand)
    await _breakers(store)
    await _pending(store)
    await _settings(store)
    await hand.leave()
    heir = await Hand(store, "heir", tasks=()).register()
    await heir.lapse(*(await heir.reclaim()).lapsed)
    await heir.leave()


async def _history(store: Store, hand: Hand, clock: FakeClock) -> None:
    """Runs that have ended: some are pruned, some have streamed, one stands for a key."""
    await store.submit([new_run("gone", key="long ago"), new_run("old")])
    await hand.succeed(*await hand.claim(9), value={"ok": True})
    await clock.advance(100)
    await store.prune(OldRuns({RunState.SUCCEEDED: 50_000_000}))
    await store.submit([KEYED, new_run("talker"), new_run("bad", args={"n": 2})])
    keyed, talker, bad = await hand.claim(9)
    drafts = (draft("log", {"text": "hello"}), *deltas("some "), *deltas("text"), draft("log", {"text": "bye"}))
    await hand.step(emitted=[Emitted(talker.number, talker.fence, drafts)])
    await hand.succeed(keyed, talker, value="fine")
    for _ in range(3):
        await hand.fail(bad)
        await clock.advance(60)
        [bad] = await hand.claim(1) or [bad]
    await store.submit([new_run("streamer")])
    [streamer] = await hand.claim(1)
    await hand.step(emitted=[Emitted(streamer.number, streamer.fence, drafts)])
    await hand.succeed(streamer)
    await clock.advance(10)
    await store.prune(OldDeltas(1_000_000))
    await store.submit([new_run("fresh talker")])
    [fresh] = await hand.claim(1)
    await hand.step(emitted=[Emitted(fresh.number, fresh.fence, drafts)])
    await hand.succeed(fresh)


async def _jobs(store: Store, hand: Hand, clock: FakeClock) -> None:
    await kept_job(store, clock.now() - 2 * 3600 * 1_000_000, id="j", owner="ann")
    await kept_job(store, clock.now(), id="off", enabled=False)
    await fire_due(store)
    await hand.succeed(*await hand.claim(9))


async def _attempts(store: Store, hand: Hand) -> None:
    """Runs between attempts: with a checkpoint, memos, questions, calls; paused ones; one that crashed."""
    await store.submit([new_run(name) for name in ("saved", "asks", "calls", "crashed", "paused", "retried")])
    saved, asks, calls, crashed, paused, retried = await hand.claim(9)
    await hand.step(saved=[Saved(saved.number, saved.fence, '{"at":3}', '{"n":1}')])
    await hand.keep(saved, step_memo("one", 1), step_memo("two", {"a": [2]}, nth=2))
    await hand.snooze(saved, delay=2 * DAY)
    await hand.wait(asks, "colour", "size")
    await hand.wait(calls, child_of(calls, lane="team"), child_of(calls, "given up"))
    await store.change_run("cancel", child_of(calls, "given up").id, Cancel())
    await store.change_run("answer", "asks", Answer('"red"', name="colour"))
    await store.change_run("pause", "paused", Pause())
    await hand.pause(paused)
    await hand.fail(retried)
    await hand.lapse(crashed)
    await store.submit([new_run("never started", session="quiet"), new_run("later", session="quiet", delay=DAY)])
    await store.change_run("pause two", "never started", Pause())
    await store.change_run("pause three", "later", Pause())
    [again] = [run for run in await hand.claim(9) if run.id == "asks"] or [asks]
    await hand.wait(again, "size")


async def _sessions(store: Store, hand: Hand) -> None:
    """Sessions: one with a queue, one with messages in an inbox, one with a window, one with several at once."""
    await store.submit([new_run(f"chat {n}", session="chat", user="cat") for n in range(3)])
    await store.submit([new_run("steered", session="steered", policy=STEER)])
    claimed = {run.id: run for run in await hand.claim(9)}
    await store.submit([new_run(f"steer {n}", session="steered", policy=STEER, key=f"steer {n}") for n in range(2)])
    await hand.snooze(claimed["steered"], delay=DAY)
    await hand.release(*(run for name, run in claimed.items() if name != "steered"))
    await store.submit([new_run("collected", session="chat", user="cat", policy=COLLECT)])
    await store.submit([new_run("windowed", session="window", policy=WINDOW)])
    await store.submit([new_run("windowed too", session="window", policy=WINDOW)])
    await store.submit([new_run(f"wide {n}", session="wide", max_concurrent=2) for n in range(4)])


async def _breakers(store: Store) -> None:
    fragile = await Hand(store, "fragile", tasks={"fragile"}, policy=FRAGILE).register()
    for _ in range(2):
        await store.submit([new_run(task="fragile", user="eve")])
        await fragile.fail(*await fragile.claim(1))
    await store.submit([new_run("behind the breaker", task="fragile", user="eve")])
    await fragile.release(*await fragile.claim(9))
    await fragile.leave()


async def _pending(store: Store) -> None:
    """Runs that wait: for a cap, for a worker that knows them, for their time, at several priorities."""
    busy = await Hand(store, "busy").register()
    await store.submit([*new_runs(5, "capped", user="dan"), new_run("urgent", user="dan", priority=7), FOLLOWED])
    await store.submit([new_run("unknown", task="nobody knows"), new_run("tomorrow", delay=DAY, user="ann")])
    await busy.release(*await busy.claim(4))
    await store.submit(new_runs(2, "full", lane="narrow", inside=True))
    await store.submit([new_run("refused", lane="narrow")])
    await busy.leave()


async def _settings(store: Store) -> None:
    await store.set(LaneSetting(Lane("team", limit=3)))
    await store.set(Hold(Held.LANE, "team", held=True))
    await store.set(UserCap("dan", "main", 4))
    await store.set(Hold(Held.USER, "eve", held=True))
    await store.set(Hold(Held.SESSION, "wide", held=True))
    await store.set(Hold(Held.TASK, "mail", held=True))
    await store.set(TaskDisabled("retired", disabled=True))
    await store.set(SessionSetting("wide", Rule(cap=3)))


async def shown(store: Store, runs: list[str]) -> dict[str, object]:
    """Return everything that users see of a store, without its workers."""
    found: dict[str, object] = {
        "runs": [await store.get(run_id) for run_id in runs],
        "events": {run_id: await store.events(run_id) for run_id in runs},
        "kept": {run_id: await store.recall(run_id) for run_id in runs},
        "messages": {run_id: await store.messages(run_id) for run_id in runs},
        # But that it is shut: that is said of the store that is left, not of the run.
        "why": {id_: [why for why in await store.why(id_) if why.gate is not Gate.SHUT] for id_ in runs},
        "lanes": await store.lanes(),
        "users": await store.users(),
        "sessions": await store.sessions(),
        "depths": await store.depths(),
        "jobs": await all_jobs(store),
        "fires": await store.fires("j"),
        "tasks": [(task.name, task.paused, task.disabled, task.aside, task.circuits) for task in await store.tasks()],
    }
    return found
