"""A stage for every system test; when one fails, its processes' last words are shown."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.harness.fork_server import close_nursery
from tests.system.harness.stage import Stage, stage_in

if sys.platform != "linux":
    # They freeze, kill and watch processes through /proc and prctl.
    collect_ignore_glob = ["*"]

URLS = {"redis": "redis_url", "postgres": "postgres_place"}  # the fixtures by which other stores than a file are had


@pytest.fixture(scope="session")
def bred() -> Iterator[None]:
    """Processes are forked from one that has imported laneway, until there is none any more."""
    yield
    close_nursery()


@pytest.fixture
def stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, bred: None
) -> Iterator[Stage]:
    kind = getattr(request, "param", "sqlite")
    url = None if kind == "sqlite" else request.getfixturevalue(URLS[kind])
    failed_before = request.session.testsfailed
    with stage_in(tmp_path) as stage:
        # The test's own process meets the others where they look for each other's sockets.
        monkeypatch.setattr(tempfile, "tempdir", str(stage.sockets))
        stage.url = url or stage.url
        yield stage
        if request.session.testsfailed > failed_before:
            stage.show()
