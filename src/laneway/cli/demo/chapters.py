"""The chapters. Each does something, follows it live, and states as facts what the store then says."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

from laneway.cli.demo.job_chapter import fire
from laneway.cli.demo.ledger import inversions
from laneway.cli.demo.scene import Followed, Scene, Stopwatch
from laneway.cli.demo.screen import Row
from laneway.cli.demo.stage import COMMAND, CONCURRENCY
from laneway.cli.shell.formats import spoken
from laneway.core.records.policy import MAIN
from laneway.core.records.run import Run
from laneway.engine.client.submissions import Submission

T = TypeVar("T")
FLOOD = 200
FEW = 3
MESSAGES = 8  # no more than a session queues
USERS = ("ann", "ben", "cat")
BACKOFF = (0.5, 1.0)  # what the tour's `fetch` is told to wait, in seconds
RUNNING_AGAIN_WITHIN = 15.0  # seconds


async def accept(scene: Scene) -> None:
    """Ann floods; ben wants a few things, cat one; nobody waits for the flood to end."""
    watch = Stopwatch()
    flood = await scene.submit_many(_embeds(scene, "ann", FLOOD))
    text = f"{FLOOD} runs of ann were stored in {spoken(watch())}, each with a receipt"
    scene.fact("accept", text, holds=len(set(flood)) == FLOOD)
    rows = [Row("ann embed", "running", 0.0), Row("ben embed"), Row("cat embed")]
    async with scene.screen.rows(rows), _meanwhile(_count(scene, rows[0])) as counted:
        await _until(lambda: (rows[0].fraction or 0) > 0.05)
        *few, single = await scene.submit_many([*_embeds(scene, "ben", FEW), *_embeds(scene, "cat", 1)])
        _, ended = await asyncio.gather(_end(scene, few[-1], rows[1]), _end(scene, single, rows[2]))
        await counted
    _tell_fairness(scene, ended, await scene.app.runs(user="ann", task="embed", limit=FLOOD))


def _tell_fairness(scene: Scene, single: Run, flood: Sequence[Run]) -> None:
    starts = [run.started_at for run in flood if run.started_at is not None]
    waiting = sum(start > single.accepted_at for start in starts)
    first = sum(single.accepted_at < start < _started(single) for start in starts)
    took = spoken(_started(single) - single.accepted_at)
    text = f"cat's one run found {waiting} of ann's waiting and started {took} later; {first} of them went first"
    scene.fact("turns", text, holds=first <= CONCURRENCY < waiting)


async def run(scene: Scene) -> None:
    """Reports of all three users run side by side and say how far they are."""
    followed = await _reports(scene, 5, 5.0 * scene.pace)
    async with scene.screen.rows([one.row for one in followed]):
        await asyncio.gather(*map(scene.follow, followed))
    events = sum(len(one.events) for one in followed)
    lag = statistics.median(lag for one in followed for lag in one.lags)
    text = f"{events} events of {len(followed)} runs were followed live, half of them seen within {spoken(lag)}"
    scene.fact("events", text, holds=all(one.is_complete for one in followed))


async def retry(scene: Scene) -> None:
    """A handler fails twice, is tried again after its backoff, and succeeds."""
    followed = Followed(await scene.submit("fetch", {"page": "front page"}, user="cat"), Row("cat fetch"))
    async with scene.screen.rows([followed.row]):
        await scene.follow(followed)
    ended = await scene.app.get(followed.run_id)
    waits = [_seconds(*pair) for pair in zip(followed.times("retrying"), followed.times("started")[1:], strict=False)]
    patient = len(waits) == len(BACKOFF) and all(wait >= least for wait, least in zip(waits, BACKOFF, strict=True))
    shown = " and ".join(f"{wait:.2f} s" for wait in waits)
    text = f"fetch failed twice, waited {shown}, and {ended.state.value} at attempt {ended.attempt}"
    scene.fact("retry", text, holds=patient and ended.state == "succeeded", run_id=ended.id)


async def order(scene: Scene) -> None:
    """A session's messages are answered one after another, though the worker has room for all at once."""
    args = [{"message": f"message {n}", "seconds": 0.3 * scene.pace} for n in range(1, MESSAGES + 1)]
    ids = await scene.submit_many([Submission("reply", each, user="ben", session="chat-7") for each in args])
    followed = [Followed(run_id, Row(f"ben message {n}")) for n, run_id in enumerate(ids, 1)]
    async with scene.screen.rows([one.row for one in followed]):
        await asyncio.gather(*map(scene.follow, followed))
    wrong = inversions([await scene.app.get(run_id) for run_id in ids])
    text = f"{len(ids)} messages of one session ran in order, one at a time: {wrong} inversions"
    scene.fact("order", text, holds=wrong == 0)


async def ask(scene: Scene) -> None:
    """A run takes a step, asks, waits without a slot, and goes on from another process's answer."""
    followed = Followed(await scene.submit("publish", {"title": "lanes"}, user="ann"), Row("ann publish"))
    async with scene.screen.rows([followed.row]), _meanwhile(scene.follow(followed)) as ended:
        await _until(lambda: followed.count("question") + followed.count("done") > 0)
        waiting, lane = await scene.app.get(followed.run_id), await scene.app.lanes.get(MAIN)
        await scene.pause(1.5)
        await scene.app.answer(followed.run_id, "yes")
        await ended
    run = await scene.app.get(followed.run_id)
    _tell_answer(scene, followed, run, idle=waiting.state == "waiting" and lane.active == 0)


