"""The chapters of the demo. Each submits something, follows it live, and checks facts in the store."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

from laneway.cli.demo.context import DemoContext, Followed, Stopwatch
from laneway.cli.demo.job_chapter import fire
from laneway.cli.demo.ledger import inversions
from laneway.cli.demo.sandbox import COMMAND, CONCURRENCY
from laneway.cli.demo.screen import Row
from laneway.cli.shell.formats import spoken
from laneway.core.records.policy import MAIN
from laneway.core.records.run import Run
from laneway.engine.client.submissions import Submission

T = TypeVar("T")
FLOOD = 200
FEW = 3
MESSAGES = 8  # no more than a session queues
USERS = ("ann", "ben", "cat")
BACKOFF = (0.5, 1.0)  # the delays of the tour's `fetch`, in seconds
RUNNING_AGAIN_WITHIN = 15.0  # seconds


async def accept(demo: DemoContext) -> None:
    """Ann submits very many runs, ben a few, cat one; ben and cat need not wait until ann's have ended."""
    watch = Stopwatch()
    flood = await demo.submit_many(_embeds(demo, "ann", FLOOD))
    text = f"{FLOOD} runs of ann were stored in {spoken(watch())}, each with a receipt"
    demo.fact("accept", text, holds=len(set(flood)) == FLOOD)
    rows = [Row("ann embed", "running", 0.0), Row("ben embed"), Row("cat embed")]
    async with demo.screen.rows(rows), _meanwhile(_count(demo, rows[0])) as counted:
        await _until(lambda: (rows[0].fraction or 0) > 0.05)
        *few, single = await demo.submit_many([*_embeds(demo, "ben", FEW), *_embeds(demo, "cat", 1)])
        _, ended = await asyncio.gather(_end(demo, few[-1], rows[1]), _end(demo, single, rows[2]))
        await counted
    _tell_fairness(demo, ended, await demo.app.runs(user="ann", task="embed", limit=FLOOD))


def _tell_fairness(demo: DemoContext, single: Run, flood: Sequence[Run]) -> None:
    starts = [run.started_at for run in flood if run.started_at is not None]
    waiting = sum(start > single.accepted_at for start in starts)
    first = sum(single.accepted_at < start < _started(single) for start in starts)
    took = spoken(_started(single) - single.accepted_at)
    text = f"cat's one run found {waiting} of ann's waiting and started {took} later; {first} of them went first"
    demo.fact("turns", text, holds=first <= CONCURRENCY < waiting)


async def run(demo: DemoContext) -> None:
    """Reports of all three users run at once, with progress."""
    followed = await _reports(demo, 5, 5.0 * demo.pace)
    async with demo.screen.rows([one.row for one in followed]):
        await asyncio.gather(*map(demo.follow, followed))
    events = sum(len(one.events) for one in followed)
    lag = statistics.median(lag for one in followed for lag in one.lags)
    text = f"{events} events of {len(followed)} runs were followed live, half of them seen within {spoken(lag)}"
    demo.fact("events", text, holds=all(one.is_complete for one in followed))


async def retry(demo: DemoContext) -> None:
    """A handler fails twice, is retried after its backoff, and succeeds."""
    followed = Followed(await demo.submit("fetch", {"page": "front page"}, user="cat"), Row("cat fetch"))
    async with demo.screen.rows([followed.row]):
        await demo.follow(followed)
    ended = await demo.app.get(followed.run_id)
    waits = [_seconds(*pair) for pair in zip(followed.times("retrying"), followed.times("started")[1:], strict=False)]
    patient = len(waits) == len(BACKOFF) and all(wait >= least for wait, least in zip(waits, BACKOFF, strict=True))
    shown = " and ".join(f"{wait:.2f} s" for wait in waits)
    text = f"fetch failed twice, waited {shown}, and {ended.state.value} at attempt {ended.attempt}"
    demo.fact("retry", text, holds=patient and ended.state == "succeeded", run_id=ended.id)


async def order(demo: DemoContext) -> None:
    """The messages of a session are answered one after another, though the worker could run all at once."""
    args = [{"message": f"message {n}", "seconds": 0.3 * demo.pace} for n in range(1, MESSAGES + 1)]
    ids = await demo.submit_many([Submission("reply", each, user="ben", session="chat-7") for each in args])
    followed = [Followed(run_id, Row(f"ben message {n}")) for n, run_id in enumerate(ids, 1)]
    async with demo.screen.rows([one.row for one in followed]):
        await asyncio.gather(*map(demo.follow, followed))
    wrong = inversions([await demo.app.get(run_id) for run_id in ids])
    text = f"{len(ids)} messages of one session ran in order, one at a time: {wrong} inversions"
    demo.fact("order", text, holds=wrong == 0)


async def ask(demo: DemoContext) -> None:
    """A run keeps a step, asks, waits without a slot, and goes on with the answer of another process."""
    followed = Followed(await demo.submit("publish", {"title": "lanes"}, user="ann"), Row("ann publish"))
    async with demo.screen.rows([followed.row]), _meanwhile(demo.follow(followed)) as ended:
        await _until(lambda: followed.count("question") + followed.count("done") > 0)
        waiting, lane = await demo.app.get(followed.run_id), await demo.app.lanes.get(MAIN)
        await demo.pause(1.5)
        await demo.app.answer(followed.run_id, "yes")
        await ended
    run = await demo.app.get(followed.run_id)
    _tell_answer(demo, followed, run, idle=waiting.state == "waiting" and lane.active == 0)


