"""Examining a store and its server: changes nothing, and the store need not be open."""

from __future__ import annotations

from laneway.core.queue.audit import Finding
from laneway.errors import NotAStore
from laneway.ports.upkeep import Examination
from laneway.stores.redis.client.server_info import ServerInfo, persistence, read_server_info, warnings
from laneway.stores.redis.codec.decode_counts import pairs
from laneway.stores.redis.codec.keys import LAYOUT, refuse_layout
from laneway.stores.redis.verbs.findings import findings
from laneway.stores.redis.verbs.overviews import OverviewVerbs
from laneway.stores.redis.verbs.script_caller import ScriptCaller
from laneway.stores.redis.verbs.snapshot import Snapshot


class Examiner:
    """Reports how a store and its server fare."""

    def __init__(self, scripts: ScriptCaller, overviews: OverviewVerbs) -> None:
        self._scripts, self._overviews = scripts, overviews

    async def examine(self, *, deep: bool = True) -> Examination:
        """Return how the store fares.

        What one namespace takes of a server's memory is not known: the sizes are those of the whole server.
        """
        layout, newest_at, set_back = await self._scripts.call("upkeep/examine")
        self._refuse_other(layout)
        server = await read_server_info(self._scripts.client)
        return Examination(
            engine=f"{server.product} {server.version}".strip(),
            layout=layout,
            newest_layout=LAYOUT,
            kept=persistence(server),
            warnings=warnings(server),
            sizes=_sizes(server),
            findings=await self._findings() if deep and layout == LAYOUT else None,
            runs=await self._states(),
            workers=await self._overviews.workers(),
            newest_at=newest_at or None,
            set_back=set_back,
        )

    async def _findings(self) -> list[Finding]:
        return findings(Snapshot(await self._scripts.call("upkeep/check")))

    async def _states(self) -> dict[str, int]:
        """Return how many runs there are in each state that has any."""
        states = await self._scripts.client.command("HGETALL", self._scripts.key("states"))
        return {state.decode(): int(count) for state, count in pairs(states)}

    def _refuse_other(self, layout: int | bool) -> None:
        where = f"{self._scripts.address.shown}, namespace {self._scripts.address.namespace}"
        if layout is False:
            raise NotAStore(f"{where}: there is no store; whatever opens it first makes one")
        refuse_layout(layout, where)


def _sizes(server: ServerInfo) -> dict[str, int]:
    known = {"memory": server.used_memory, "limit": server.maxmemory}
    return {what: size for what, size in known.items() if size}
