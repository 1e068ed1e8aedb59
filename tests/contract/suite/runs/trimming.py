"""Trimming: old deltas become marks, all else keeps its number, and every cursor still means what it meant."""

from __future__ import annotations

from itertools import groupby

from laneway.core.common.instants import SECOND
from laneway.core.lifecycle.outcome import Failed, Succeeded
from laneway.core.lifecycle.step import Emitted
from laneway.core.records.events import Event, deltas, draft
from laneway.core.records.run import Claimed
from laneway.ports.control import Cancel
from laneway.ports.store import Store
from laneway.ports.upkeep import OldDeltas, OldRuns
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, error, new_run, new_runs
from tests.contract.suite.attempts.settling import one_running
from tests.contract.suite.frame import Part
from tests.contract.suite.runs.pruning import ALL
from tests.support.invariants import check_log, check_numbers

HOUR = 3600 * SECOND


async def say(hand: Hand, run: Claimed, kinds: str) -> None:
    """Write a chunk of deltas (d) and lines (l)."""
    drafts = tuple(deltas("word ")[0] if kind == "d" else draft("log", {"text": "line"}) for kind in kinds)
    await hand.step(emitted=[Emitted(run.number, run.fence, drafts)])


async def streamed(store: Store, run_id: str, *chunks: str, last: str = "", name: str = "hand") -> list[Event]:
    """Let a run say these chunks and end, the last of them with its outcome; return its log."""
    hand = await Hand(store, name).register()
    await store.submit([new_run(run_id)])
    [run] = await hand.claim()
    for chunk in chunks:
        await say(hand, run, chunk)
    drafts = tuple(deltas("word ")[0] if kind == "d" else draft("log", {"text": "line"}) for kind in last)
    await hand.step(results=[hand.result(run, Succeeded('"value"'), drafts)])
    return await store.events(run_id, limit=1000)


def expected(log: list[Event]) -> list[Event]:
    """Return what a log becomes."""
    found: list[Event] = []
    for kind, group in groupby(log, key=lambda event: event.kind):
        part = list(group)
        if kind != "delta":
            found += part
            continue
        first, last = part[0].seq, part[-1]
        data = {"first": first, "last": last.seq, "events": len(part)}
        found.append(Event(last.run_id, last.seq, "trimmed", data, last.attempt, last.at))
    return found