def _tell_answer(demo: DemoContext, followed: Followed, ended: Run, *, idle: bool) -> None:
    waits = [_seconds(*pair) for pair in zip(followed.times("question"), followed.times("answered"), strict=False)]
    drafts, starts = followed.count("log"), followed.count("started")
    text = f"publish asked, waited {spoken(sum(waits))} with no slot taken, was answered and {ended.state.value}"
    text += f"; in {starts} starts its step was taken {drafts} time{'s' * (drafts != 1)}"
    holds = idle and len(waits) == 1 and (starts, drafts) == (2, 1) and ended.result == "published: all about lanes"
    demo.fact("ask", text, holds=holds, run_id=ended.id)


async def kill(demo: DemoContext) -> None:
    """The worker is killed while it executes runs; another one takes them over."""
    # Long enough that all are still running when the slowest has made progress.
    followed = await _reports(demo, 8, max(3.0, 5.0 * demo.pace))
    all_ended = asyncio.gather(*map(demo.follow, followed))
    async with demo.screen.rows([one.row for one in followed]), _meanwhile(all_ended) as ended:
        await _until(lambda: all((one.row.fraction or 0) >= 0.3 for one in followed))
        since_kill = Stopwatch()
        await demo.worker.kill()
        demo.screen.command(f"kill -9 {demo.worker.pid}", "without warning: it could give nothing back")
        for one in followed:
            one.row.state, one.row.text = "failed", "its worker is gone"
        await demo.pause(1.5)
        since_start = Stopwatch()
        demo.worker, took = await demo.sandbox.start_worker()
        demo.screen.command(COMMAND, f"pid {demo.worker.pid}, ready after {spoken(took)}")
        await _until(lambda: all(one.count("started") == 2 or one.count("done") for one in followed))
        again = since_start(), since_kill()
        await ended
    _tell_kill(demo, followed, *again)


def _tell_kill(demo: DemoContext, followed: Sequence[Followed], again: float, after_all: float) -> None:
    caught = sum(one.count("lapsed") for one in followed)
    resumed = sum(one.count("started") - 1 for one in followed)
    finished = sum(one.count("result") for one in followed)
    text = (
        f"{caught} runs were in the middle; {resumed} were running again {spoken(again)} after the next worker's start"
    )
    text += f", {spoken(after_all)} after the kill"
    demo.fact("kill", text, holds=0 < caught == resumed and again < RUNNING_AGAIN_WITHIN)
    demo.fact("finish", f"{finished} of {len(followed)} finished", holds=finished == len(followed))


CHAPTERS: Sequence[tuple[str, str, Callable[[DemoContext], Awaitable[None]]]] = (
    ("accept", "three users, and one of them floods", accept),
    ("run", "progress, live from the event log", run),
    ("retry", "a handler that fails twice", retry),
    ("order", "one session, one message after another", order),
    ("ask", "a run that asks, and waits for the answer", ask),
    ("fire", "a job, disabled after a few fires", fire),
    ("kill -9", "the worker dies in the middle", kill),
)


def _embeds(demo: DemoContext, user: str, number: int) -> list[Submission]:
    longest = max(0.1, 0.35 * demo.pace)
    args = [{"page": n, "seconds": longest * (0.5 + n % 5 / 10)} for n in range(number)]
    return [Submission("embed", each, user=user) for each in args]


async def _reports(demo: DemoContext, number: int, longest: float) -> list[Followed]:
    users = list(itertools.islice(itertools.cycle(USERS), number))
    args = [{"topic": f"topic {n}", "seconds": longest * (0.75 + n * 2 % 5 / 16)} for n in range(number)]
    items = [Submission("report", each, user=user) for each, user in zip(args, users, strict=True)]
    ids = await demo.submit_many(items)
    return [Followed(run_id, Row(f"{user} report", fraction=0.0)) for run_id, user in zip(ids, users, strict=True)]


async def _count(demo: DemoContext, row: Row) -> None:
    """Update the row until all of the many runs have succeeded."""
    store = await demo.app.open()
    done = 0
    while done < FLOOD:
        await asyncio.sleep(0.05)
        # This counts the few runs of the others, too: it is only for the row, not for a fact.
        done = (await store.depths()).runs.get("succeeded", 0)
        row.fraction, row.text = min(1.0, done / FLOOD), f"{min(done, FLOOD)} of {FLOOD}"
    row.state = "succeeded"


async def _end(demo: DemoContext, run_id: str, row: Row) -> Run:
    ended = await demo.app.wait(run_id)
    row.state, row.text = ended.state.value, f"started after {spoken(_started(ended) - ended.accepted_at)}"
    return ended


@contextlib.asynccontextmanager
async def _meanwhile(work: Awaitable[T]) -> AsyncIterator[asyncio.Future[T]]:
    """Run the work during the block; cancel it at the end of the block."""
    future = asyncio.ensure_future(work)
    try:
        yield future
    finally:
        future.cancel()


async def _until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110  # it waits for values on the screen
        await asyncio.sleep(0.02)


def _started(run: Run) -> datetime:
    assert run.started_at is not None
    return run.started_at


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()
