"""Deleting what is old, and checking and repairing the store; see `UpkeepStore`."""

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
from laneway.stores.redis.verbs.findings import findings
from laneway.stores.redis.verbs.script_caller import ScriptCaller
from laneway.stores.redis.verbs.snapshot import Snapshot

_AT_ONCE = 100  # runs that one script deletes: it blocks the server for about 5 milliseconds
_rows = msgspec.json.Decoder(list[tuple[str, int, int, msgspec.Raw]]).decode


class UpkeepVerbs:
    """Keeps the store small and right."""

    def __init__(self, scripts: ScriptCaller) -> None:
        self._scripts = scripts

    async def prune(self, old: Old, *, limit: int = 500) -> int:
        """Delete what is old; return of how many runs."""
        match old:
            case OldRuns(keep):
                return await self._delete(keep, limit)
            case OldDeltas(age):
                return await self._trim(age, limit)

    async def check(self, *, repair: bool = False) -> list[Finding]:
        """Return what does not agree; with `repair`, correct it."""
        found = findings(Snapshot(await self._scripts.call("upkeep/check")))
        if repair and found:
            # The repairing script takes another snapshot, and corrects what that one shows.
            found = findings(Snapshot(await self._scripts.call("upkeep/repair")))
        return found

    async def _delete(self, keep: Mapping[RunState, int], limit: int) -> int:
        kept = [[state.value, length] for state, length in keep.items()]
        done = 0
        while True:
            wanted = max(0, min(_AT_ONCE, limit - done))
            pruned: int = await self._scripts.call("upkeep/prune", kept, wanted)
            done += pruned
            if pruned < _AT_ONCE or done >= limit:
                return done

    async def _trim(self, age: int, limit: int) -> int:
        done = 0
        while done < limit:
            # Race: other clients may trim or prune these runs between the two scripts; they count them then.
            found = await self._scripts.call("upkeep/untrimmed", age, min(_AT_ONCE, limit - done))
            if not found:
                break
            for number, run_id in found:
                done += await self._trim_log(number, run_id)
        return done

    async def _trim_log(self, number: int, run_id: str) -> bool:
        try:
            chunks = trimmed(await self._chunks(run_id)) if run_id else []
        except UnknownRun:
            chunks = []
        flat = [part for first, rows in chunks for part in (first, chunk(rows))]
        done: bool = await self._scripts.call("upkeep/trim", number, flat)
        return done

    async def _chunks(self, run_id: str) -> list[Chunk]:
        """Return the whole log of a run, read page by page."""
        found: list[Chunk] = []
        cursor: Any = None
        while cursor is not False:
            page, cursor, _ = await self._scripts.call("runs/log", run_id, 0, _AT_ONCE, cursor, about=run_id)
            found += [(first, _parsed(text)) for first, text in pairs(page)]
        return found


def _parsed(text: str) -> list[Stamped]:
    return [(kind, attempt, at, bytes(data).decode()) for kind, attempt, at, data in _rows(text)]