def _tell_answer(scene: Scene, followed: Followed, ended: Run, *, idle: bool) -> None:
    waits = [_seconds(*pair) for pair in zip(followed.times("question"), followed.times("answered"), strict=False)]
    drafts, starts = followed.count("log"), followed.count("started")
    text = f"publish asked, waited {spoken(sum(waits))} with no slot taken, was answered and {ended.state.value}"
    text += f"; in {starts} starts its step was taken {drafts} time{'s' * (drafts != 1)}"
    holds = idle and len(waits) == 1 and (starts, drafts) == (2, 1) and ended.result == "published: all about lanes"
    scene.fact("ask", text, holds=holds, run_id=ended.id)


async def kill(scene: Scene) -> None:
    """The worker is killed in the middle; another one takes over what it held."""
    # Never too short: all must still be running when the slowest is seen to be on its way.
    followed = await _reports(scene, 8, max(3.0, 5.0 * scene.pace))
    all_ended = asyncio.gather(*map(scene.follow, followed))
    async with scene.screen.rows([one.row for one in followed]), _meanwhile(all_ended) as ended:
        await _until(lambda: all((one.row.fraction or 0) >= 0.3 for one in followed))
        since_kill = Stopwatch()
        await scene.worker.kill()
        scene.screen.command(f"kill -9 {scene.worker.pid}", "no good-bye: nothing could be given back")
        for one in followed:
            one.row.state, one.row.text = "failed", "its worker is gone"
        await scene.pause(1.5)
        since_start = Stopwatch()
        scene.worker, took = await scene.stage.start_worker()
        scene.screen.command(COMMAND, f"pid {scene.worker.pid}, ready after {spoken(took)}")
        await _until(lambda: all(one.count("started") == 2 or one.count("done") for one in followed))
        again = since_start(), since_kill()
        await ended
    _tell_kill(scene, followed, *again)


def _tell_kill(scene: Scene, followed: Sequence[Followed], again: float, after_all: float) -> None:
    caught = sum(one.count("lapsed") for one in followed)
    resumed = sum(one.count("started") - 1 for one in followed)
    finished = sum(one.count("result") for one in followed)
    text = (
        f"{caught} runs were in the middle; {resumed} were running again {spoken(again)} after the next worker's start"
    )
    text += f", {spoken(after_all)} after the kill"
    scene.fact("kill", text, holds=0 < caught == resumed and again < RUNNING_AGAIN_WITHIN)
    scene.fact("finish", f"{finished} of {len(followed)} finished", holds=finished == len(followed))


CHAPTERS: Sequence[tuple[str, str, Callable[[Scene], Awaitable[None]]]] = (
    ("accept", "three users, and one of them floods", accept),
    ("run", "progress, live from the event log", run),
    ("retry", "a handler that fails twice", retry),
    ("order", "one session, one message after another", order),
    ("ask", "a run that asks, and waits for the answer", ask),
    ("fire", "a job, disabled after a few fires", fire),
    ("kill -9", "the worker dies in the middle", kill),
)


def _embeds(scene: Scene, user: str, number: int) -> list[Submission]:
    longest = max(0.1, 0.35 * scene.pace)
    args = [{"page": n, "seconds": longest * (0.5 + n % 5 / 10)} for n in range(number)]
    return [Submission("embed", each, user=user) for each in args]


async def _reports(scene: Scene, number: int, longest: float) -> list[Followed]:
    users = list(itertools.islice(itertools.cycle(USERS), number))
    args = [{"topic": f"topic {n}", "seconds": longest * (0.75 + n * 2 % 5 / 16)} for n in range(number)]
    items = [Submission("report", each, user=user) for each, user in zip(args, users, strict=True)]
    ids = await scene.submit_many(items)
    return [Followed(run_id, Row(f"{user} report", fraction=0.0)) for run_id, user in zip(ids, users, strict=True)]


async def _count(scene: Scene, row: Row) -> None:
    """Move the row until all of the flood has succeeded."""
    store = await scene.app.open()
    done = 0
    while done < FLOOD:
        await asyncio.sleep(0.05)
        # The others' few runs are in it too: close enough for a picture, and no fact is taken from it.
        done = (await store.depths()).runs.get("succeeded", 0)
        row.fraction, row.text = min(1.0, done / FLOOD), f"{min(done, FLOOD)} of {FLOOD}"
    row.state = "succeeded"


async def _end(scene: Scene, run_id: str, row: Row) -> Run:
    ended = await scene.app.wait(run_id)
    row.state, row.text = ended.state.value, f"started after {spoken(_started(ended) - ended.accepted_at)}"
    return ended


@contextlib.asynccontextmanager
async def _meanwhile(work: Awaitable[T]) -> AsyncIterator[asyncio.Future[T]]:
    """Do the work beside the block; it ends with the block at the latest."""
    future = asyncio.ensure_future(work)
    try:
        yield future
    finally:
        future.cancel()


async def _until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110  # what is awaited are figures on the screen
        await asyncio.sleep(0.02)


def _started(run: Run) -> datetime:
    assert run.started_at is not None
    return run.started_at


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()
