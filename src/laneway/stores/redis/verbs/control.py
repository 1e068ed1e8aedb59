"""Changing runs and sessions from outside: the verbs of `ControlStore`, and `SessionStore.stop`."""

from __future__ import annotations

from typing import Any

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.records.run import Run, RunFilter
from laneway.ports.control import Answer, Cancel, Pause, Resume, RunChange, Swept
from laneway.ports.sessions import Extent
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec.decode import run_of
from laneway.stores.redis.verbs.script_caller import ScriptCaller


class ControlVerbs:
    """Cancels, pauses, resumes and answers runs, and stops sessions."""

    def __init__(self, scripts: ScriptCaller) -> None:
        self._scripts = scripts

    async def change_run(self, call: str, run_id: str, change: RunChange) -> Run:
        """Make this change; return the run as it is then."""
        return run_of(await self._scripts.call(*_script_of(call, run_id, change), about=run_id))

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that fit, page by page: a page is atomic, and the whole call can be repeated."""
        changed, last, cursor = 0, None, after
        while changed < limit and cursor is not False:
            more, newest, cursor = await self._scripts.call(
                "control/cancel_where", call, encode.wanted(wanted), cursor, until, limit - changed
            )
            changed, last = changed + more, newest or last
        return Swept(changed, last if changed == limit and limit > 0 else None)

    async def stop(self, call: str, name: str, extent: Extent) -> Stopped:
        """Stop a session's runs; return those that were cancelled and those that were dropped."""
        is_all, abandon = extent is not Extent.OLDEST, extent is Extent.ABANDON
        cancelled, dropped = await self._scripts.call("control/stop", call, name, is_all, abandon)
        return Stopped(tuple(cancelled), tuple(dropped))


def _script_of(call: str, run_id: str, change: RunChange) -> tuple[Any, ...]:
    """Return the script that makes this change, and its arguments."""
    match change:
        case Cancel(abandon):
            return "control/cancel", call, run_id, abandon
        case Pause():
            return "control/pause", call, run_id
        case Resume():
            return "control/resume", call, run_id
        case Answer(text, name):
            return "control/answer", call, run_id, text, name
