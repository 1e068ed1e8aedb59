"""Upkeep: pruning, trimming, checking and examining; see `UpkeepStore`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from laneway.core.lifecycle.trim import Chunk, trimmed
from laneway.core.queue.audit import Finding
from laneway.core.records.events import Stamped, chunk
from laneway.core.records.states import RunState
from laneway.errors import UnknownRun
from laneway.ports.upkeep import Old, OldDeltas, OldRuns
from laneway.stores.redis.codec.decode_counts import pairs
from laneway.stores.redis.verbs.findings import look
from laneway.stores.redis.verbs.script_caller import Calling
from laneway.stores.redis.verbs.snapshot import Picture

_AT_ONCE = 100  # runs that one script deletes: 5 milliseconds, then others have the server again
_rows = msgspec.json.Decoder(list[tuple[str, int, int, msgspec.Raw]]).decode


class Upkeep(Calling):
    """Keeps the store small."""

    async def prune(self, old: Old, *, limit: int = 500) -> int:
        """Delete what is old; see `UpkeepStore`."""
        match old:
            case OldRuns(keep):
                return await self._delete(keep, limit)
            case OldDeltas(age):
                return await self._trim(age, limit)

    async def _delete(self, keep: Mapping[RunState, int], limit: int) -> int:
        kept = [[state.value, length] for state, length in keep.items()]
        done = 0
        while True:
            asked = max(0, min(_AT_ONCE, limit - done))
            pruned: int = await self._call("upkeep/prune", kept, asked)
            done += pruned
            if pruned < _AT_ONCE or done >= limit:
                return done

    async def _trim(self, age: int, limit: int) -> int:
        done = 0
        while done < limit:
            # Race: others trim and prune, too. What they did between our looking and writing is left to them.
            found = await self._call("upkeep/untrimmed", age, min(_AT_ONCE, limit - done))
            if not found:
                break
            for number, run_id in found:
                done += await self._trim_log(number, run_id)
        return done

    async def check(self, *, repair: bool = False) -> list[Finding]:
        """Compare the counts with what they count; see `UpkeepStore`."""
        found = look(Picture(await self._call("upkeep/check")))
        if repair and found:
            # What is set right is what this script finds, in the same step.
            found = look(Picture(await self._call("upkeep/repair")))
        return found

    async def _trim_log(self, number: int, run_id: str) -> bool:
        try:
            chunks = trimmed(await self._chunks(run_id)) if run_id else []
        except UnknownRun:
            chunks = []
        flat = [part for first, rows in chunks for part in (first, chunk(rows))]
        done: bool = await self._call("upkeep/trim", number, flat)
        return done

    async def _chunks(self, run_id: str) -> list[Chunk]:
        """Return the whole log of a run, page by page."""
        found: list[Chunk] = []
        on: Any = None
        while on is not False:
            page, on, _ = await self._call("runs/log", run_id, 0, _AT_ONCE, on, about=run_id)
            found += [(first, _opened(text)) for first, text in pairs(page)]
        return found


def _opened(text: str) -> list[Stamped]:
    return [(kind, attempt, at, bytes(data).decode()) for kind, attempt, at, data in _rows(text)]
