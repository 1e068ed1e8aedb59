"""Upkeep of a Redis store: check, repair, examine, prune and trim it."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from laneway.core.records.policy import Lane, SessionPolicy
from laneway.core.records.states import TERMINAL, RunState
from laneway.errors import NotAStore, StoreTooNew
from laneway.ports.control import Cancel, Pause, Resume
from laneway.ports.settings import LaneSetting
from laneway.ports.upkeep import OldDeltas, OldRuns
from laneway.stores.redis.codec.keys import LAYOUT, OLDEST_LAYOUT
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.redis.raw_keys import RawKeys
from tests.support.invariants import all_runs, check_drains, check_invariants
from tests.support.jobs import kept_job

Damage = Callable[[RawKeys], Awaitable[Any]]


@pytest.fixture
def store(redis_store: RedisStore) -> RedisStore:
    return redis_store


async def busy(store: RedisStore, clock: FakeClock) -> Hand:
    """Fill every shelf and every count."""
    hand = await Hand(store).register()
    await store.submit([new_run("done")])
    await hand.succeed(*await hand.claim(1))
    await store.submit(new_runs(4, "ann", lane="background", user="ann"))
    await store.submit(new_runs(4, "chat", session="chat", max_concurrent=2))
    await store.submit([new_run("unknown", task="other"), new_run("later", delay=60, session="chat")])
    running = await hand.claim(6)
    await hand.fail(running[0])
    await store.submit(new_runs(2, "bob", user="bob", priority=3))
    await store.submit([new_run("paused"), *new_runs(15, "talk", session="talk", policy=SessionPolicy(cap=100))])
    await store.change_run("call", "paused", Pause())
    await kept_job(store, clock.now())
    assert await store.check() == []
    return hand


def of_lane(lane: str, at: int, value: object) -> Damage:
    return lambda raw: raw.change("lanes", lane, lambda book: book.__setitem__(at, value))


def of_session(at: int, value: object) -> Damage:
    return lambda raw: raw.change("sessions", "chat", lambda book: book.__setitem__(at, value))


def of_seat(lane: str, user: str, at: int, value: object) -> Damage:
    return lambda raw: raw.change(f"seats:{lane}", user, lambda seat: seat.__setitem__(at, value))


def of_run(run_id: str, at: int, value: object) -> Damage:
    async def damage(raw: RawKeys) -> None:
        number = (await raw.do("HGET", "ids", run_id)).decode()
        await raw.change_run(number, lambda record: record.__setitem__(at, value))

    return damage


def gone(key: str) -> Damage:
    return lambda raw: raw.do("DEL", key)


def given(command: str, key: str, *parts: str | int) -> Damage:
    return lambda raw: raw.do(command, key, *parts)


def moved(run_id: str, key: str, score: int = 5) -> Damage:
    async def damage(raw: RawKeys) -> None:
        await raw.do("ZADD", key, score, await raw.member(run_id))

    return damage


COUNTS: dict[str, tuple[Damage, str]] = {
    "lane active": (of_lane("main", 6, 7), "lane main: active is 7"),
    "lane pending": (of_lane("main", 7, 0), "lane main: pending is 0"),
    "pace ready": (of_lane("main", 8, [[3, 0, 0]]), "priority 3: ready is 0"),
    "no paces": (of_lane("main", 8, []), "ready is 0"),
    "no turns": (of_seat("main", "bob", 3, []), "bob in lane main, priority 3: waiting is 0, counted are 2"),
    "no seats": (gone("seats:background"), "ann in lane background"),
    "session admitted": (of_session(0, []), "session chat: admitted is 0"),
    "session held": (of_session(2, 9), "session chat: held is 9"),
    "session unstarted": (of_session(1, 3), "session chat: unstarted is 1, counted are 0"),
    "session outside": (of_session(6, [1, 2]), "session chat: outside is 2"),
    "no sessions": (gone("sessions"), "session chat: admitted is 0"),
    "no aside": (gone("aside:main"), "task other in lane main: runs is 0, counted are 1"),
    "no states": (gone("states"), "the store: pending is 0, counted are"),
    "states": (given("HINCRBY", "states", "running", 5), "the store: running is 7, counted are 2"),
    "busy": (
        given("HINCRBY", "busy:hand", "main", 5),
        "worker hand: it executes 7 runs of lane main by its count, counted are 2",
    ),
    "not busy": (gone("busy:hand"), "worker hand: it executes 0 runs of lane main by its count, counted are 2"),
    "long args": (given("HINCRBY", "counters", "long_args", 1), "the store: runs with long arguments are 1, counted"),
    "no blocks": (gone("blocks"), "the store: listed by number are 0, counted are 29"),
}
PLACES: dict[str, tuple[Damage, str]] = {
    "no ready": (gone("ready:main"), "it is pending, but in no place"),
    "no due": (gone("due"), "run later: it is pending, but in no place"),
    "no held": (gone("held:talk"), "it is pending, but in no place"),
    "no parked of a user": (gone("parked:10:background:user:ann"), "it is pending, but in no place"),
    "no parked": (gone("parked:4:main:task:other"), "run unknown: it is pending, but in no place"),
    "due twice": (moved("bob-00000", "due"), "run bob-00000: it is in several places"),
    "due and running": (moved("chat-00001", "due"), "run chat-00001: it is in several places"),
    "wrong shelf": (of_run("bob-00000", 2, "due"), "run bob-00000: it is in another place than its record says"),
    "no such run": (given("ZADD", "ready:main", 5, f"{99:015d}"), "run number 99: a place is taken for it"),
    "undead": (moved("done", "ready:main"), "run done: it has ended, but is still to be executed"),
    "no workers": (gone("workers"), "worker hand: it holds leases, but is not known"),
    "no leases": (gone("leases:hand"), "it is running, but no worker holds its lease"),
    "not paused": (gone("paused_runs"), "run paused: it is paused, but not listed as that"),
    "orphans": (given("HSET", "args", "99", "{}"), "run number 99: there are arguments, results or an end of it"),
    "no end": (gone("ended:succeeded"), "it is not found by its id or its end"),
    "no ids": (gone("ids"), "it is not found by its id or its end"),
    "deadline": (given("ZADD", "deadlines", 5, f"{1:015d}"), "it does not wait, but has a question"),
    "job": (given("ZADD", "jobs_due", 5, "j"), "job j: it is not found when its state says"),
    "no job": (given("ZADD", "jobs_due", 5, "gone"), "job gone: it is not found when its state says"),
    "no jobs": (gone("jobs_due"), "job j: it is not found when its state says"),
    "no working": (gone("working"), "lane main: it has runs to start but is not listed"),
    "open": (given("SADD", "open", "work"), "the breaker of task work: it is open but not listed"),
}


@pytest.mark.parametrize(("damage", "said"), (COUNTS | PLACES).values(), ids=(COUNTS | PLACES).keys())
async def test_what_does_not_agree_is_found_and_set_right(
    store: RedisStore, raw: RawKeys, clock: FakeClock, damage: Damage, said: str
) -> None:
    await busy(store, clock)
    await damage(raw)

    found = await store.check()
    repaired = await store.check(repair=True)

    assert any(said in f"{finding.what}: {finding.wrong}" for finding in found), found
    assert repaired == found
    assert await store.check() == []
    assert (await store.examine()).findings == []
    await check_drains(store, clock)


async def test_repairing_what_is_right_changes_nothing(store: RedisStore, raw: RawKeys, clock: FakeClock) -> None:
    async def dump() -> dict[str, object]:
        found: dict[str, object] = {}
        async for key, kind in raw.all():
            found[key] = await (raw.unpacked(key) if kind == "hash" else raw.do("DUMP", key))
        return found

    await busy(store, clock)
    before = await dump()

    assert await store.check(repair=True) == []
    await raw.run("upkeep/repair", clock.now())

    assert await dump() == before


async def test_an_admitted_run_that_was_lost_does_not_wait_for_itself(
    store: RedisStore, raw: RawKeys, clock: FakeClock
) -> None:
    await Hand(store).register()
    await store.submit(new_runs(3, "s", session="chat"))
    await raw.do("DEL", "ready:main")

    found = await store.check(repair=True)

    assert found[0].what == "run s-00000"
    assert await store.check() == []
    await check_drains(store, clock)


async def test_parked_runs_that_are_not_counted_are_counted_again_and_keep_their_turns(
    store: RedisStore, raw: RawKeys, clock: FakeClock
) -> None:
    hand = await Hand(store).register()
    await store.declare_lanes([Lane("main", limit=10, per_user=1)])
    await store.submit([new_run(f"ann-{n}", user="ann") for n in range(5)])
    [first] = await hand.claim(5)
    await raw.change("seats:main", "ann", lambda seat: seat.__setitem__(1, 0))

    [finding] = await store.check(repair=True)

    assert (finding.what, finding.wrong) == ("ann in lane main", "parked is 0, counted are 4")
    assert await store.check() == []
    [second] = (await hand.succeed(first, room=5)).claimed
    assert second.id == "ann-1"
    await check_drains(store, clock)


async def test_a_repaired_session_goes_on_and_what_is_paused_in_it_keeps_its_place(
    store: RedisStore, raw: RawKeys, clock: FakeClock
) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(3, "s", session="chat"))
    first = await hand.claim(1)
    await store.change_run("call", "s-00001", Pause())
    await of_session(0, [1, 999])(raw)
    assert (await hand.succeed(*first, room=9)).claimed == []

    findings = await store.check(repair=True)

    assert {finding.what for finding in findings} == {"session chat"}
    assert await hand.claim(9) == []
    assert (await store.get("s-00001")).state is RunState.PAUSED
    await store.change_run("again", "s-00001", Resume())
    assert [run.id for run in await hand.claim(9)] == ["s-00001"]
    await check_invariants(store)
    await check_drains(store, clock)


async def test_a_circuit_whose_probe_nobody_executes_lets_go_of_it(
    store: RedisStore, raw: RawKeys, clock: FakeClock
) -> None:
    await busy(store, clock)
    await raw.do("HSET", "circuits", "work", msgspec.msgpack.encode([3, 5, 999, 1]))
    await raw.do("SADD", "open", "work")

    findings = await store.check(repair=True)

    assert [finding.what for finding in findings] == ["the breaker of task work"]
    assert await store.check() == []
    [work] = [task for task in await store.tasks() if task.name == "work"]
    assert [(circuit.failures, circuit.probing) for circuit in work.circuits] == [(3, False)]


# Examining


async def test_an_examination_needs_no_open_and_says_what_is_known(
    store: RedisStore, redis_url: str, clock: FakeClock
) -> None:
    await busy(store, clock)
    other = RedisStore(redis_url, FakeClock())

    found = await other.examine()

    assert found.engine.split()[0] in ("Valkey", "Redis")
    assert (found.layout, found.newest_layout, found.findings) == (LAYOUT, LAYOUT, [])
    assert found.runs == (await store.depths()).runs
    assert found.sizes["memory"] > 0
    assert found.kept is not None
    assert found.kept.startswith("nothing: ")
    assert found.warnings[0].startswith("nothing is kept over a restart")
    await other.close()


async def test_an_examination_sees_instants_of_the_future_and_a_clock_that_was_set_back(
    store: RedisStore, clock: FakeClock
) -> None:
    await store.submit([new_run("a")])
    newest = clock.now()
    clock.step(-3600)
    await store.submit([new_run("b")])

    found = await store.examine(deep=False)

    assert (found.newest_at, found.set_back, found.findings) == (newest, 3600 * 1_000_000, None)


async def test_what_cannot_be_examined_is_refused(store: RedisStore, raw: RawKeys, redis_url: str) -> None:
    empty = RedisStore(f"{redis_url}-empty", FakeClock())
    with pytest.raises(NotAStore, match="there is no store"):
        await empty.examine()
    await empty.close()

    await raw.do("HSET", "meta", "layout", 99)
    with pytest.raises(StoreTooNew, match="layout 99"):
        await store.examine()


async def test_a_store_in_an_older_layout_is_refused_and_left_as_it_is(store: RedisStore, raw: RawKeys) -> None:
    await store.submit([new_run("run")])
    await raw.do("HSET", "meta", "layout", OLDEST_LAYOUT - 1)
    before = {key: await raw.do("DUMP", key) async for key, _ in raw.all()}

    for use in (store.open, store.examine):
        with pytest.raises(NotAStore, match=f"layout {OLDEST_LAYOUT - 1}, by a laneway from before its first release"):
            await use()

    assert {key: await raw.do("DUMP", key) async for key, _ in raw.all()} == before


# Pruning and trimming


async def test_runs_of_several_states_are_pruned_by_when_they_ended(store: RedisStore, clock: FakeClock) -> None:
    hand = await Hand(store).register()
    await store.submit(new_runs(1200, "r", lane="main"))
    await store.set(LaneSetting(Lane("main", limit=2000)))
    claimed = await hand.claim(500)
    await hand.succeed(*claimed[:250])
    await clock.advance(1)
    await store.change_run("call", "r-01100", Cancel())
    await hand.succeed(*claimed[250:])
    await clock.advance(5)

    assert await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0)), limit=251) == 251
    assert {run.id for run in await all_runs(store) if run.ended} == {run.id for run in claimed[251:]} | {"r-01100"}
    assert await store.prune(OldRuns(dict.fromkeys(TERMINAL, 0)), limit=10_000) == 250
    assert (await store.depths()).runs == {"pending": 699}
    assert await store.check() == []


async def test_a_trimmed_log_that_has_become_short_needs_no_key_of_its_own(
    store: RedisStore, raw: RawKeys, clock: FakeClock
) -> None:
    hand = await Hand(store).register()
    await store.submit([new_run("a")])
    [run] = await hand.claim(1)
    for nth in range(300):
        await hand.emit(run, "delta", {"text": f"{nth} and more"})
    await hand.succeed(run)
    assert await raw.do("TYPE", f"log:{run.number}") == b"stream"
    await clock.advance(5)

    assert await store.prune(OldDeltas(0)) == 1

    assert await raw.do("TYPE", f"log:{run.number}") == b"none"
    assert [event.kind for event in await store.events("a")] == ["started", "trimmed", "result", "done"]
    assert [event.seq for event in await store.events("a", after=100)] == [301, 302, 303]
    assert await store.prune(OldDeltas(0)) == 0
