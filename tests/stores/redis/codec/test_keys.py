"""The keys of a Redis store: there are no others than those written down, and pruning leaves none behind."""

from importlib.resources import files

import pytest

from laneway.core.lifecycle.step import Saved
from laneway.core.records.breakers import Breaker
from laneway.core.records.memos import Memo, MemoKind
from laneway.core.records.policy import Lane, Mode, Rule, SessionPolicy, TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import RunFilter, RunLinks
from laneway.core.records.states import TERMINAL
from laneway.ports.control import Cancel, Pause
from laneway.ports.gates import Held
from laneway.ports.jobs import RemoveJob
from laneway.ports.sessions import Extent
from laneway.ports.settings import Hold, LaneSetting, SessionSetting, TaskDisabled, UserCap
from laneway.ports.upkeep import OldRuns
from laneway.stores.redis.codec.keys import KEYS, Lifetime, key_of
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.redis.raw_keys import RawKeys
from tests.support.child_runs import child_of
from tests.support.invariants import all_runs, check_drains
from tests.support.jobs import fire_due, kept_job

DAY = 24 * 3600
FRAGILE = TaskPolicy(retry=Retry(attempts=1), breaker=Breaker(1, open_for=60))


@pytest.fixture
def store(redis_store: RedisStore) -> RedisStore:
    return redis_store


async def busy(store: RedisStore, clock: FakeClock) -> None:
    """Do a bit of everything, so that there is something under every key."""
    hand = await Hand(store, tasks={"work", "fragile", "long"}, policy=FRAGILE).register()
    await waits_and_talks(store, hand)
    await store.set(LaneSetting(Lane("narrow", limit=2, max_pending=3, when_full="drop_old")))
    await store.submit(new_runs(6, "narrow", lane="narrow"))
    await store.submit(new_runs(4, "ann", lane="background", user="ann"))
    await store.submit(
        [
            new_run("keyed", key="k", args={"much": "x" * 2000}),
            new_run("unknown", task="other"),
            new_run("later", delay=60),
        ]
    )
    await store.submit([*new_runs(3, "chat", session="chat"), new_run("window", session="chat", delay=5)])
    await store.submit([new_run("still", session="still"), *new_runs(3, "fragile", task="fragile")])
    await store.submit(new_runs(15, "many", session="many", policy=SessionPolicy(cap=100)))
    await store.set(Hold(Held.SESSION, "still", held=True))
    await store.set(Hold(Held.USER, "zoe", held=True))
    await store.set(Hold(Held.TASK, "mail", held=True))
    await store.set(TaskDisabled("post", disabled=True))
    await store.set(UserCap("bob", "main", 3))
    await store.set(SessionSetting("chat", Rule(cap=5)))
    claimed = await hand.claim(9)
    await hand.fail(*(run for run in claimed if run.task == "fragile"))
    await store.submit([new_run("behind", task="fragile")])
    await hand.claim(9)
    await store.change_run("cancel", claimed[0].id, Cancel())
    await store.cancel_where("sweep", RunFilter(task="nothing"))
    await store.change_run("pause", "narrow-00005", Pause())
    await store.stop("stop", "chat", Extent.ALL)
    await kept_job(store, clock.now() - 3600 * 1_000_000, owner="ann")
    await fire_due(store)
    await store.set(Hold(Held.LANE, "team", held=True))
    then = RunLinks(then=(new_run("then"),))
    await store.submit([*new_runs(3, "full", session="full"), new_run("later on", session="full", delay=60)])
    await store.submit([new_run("first", ties=then), new_run("ready", lane="team")])
    await hand.rest(99)


async def waits_and_talks(store: RedisStore, hand: Hand) -> None:
    """Let runs say much, keep, ask, call, and take messages."""
    await store.submit([*new_runs(3, "long", task="long"), new_run("told", session="told")])
    asks, calls, says, told = await hand.claim(4)
    await hand.keep(asks, Memo(kind=MemoKind.STEP, name="step", value="1"))
    await hand.save(asks, {"half": "done"})
    await hand.step(saved=[Saved(says.number, says.fence, prepared="{}")])
    await hand.wait(asks, "ok?")
    await hand.wait(calls, child_of(calls))
    for nth in range(30):
        await hand.emit(says, "delta", {"text": f"{nth} and more"})
    await hand.succeed(says, value="much " * 300)
    await store.submit([new_run("steers", session="told", policy=SessionPolicy(mode=Mode.STEER), key="also")])
    assert told.id == "told"


async def strange(raw: RawKeys) -> list[tuple[str, str]]:
    """Return the keys that are not written down, or have another type."""
    known = {name: (key_of(name), kind) async for name, kind in raw.all()}
    return [(name, kind) for name, (key, kind) in known.items() if key is None or key.type != kind]


async def test_a_busy_store_has_no_key_that_is_not_written_down(
    store: RedisStore, raw: RawKeys, clock: FakeClock
) -> None:
    await busy(store, clock)

    assert await strange(raw) == []
    there = {key.pattern async for name, _ in raw.all() if (key := key_of(name))}
    # One is there after pruning, one in a move, and one after a migration only.
    assert {key.pattern for key in KEYS} - there == {"orphan_keys", "move", "moving"}
    await check_drains(store, clock)
    assert await strange(raw) == []


async def test_nothing_stays_of_what_was_pruned(store: RedisStore, raw: RawKeys, clock: FakeClock) -> None:
    await busy(store, clock)
    await check_drains(store, clock)
    for worker in await store.workers():
        await store.leave(worker.incarnation.id)
    assert await store.change_job(RemoveJob("j"))
    await clock.advance(2 * DAY)

    while await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0)), limit=7) == 7:
        pass

    assert await all_runs(store) == []
    left = [name async for name, _ in raw.all()]
    kept = (Lifetime.STORE, Lifetime.HOUR)
    said = {"ruled", "set_caps", "caps:main", "session_rules", "disabled"}  # an operator's words stay
    lost = [name for name in left if (key := key_of(name)) is None or not (key.lifetime in kept or name in said)]
    assert lost == []
    assert await store.check() == []


async def test_an_idempotency_key_outlives_its_run_until_a_day_is_over(
    store: RedisStore, raw: RawKeys, clock: FakeClock
) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a", key="k")])
    await hand.succeed(*await hand.claim(1))
    await clock.advance(DAY // 2)
    await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0)))
    assert await raw.do("HLEN", "keys") == await raw.do("ZCARD", "orphan_keys") == 1

    await clock.advance(DAY)
    await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0)))

    assert [name async for name, _ in raw.all() if name in ("keys", "orphan_keys")] == []


def test_every_key_is_named_once_and_by_a_file_that_exists() -> None:
    assert len({key.pattern for key in KEYS}) == len(KEYS)
    lua = files("laneway.stores.redis").joinpath("lua")
    missing = {key.owner for key in KEYS if not lua.joinpath(*f"{key.owner}.lua".split("/")).is_file()}
    assert missing == set()
