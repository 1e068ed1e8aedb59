"""Reading a large Redis store: the cost of lists, ids and logs depends on what they return, not on what is stored."""

import pytest

from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import RunFilter
from laneway.core.records.states import TERMINAL, RunState
from laneway.errors import UnknownRun
from laneway.ports.control import Pause
from laneway.ports.upkeep import OldRuns
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.redis.raw_keys import RawKeys


@pytest.fixture
def store(redis_store: RedisStore) -> RedisStore:
    return redis_store


async def test_listing_goes_on_over_many_pages_and_meets_every_run_once(store: RedisStore) -> None:
    for batch in range(11):
        await store.submit(new_runs(500, f"b{batch:02d}", task="odd" if batch % 2 else "even"))
    await store.submit([new_run("needle", user="ann")])
    await store.submit(new_runs(500, "late"))

    everything = await store.runs(RunFilter(), limit=10_000)
    some = await store.runs(RunFilter(task="odd"), limit=1200)

    assert [run.number for run in everything] == list(range(6001, 0, -1))
    assert [run.id for run in some[:2]] == ["b09-00499", "b09-00498"]
    assert len(some) == 1200
    assert some[-1].id == "b05-00300"
    assert [run.id for run in await store.runs(RunFilter(user="ann"), limit=5)] == ["needle"]
    assert await store.runs(RunFilter(user="nobody"), limit=5) == []
    assert await store.runs(RunFilter(), limit=0) == []
    assert [run.number for run in await store.runs(RunFilter(), limit=2, before=4000)] == [3999, 3998]


async def test_a_state_that_few_runs_are_in_is_listed_at_once_among_many(store: RedisStore, raw: RawKeys) -> None:
    hand = await Hand(store, policy=TaskPolicy(retry=Retry(attempts=1))).register()
    await store.submit(new_runs(12, "r"))
    for batch in range(8):
        await store.submit(new_runs(500, f"b{batch:02d}", task="other"))
    done, failed, asks, *running = await hand.claim(12)
    await hand.succeed(done)
    await hand.fail(failed)
    await hand.wait(asks, "ok?")
    await store.change_run("call", "b07-00000", Pause())
    wanted = [RunFilter(state=state) for state in RunState if state is not RunState.PENDING]
    listed = [await store.runs(one, limit=100) for one in wanted]
    before = await raw.calls()

    again = [await store.runs(one, limit=100) for one in wanted]

    assert await raw.calls() - before == len(wanted)
    assert again == listed
    ids = {one.state: [run.id for run in found] for one, found in zip(wanted, listed, strict=True)}
    assert ids[RunState.RUNNING] == [run.id for run in reversed(running)]
    assert (ids[RunState.SUCCEEDED], ids[RunState.FAILED]) == ([done.id], [failed.id])
    assert (ids[RunState.WAITING], ids[RunState.PAUSED]) == ([asks.id], ["b07-00000"])
    assert ids[RunState.CANCELLED] == ids[RunState.DROPPED] == []
    page = await store.runs(RunFilter(state=RunState.RUNNING), limit=3)
    rest = await store.runs(RunFilter(state=RunState.RUNNING), limit=100, before=page[-1].number)
    assert page + rest == listed[wanted.index(RunFilter(state=RunState.RUNNING))]


async def test_what_was_pruned_costs_a_listing_nothing(store: RedisStore, raw: RawKeys, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("oldest", delay=3600)])
    for batch in range(2):
        await store.submit(new_runs(20, f"r{batch}"))
        await hand.succeed(*await hand.claim(20))
    # As if a million had been accepted and pruned since.
    await raw.do("HSET", "counters", "number", 1_000_000)
    await clock.advance(1)
    assert await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0))) == 40
    assert await store.runs(RunFilter(user="nobody"), limit=10) == []
    before = await raw.calls()

    assert [run.id for run in await store.runs(RunFilter(), limit=10)] == ["oldest"]

    assert await raw.calls() - before == 1


async def test_a_run_is_found_by_the_beginning_of_its_id_whatever_is_in_it(store: RedisStore) -> None:
    await store.submit([new_run("a*b?c[d]-1"), new_run("a*b?c[d]\\x"), new_run("axb"), *new_runs(3000, "many")])

    assert (await store.get("a*b?c[d]-")).id == "a*b?c[d]-1"
    assert (await store.get("a*b?c[d]\\")).id == "a*b?c[d]\\x"
    assert (await store.get("ax")).id == "axb"
    with pytest.raises(UnknownRun) as several:
        await store.get("many-0")
    assert several.value.matches == 3000
    for unknown in ("", "a?b", "nothing"):
        with pytest.raises(UnknownRun):
            await store.get(unknown)


async def test_a_page_of_a_long_log_is_one_call_wherever_it_is(store: RedisStore, raw: RawKeys) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    [run] = await hand.claim(1)
    for first in range(0, 3000, 5):
        await hand.emit(run, "log", *({"n": first + nth} for nth in range(5)))
    assert await store.events("a", after=3001) == []
    before = await raw.calls()

    pages = [await store.events("a", after=after, limit=10) for after in (0, 7, 1500, 2990, 2999, 3001)]

    assert await raw.calls() - before == len(pages)
    assert [[event.seq for event in page] for page in pages[:3]] == [
        list(range(1, 11)),
        list(range(8, 18)),
        list(range(1501, 1511)),
    ]
    assert [len(page) for page in pages[3:]] == [10, 2, 0]
    assert [event.seq for event in await store.events("a", limit=5000)] == list(range(1, 3002))
    assert [event.data for event in pages[2]] == [{"n": n} for n in range(1499, 1509)]


async def test_a_log_of_large_events_is_read_in_several_calls(store: RedisStore) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    [run] = await hand.claim(1)
    for nth in range(100):
        await hand.emit(run, "log", {"text": f"{nth:07d}" * 1000})

    events = await store.events("a", after=1)

    assert [event.data["text"][:7] for event in events] == [f"{nth:07d}" for nth in range(100)]


async def test_depths_tell_where_pending_runs_wait(store: RedisStore) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(3, "s", session="chat"))
    await store.submit([*new_runs(4, "ann", lane="background", user="ann"), new_run("later", delay=60)])
    await store.submit([new_run("unknown", task="other"), new_run("paused", session="chat")])
    await store.change_run("call", "paused", Pause())
    await hand.claim(2)
    await hand.claim(9)
    await store.submit([new_run("ready")])

    depths = await store.depths()

    assert (depths.ready, depths.parked, depths.held, depths.due) == (1, 4, 2, 1)
    assert depths.runs == {RunState.PENDING: 8, RunState.RUNNING: 2, RunState.PAUSED: 1}
