"""The verbs of moves between stores."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laneway.core.records.policy import DEFAULT_LANES
from laneway.core.transfer.move_state import MovePhase, Moving, in_words
from laneway.core.transfer.pieces import FIRST, Mark, Page, Piece
from laneway.errors import StoreUnavailable
from laneway.ports.moves import Arrive, Freeze, Moved, OpenUp, Reopen, Shut, Transition
from laneway.stores.memory.transfer import pack, unpack
from laneway.stores.memory.verbs.base import MemoryVerbs


class MoveVerbs(MemoryVerbs):
    """Goes through moves; see `MovingStore`."""

    async def moving(self) -> Moving | None:
        """Return the store's part in a move; see `MovingStore`."""
        with self._lock:
            return self._state.moving

    async def move(self, transition: Transition) -> Moved:
        """Go on with a move; see `MovingStore`."""
        with self._lock:
            match transition:
                case Shut(move, place):
                    return self._shut(move, place)
                case Freeze(move):
                    return self._freeze(move)
                case Reopen(move):
                    return self._reopen(move)
                case Arrive(move, place):
                    return self._arrive(move, place)
                case OpenUp(move):
                    return self._open_up(move)

    async def holds(self) -> list[str]:
        """Return what a move would destroy; see `MovingStore`."""
        with self._lock:
            state = self._state
            lanes = {name for name, book in state.lanes.items() if book.paused} | set(state.ruled_lanes)
            named = (state.caps, state.paused_users, state.paused_tasks, state.paused_sessions, state.disabled_tasks)
            settings = sum(map(len, named)) + len(state.ruled_sessions) + len(lanes)
            live = sum(not worker.left for worker in state.workers.values())
            jobs, circuits = len(state.jobs.everything()), len(state.circuits.keys)
            return in_words(len(state.records), jobs, len(state.keys), settings, circuits, live)

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces; see `MovingStore`."""
        with self._lock:
            return pack.page(self._state, after)

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Take in pieces; see `MovingStore`."""
        with self._lock:
            found = self._state.moving
            if found is None or found.move != move or found.phase is not MovePhase.ARRIVING:
                raise StoreUnavailable(f"this store is not the target of move {move} (any more)")
            unpack.unpack(self._state, pieces)
            if mark is not None:
                self._state.moving = msgspec.structs.replace(found, mark=mark)

    def _shut(self, move: str, place: str) -> Moved:
        found = self._state.moving
        if found is None or found.phase is MovePhase.ARRIVED:
            found = self._state.moving = Moving(phase=MovePhase.SHUT, move=move, place=place)
            self._wake_all()
        return Moved(found.move == move, found)

    def _freeze(self, move: str) -> Moved:
        found = self._state.moving
        if found is None or found.move != move or not found.leaves:
            raise StoreUnavailable(f"this store is not the source of move {move} (any more)")
        leases = sum(1 for _ in self._state.leased())
        if not leases:
            self._state.moving = msgspec.structs.replace(found, phase=MovePhase.FROZEN)
        return Moved(not leases, leases=leases)

    def _reopen(self, move: str) -> Moved:
        found = self._state.moving
        if found is None or found.move != move or found.phase is MovePhase.ARRIVED:
            return Moved(done=False)
        if found.phase is MovePhase.ARRIVING:
            self._state.clear()
            self._state.put_lanes(DEFAULT_LANES)
        self._state.moving = None
        self._wake_all()
        return Moved(done=True)

    def _arrive(self, move: str, place: str) -> Moved:
        found = self._state.moving
        if found is None or (found.move != move and found.phase is not MovePhase.SHUT):
            self._state.clear()
            found = self._state.moving = Moving(phase=MovePhase.ARRIVING, move=move, place=place)
        return Moved(found.move == move, found)

    def _open_up(self, move: str) -> Moved:
        found = self._state.moving
        if found is None or found.move != move:
            raise StoreUnavailable(f"this store is not the target of move {move} (any more)")
        self._state.moving = msgspec.structs.replace(found, phase=MovePhase.ARRIVED)
        return Moved(done=True)

    def _wake_all(self) -> None:
        for worker in self._state.workers.values():
            worker.wake()
