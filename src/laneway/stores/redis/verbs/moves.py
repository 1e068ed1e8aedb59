"""The verbs of moves between stores; see `MovingStore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from laneway.core.records.policy import DEFAULT_LANES
from laneway.core.transfer.move_state import Moving, in_words
from laneway.core.transfer.pieces import FIRST, Mark, Page, Piece
from laneway.errors import StoreUnavailable
from laneway.ports.moves import Arrive, Freeze, Moved, OpenUp, Reopen, Shut, Transition
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec.decode import part_of, standing_of
from laneway.stores.redis.codec.encode_pieces import packed_piece
from laneway.stores.redis.codec.keys import LAYOUT
from laneway.stores.redis.verbs.packer import Packer
from laneway.stores.redis.verbs.script_caller import ScriptCaller

_AT_ONCE = 100  # pieces that one script writes: it blocks the server for some milliseconds


class MoveVerbs:
    """Goes through the phases of moves, and packs and unpacks the store's content."""

    def __init__(self, scripts: ScriptCaller, packer: Packer) -> None:
        self._scripts, self._packer = scripts, packer

    async def moving(self) -> Moving | None:
        """Return the store's part in a move, if it has one."""
        return standing_of(await self._scripts.call("moves/part"))

    async def move(self, transition: Transition) -> Moved:
        """Make this transition."""
        match transition:
            case Shut(move, place):
                standing = part_of(await self._scripts.call("moves/shut", move, place))
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

    async def holds(self) -> list[str]:
        """Return what the store has, in words."""
        return in_words(*await self._scripts.call("moves/holds"))

    async def pack(self, after: Mark = FIRST, *, limit: int = 500) -> Page:
        """Return the next pieces behind a mark."""
        return await self._packer.page(after, limit)

    async def unpack(self, move: str, pieces: Sequence[Piece], mark: Mark | None) -> None:
        """Write pieces of another store."""
        text = False if mark is None else msgspec.json.encode(mark).decode()
        packed = [packed_piece(piece) for piece in pieces]
        for first in range(0, len(packed) or 1, _AT_ONCE):
            is_last = first + _AT_ONCE >= len(packed)
            part = packed[first : first + _AT_ONCE]
            if not await self._scripts.call("moves/unpack", move, text if is_last else False, part):
                raise _not_the("target", move)

    async def _freeze(self, move: str) -> Moved:
        leases = await self._scripts.call("moves/freeze", move)
        if leases is False:
            raise _not_the("source", move)
        return Moved(not leases, leases=int(leases))

    async def _reopen(self, move: str) -> bool:
        reply = await self._scripts.call("moves/reopen", move)
        if reply == "empty":
            await self._clear()
            await self._scripts.call("upkeep/open", LAYOUT, default_lanes(), True)
            reply = await self._scripts.call("moves/reopen", f"{move} (given up)", True)
        return bool(reply == "open")

    async def _arrive(self, move: str, place: str) -> Moving:
        found = await self._scripts.call("moves/arrive", move, place)
        # Crash here: the next call for this move finds that the store is still being emptied, and goes on with that.
        if found[4]:
            await self._clear()
        return part_of(found)

    async def _open_up(self, move: str) -> Moved:
        if not await self._scripts.call("moves/open_up", move):
            raise _not_the("target", move)
        return Moved(done=True)

    async def _clear(self) -> None:
        cursor = "0"
        while True:
            cursor = await self._scripts.call("moves/clear", cursor)
            if cursor == "0":
                return


def default_lanes() -> list[list[Any]]:
    """Return the default lanes for scripts."""
    return [[lane.name, encode.lane(lane)] for lane in DEFAULT_LANES]


def _not_the(part: str, move: str) -> StoreUnavailable:
    return StoreUnavailable(f"this store is not the {part} of move {move} (any more)")
