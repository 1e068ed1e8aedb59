"""Submitting: callers of one tick share a call to the store; who comes alone does not wait; nobody disturbs another."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import pytest

from laneway import Receipt, Scheduler, SessionPolicy, Submission
from laneway.core.queue.claim import MOST_MOVES
from laneway.engine.client.submit_batcher import BATCH
from laneway.engine.handlers.context import carried
from laneway.errors import BadArguments, BadSetting, UnknownTask
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock
from tests.support.waits import soon, turns
from tests.support.watched_store import WatchedStore


@pytest.fixture
def lossy(lossy: Scheduler) -> Scheduler:
    @lossy.task
    def work(n: int = 0) -> int:
        return n

    return lossy


async def test_a_hundred_callers_of_one_tick_make_one_call(lossy: Scheduler, watched: WatchedStore) -> None:
    receipts = await asyncio.gather(*(lossy.submit("work", {"n": n}) for n in range(100)))

    assert watched.batches == [100]
    assert [(await lossy.get(receipt)).args["n"] for receipt in receipts] == list(range(100))


async def test_acceptance_follows_the_order_of_the_calls(lossy: Scheduler) -> None:
    receipts = await asyncio.gather(*(lossy.submit("work", {"n": n}) for n in range(20)))

    numbers = [(await lossy.get(receipt)).number for receipt in receipts]
    assert numbers == sorted(numbers)


async def test_very_many_callers_make_calls_of_a_bounded_size(lossy: Scheduler, watched: WatchedStore) -> None:
    await asyncio.gather(*(lossy.submit("work") for _ in range(BATCH + 1)))

    assert sorted(watched.batches) == [1, BATCH]


async def test_submit_many_makes_calls_of_a_bounded_size(lossy: Scheduler, watched: WatchedStore) -> None:
    receipts = await lossy.submit_many([("work", {"n": n}) for n in range(2 * BATCH + 5)])

    assert watched.batches == [BATCH, BATCH, 5]
    assert len({receipt.run_id for receipt in receipts}) == 2 * BATCH + 5


async def test_who_comes_alone_waits_for_no_timer(lossy: Scheduler, watched: WatchedStore, clock: FakeClock) -> None:
    call = asyncio.create_task(lossy.submit("work"))
    await turns(5)

    assert call.done()
    assert watched.batches == [1]
    assert clock.sleepers == 0


async def test_callers_that_come_while_a_call_is_under_way_do_not_wait_for_it(
    lossy: Scheduler, watched: WatchedStore
) -> None:
    reached = watched.hold_back("submit")
    first = asyncio.create_task(lossy.submit("work"))
    await soon(reached.wait())

    second = asyncio.create_task(lossy.submit("work"))
    await turns()
    under_way = watched.calls["submit"]
    watched.let_go("submit")
    await soon(asyncio.gather(first, second))

    assert under_way == 2


async def test_a_cancelled_caller_does_not_disturb_the_others(lossy: Scheduler, watched: WatchedStore) -> None:
    reached = watched.hold_back("submit")
    calls = [asyncio.create_task(lossy.submit("work", {"n": n})) for n in range(3)]
    await soon(reached.wait())

    calls[1].cancel()
    watched.let_go("submit")
    answers = await soon(asyncio.gather(*calls, return_exceptions=True))

    assert isinstance(answers[1], asyncio.CancelledError)
    assert isinstance(answers[0], Receipt)
    assert isinstance(answers[2], Receipt)
    assert [(await lossy.get(answer)).args["n"] for answer in (answers[0], answers[2])] == [0, 2]


async def test_a_caller_that_is_cancelled_before_the_call_disturbs_nobody(
    lossy: Scheduler, watched: WatchedStore
) -> None:
    calls = [asyncio.create_task(lossy.submit("work", {"n": n})) for n in range(3)]
    await asyncio.sleep(0)

    calls[1].cancel()
    answers = await soon(asyncio.gather(*calls, return_exceptions=True))

    assert [type(answer) for answer in answers] == [Receipt, asyncio.CancelledError, Receipt]
    assert watched.calls["submit"] == 1


async def test_a_wrong_submission_does_not_reach_the_batch_of_the_others(
    lossy: Scheduler, watched: WatchedStore
) -> None:
    answers = await asyncio.gather(
        lossy.submit("work", {"n": 1}),
        lossy.submit("work", {"n": "x"}),
        lossy.submit("work", {"n": 3}),
        return_exceptions=True,
    )

    assert watched.batches == [2]
    assert [type(answer) for answer in answers] == [Receipt, BadArguments, Receipt]
    assert str(answers[1]) == "work, argument 'n': expected int, got str"


async def test_callers_that_come_first_open_the_store_together(url: str, clock: FakeClock) -> None:
    app = Scheduler(url, clock=clock)
    app.task(name="work")(lambda n: n)

    receipts = await soon(asyncio.gather(*(app.submit("work", {"n": n}) for n in range(50))))

    assert [(await app.get(receipt)).args["n"] for receipt in receipts] == list(range(50))
    await app.aclose()


async def test_a_plain_handler_can_submit_with_a_loop_of_its_own(app: Scheduler) -> None:
    @app.task
    def parent(n: int) -> str:
        return asyncio.run(app.submit("child", {"n": n})).run_id

    @app.task
    async def child(n: int) -> int:
        return n

    receipts = [await parent.submit(n=n) for n in range(10)]
    await soon(app.drain())

    children = [await app.result(receipt) for receipt in receipts]
    assert [(await app.get(run)).result for run in children] == list(range(10))


def make_app() -> tuple[Scheduler, WatchedStore]:
    clock = FakeClock()
    watched = WatchedStore(MemoryStore(clock))
    app = Scheduler(store=watched, clock=clock)
    app.task(name="work")(lambda n=0: n)
    return app, watched


def test_one_loop_after_the_other_can_use_a_scheduler() -> None:
    app, watched = make_app()

    receipts = [asyncio.run(app.submit("work", {"n": n})) for n in range(3)]
    asyncio.run(app.drain())

    assert [asyncio.run(app.result(receipt)) for receipt in receipts] == [0, 1, 2]
    assert watched.batches == [1, 1, 1]


def test_a_loop_abandoned_in_the_middle_of_a_submission_does_not_disturb_the_next() -> None:
    app, watched = make_app()
    abandoned = asyncio.new_event_loop()
    abandoned.run_until_complete(app.open())
    call = abandoned.create_task(app.submit("work", {"n": 1}))
    # One turn: the caller has asked, and the batch was not sent yet.
    abandoned.call_soon(abandoned.stop)
    abandoned.run_forever()
    sent = watched.calls["submit"]

    receipt = asyncio.run(app.submit("work", {"n": 2}))

    assert sent == 0
    assert watched.batches == [1]
    assert asyncio.run(app.get(receipt)).args == {"n": 2}
    call.cancel()
    abandoned.run_until_complete(asyncio.gather(call, return_exceptions=True))
    abandoned.close()


def test_a_loop_abandoned_in_the_middle_of_a_call_does_not_disturb_the_next() -> None:
    app, watched = make_app()
    watched.hold_back("submit")
    abandoned = asyncio.new_event_loop()
    call = abandoned.create_task(app.submit("work", {"n": 1}))
    for _ in range(10):
        abandoned.call_soon(abandoned.stop)
        abandoned.run_forever()
    watched.let_go("submit")

    receipt = asyncio.run(app.submit("work", {"n": 2}))

    assert not call.done()
    assert asyncio.run(app.get(receipt)).args == {"n": 2}
    for task in asyncio.all_tasks(abandoned):
        task.cancel()
    abandoned.run_until_complete(asyncio.gather(call, return_exceptions=True))
    abandoned.close()


async def test_two_loops_may_submit_at_the_same_time(lossy: Scheduler) -> None:
    await lossy.open()
    mine = asyncio.create_task(lossy.submit("work", {"n": 1}))
    await asyncio.sleep(0)  # it has asked, and its batch goes out with the loop's next turn
    other = threading.Thread(target=lambda: asyncio.run(lossy.submit("work", {"n": 2})))
    other.start()
    other.join(5)

    receipt = await soon(mine)

    assert (await lossy.get(receipt)).args == {"n": 1}


async def test_a_process_forked_in_the_middle_of_a_tick_submits_on_a_loop_of_its_own(lossy: Scheduler) -> None:
    await lossy.open()
    mine = asyncio.create_task(lossy.submit("work", {"n": 1}))
    await asyncio.sleep(0)  # it has asked, and its batch goes out with the loop's next turn

    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            asyncio.run(asyncio.wait_for(lossy.submit("work", {"n": 2}), 5))
            code = 0
        os._exit(code)

    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (await lossy.get(await soon(mine))).args == {"n": 1}


async def test_a_store_that_fails_in_an_unforeseen_way_is_heard_by_the_submitter(
    lossy: Scheduler, watched: WatchedStore
) -> None:
    watched.breaks("submit", RuntimeError("disk full"))

    with pytest.raises(RuntimeError, match="disk full"):
        await soon(lossy.submit("work"))


async def test_what_becomes_of_its_arguments_after_the_call_is_nothing_to_a_submission(lossy: Scheduler) -> None:
    shared: dict[str, int] = {}

    async def submit(n: int) -> Receipt:
        shared["n"] = n
        return await lossy.submit("work", shared)

    receipts = await asyncio.gather(*(submit(n) for n in range(5)))

    assert [(await lossy.get(receipt)).args for receipt in receipts] == [{"n": n} for n in range(5)]


async def test_submissions_of_one_tick_that_differ_are_all_made(lossy: Scheduler, watched: WatchedStore) -> None:
    @lossy.task
    def other(text: str, weight: float = 1.0) -> str:
        return text

    receipts = await asyncio.gather(
        lossy.submit("work", {"n": 1}, user="ann"),
        lossy.submit("work", {"n": 2}),
        lossy.submit("other", {"text": "three"}),
        lossy.submit("work", {"n": 4}),
    )

    runs = [await lossy.get(receipt) for receipt in receipts]
    assert [(run.task, run.user, run.args) for run in runs] == [
        ("work", "ann", {"n": 1}),
        ("work", None, {"n": 2}),
        ("other", None, {"text": "three"}),
        ("work", None, {"n": 4}),
    ]
    assert watched.batches == [4]


async def test_submissions_of_one_task_keep_their_order_and_arguments_when_others_come_between(
    lossy: Scheduler, watched: WatchedStore
) -> None:
    lossy.task(name="other")(lambda n=0: n)

    @lossy.task
    def third(text: str = "") -> str:
        return text

    calls = [
        lossy.submit("work", {"n": 1}),
        lossy.submit("work", {"n": 2}),
        lossy.submit("third", {"text": "three"}),
        lossy.submit("work", {"n": 4}),
        lossy.submit("other", {"n": 5}),
        lossy.submit("work", {"n": 6}),
    ]
    receipts = await asyncio.gather(*calls)

    runs = sorted([await lossy.get(receipt) for receipt in receipts], key=lambda run: run.number)
    assert [run.id for run in runs] == [receipt.run_id for receipt in receipts]
    assert [(run.task, run.args) for run in runs] == [
        ("work", {"n": 1}),
        ("work", {"n": 2}),
        ("third", {"text": "three"}),
        ("work", {"n": 4}),
        ("other", {"n": 5}),
        ("work", {"n": 6}),
    ]
    assert watched.batches == [6]


async def test_who_is_wrong_or_gone_disturbs_nobody_in_a_tick_of_several_tasks(
    lossy: Scheduler, watched: WatchedStore
) -> None:
    @lossy.task
    def other(text: str = "") -> str:
        return text

    asked = [("work", 1), ("work", "x"), ("work", 3), ("other", 4), ("other", "five"), ("work", 6)]
    await lossy.open()
    calls = [asyncio.create_task(lossy.submit(task, {"text" if task == "other" else "n": it})) for task, it in asked]
    await asyncio.sleep(0)
    calls[2].cancel()
    answers = await soon(asyncio.gather(*calls, return_exceptions=True))

    gone, wrong = asyncio.CancelledError, BadArguments
    assert [type(answer) for answer in answers] == [Receipt, wrong, gone, wrong, Receipt, Receipt]
    runs = [await lossy.get(answer) for answer in answers if isinstance(answer, Receipt)]
    assert [run.args for run in runs] == [{"n": 1}, {"text": "five"}, {"n": 6}]
    assert watched.batches == [3]


@pytest.mark.parametrize("nothing", [None, {}, []])
async def test_submissions_without_arguments_are_made_with_the_others(
    lossy: Scheduler, watched: WatchedStore, nothing: Any
) -> None:
    receipts = await asyncio.gather(lossy.submit("work", nothing), lossy.submit("work", {"n": 2}))

    assert [(await lossy.get(receipt)).args for receipt in receipts] == [{}, {"n": 2}]
    assert watched.batches == [2]


async def test_submit_many_takes_any_mapping_and_nothing_else(lossy: Scheduler) -> None:
    receipts = await lossy.submit_many([("work", {"n": 1}), ("work", MappingProxyType({"n": 2}))])
    wrong: Any = [("work", {"n": 1}), ("work", 2)]

    assert [(await lossy.get(receipt)).args for receipt in receipts] == [{"n": 1}, {"n": 2}]
    with pytest.raises(BadArguments, match="must be a dict of names and values, not int"):
        await lossy.submit_many(wrong)
    assert len(await lossy.runs()) == 2


async def test_a_task_that_is_none_is_refused_at_the_call(lossy: Scheduler) -> None:
    no_tasks: list[Any] = [["work"], {}, 7, None]
    for task in no_tasks:
        with pytest.raises(BadSetting, match="is not a task"):
            await lossy.submit(task, {"n": 1})
    with pytest.raises(UnknownTask):
        await lossy.submit("wrok", {"n": 1})


async def test_a_trace_is_its_callers_alone_though_others_share_the_tick(lossy: Scheduler) -> None:
    async def traced() -> Receipt:
        carried.set({"traceparent": "00-1"})
        return await lossy.submit("work", {"n": 1})

    with_trace, without = await asyncio.gather(traced(), lossy.submit("work", {"n": 2}))

    ties = (await lossy.get(with_trace)).ties
    assert ties is not None
    assert ties.trace == {"traceparent": "00-1"}
    assert (await lossy.get(without)).ties is None


async def test_policies_hold_while_runs_that_are_due_are_still_being_lined_up(
    lossy: Scheduler, watched: WatchedStore, clock: FakeClock
) -> None:
    await lossy.submit_many([Submission("work", delay=1) for _ in range(2 * MOST_MOVES + 1)])
    await clock.advance(2)
    watched.batches.clear()
    reject = SessionPolicy(mode="reject")

    receipts = await asyncio.gather(
        *(lossy.submit("work", session="form", session_policy=reject) for _ in range(3)), lossy.submit("work")
    )

    assert [(receipt.outcome, receipt.reason) for receipt in receipts] == [
        ("accepted", None),
        *[("refused", "session_busy")] * 2,
        ("accepted", None),
    ]
    assert watched.batches == [4, 3, 3]  # those whose session waits come again, and each call lines up some more


async def test_a_caller_that_stops_waiting_before_its_run_is_sent_leaves_none_behind(app: Scheduler) -> None:
    work = app.task(name="work")(lambda n: n)
    await app.open()
    first, second = (asyncio.ensure_future(work.submit(n=n)) for n in range(2))
    await asyncio.sleep(0)

    first.cancel()
    receipt = await soon(second)

    assert [run.id for run in await app.runs()] == [receipt.run_id]
