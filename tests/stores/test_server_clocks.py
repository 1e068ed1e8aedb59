"""On a server the server's clock counts: a process whose clock is an hour wrong does nothing sooner or later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from laneway import Scheduler
from laneway.core.records.states import RunState
from laneway.engine.common.ids import new_run_id

HOUR = 3600
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
def off(request: pytest.FixtureRequest) -> Iterator[int]:
    """Set the clock of this process only, by so many seconds."""
    off: int = request.param
    seconds, nanoseconds = time.time, time.time_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: seconds() + off)
        patch.setattr(time, "time_ns", lambda: nanoseconds() + off * 10**9)
        yield off
    # Ids never go back: they would be counted in one and the same millisecond for the next hour.
    new_run_id._forget()


@pytest.fixture(params=["redis_url", "postgres_url"], ids=["redis", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


def near(instant: datetime | None, than: datetime) -> bool:
    return instant is not None and abs(instant - than) < MINUTE


async def lived(url: str) -> tuple[Scheduler, list[str]]:
    """Let a run be executed at once, and submit others for later."""
    app = Scheduler(url)

    @app.task
    async def work() -> None: ...

    now = await app.submit(work)
    soon = await app.submit(work, delay=HOUR / 2)
    await app.drain()
    return app, [now.run_id, soon.run_id]


async def test_the_clock_of_the_server_counts(url: str, off: int) -> None:
    truth = datetime.fromtimestamp(time.time() - off, UTC)

    app, (now, soon) = await lived(url)

    ended, waiting = await app.get(now), await app.get(soon)
    assert ended.state is RunState.SUCCEEDED
    assert near(ended.accepted_at, truth)
    assert near(ended.started_at, truth)
    assert near(ended.ended_at, truth)
    assert waiting.state is RunState.PENDING  # though an hour ahead it would be due
    assert near(waiting.accepted_at, truth)
    await app.aclose()


async def test_a_file_has_no_clock_but_that_of_who_asks(tmp_path_factory: pytest.TempPathFactory, off: int) -> None:
    truth = datetime.fromtimestamp(time.time() - off, UTC)

    app, (now, _) = await lived(f"sqlite:///{tmp_path_factory.mktemp('clock') / 'laneway.db'}")

    assert near((await app.get(now)).accepted_at, truth + timedelta(seconds=off))
    await app.aclose()
