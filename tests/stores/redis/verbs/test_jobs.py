"""Jobs on Redis: rules that scripts restate, keys, concurrent fires, and servers that are full."""

import asyncio
import random
from collections.abc import AsyncIterator
from importlib.resources import files
from itertools import pairwise

import msgspec
import pytest

from laneway.core.common.instants import SECOND
from laneway.core.common.jitter import part
from laneway.core.jobs.after import ERROR_LIMIT
from laneway.core.jobs.fire_decision import Fired, by_hand, set_back
from laneway.core.jobs.plan import spread
from laneway.core.jobs.record import FireKind, FireRecord, JobRecord
from laneway.core.records.job_tie import Overlap
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import Claimed
from laneway.core.records.states import RunState
from laneway.core.schedules import AnyOf, Every
from laneway.errors import StoreError, StoreUnavailable
from laneway.ports.jobs import AddJob, EditJob, JobFilter, RemoveJob
from laneway.stores.redis.client.scripts import assembled
from laneway.stores.redis.codec import jobs as jobforms
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand
from laneway.testing.hand import error
from laneway.testing.servers import valkey_server
from tests.stores.redis.raw_keys import RawKeys
from tests.stores.redis.tools import lua, opened_client
from tests.support.jobs import HOUR, all_fires, all_jobs, decided, fire_due, job_of, kept_job, new_job, standing

MINUTE = 60
ONCE = TaskPolicy(retry=Retry(attempts=1))


@pytest.fixture
async def store(redis_url: str, clock: FakeClock) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def hand(store: RedisStore) -> Hand:
    return await Hand(store, policy=ONCE).register()


async def fired(store: RedisStore, hand: Hand) -> Claimed:
    """Fire what is due and start the run."""
    await fire_due(store)
    [run] = await hand.claim()
    return run


# What is restated


async def test_a_script_comes_to_the_same_share_as_the_core(redis_url: str) -> None:
    text = assembled("rules/common/jitter", files("laneway.stores.redis").joinpath("lua")).text
    script = lua(f"{text}return base.digits(jitter.part(ARGV[2], tonumber(ARGV[3])))")
    dice = random.Random(7)
    cases = [
        ("".join(dice.choices("job-/0123é", k=length)), dice.randrange(1, 10**digits))
        for length in (0, 1, 17, 40, 300)
        for digits in (1, 4, 8, 11, 14)
        for _ in range(4)
    ]

    async with opened_client(redis_url) as client:
        parts = [int(await client.call(script, 1, key, whole)) for key, whole in cases]

    assert parts == [part(key, whole) for key, whole in cases]


async def test_a_fire_that_is_counted_from_an_end_is_spread_as_the_core_would(
    store: RedisStore, clock: FakeClock, hand: Hand
) -> None:
    rule = Every(MINUTE, after="end", jitter=25)
    await kept_job(store, clock.now(), rule)
    for _ in range(5):
        await clock.advance(MINUTE + 25)
        await hand.succeed(await fired(store, hand))

        job = await standing(store)
        assert job.state.next_at == clock.now() + MINUTE * SECOND
        assert job.state.fire_at == spread(job, job.state.next_at)


async def test_a_held_back_job_that_is_set_back_is_due_by_its_schedule_once_it_is_not_held(
    store: RedisStore, clock: FakeClock, hand: Hand
) -> None:
    rule = AnyOf(Every(600, jitter=300), Every(1300, jitter=100))
    await kept_job(store, clock.now(), rule, overlap=Overlap.ALLOW, backoff=HOUR * SECOND)
    await clock.advance(900)
    await hand.register()
    await fire_due(store)
    await store.fire([by_hand(await standing(store), "mine", clock.now())])
    first, second = await hand.claim(2)
    await hand.fail(first)
    clock.step(-700)
    back = set_back(await standing(store), clock.now(), "UTC")
    assert back is not None
    assert await store.fire([back]) == [Fired(True)]
    held = (await standing(store)).state
    assert held.fire_at == held.held_until

    await hand.succeed(second)

    job = await standing(store)
    assert job.state.next_at is not None
    assert job.state.fire_at == spread(job, job.state.next_at) < clock.now() + HOUR * SECOND


