"""Many concurrent callers see the same rules as one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from laneway.core.records.policy import Lane
from laneway.core.records.states import RunState
from laneway.errors import NotWaiting
from laneway.ports.control import Answer
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand, new_run, new_runs
from tests.contract.suite.frame import Part
from tests.contract.suite.waits.questions import answer_memo, asking
from tests.support.child_runs import child_of
from tests.support.invariants import all_runs, check_invariants, check_limits


class TestConcurrentCallers(Part):
    """What holds when many tasks call at once."""

    async def test_many_workers_at_once_never_exceed_a_limit_and_never_share_a_run(self, store: Store) -> None:
        lanes = [Lane("main", limit=7, per_user=2), Lane("team", limit=3)]
        await store.declare_lanes(lanes)
        await store.submit(
            [
                new_run(f"r{index}", lane=lanes[index % 2].name, user=f"u{index % 5}", session=f"s{index % 11}")
                for index in range(120)
            ]
        )
        hands = [await Hand(store, f"w{index}").register() for index in range(8)]
        started: Counter[str] = Counter()

        async def work(hand: Hand) -> None:
            claimed = await hand.claim(3)
            while claimed:
                started.update(run.id for run in claimed)
                check_limits(await all_runs(store), lanes)
                claimed = (await hand.succeed(*claimed, room=3)).claimed

        for _ in range(120):
            await asyncio.gather(*map(work, hands))
            if len(started) == 120:
                break

        assert set(started.values()) == {1}
        assert (await store.depths()).runs == {"succeeded": 120}

    async def test_many_submitters_at_once_lose_nothing_and_double_nothing(self, store: Store) -> None:
        batches = [new_runs(5, f"batch{index % 20:02d}") for index in range(40)]

        receipts = await asyncio.gather(*map(store.submit, batches))

        assert [[receipt.run_id for receipt in batch] for batch in receipts] == [
            [new.id for new in batch] for batch in batches
        ]
        runs = await all_runs(store)
        assert len(runs) == 100
        for index in range(20):
            numbers = [run.number for run in runs if run.id.startswith(f"batch{index:02d}")]
            assert numbers == sorted(numbers)

    async def test_a_sessions_order_holds_under_many_workers(self, store: Store) -> None:
        await store.submit(
            [new_run(f"s{index:02d}", session="chat", max_concurrent=2, priority=index % 7) for index in range(40)]
        )
        hands = [await Hand(store, f"w{index}").register() for index in range(6)]

        for _ in range(40):
            claims = await asyncio.gather(*(hand.claim(1) for hand in hands))
            assert sum(map(len, claims)) <= 2
            await asyncio.gather(*(hand.succeed(*runs) for hand, runs in zip(hands, claims, strict=True)))

        assert (await store.depths()).runs == {"succeeded": 40}
        logs = {run.id: await store.events(run.id, limit=1) for run in await all_runs(store)}
        starts = [log[0].at for log in logs.values()]
        assert starts == sorted(starts)

    async def test_everything_at_once_leaves_the_counts_right(self, store: Store, clock: FakeClock) -> None:
        await store.declare_lanes([Lane("main", limit=5, per_user=2)])
        hands = [await Hand(store, f"w{index}").register() for index in range(5)]

        async def submit(turn: int) -> None:
            await store.submit([new_run(user=f"u{turn % 3}", session=f"s{turn % 4}", delay=turn % 2) for _ in range(3)])

        async def work(hand: Hand, turn: int) -> None:
            claimed = await hand.claim(2)
            endings: list[Callable[..., Awaitable[object]]] = [hand.succeed, hand.fail, hand.release]
            await endings[turn % 3](*claimed)

        for turn in range(12):
            works = [work(hand, turn + index) for index, hand in enumerate(hands)]
            renewals = [asyncio.to_thread(hand.renew) for hand in hands]
            await asyncio.gather(
                submit(turn), *works, *renewals, store.declare_lanes([Lane("main", limit=5, per_user=2)])
            )
            await clock.advance(1)
            await check_invariants(store, logs=False)

        runs = await all_runs(store)
        assert len(runs) == 36
        assert not any(run.state is RunState.RUNNING for run in runs)

    async def test_of_many_answers_at_once_one_wins(self, store: Store) -> None:
        hand = await asking(store)

        replies = await asyncio.gather(
            *(store.change_run(f"call {index}", "a", Answer(str(index))) for index in range(20)), return_exceptions=True
        )

        [won] = [index for index, reply in enumerate(replies) if not isinstance(reply, NotWaiting)]
        assert (await store.recall("a")).memos == [answer_memo(str(won))]
        assert [run.memos for run in await hand.claim(5)] == [1]

    async def test_a_caller_that_comes_to_wait_while_the_called_run_ends_is_not_forgotten(self, store: Store) -> None:
        caller, other = await Hand(store).register(), await Hand(store, "other", tasks=["other"]).register()
        await store.submit(new_runs(20, "r"))
        for parent in await caller.claim(20):
            child = child_of(parent, task="other")
            await caller.wait(parent, "ok", child)
            await store.change_run(f"answer {parent.id}", parent.id, Answer("1"))
            [again], [called] = await caller.claim(1), await other.claim(1)

            await asyncio.gather(caller.wait(again, child), other.succeed(called))

            assert (await store.get(parent.id)).state is RunState.PENDING
            await caller.succeed(*await caller.claim(1))

        assert (await store.depths()).runs == {"succeeded": 40}
