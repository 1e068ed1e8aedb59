"""The fast path of starts and successes on Redis leaves the same behind as the ordinary path."""

from collections.abc import Sequence
from typing import Any

import pytest

from laneway.core.records.policy import Lane, SessionPolicy
from laneway.core.records.run import NewRun
from laneway.errors import StoreError
from laneway.ports.control import Cancel
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand
from laneway.testing.hand import new_run, new_runs
from tests.stores.redis.raw_keys import RawKeys, raw_keys

MAIN = Lane("main", limit=4, per_user=2)
WIDE = Lane("main", limit=20, per_user=2)  # in which users are at their caps, and others of theirs are parked
HASHES = ("runs", "results", "lanes", "states", "seats:main", "sessions", "busy:hand", "counters", "workers")
ORDERS = (
    *("ready:main", "ended:succeeded", *(f"parked:4:main:user:user-{number}" for number in range(3))),
    *(f"held:chat-{number}" for number in range(6)),
)

BATCHES: dict[str, Sequence[NewRun]] = {
    "alike": new_runs(9, "run"),
    "of several users": [new_run(f"run-{number}", user=f"user-{number % 3}") for number in range(9)],
    "with others between them": [
        new_run("a"),
        new_run("b", session="chat"),
        new_run("c", user="ann", priority=5),
        new_run("d", task="unknown"),
        new_run("e", lane="background"),
        new_run("f", args={"much": "x" * 2000}),
        *new_runs(4, "ann", user="ann"),
    ],
    "of two users with many parked, and of sessions with many held": [
        new_run(
            f"run-{number}", user=f"user-{number % 2}", session=f"chat-{number % 20 if number < 40 else number % 2}"
        )
        for number in range(80)
    ],
    "of sessions and users at their caps": [
        new_run(
            f"run-{number}",
            user=f"user-{number * 5 % 3}",
            session=f"chat-{number * 7 % 6}",
            max_concurrent=1 + number % 2,
            priority=number % 3 - 1,
            args={"much": "x" * (1200 if number % 11 == 5 else 1)},
        )
        for number in range(40)
    ],
}


async def contents(
    store: RedisStore, raw: RawKeys, batch: Sequence[NewRun], lane: Lane, room: int, *, long_way: bool
) -> tuple[list[Any], dict[str, Any]]:
    """Execute a batch; return what each step claimed, and what the store kept after each step and in the end."""
    await store.declare_lanes([lane])
    if long_way:
        await raw.do("SADD", "open", "another task")  # one whose breaker is open
    hand = await Hand(store, tasks=["work"]).register()
    await store.submit(batch)
    steps, kept = list[Any](), dict[str, Any]()
    claimed = await hand.claim(room)
    while claimed:
        steps.append(claimed)
        kept[f"after {len(steps)}"] = await kept_in(raw)
        assert long_way or await store.check() == []
        claimed = (await hand.succeed(*claimed, value="x" * 900 * len(steps), room=room)).claimed
    assert long_way or await store.check() == []
    return steps, kept | await kept_in(raw)


async def kept_in(raw: RawKeys) -> dict[str, Any]:
    kept: dict[str, Any] = {name: await raw.unpacked(name) for name in HASHES}
    for name in ORDERS:
        kept[name] = await raw.do("ZRANGE", name, 0, -1, "WITHSCORES")
    kept["leases"] = sorted(await raw.do("SMEMBERS", "leases:hand"))
    for record in kept["runs"].values():
        record[:2] = []  # how long its parts are
    return kept


@pytest.mark.parametrize(("lane", "room"), [(MAIN, 3), (WIDE, 20)])
@pytest.mark.parametrize("name", BATCHES)
async def test_the_fast_path_does_what_the_ordinary_path_does(
    name: str, lane: Lane, room: int, redis_url: str, clock: FakeClock
) -> None:
    found = []
    for way in ("alike", "long"):
        store = RedisStore(f"{redis_url}-{way}", clock)
        await store.open()
        async with raw_keys(f"{redis_url}-{way}") as raw:
            found.append(await contents(store, raw, BATCHES[name], lane, room, long_way=way == "long"))
        await store.close()

    assert found[0] == found[1]
    assert room > 3 or len(found[0][0]) > 2


async def test_a_result_that_comes_twice_in_a_step_is_refused_once(redis_store: RedisStore) -> None:
    hand = await Hand(redis_store).register()
    await redis_store.submit([new_run("run")])
    [run] = await hand.claim(1)

    reply = await hand.succeed(run, run)

    assert reply.refused == [(run.number, run.fence)]
    assert (await redis_store.depths()).runs == {"succeeded": 1}


async def test_more_than_a_page_is_started_at_once_and_in_order(redis_store: RedisStore) -> None:
    await redis_store.declare_lanes([Lane("main", limit=1000)])
    hand = await Hand(redis_store).register()
    await redis_store.submit([*new_runs(600, "run"), new_run("chat", session="chat"), *new_runs(3, "then")])

    claimed = await hand.claim(603)

    assert [run.number for run in claimed] == list(range(1, 604))
    await hand.succeed(*claimed)
    assert await redis_store.check() == []
    assert (await redis_store.depths()).runs == {"pending": 1, "succeeded": 603}