@pytest.mark.parametrize("letter", ["x", "é", "€", "\N{GRINNING FACE}"])
async def test_an_error_is_cut_by_characters(store: RedisStore, clock: FakeClock, hand: Hand, letter: str) -> None:
    await kept_job(store, clock.now(), run_on_start=True)

    await hand.fail(await fired(store, hand), failure=error("a" + letter * ERROR_LIMIT))

    assert (await standing(store)).state.last_error == "a" + letter * (ERROR_LIMIT - 1)


async def test_who_cannot_read_a_schedule_may_change_the_job_all_the_same(
    store: RedisStore, clock: FakeClock, hand: Hand
) -> None:
    await kept_job(store, clock.now(), Every(MINUTE, after="end"), run_on_start=True)
    run, job = await fired(store, hand), await standing(store)
    newer = job.spec.schedule.replace('"v":1', '"v":999')
    unread = msgspec.structs.replace(job.spec, schedule=newer, description="by somebody older")

    changed = await store.change_job(EditJob(msgspec.structs.replace(job, spec=unread, call="edit")))

    assert changed is not None
    assert changed.spec == unread
    await hand.succeed(run)
    assert (await standing(store)).state.next_at == clock.now() + MINUTE * SECOND


def test_what_is_written_of_a_job_is_read_as_it_was() -> None:
    job = new_job(1, Every(MINUTE, jitter=5), owner="", name="é", enabled=False)
    states = [
        msgspec.structs.replace(job.state, switch=switch, last_state=state, last_error=said, failures=failures)
        for switch, state, said, failures in [
            (None, None, None, 0),
            (False, RunState.FAILED, "", 2),
            (True, None, "a", 1),
        ]
    ]

    for state in states:
        record = msgspec.structs.replace(job, state=state)
        version, call, created_at, changed_at, values, _ = jobforms.written(record)
        row = [job.id, version, call, created_at, changed_at, values, jobforms.spec_text(job.spec)]
        assert jobforms.job_of(row) == record


# The keys


async def job_keys(raw: RawKeys) -> set[str]:
    """Return the keys that have to do with jobs."""
    return {key async for key, _ in raw.all() if key.startswith(("job", "fires", "recorded"))}


@pytest.mark.parametrize("how", ["removed", "deleted after its run"])
async def test_of_a_job_that_is_gone_no_key_is_left(
    store: RedisStore, raw: RawKeys, clock: FakeClock, hand: Hand, how: str
) -> None:
    last = how != "removed"
    await kept_job(store, clock.now(), owner="ann", run_on_start=True, delete_after_run=last)
    run = await fired(store, hand)
    assert await job_keys(raw) == {
        "jobs", "jobspecs", "jobnames", "jobs_listed", "jobs_of:ann", "jobs_due", "fires:j", "recorded:j"
    }  # fmt: skip

    if last:
        await hand.succeed(run)
    else:
        await store.change_job(RemoveJob("j"))

    assert await job_of(store) is None
    assert await job_keys(raw) == set()


async def test_a_renamed_job_is_found_by_its_new_name_and_owner_alone(store: RedisStore, clock: FakeClock) -> None:
    job = await kept_job(store, clock.now(), name="old", owner="ann")
    moved = msgspec.structs.replace(job.spec, name="new", owner=None)
    await store.change_job(EditJob(msgspec.structs.replace(job, spec=moved, call="move")))

    found = {
        (name, owner): [one.id for one in await store.jobs(JobFilter(named=name, owner=owner))]
        for name in ("old", "new", None)
        for owner in ("ann", None)
    }

    assert found == {
        ("old", "ann"): [], ("old", None): [], ("new", "ann"): [], ("new", None): ["j"], (None, "ann"): [],
        (None, None): ["j"],
    }  # fmt: skip
    await kept_job(store, clock.now(), id="k", name="old", owner="ann")


async def test_runs_of_deleted_records_are_forgotten(store: RedisStore, raw: RawKeys, clock: FakeClock) -> None:
    made = await kept_job(store, clock.now())
    stepped = FireRecord(kind=FireKind.CLOCK_STEPPED, first=0, last=1)
    await store.fire([by_hand(made, "mine", clock.now())])
    assert await raw.do("SMEMBERS", "recorded:j") == [b"mine"]

    await store.fire([msgspec.structs.replace(by_hand(made, "", 0), runs=(), records=(stepped,) * 1000)])

    assert len(await all_fires(store)) == 1000
    assert await raw.do("EXISTS", "recorded:j") == 0


# Many


