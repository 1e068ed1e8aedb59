"""The verbs of moves for stores that wrap another store, and a whole move without the mover."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from laneway.core.transfer.digests import Tally
from laneway.core.transfer.move_state import Moving
from laneway.core.transfer.pieces import FIRST, Mark, Page, Piece
from laneway.ports.moves import Arrive, Moved, MovingStore, OpenUp, Transition

T = TypeVar("T")


class MovesOf(ABC):
    """Passes the verbs of moves on to a wrapped store."""

    @abstractmethod
    async def _pass_on(self, verb: str, call: Callable[[MovingStore], Awaitable[T]]) -> T:
        """Make the call on a store."""

    async def moving(self) -> Moving | None:
        return await self._pass_on("moving", lambda store: store.moving())

    async def move(self, transition: Transition) -> Moved:
        return await self._pass_on("move", lambda store: store.move(transition))

    async def holds(self) -> list[str]:
        return await self._pass_on("holds", lambda store: store.holds())

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        return await self._pass_on("pack", lambda store: store.pack(after, limit=limit))

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        await self._pass_on("unpack", lambda store: store.unpack(move, pieces, mark))


async def all_pieces(store: MovingStore, limit: int = 500) -> list[Piece]:
    """Return all that a store has, packed."""
    found: list[Piece] = []
    mark: Mark | None = FIRST
    while mark is not None:
        page = await store.pack(mark, limit=limit)
        found += page.pieces
        mark = page.mark
    return found


async def bring(pieces: Sequence[Piece], store: MovingStore, move: str = "move", *, limit: int = 7) -> None:
    """Fill a store with these pieces, a few at a time, and open it."""
    await store.move(Arrive(move, "elsewhere"))
    for first in range(0, len(pieces), limit):
        await store.unpack(move, pieces[first : first + limit], None)
    await store.move(OpenUp(move))


def tally(pieces: Sequence[Piece]) -> Tally:
    """Return counts and digests of pieces."""
    tally = Tally()
    tally.add(pieces)
    return tally
