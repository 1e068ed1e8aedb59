"""The verbs of moves."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.transfer.move_state import Moving
from laneway.core.transfer.pieces import FIRST, Mark, Page, Piece
from laneway.ports.moving import Moved, Transition
from laneway.stores.tables.job_store import Jobkeeping
from laneway.stores.tables.runtime.access import R
from laneway.stores.tables.runtime.move_state import standing
from laneway.stores.tables.transfer import pack, phases, unpack


class Movekeeping(Jobkeeping[R]):
    """Goes through moves; see `MovingStore`."""

    async def moving(self) -> Moving | None:
        """Return how the store stands; see `MovingStore`."""
        return await self._read(standing)

    async def move(self, transition: Transition) -> Moved:
        """Go on with a move; see `MovingStore`."""
        return await self._write(
            lambda db, after_commit: phases.move(db, after_commit, transition, db.now()), gated=False
        )

    async def holds(self) -> list[str]:
        """Return what there is; see `MovingStore`."""
        return await self._read(phases.holds)

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces; see `MovingStore`."""
        return await self._read(lambda db: pack.page(db, after, limit))

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Take in pieces; see `MovingStore`."""
        await self._write(lambda db, _: unpack.unpack(db, move, pieces, mark), gated=False)
