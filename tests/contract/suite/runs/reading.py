"""Reading: one run by its id or the beginning of it, lists in pages, counts."""

from __future__ import annotations

import pytest

from laneway.core.records.run import RunFilter
from laneway.core.records.states import RunState
from laneway.errors import UnknownRun
from laneway.ports.store import Store
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part
from tests.support.invariants import all_runs


class TestReading(Part):
    """`RunStore.get`, `runs` and `count`."""

    async def test_a_run_is_found_by_its_id_and_by_a_unique_beginning_of_it(self, store: Store) -> None:
        await store.submit([new_run("abc-1"), new_run("abd-2")])

        assert (await store.get("abc-1")).id == "abc-1"
        assert (await store.get("abc")).id == "abc-1"
        assert (await store.get("abd-")).id == "abd-2"

    async def test_a_beginning_that_fits_several_is_refused_and_says_how_many(self, store: Store) -> None:
        await store.submit([new_run("abc-1"), new_run("abd-2"), new_run("xyz")])

        with pytest.raises(UnknownRun) as refused:
            await store.get("ab")

        assert (refused.value.run_id, refused.value.matches) == ("ab", 2)

    @pytest.mark.parametrize("wrong", ["z", "abcd", "bc", "", "ABC", "ab_", "ab%", "%", "a*", "?bc", "[a]bc"])
    async def test_what_no_id_begins_with_is_unknown(self, store: Store, wrong: str) -> None:
        await store.submit([new_run("abc")])

        with pytest.raises(UnknownRun) as refused:
            await store.get(wrong)

        assert (refused.value.run_id, refused.value.matches) == (wrong, 0)

    async def test_a_whole_id_is_found_though_others_begin_with_it(self, store: Store) -> None:
        await store.submit([new_run("run-10"), new_run("run-1"), new_run("run-11")])

        assert (await store.get("run-1")).id == "run-1"

    async def test_runs_are_listed_newest_first_up_to_the_limit(self, store: Store) -> None:
        await store.submit(new_runs(5, "r"))

        listed = await store.runs(RunFilter(), limit=3)

        assert [run.id for run in listed] == ["r-00004", "r-00003", "r-00002"]
        assert await store.runs(RunFilter(), limit=0) == []

    async def test_a_listed_run_is_the_same_as_one_that_was_asked_for(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", user="ann"), new_run("b", session="chat"), new_run("c", delay=5)])
        first, _ = await hand.claim(2)
        await hand.succeed(first, value={"n": 1})

        listed = await store.runs(RunFilter(), limit=10)

        assert listed == [await store.get(run_id) for run_id in ("c", "b", "a")]

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            (RunFilter(), "abcde"),
            (RunFilter(task="mail"), "be"),
            (RunFilter(lane="team"), "c"),
            (RunFilter(user="ann"), "abd"),
            (RunFilter(session="chat"), "de"),
            (RunFilter(state=RunState.RUNNING), "a"),
            (RunFilter(state=RunState.PENDING, user="ann"), "bd"),
            (RunFilter(state=RunState.PENDING, user="ann", task="work", lane="main", session="chat"), "d"),
            (RunFilter(state=RunState.FAILED), ""),
            (RunFilter(user="nobody"), ""),
        ],
        ids=repr,
    )
    async def test_a_filter_lists_what_fits_all_that_it_names(
        self, store: Store, wanted: RunFilter, found: str
    ) -> None:
        hand = await Hand(store).register()
        await store.submit([new_run("a", user="ann")])
        await hand.claim()
        await store.submit(
            [
                new_run("b", user="ann", task="mail"),
                new_run("c", lane="team"),
                new_run("d", user="ann", session="chat"),
                new_run("e", user="bob", session="chat", task="mail"),
            ]
        )

        listed = await all_runs(store, wanted)

        assert "".join(run.id for run in listed) == found

    async def test_pages_meet_every_run_once_though_runs_come_and_change_meanwhile(self, store: Store) -> None:
        hand = await Hand(store).register()
        await store.submit(new_runs(10, "old"))
        seen: list[str] = []
        before = None

        while page := await store.runs(RunFilter(), limit=3, before=before):
            seen += [run.id for run in page]
            before = page[-1].number
            await store.submit(new_runs(2, f"new-{before}"))
            await hand.succeed(*await hand.claim(2))

        assert seen == [f"old-{index:05d}" for index in range(9, -1, -1)]

    async def test_pages_of_a_filter_meet_every_run_that_fits_once(self, store: Store) -> None:
        users = ["ann", "bob", "bob", "ann", "bob", "bob", "bob", "ann"]
        await store.submit([new_run(f"r{index}", user=user) for index, user in enumerate(users)])
        seen: list[str] = []
        before = None

        while page := await store.runs(RunFilter(user="ann"), limit=1, before=before):
            seen += [run.id for run in page]
            before = page[-1].number

        assert seen == ["r7", "r3", "r0"]

    async def test_before_the_first_run_there_is_nothing(self, store: Store) -> None:
        await store.submit([new_run("a")])
        first = (await store.get("a")).number

        assert await store.runs(RunFilter(), limit=10, before=first) == []
        assert [run.id for run in await store.runs(RunFilter(), limit=10, before=first + 1)] == ["a"]

    async def test_runs_are_counted_by_state(self, store: Store) -> None:
        hand = await Hand(store).register()
        assert (await store.depths()).runs == {}
        await store.submit(new_runs(6, "r"))
        first, second, _ = await hand.claim(3)

        await hand.succeed(first)
        await hand.fail(second)

        assert (await store.depths()).runs == {"pending": 4, "running": 1, "succeeded": 1}
