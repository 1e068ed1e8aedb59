"""Examining a store from outside: nothing is changed, and it need not be open."""

from __future__ import annotations

from laneway.errors import NotAStore
from laneway.ports.upkeep import Examination
from laneway.stores.redis.client.errors import refuse_layout
from laneway.stores.redis.client.server_info import ServerInfo, persistence, read_server_info, warnings
from laneway.stores.redis.codec.keys import LAYOUT
from laneway.stores.redis.verbs.findings import look
from laneway.stores.redis.verbs.runs import Reading
from laneway.stores.redis.verbs.script_caller import Calling
from laneway.stores.redis.verbs.snapshot import Picture


class Examining(Reading, Calling):
    """Tells how the store and its server fare."""

    async def examine(self, *, deep: bool = True) -> Examination:
        """Tell how the store fares; see `UpkeepStore`.

        What one namespace takes of a server's memory is not known: the size is that of all it holds.
        """
        layout, newest_at, set_back = await self._call("upkeep/examine")
        self._refuse_other(layout)
        facts = await read_server_info(self._link)
        return Examination(
            engine=f"{facts.product} {facts.version}".strip(),
            layout=layout,
            newest_layout=LAYOUT,
            kept=persistence(facts),
            warnings=warnings(facts),
            sizes=_sizes(facts),
            findings=look(Picture(await self._call("upkeep/check"))) if deep and layout == LAYOUT else None,
            runs=await self._states(),
            workers=await self.workers(),
            newest_at=newest_at or None,
            set_back=set_back,
        )

    def _refuse_other(self, layout: int | bool) -> None:
        where = f"{self._address.shown}, namespace {self._address.namespace}"
        if layout is False:
            raise NotAStore(f"{where}: there is no store; whatever opens it first makes one")
        refuse_layout(layout, where)


def _sizes(facts: ServerInfo) -> dict[str, int]:
    known = {"memory": facts.used_memory, "limit": facts.maxmemory}
    return {what: size for what, size in known.items() if size}
