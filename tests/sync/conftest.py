"""A scheduler on each store there is, closed at the end whatever happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from laneway import Scheduler


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'laneway.db'}"


@pytest.fixture
def app(url: str) -> Iterator[Scheduler]:
    app = Scheduler(url)
    yield app
    app.sync.close()
