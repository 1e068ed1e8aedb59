"""Events: one log per run, numbered without gaps, read from any cursor, with one end."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.common.instants import instant
from laneway.core.lifecycle.step import Emitted
from laneway.core.records.events import DATA_LIMIT, draft
from laneway.errors import UnknownRun
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.attempts.settling import one_running
from tests.contract.suite.frame import Part, kinds


class TestLogs(Part):
    """`EventStore`, and the events of `WorkerStore.step`."""

    async def test_emitted_events_are_numbered_stamped_and_kept_in_order(self, store: Store, clock: FakeClock) -> None:
        hand, claimed = await one_running(store)
        await clock.advance(1)

        await hand.emit(claimed, "log", {"n": 1}, {"n": 2})
        await clock.advance(1)
        await hand.emit(claimed, "progress", {"n": 3})

        events = (await store.events("a"))[1:]
        assert [(event.seq, event.kind, event.data) for event in events] == [
            (2, "log", {"n": 1}),
            (3, "log", {"n": 2}),
            (4, "progress", {"n": 3}),
        ]
        assert [event.at for event in events] == [instant(clock.now() - 1_000_000)] * 2 + [instant(clock.now())]
        assert {(event.run_id, event.attempt) for event in events} == {("a", 1)}

    async def test_numbers_go_on_without_a_gap_across_attempts_and_workers(
        self, store: Store, clock: FakeClock
    ) -> None:
        one, claimed = await one_running(store, "one")
        two = await Hand(store, "two").register()
        await one.emit(claimed, "log", "first")
        await one.fail(claimed)
        await clock.advance(60)
        [claimed] = await two.claim()
        await two.emit(claimed, "log", "second")
        await two.release(claimed)
        [claimed] = await one.claim()
        await one.succeed(claimed)

        events = await store.events("a")

        assert [event.seq for event in events] == list(range(1, 10))
        assert [(event.kind, event.attempt) for event in events] == [
            ("started", 1),
            ("log", 1),
            ("retrying", 1),
            ("started", 2),
            ("log", 2),
            ("released", 2),
            ("started", 2),
            ("result", 2),
            ("done", 2),
        ]

    async def test_a_log_is_read_in_pages_from_any_cursor(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        for start in (0, 4, 5):
            await hand.emit(claimed, "log", *range(start, start + 4))
        await hand.succeed(claimed)
        everything = await store.events("a")
        assert len(everything) == 15

        for after in range(17):
            for limit in (1, 2, 5, 100):
                assert await store.events("a", after=after, limit=limit) == everything[after : after + limit]

    async def test_a_page_that_is_not_full_is_the_last_for_now(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.emit(claimed, "log", *range(2500))
        seen = 0

        while page := await store.events("a", after=seen):
            assert [event.seq for event in page] == list(range(seen + 1, seen + 1 + len(page)))
            seen += len(page)
            if len(page) < 1000:
                break

        assert seen == 2501

    async def test_the_log_of_an_unknown_run_is_an_error_also_for_the_beginning_of_an_id(self, store: Store) -> None:
        await store.submit([new_run("abc")])

        for wrong in ("nothing", "ab", ""):
            with pytest.raises(UnknownRun):
                await store.events(wrong)

    async def test_each_run_has_a_log_of_its_own(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(3, "r"))
        runs = await hand.claim(3)

        emitted = [Emitted(run.number, run.fence, (draft("log", run.id), draft("log", "again"))) for run in runs]
        await hand.step(emitted=emitted)

        for run in runs:
            events = await store.events(run.id)
            assert [(event.seq, event.data) for event in events[1:]] == [(2, run.id), (3, "again")]

    @pytest.mark.parametrize(
        "data",
        [None, 1.5, "text", [], {"a": {"b": [None, True]}}, "nul \x00 and ü 🦜", {'"': "\\"}, 2**70],
        ids=repr,
    )
    async def test_data_may_be_any_json(self, store: Store, data: Any) -> None:
        hand, claimed = await one_running(store)

        await hand.emit(claimed, "note", data)

        assert (await store.events("a"))[-1].data == data

    @pytest.mark.parametrize("kind", ["x", "with space", 'quoted "kind"', "back\\slash", "nul\x00", "ключ 🗝", "],["])
    async def test_a_kind_may_be_any_text(self, store: Store, kind: str) -> None:
        hand, claimed = await one_running(store)

        await hand.emit(claimed, kind, 1)
        await hand.succeed(claimed)

        assert await kinds(store, "a") == ["started", kind, "result", "done"]

    async def test_data_of_the_largest_size_is_kept_whole(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        text = "x" * (DATA_LIMIT - 2)

        await hand.emit(claimed, "log", *[text] * 64)

        assert [event.data for event in await store.events("a", after=1)] == [text] * 64

    async def test_a_handlers_own_event_may_be_called_like_a_field_of_the_record(self, store: Store) -> None:
        hand, claimed = await one_running(store)

        await hand.emit(claimed, "value", {"value": 1})
        await hand.succeed(claimed, value=2)

        assert [event.data for event in await store.events("a", after=1, limit=2)] == [{"value": 1}, {"value": 2}]

    async def test_events_of_a_stale_lease_are_refused_whole(self, store: Store) -> None:
        hand, old = await one_running(store)
        await hand.release(old)
        await hand.claim()
        before = await store.events("a")

        reply = await hand.emit(old, "log", 1, 2, 3)

        assert reply.refused == [(old.number, old.fence)]
        assert await store.events("a") == before

    async def test_events_of_a_lease_that_another_holds_are_refused(self, store: Store) -> None:
        _, claimed = await one_running(store)
        other = await Hand(store, "other").register()

        reply = await other.emit(claimed, "log", 1)

        assert reply.refused == [(claimed.number, claimed.fence)]
        assert await kinds(store, "a") == ["started"]

    async def test_refused_events_do_not_touch_their_neighbours(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(2, "r"))
        first, second = await hand.claim(2)
        drafts = (draft("log", 1),)

        emitted = [
            Emitted(first.number, 99, drafts),
            Emitted(second.number, second.fence, drafts),
            Emitted(999_999, 1, drafts),
        ]
        reply = await hand.step(emitted=emitted)

        assert sorted(reply.refused) == [(first.number, 99), (999_999, 1)]
        assert await kinds(store, first.id) == ["started"]
        assert await kinds(store, second.id) == ["started", "log"]

    async def test_nothing_is_written_after_done(self, store: Store) -> None:
        hand, claimed = await one_running(store)
        await hand.succeed(claimed)
        before = await store.events("a")

        await hand.emit(claimed, "log", "late")
        await hand.succeed(claimed)

        assert await store.events("a") == before
