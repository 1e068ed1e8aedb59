"""The verbs of moves."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.transfer.move_state import Moving
from laneway.core.transfer.pieces import FIRST, Mark, Page, Piece
from laneway.stores.tables.job_store import Jobkeeping
from laneway.stores.tables.runtime.access import R
from laneway.stores.tables.runtime.move_state import standing
from laneway.stores.tables.transfer import pack, phases, unpack


class Movekeeping(Jobkeeping[R]):
    """Goes through moves; see `MovingStore`."""

    async def moving(self) -> Moving | None:
        """Return how the store stands; see `MovingStore`."""
        return await self._read(standing)

    async def shut_for(self, move: str, place: str) -> Moving:
        """Be the source of a move; see `MovingStore`."""
        return await self._write(lambda db, after_commit: phases.shut_for(db, after_commit, move, place), gated=False)

    async def freeze(self, move: str) -> int:
        """Let nothing change any more; see `MovingStore`."""
        return await self._write(lambda db, _: phases.freeze(db, move), gated=False)

    async def reopen(self, move: str) -> bool:
        """Undo a part in a move; see `MovingStore`."""
        return await self._write(lambda db, after_commit: phases.reopen(db, after_commit, move, db.now()), gated=False)

    async def holds(self) -> list[str]:
        """Return what there is; see `MovingStore`."""
        return await self._read(phases.holds)

    async def arrive(self, move: str, place: str) -> Moving:
        """Be the target of a move; see `MovingStore`."""
        return await self._write(lambda db, _: phases.arrive(db, move, place), gated=False)

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces; see `MovingStore`."""
        return await self._read(lambda db: pack.page(db, after, limit))

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Take in pieces; see `MovingStore`."""
        await self._write(lambda db, _: unpack.unpack(db, move, pieces, mark), gated=False)

    async def open_up(self, move: str) -> None:
        """Be an ordinary store; see `MovingStore`."""
        await self._write(lambda db, _: phases.open_up(db, move), gated=False)
