"""The fast path of submissions to Redis leaves the same behind as the ordinary path."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from laneway.core.records.policy import Lane
from laneway.core.records.run import NewRun, Receipt, ReceiptOutcome, UniformBatch
from laneway.errors import StoreError
from laneway.stores.redis.codec import encode
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand
from laneway.testing.hand import new_run, new_runs
from tests.stores.redis.raw_keys import RawKeys
from tests.stores.redis.tools import opened_client

MAIN = Lane("main", limit=3, per_user=1)
LATER = new_run("later", delay=60)

BATCHES: dict[str, Sequence[NewRun]] = {
    "alike": new_runs(5, "run"),
    "of several users": [new_run(f"run-{number}", user=f"user-{number % 3}") for number in range(9)],
    "of several lanes, tasks and priorities": [
        new_run("a", priority=5),
        new_run("b", lane="background"),
        new_run("c", task="other", user="ann", priority=10),
        new_run("d", user="ann"),
        new_run("with another length of its id"),
    ],
    "over a thousand": new_runs(1_100, "run"),
    "with long arguments": [new_run("a", args={"much": "x" * 2000}), new_run("b")],
    "the same twice": [new_run("a"), new_run("b"), new_run("a")],
    "of a lane that is not there": [new_run("a", lane="nowhere")],
}


async def contents(url: str, clock: FakeClock, *batches: Sequence[NewRun]) -> tuple[list[Receipt], dict[str, Any]]:
    """Submit batches to an empty store; return the receipts of the last, and all that is kept of runs."""
    store = RedisStore(url, clock)
    await store.open()
    await store.declare_lanes([MAIN])
    receipts = list[Receipt]()
    for batch in batches:
        receipts = await store.submit(batch)
    await store.close()
    async with opened_client(url) as client:
        prefix = client.address.prefix
        kept = {name: await client.command("HGETALL", f"{prefix}:{name}") for name in ("runs", "ids", "args", "blocks")}
        kept |= {
            name: await client.command("HGETALL", f"{prefix}:{name}") for name in ("lanes", "seats:main", "states")
        }
        fields = {name: dict(zip(found[::2], found[1::2], strict=True)) for name, found in kept.items()}
        for lane in ("main", "background"):
            key = f"{prefix}:ready:{lane}"
            fields[f"ready:{lane}"] = await client.command("ZRANGE", key, 0, -1, "WITHSCORES")
    fields["runs"] = {number: msgspec.msgpack.decode(record) for number, record in fields["runs"].items()}
    return receipts, fields


@pytest.mark.parametrize("name", BATCHES)
async def test_a_batch_leaves_the_same_behind_on_both_paths(
    name: str, redis_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = await contents(f"{redis_url}-straight", clock, BATCHES[name])

    monkeypatch.setattr(encode, "batch", lambda news: [encode.submission(new) for new in news])
    around = await contents(f"{redis_url}-around", clock, BATCHES[name])

    assert straight == around


@pytest.mark.parametrize("name", BATCHES)
async def test_a_repeated_batch_gets_its_receipts_again_and_changes_nothing(
    name: str, redis_url: str, clock: FakeClock
) -> None:
    _, once = await contents(f"{redis_url}-once", clock, BATCHES[name])

    receipts, twice = await contents(f"{redis_url}-twice", clock, BATCHES[name], BATCHES[name])

    assert twice == once
    assert [receipt.run_id for receipt in receipts] == [new.id for new in BATCHES[name]]


async def test_a_batch_of_which_the_last_is_known_changes_nothing_but_by_the_others(
    redis_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [new_run("known")], [*new_runs(2_100, "run"), new_run("known")]  # more than are set in one command
    straight = await contents(f"{redis_url}-straight", clock, *batches)

    monkeypatch.setattr(encode, "batch", lambda news: [encode.submission(new) for new in news])
    around = await contents(f"{redis_url}-around", clock, *batches)

    assert straight == around


def test_neighbours_that_differ_in_id_and_arguments_only_go_together() -> None:
    items = encode.batch([new_run("a"), new_run("b"), LATER, new_run("c"), new_run("d", lane="background")])

    assert [item[0] for item in items] == [["a", "b"], "later", ["c"], ["d"]]


def test_submissions_that_are_not_plain_go_alone() -> None:
    items = encode.batch([new_run("a", user="ann"), new_run("b", user="ann"), new_run("c", priority=1)])

    assert [item[0] for item in items] == ["a", "b", "c"]


def test_a_uniform_batch_is_encoded_as_its_submissions_are() -> None:
    three, twice = (UniformBatch("noop", "main", ids, ["{}"] * len(ids)) for ids in (["a", "b", "c"], ["a", "b", "a"]))

    assert encode.batch(three) == encode.batch(list(three))
    assert encode.batch(twice) == encode.batch(list(twice))
    assert encode.batch(three[:0]) == []


async def test_a_run_of_a_user_with_parked_runs_waits_behind_them(redis_url: str, clock: FakeClock) -> None:
    store = RedisStore(redis_url, clock)
    await store.open()
    await store.declare_lanes([MAIN])
    hand = await Hand(store, "worker").register()
    await store.submit(new_runs(3, "first", user="ann"))
    claimed = await hand.claim(3)

    await store.submit(new_runs(2, "second", user="ann"))

    started = []
    while claimed:
        started += [run.id for run in claimed]
        await hand.succeed(*claimed)
        claimed = await hand.claim(3)
    assert started == ["first-00000", "first-00001", "first-00002", "second-00000", "second-00001"]
    await store.close()


async def test_a_batch_that_fails_leaves_none_of_its_ids_to_another_run(redis_store: RedisStore, raw: RawKeys) -> None:
    await raw.do("SET", "resting", "what no store writes")
    with pytest.raises(StoreError):
        await redis_store.submit([new_run("a"), new_run("b")])
    assert await raw.do("EXISTS", "ids") == 0
    await raw.do("DEL", "resting")

    await redis_store.submit([new_run("c")])

    assert await redis_store.submit([new_run("a")]) == [Receipt(ReceiptOutcome.ACCEPTED, "a", None, 1)]
    assert (await redis_store.get("a")).id == "a"
    assert await redis_store.check() == []
