"""Each promise is shown on the public API, on every store that can show it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from laneway import Scheduler
from laneway.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite", "postgres"])
def file(request: pytest.FixtureRequest) -> str:
    """The address of a store that several schedulers, and several processes, can share."""
    return _address(request)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return _address(request)


def _address(request: pytest.FixtureRequest) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{request.getfixturevalue('sqlite_file')}"


@pytest_asyncio.fixture
async def app(url: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(url) as app:
        yield app
