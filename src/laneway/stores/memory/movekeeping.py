"""The memory store's verbs of moves."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

import msgspec

from laneway.core.moving.pieces import FIRST, Mark, Page, Piece
from laneway.core.moving.standing import Moving, Phase, in_words
from laneway.core.records.policy import DEFAULT_LANES
from laneway.errors import StoreUnavailable
from laneway.stores.memory import packing, unpacking
from laneway.stores.memory.jobkeeping import Jobkeeping


class Movekeeping(Jobkeeping, ABC):
    """Goes through moves; see `MovingStore`."""

    async def moving(self) -> Moving | None:
        """Return how the store stands; see `MovingStore`."""
        with self._lock:
            return self._kept.moving

    async def shut_for(self, move: str, place: str) -> Moving:
        """Be the source of a move; see `MovingStore`."""
        with self._lock:
            found = self._kept.moving
            if found is None or found.phase is Phase.ARRIVED:
                found = self._kept.moving = Moving(phase=Phase.SHUT, move=move, place=place)
                self._wake_all()
            return found

    async def freeze(self, move: str) -> int:
        """Let nothing change any more; see `MovingStore`."""
        with self._lock:
            found = self._kept.moving
            if found is None or found.move != move or not found.leaves:
                raise StoreUnavailable(f"this store is not the source of move {move} (any more)")
            busy = sum(1 for _ in self._kept.leased())
            if not busy:
                self._kept.moving = msgspec.structs.replace(found, phase=Phase.FROZEN)
            return busy

    async def reopen(self, move: str) -> bool:
        """Undo a part in a move; see `MovingStore`."""
        with self._lock:
            found = self._kept.moving
            if found is None or found.move != move or found.phase is Phase.ARRIVED:
                return False
            if found.phase is Phase.ARRIVING:
                self._kept.clear()
                self._kept.put_lanes(DEFAULT_LANES)
            self._kept.moving = None
            self._wake_all()
            return True

    async def holds(self) -> list[str]:
        """Return what there is; see `MovingStore`."""
        with self._lock:
            kept = self._kept
            lanes = {name for name, book in kept.lanes.items() if book.paused} | set(kept.ruled_lanes)
            named = (kept.caps, kept.paused_users, kept.paused_tasks, kept.paused_sessions, kept.disabled_tasks)
            settings = sum(map(len, named)) + len(kept.ruled_sessions) + len(lanes)
            live = sum(not worker.left for worker in kept.workers.values())
            jobs, circuits = len(kept.jobs.everything()), len(kept.circuits.keys)
            return in_words(len(kept.records), jobs, len(kept.keys), settings, circuits, live)

    async def arrive(self, move: str, place: str) -> Moving:
        """Be the target of a move; see `MovingStore`."""
        with self._lock:
            found = self._kept.moving
            if found is None or (found.move != move and found.phase is not Phase.SHUT):
                self._kept.clear()
                found = self._kept.moving = Moving(phase=Phase.ARRIVING, move=move, place=place)
            return found

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces; see `MovingStore`."""
        with self._lock:
            return packing.page(self._kept, after)

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Take in pieces; see `MovingStore`."""
        with self._lock:
            found = self._kept.moving
            if found is None or found.move != move or found.phase is not Phase.ARRIVING:
                raise StoreUnavailable(f"this store is not the target of move {move} (any more)")
            unpacking.unpack(self._kept, pieces)
            if mark is not None:
                self._kept.moving = msgspec.structs.replace(found, mark=mark)

    async def open_up(self, move: str) -> None:
        """Be an ordinary store; see `MovingStore`."""
        with self._lock:
            found = self._kept.moving
            if found is None or found.move != move:
                raise StoreUnavailable(f"this store is not the target of move {move} (any more)")
            self._kept.moving = msgspec.structs.replace(found, phase=Phase.ARRIVED)

    def _wake_all(self) -> None:
        for worker in self._kept.workers.values():
            worker.wake()