class TestTrimming(Part):
    """`UpkeepStore.trim`."""

    async def test_stretches_become_marks_and_all_else_keeps_its_number(self, store: Store, clock: FakeClock) -> None:
        log = await streamed(store, "a", "ldd", "d", "dld", "l", "dd", last="dld")
        await clock.advance(3601)

        assert await store.prune(OldDeltas(HOUR)) == 1

        after = await store.events("a")
        assert after == expected(log)
        assert [(event.seq, event.kind) for event in after] == [
            *((1, "started"), (2, "log"), (6, "trimmed"), (7, "log"), (8, "trimmed"), (9, "log")),
            *((12, "trimmed"), (13, "log"), (14, "trimmed"), (15, "result"), (16, "done")),
        ]
        assert after[-2].data == {"value": "value"}
        await check_log(store, await store.get("a"))

    async def test_any_cursor_and_any_page_is_right_before_and_after(self, store: Store, clock: FakeClock) -> None:
        shapes = (("dd", "dd"), ("l", "dd", "dd", "l"), ("dl", "ld"), (), ("ddd",), ("ldl", "ldl"))
        for number, shape in enumerate(shapes):
            for last in ("", "d", "dl", "ldd"):
                run_id = f"{number}{last}"
                log = await streamed(store, run_id, *shape, last=last, name=f"hand of {run_id}")
                await clock.advance(3601)
                await store.prune(OldDeltas(HOUR))
                whole = expected(log)
                for after in range(log[-1].seq + 2):
                    for limit in (1, 2, 100):
                        page = await store.events(run_id, after=after, limit=limit)
                        assert page == [event for event in whole if event.seq > after][:limit]
                        check_numbers(page, after)

    async def test_only_what_ended_long_enough_ago_is_trimmed(self, store: Store, clock: FakeClock) -> None:
        before = await streamed(store, "a", "dd")
        await clock.advance(3600)
        assert await store.prune(OldDeltas(HOUR)) == 0
        assert await store.events("a") == before

        await clock.advance(0.000001)

        assert await store.prune(OldDeltas(HOUR)) == 1
        assert await store.events("a") == expected(before)

    async def test_a_run_that_has_not_ended_is_left_alone(self, store: Store, clock: FakeClock) -> None:
        hand, run = await one_running(store)
        await say(hand, run, "dd")
        await clock.advance(7200)
        assert await store.prune(OldDeltas(0)) == 0
        await hand.fail(run)  # it will be tried again
        await clock.advance(7200)
        assert await store.prune(OldDeltas(0)) == 0
        [run] = await hand.claim()
        await say(hand, run, "dd")
        await hand.settle([run], Failed(error("hopeless", "gave_up")))
        log = await store.events("a")
        await clock.advance(1)

        assert await store.prune(OldDeltas(0)) == 1

        assert await store.events("a") == expected(log)
        assert [mark.attempt for mark in await store.events("a") if mark.kind == "trimmed"] == [1, 2]

    async def test_a_run_that_was_cancelled_between_attempts_is_trimmed_too(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand, run = await one_running(store)
        await say(hand, run, "ldd")
        await hand.release(run)
        await store.change_run("call", "a", Cancel())
        log = await store.events("a")
        await clock.advance(3601)

        assert await store.prune(OldDeltas(HOUR)) == 1

        assert await store.events("a") == expected(log)

    async def test_it_goes_in_batches_oldest_first_and_ends(self, store: Store, clock: FakeClock) -> None:
        for number in range(5):
            await streamed(store, f"r{number}", "dd", name=f"hand {number}")
            await clock.advance(1)
        await clock.advance(3600)

        assert await store.prune(OldDeltas(HOUR), limit=2) == 2
        trimmed = [(await store.events(f"r{number}"))[1].kind == "trimmed" for number in range(5)]
        assert trimmed == [True, True, False, False, False]
        assert [await store.prune(OldDeltas(HOUR), limit=2) for _ in range(3)] == [2, 1, 0]
        assert await store.prune(OldDeltas(HOUR), limit=0) == 0

    async def test_what_has_no_deltas_is_not_even_counted(self, store: Store, clock: FakeClock) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(5, "plain"))
        runs = await hand.claim(5)
        for run in runs:
            await hand.emit(run, "log", "line")
        await hand.succeed(*runs)
        before = await store.events("plain-00000")
        await clock.advance(7200)

        assert await store.prune(OldDeltas(HOUR)) == 0
        assert await store.events("plain-00000") == before

    async def test_a_deleted_run_leaves_nothing_to_trim(self, store: Store, clock: FakeClock) -> None:
        await streamed(store, "a", "dd")
        await clock.advance(7200)

        assert await store.prune(OldRuns(ALL)) == 1
        assert await store.prune(OldDeltas(0)) == 0

    async def test_a_trimmed_run_is_deleted_whole(self, store: Store, clock: FakeClock) -> None:
        await streamed(store, "a", "dd", last="d")
        await clock.advance(7200)
        await store.prune(OldDeltas(0))

        assert await store.prune(OldRuns(ALL)) == 1
        assert (await store.examine()).findings == []

    async def test_what_a_late_worker_streams_is_refused_and_leaves_nothing_to_trim(
        self, store: Store, clock: FakeClock
    ) -> None:
        hand, run = await one_running(store)
        await hand.succeed(run)
        await say(hand, run, "dd")
        await clock.advance(7200)

        assert await store.prune(OldDeltas(0)) == 0