async def add_many(store: RedisStore, jobs: list[JobRecord]) -> None:
    await asyncio.gather(*(store.change_job(AddJob(job)) for job in jobs))


async def test_jobs_that_are_all_due_at_one_instant_are_read_page_by_page(store: RedisStore, clock: FakeClock) -> None:
    ids = [f"{number}" for number in range(700)]
    await add_many(store, [new_job(clock.now(), id=job_id) for job_id in ids])
    await clock.advance(HOUR)
    pages: list[list[JobRecord]] = []
    after = (0, "")

    while page := (await store.due_jobs(limit=150, after=after)).jobs:
        pages.append(page)
        after = (page[-1].state.fire_at or 0, page[-1].id)
        await store.change_job(RemoveJob(page[-1].id))  # where the next page begins need not be there any more

    assert [len(page) for page in pages] == [150, 150, 150, 150, 100]
    assert [job.id for page in pages for job in page] == sorted(ids)


async def test_few_are_found_among_many_that_do_not_fit(store: RedisStore, clock: FakeClock) -> None:
    names = [f"{number:04d}" for number in range(1200)]
    tasks = {"0003": "rare", "0777": "rare", "1199": "rare"}
    await add_many(
        store, [new_job(clock.now(), id=f"id{name}", name=name, task=tasks.get(name, "work")) for name in names]
    )

    found = await store.jobs(JobFilter(task="rare"))
    first = await store.jobs(JobFilter(task="rare"), limit=1)
    rest = await store.jobs(JobFilter(task="rare"), after=("0003", "id0003"))

    assert [job.spec.name for job in found] == ["0003", "0777", "1199"]
    assert (first, rest) == (found[:1], found[1:])
    assert [job.spec.name for job in await all_jobs(store)] == names


async def test_names_are_in_the_order_of_their_letters_codes(store: RedisStore, clock: FakeClock) -> None:
    names = ["a", "B", "ab", "a b", "é", "z", "€", "\N{GRINNING FACE}", "a\tb"]
    await add_many(store, [new_job(clock.now(), name=name) for name in names])

    found = [job.spec.name for job in await all_jobs(store)]

    assert found == sorted(names)
    assert all(one < other for one, other in pairwise(found))


# Who wins, and what goes wrong


async def test_of_many_who_fire_one_job_one_wins(redis_url: str, store: RedisStore, clock: FakeClock) -> None:
    await kept_job(store, clock.now(), run_on_start=True)
    due = await store.due_jobs()
    stores = [RedisStore(redis_url, clock) for _ in range(4)]

    told = await asyncio.gather(*(one.fire(decided(due.jobs, due.now)) for one in stores * 3))

    assert sorted(one.won for [one] in told) == [False] * 11 + [True]
    assert len(await all_fires(store)) == 1
    for one in stores:
        await one.close()


async def test_a_fire_that_cannot_be_written_leaves_nothing(
    store: RedisStore, raw: RawKeys, clock: FakeClock, hand: Hand
) -> None:
    await kept_job(store, clock.now(), run_on_start=True)
    await kept_job(store, clock.now(), id="k", run_on_start=True)
    before = await all_jobs(store)
    await raw.do("SET", "fires:k", "something else")

    with pytest.raises(StoreError):
        await fire_due(store)
    halfway = (await all_jobs(store), await all_fires(store), await hand.claim())
    await raw.do("DEL", "fires:k")

    assert halfway == (before, [], [])
    assert [one.won for one in await fire_due(store)] == [True, True]
    assert len(await hand.claim(2)) == 2


async def test_a_server_that_is_full_takes_no_fires_but_hears_of_ends(clock: FakeClock) -> None:
    with valkey_server() as server:
        store = RedisStore(server.url, clock)
        await store.open()
        hand = await Hand(store, policy=ONCE).register()
        await kept_job(store, clock.now(), Every(MINUTE), run_on_start=True)
        run = await fired(store, hand)
        await clock.advance(MINUTE)

        server.command("CONFIG", "SET", "maxmemory", "1")
        await hand.succeed(run)
        with pytest.raises(StoreUnavailable):
            await fire_due(store)
        server.command("CONFIG", "SET", "maxmemory", "0")

        assert (await standing(store)).state.last_state is RunState.SUCCEEDED
        assert [one.won for one in await fire_due(store)] == [True]
        assert await fire_due(store) == []
        await store.close()
