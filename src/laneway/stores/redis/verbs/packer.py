"""Packing all that a store has, in pages of pieces (`core.transfer.pieces`)."""

from __future__ import annotations

import msgspec

from laneway.core.jobs.record import FIRES_KEPT
from laneway.core.transfer.pieces import JobIn, Mark, Page, Piece, SessionIn, page_of
from laneway.ports.jobs import JobFilter
from laneway.stores.redis.codec.decode_counts import pairs, session_book
from laneway.stores.redis.codec.decode_pieces import key_in, place_in, run_in, seats_in, settings_in, turns_in
from laneway.stores.redis.verbs.jobs import JobVerbs
from laneway.stores.redis.verbs.script_caller import ScriptCaller

Found = tuple[list[Piece], str | None]  # pieces, and the cursor if there may be more


class Packer:
    """Packs a store part by part; the parts and their order are those of `core.transfer.pieces`."""

    def __init__(self, scripts: ScriptCaller, jobs: JobVerbs) -> None:
        self._scripts, self._jobs = scripts, jobs
        self._parts = {
            "settings": self._pack_settings,
            "turns": self._pack_turns,
            "seats": self._pack_seats,
            "sessions": self._pack_sessions,
            "jobs": self._pack_jobs,
            "keys": self._pack_keys,
            "runs": self._pack_runs,
            "places": self._pack_places,
        }

    async def page(self, after: Mark, limit: int) -> Page:
        """Return the next page behind a mark."""
        part, last = after
        return page_of(part, *await self._parts[part](last, limit))

    async def _pack_settings(self, _: str, __: int) -> Found:
        return list(settings_in(await self._scripts.call("moves/pack_settings"))), None

    async def _pack_turns(self, last: str, _: int) -> Found:
        lane, cursor = await self._next_lane(last)
        if lane is None:
            return [], cursor
        lanes = await self._scripts.call("moves/pack_hash", "lanes")
        return turns_in(lane, lanes, await self._scripts.call("moves/pack_hash", f"seats:{lane}")), cursor

    async def _pack_seats(self, last: str, _: int) -> Found:
        lane, cursor = await self._next_lane(last)
        if lane is None:
            return [], cursor
        return seats_in(lane, await self._scripts.call("moves/pack_hash", f"seats:{lane}")), cursor

    async def _next_lane(self, last: str) -> tuple[str | None, str | None]:
        """Return the next lane by name, and the same as a cursor if others follow it."""
        names = sorted(
            name.decode() for name in await self._scripts.client.command("HKEYS", self._scripts.key("lanes"))
        )
        others = [name for name in names if name > last]
        return (others[0] if others else None), (others[0] if len(others) > 1 else None)

    async def _pack_sessions(self, _: str, __: int) -> Found:
        found = pairs(await self._scripts.call("moves/pack_hash", "sessions"))
        return [SessionIn.of(name, session_book(packed)) for name, packed in found], None

    async def _pack_jobs(self, last: str, limit: int) -> Found:
        after = msgspec.json.decode(last, type=tuple[str, str]) if last else ("", "")
        jobs = await self._jobs.jobs(JobFilter(), limit=limit, after=after)
        found: list[Piece] = [
            JobIn(job=job, fires=tuple(reversed(await self._jobs.fires(job.id, limit=FIRES_KEPT)))) for job in jobs
        ]
        more = len(jobs) >= limit and jobs
        return found, msgspec.json.encode((jobs[-1].spec.name, jobs[-1].id)).decode() if more else None

    async def _pack_keys(self, last: str, limit: int) -> Found:
        keys, cursor = await self._scripts.call("moves/pack_keys", int(last or 0), limit)
        return [key_in(field, entry) for field, entry in keys], None if cursor is False else str(cursor)

    async def _pack_runs(self, last: str, limit: int) -> Found:
        runs, cursor = await self._scripts.call("moves/pack_runs", int(last or 0), limit)
        return [run_in(facts) for facts in runs], None if cursor is False else str(cursor)

    async def _pack_places(self, last: str, limit: int) -> Found:
        places, cursor = await self._scripts.call("moves/pack_places", int(last or 0), limit)
        return [place_in(packed) for packed in places], None if cursor is False else str(cursor)
