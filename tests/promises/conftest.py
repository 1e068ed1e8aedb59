"""Each promise is shown on the public API, on every store that can show it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from laneway import Scheduler
from laneway.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def file(sqlite_file: Path) -> str:
    """The address of a store that several schedulers, and several processes, can share."""
    return f"sqlite:///{sqlite_file}"


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, file: str) -> str:
    return "memory://" if request.param == "memory" else file


@pytest_asyncio.fixture
async def app(url: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(url) as app:
        yield app
