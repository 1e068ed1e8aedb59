"""A run that comes alone to an idle store on Redis is started at once, and leaves what a step that was lent would."""

from __future__ import annotations

import random
from typing import Any

import pytest

from laneway.core.policy import Lane
from laneway.core.run import Claimed, NewRun
from laneway.core.states import RunState
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, new_run
from laneway.testing.servers import valkey_server
from tests.stores.redis.behind import Behind
from tests.stores.test_lending import Told

READS = {
    "hash": ("HGETALL",),
    "set": ("SMEMBERS",),
    "zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    "list": ("LRANGE", 0, -1),
    "string": ("GET",),
}


async def everything(store: RedisStore) -> dict[str, Any]:
    """Return all that is in a store, but for what makes it go the long way."""
    behind, found = Behind(store), dict[str, Any]()
    async for key, kind in behind.all():
        command, *parts = READS[kind]
        value = await behind.do(str(command), key, *parts)
        if kind == "hash":
            value = dict(zip(value[::2], value[1::2], strict=True))
        found[key] = sorted(value) if kind == "set" else value
    del found["meta"]
    found.pop("open", None)
    return found


def arriving(chance: random.Random, nth: int) -> list[NewRun]:
    """Return what is submitted at once: mostly what can be started at once, and what cannot for one reason each."""
    more: dict[str, Any] = {
        "priority": chance.choice((0, 0, 5, -3)),
        "lane": chance.choice(("main", "main", "background")),
    }
    odd = chance.choice(("", "", "", "", "user", "session", "task", "args", "delay", "two"))
    if odd in ("user", "session"):
        more[odd] = "ann"
    elif odd == "task":
        more["task"] = "strange"
    elif odd == "args":
        more["args"] = {"much": "x" * 2000}
    elif odd == "delay":
        more["delay"] = 3
    return [new_run(f"run-{nth}-{each}", **more) for each in range(2 if odd == "two" else 1)]


async def life(store: RedisStore, clock: FakeClock, seed: int, *, long_way: bool) -> list[Any]:
    """Let runs come, start and end; return all that was told and kept meanwhile."""
    chance, seen = random.Random(seed), list[Any]()
    await store.declare_lanes(
        [Lane("main", limit=2), Lane("background", limit=5, worker_limit=chance.choice((None, 1)))]
    )
    if long_way:
        await Behind(store).do("SADD", "open", "another task")  # one whose breaker is open
    hands = [Hand(store, name, tasks=tasks) for name, tasks in (("one", ["work"]), ("two", ["work", "strange"]))]
    told = [Told() for _ in hands]
    for hand, standby in zip(hands, told, strict=True):
        await store.register(hand.incarnation, standby)
    claimed: list[list[Claimed]] = [[] for _ in hands]
    for nth in range(25):
        clock.step(chance.random())
        for at, hand in enumerate(hands):
            if chance.random() < 0.7:
                while not told[at].heard.empty():
                    told[at].heard.get_nowait()
                ended = [claimed[at].pop() for _ in range(min(len(claimed[at]), chance.randrange(3)))]
                reply = await hand.step(room=0) if not ended else await hand.succeed(*ended)
                seen.append(reply)
                claimed[at] += reply.claimed
                if not claimed[at]:
                    reply = await hand.lend(room=chance.choice((1, 2)))
                    claimed[at] += reply.claimed
                    seen.append(reply)
        seen += [await store.submit(arriving(chance, nth)), await everything(store)]
    return seen


@pytest.mark.parametrize("seed", range(8))
async def test_a_run_that_is_started_at_once_leaves_what_a_lent_step_would(
    redis_url: str, clock: FakeClock, seed: int
) -> None:
    found, began = [], clock.now()
    for way in ("once", "long"):
        store = RedisStore(f"{redis_url}-{way}", clock)
        await store.open()
        clock.step((began - clock.now()) / 1_000_000)
        found.append(await life(store, clock, seed, long_way=way == "long"))
        assert way == "long" or await store.check() == []
        await store.close()

    assert found[0] == found[1]


@pytest.mark.parametrize("reason", ["", "user", "args", "waits", "future", "unknown", "full", "open"])
async def test_it_is_started_unless_something_keeps_it_from_that(redis_store: RedisStore, reason: str) -> None:
    await redis_store.declare_lanes([Lane("main", limit=1)])
    hand, told = Hand(redis_store), Told()
    await redis_store.register(hand.incarnation, told)
    if reason == "open":
        await Behind(redis_store).do("SADD", "open", "another task")
    elif reason == "full":
        [_] = await other_with(redis_store, new_run("before"))
    elif reason == "waits":
        await redis_store.submit([new_run("before", task="unknown", lane="background")])
    elif reason == "future":
        await redis_store.submit([new_run("later", delay=60)])
    await hand.lend(room=5)
    user, task = "ann" if reason == "user" else None, "unknown" if reason == "unknown" else "work"

    await redis_store.submit(
        [new_run("a", user=user, task=task, args={"much": "x" * (2000 if reason == "args" else 1)})]
    )

    waits = reason in ("unknown", "full")
    assert (await redis_store.get("a")).state is (RunState.PENDING if waits else RunState.RUNNING)
    assert reason == "open" or await redis_store.check() == []
    if not waits:
        lent = await told.next()
        assert lent is not None
        assert lent.reply == await hand.step(room=5)
        assert [run.id for run in lent.reply.claimed] == ["a"]


async def test_it_is_in_no_order_in_between(clock: FakeClock) -> None:
    looks = []
    with valkey_server() as server:
        for namespace in ("once", "long"):
            store = RedisStore(f"{server.url}?namespace={namespace}", clock)
            await store.open()
            if namespace == "long":
                await Behind(store).do("SADD", "open", "another task")
            hand = Hand(store)
            await store.register(hand.incarnation, Told())
            await hand.lend(room=5)
            server.command("CONFIG", "RESETSTAT")
            await store.submit([new_run("a")])
            looks.append("cmdstat_zrange:" in str(server.command("INFO", "commandstats")))
            assert (await store.get("a")).state is RunState.RUNNING
            await store.close()

    assert looks == [False, True]


async def test_an_id_that_is_known_is_not_started_again(redis_store: RedisStore) -> None:
    hand, told = Hand(redis_store), Told()
    await redis_store.register(hand.incarnation, told)
    await hand.lend(room=5)
    await redis_store.submit([new_run("a")])
    lent = await told.next()
    assert lent is not None
    await hand.step(room=5)
    await hand.succeed(*lent.reply.claimed)
    await hand.lend(room=5)

    await redis_store.submit([new_run("a")])

    assert told.heard.empty()
    assert await redis_store.count() == {"succeeded": 1}
    assert await redis_store.check() == []


async def other_with(store: RedisStore, new: NewRun) -> list[Claimed]:
    """Let another worker have a run."""
    await store.submit([new])
    return await (await Hand(store, "other").register()).claim(1)