async def test_sessions_that_have_much_in_common_keep_what_is_their_own(redis_store: RedisStore, raw: RawKeys) -> None:
    hand = await Hand(redis_store).register()
    await redis_store.submit([new_run(name, session=f"chat-{name}") for name in ("one", "two", "three")])
    before = await raw.unpacked("sessions")
    await hand.claim(3)

    await redis_store.submit([new_run("window", session="chat-one", policy=SessionPolicy(debounce=5, cap=1000))])

    after = await raw.unpacked("sessions")
    changed = {name for name, book in after.items() if book[6:] != before[name][6:]}
    assert changed == {b"chat-one"}
    assert await redis_store.check() == []


async def test_hashes_that_are_read_often_are_quick_to_search(redis_store: RedisStore, raw: RawKeys) -> None:
    hand = await Hand(redis_store).register()
    await redis_store.submit([new_run("first")])
    await redis_store.submit([new_run(f"run-{number}", session=f"chat-{number}") for number in range(40)])
    await hand.claim(100)

    assert await raw.encoding("sessions") == b"hashtable"
    assert await redis_store.check() == []


async def test_a_step_that_failed_in_its_middle_has_changed_nothing(redis_store: RedisStore, raw: RawKeys) -> None:
    hand = await Hand(redis_store).register()
    await redis_store.declare_lanes([Lane("main", limit=10, per_user=2)])
    await redis_store.submit([new_run(f"run-{nth}", user="ann", session=f"chat-{nth % 3}") for nth in range(9)])
    claimed = (await hand.succeed(*await hand.claim(5), room=5)).claimed
    executed = [1, 2, *(run.number for run in claimed)]
    fifth = await raw.do("HGET", "runs", "5")

    await raw.do("HSET", "runs", "5", b"?")  # which is to be started when the ends of two others have been counted
    with pytest.raises(StoreError):
        await hand.succeed(*claimed, room=5)
    await raw.do("HSET", "runs", "5", fifth)

    claimed = (await hand.repeat_last()).claimed
    while claimed:
        assert await redis_store.check() == []
        executed += [run.number for run in claimed]
        claimed = (await hand.succeed(*claimed, room=5)).claimed
    assert executed == list(range(1, 10))


async def test_users_and_sessions_with_the_same_text_have_books_of_their_own(redis_store: RedisStore) -> None:
    hand = await Hand(redis_store).register()
    await redis_store.declare_lanes([Lane("main", limit=100, per_user=2)])
    users = ("ann", "bob", "cid")
    for turn in range(3):
        await redis_store.submit([new_run(f"{user}-{turn}-{nth}", user=user) for user in users for nth in range(2)])
        claimed = await hand.claim(100)
        assert sorted(run.user or "" for run in claimed) == sorted(2 * users)
        await hand.succeed(*claimed)
        assert await redis_store.check() == []


async def test_one_that_comes_back_to_its_session_is_before_those_that_it_holds(
    redis_store: RedisStore, clock: FakeClock
) -> None:
    hand, policy = await Hand(redis_store).register(), SessionPolicy(pass_on_retry=True, cap=1000)
    await redis_store.submit([new_run(f"run-{number}", session="chat", policy=policy) for number in range(20)])
    await hand.succeed(*await hand.claim(5))
    [second] = await hand.claim(5)
    [third] = (await hand.snooze(second, delay=60, room=5)).claimed
    clock.step(60)

    reply = await hand.succeed(third, room=5)

    assert [run.number for run in (second, third, *reply.claimed)] == [2, 3, 2]
    assert [run.number for run in (await hand.succeed(*reply.claimed, room=5)).claimed] == [4]
    assert await redis_store.check() == []


async def test_a_run_that_is_parked_or_held_can_be_cancelled(redis_store: RedisStore) -> None:
    hand = await Hand(redis_store).register()
    await redis_store.declare_lanes([Lane("main", limit=100, per_user=1)])
    await redis_store.submit([new_run(f"ann-{number}", user="ann") for number in range(5)])
    await redis_store.submit([new_run(f"chat-{number}", session="chat") for number in range(5)])
    claimed = await hand.claim(100)
    claimed = (await hand.succeed(*claimed, room=100)).claimed

    for id_ in ("ann-3", "chat-3"):
        await redis_store.change_run(f"call-{id_}", id_, Cancel())
        assert await redis_store.check() == []

    order = [run.id for run in claimed]
    while claimed:
        claimed = (await hand.succeed(*claimed, room=100)).claimed
        order += [run.id for run in claimed]
    assert [id_ for id_ in order if id_.startswith("ann")] == ["ann-1", "ann-2", "ann-4"]
    assert [id_ for id_ in order if id_.startswith("chat")] == ["chat-1", "chat-2", "chat-4"]
