"""`Scheduler(store=...)`: a store that somebody else made, and closes."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway import Scheduler
from laneway.errors import BadSetting
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock
from tests.support.watched_store import WatchedStore


async def test_schedulers_share_a_store_that_is_given_to_both() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    submitter, worker = Scheduler(store=store, clock=clock), Scheduler(store=store, clock=clock)
    for app in submitter, worker:
        app.task(name="double")(lambda n: 2 * n)

    receipt = await submitter.submit("double", {"n": 21})
    await worker.drain()

    assert await submitter.result(receipt) == 42


async def test_every_part_of_the_scheduler_uses_the_store_that_is_given(watched: WatchedStore) -> None:
    app = Scheduler(store=watched)
    app.task(name="work")(lambda: None)

    receipt = await app.submit("work")
    await app.lanes.list()
    await app.cancel(receipt)

    assert [watched.calls[verb] for verb in ("submit", "lanes", "change_run")] == [1, 1, 1]


async def test_a_store_that_is_given_is_opened_but_not_closed(watched: WatchedStore) -> None:
    async with Scheduler(store=watched) as app:
        await app.lanes.list()

    assert watched.calls["open"] == 1
    assert watched.calls["close"] == 0


async def test_an_address_in_the_environment_does_not_matter_then(
    watched: WatchedStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LANEWAY_STORE", f"sqlite:///{tmp_path / 'laneway.db'}")

    app = Scheduler(store=watched)

    assert await app.open() is watched


def test_a_store_and_an_address_are_refused_together(watched: WatchedStore) -> None:
    with pytest.raises(BadSetting, match=r"give the address of a store or store=, not both"):
        Scheduler("memory://", store=watched)
