"""The Redis store's verbs of moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from laneway.core.records.policy import DEFAULT_LANES
from laneway.core.transfer.move_state import Moving, in_words
from laneway.core.transfer.pieces import FIRST, Mark, Page, Piece
from laneway.errors import StoreUnavailable
from laneway.ports.moving import Arrive, Freeze, Moved, OpenUp, Reopen, Shut, Transition
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec.decode import part_of, standing_of
from laneway.stores.redis.codec.encode_pieces import packed_piece
from laneway.stores.redis.codec.keys import LAYOUT
from laneway.stores.redis.verbs.move_pack import Packing

_AT_ONCE = 100  # pieces that one script takes in: some milliseconds, then others have the server again


class Moves(Packing):
    """Goes through moves; see `MovingStore`."""

    async def moving(self) -> Moving | None:
        """Return how the store stands; see `MovingStore`."""
        return standing_of(await self._call("moves/part"))

    async def move(self, transition: Transition) -> Moved:
        """Go on with a move; see `MovingStore`."""
        match transition:
            case Shut(move, place):
                standing = part_of(await self._call("moves/shut", move, place))
                return Moved(standing.move == move, standing)
            case Freeze(move):
                return await self._freeze(move)
            case Reopen(move):
                return Moved(await self._reopen(move))
            case Arrive(move, place):
                standing = await self._arrive(move, place)
                return Moved(standing.move == move, standing)
            case OpenUp(move):
                return await self._open_up(move)

    async def _freeze(self, move: str) -> Moved:
        leases = await self._call("moves/freeze", move)
        if leases is False:
            raise StoreUnavailable(f"this store is not the source of move {move} (any more)")
        return Moved(not leases, leases=int(leases))

    async def _reopen(self, move: str) -> bool:
        answer = await self._call("moves/reopen", move)
        if answer == "empty":
            await self._clear()
            await self._call("upkeep/open", LAYOUT, lanes_packed(), True)
            answer = await self._call("moves/reopen", f"{move} (given up)", True)
        return bool(answer == "open")

    async def _arrive(self, move: str, place: str) -> Moving:
        found = await self._call("moves/arrive", move, place)
        # Crash here: who comes again finds that it is still being emptied, and goes on with that.
        if found[4]:
            await self._clear()
        return part_of(found)

    async def _open_up(self, move: str) -> Moved:
        if not await self._call("moves/open_up", move):
            raise StoreUnavailable(f"this store is not the target of move {move} (any more)")
        return Moved(done=True)

    async def holds(self) -> list[str]:
        """Return what there is; see `MovingStore`."""
        return in_words(*await self._call("moves/holds"))

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces; see `MovingStore`."""
        return await self._page(after, limit)

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Take in pieces; see `MovingStore`."""
        text = False if mark is None else msgspec.json.encode(mark).decode()
        packed = [packed_piece(piece) for piece in pieces]
        for first in range(0, len(packed) or 1, _AT_ONCE):
            last = first + _AT_ONCE >= len(packed)
            if not await self._call("moves/unpack", move, text if last else False, packed[first : first + _AT_ONCE]):
                raise StoreUnavailable(f"this store is not the target of move {move} (any more)")

    async def _clear(self) -> None:
        cursor = "0"
        while True:
            cursor = await self._call("moves/clear", cursor)
            if cursor == "0":
                return


def lanes_packed() -> list[list[Any]]:
    """Return the default lanes, as scripts take them."""
    return [[lane.name, encode.lane(lane)] for lane in DEFAULT_LANES]
