"""What all parts of the contract share: the fixtures, and what is checked after every test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from laneway.core.records.policy import Lane
from laneway.core.records.run import Claimed
from laneway.core.records.states import RunState
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand
from tests.support.invariants import check_drains, check_invariants

WIDE = 5000  # a limit that is not met


class Part:
    """One subject of the contract; the test file of a store gives the fixture `store`."""

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def clock(self) -> FakeClock:
        """The clock to give to the store."""
        return FakeClock()

    @pytest_asyncio.fixture(autouse=True)
    async def nothing_is_wrong_or_stranded(self, store: Store, clock: FakeClock) -> AsyncIterator[None]:
        """After each test: the invariants hold, and everything can be brought to its end."""
        yield
        # A log only grows until it is drained: what would be wrong with one here still is when the drain is checked.
        seen = await check_invariants(store, logs=False)
        await check_drains(store, clock, seen)


def ids(runs: list[Claimed]) -> list[str]:
    """Return the ids of claimed runs."""
    return [run.id for run in runs]


async def widen(store: Store, lane: str = "main") -> None:
    """Give the lane a limit that no test meets."""
    await store.declare_lanes([Lane(lane, limit=WIDE)])


async def start_order(hand: Hand, most: int = 100) -> list[str]:
    """Execute up to `most` runs one after the other and return their ids."""
    order: list[str] = []
    claimed = await hand.claim(1)
    while claimed:
        order += ids(claimed)
        claimed = (await hand.succeed(*claimed, room=int(len(order) < most))).claimed
    return order


async def states(store: Store, *run_ids: str) -> list[RunState]:
    """Return the states of these runs."""
    return [(await store.get(run_id)).state for run_id in run_ids]


async def counts(store: Store, lane: str = "main") -> dict[str, int]:
    """Return what became of the lane's submissions and runs that were not simply accepted."""
    [state] = [state for state in await store.lanes() if state.lane.name == lane]
    return state.counts


async def reason(store: Store, run_id: str) -> str | None:
    """Return why the run ended as it did."""
    return (await store.get(run_id)).reason


async def kinds(store: Store, run_id: str) -> list[str]:
    """Return the kinds of the run's events."""
    return [event.kind for event in await store.events(run_id)]
