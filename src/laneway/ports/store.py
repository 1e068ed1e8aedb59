"""The whole store."""

from __future__ import annotations

from typing import Protocol

from laneway.ports.control import ControlStore
from laneway.ports.events import EventStore
from laneway.ports.gates import GateStore
from laneway.ports.jobs import JobStore
from laneway.ports.lanes import LaneStore
from laneway.ports.moves import MovingStore
from laneway.ports.runs import RunStore
from laneway.ports.sessions import SessionStore
from laneway.ports.settings import SettingStore
from laneway.ports.upkeep import UpkeepStore
from laneway.ports.users import UserStore
from laneway.ports.workers import WorkerStore


class Store(
    RunStore,
    ControlStore,
    LaneStore,
    UserStore,
    SessionStore,
    GateStore,
    SettingStore,
    EventStore,
    WorkerStore,
    JobStore,
    UpkeepStore,
    MovingStore,
    Protocol,
):
    """Everything the engine asks of a store."""

    async def open(self) -> None:
        """Connect, create or migrate what is needed. Calling it again is fine.

        Raises StoreTooNew, NotAStore or StoreUnavailable and leaves everything as it was.
        """
        ...

    async def close(self) -> None:
        """Let go of connections, threads and files. Nothing accepted is lost; calling it again is fine."""
        ...
