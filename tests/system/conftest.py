"""A stage for every system test; when one fails, the end of its processes' stderr is shown."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.harness.fork_server import close_fork_server
from tests.system.harness.stage import Stage, stage_in

if sys.platform != "linux":
    # They freeze, kill and watch processes through /proc and prctl.
    collect_ignore_glob = ["*"]

URLS = {
    "redis": "redis_url",
    "postgres": "postgres_place",
}  # the fixtures that give the URLs of other stores than a file


@pytest.fixture(scope="session")
def forking() -> Iterator[None]:
    """End the server that forks processes after the last test."""
    yield
    close_fork_server()


@pytest.fixture
def stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, forking: None
) -> Iterator[Stage]:
    kind = getattr(request, "param", "sqlite")
    url = None if kind == "sqlite" else request.getfixturevalue(URLS[kind])
    failed_before = request.session.testsfailed
    with stage_in(tmp_path) as stage:
        # The test's own process looks for sockets where the others do.
        monkeypatch.setattr(tempfile, "tempdir", str(stage.sockets))
        stage.url = url or stage.url
        yield stage
        if request.session.testsfailed > failed_before:
            stage.show()
