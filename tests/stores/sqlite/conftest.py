"""A disk whose syncs are counted."""

from __future__ import annotations

import pytest

from laneway.stores.sqlite import log_sync
from tests.stores.sqlite.slow_disk import real_sync


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that were synced."""
    found: list[int] = []

    def sync(descriptor: int) -> None:
        found.append(descriptor)
        real_sync(descriptor)

    monkeypatch.setattr(log_sync, "sync_file", sync)
    return found
