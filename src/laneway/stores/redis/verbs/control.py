"""The verbs that steer runs, sessions and what operators set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.queue.circuits import key_of
from laneway.core.records.policy import Lane
from laneway.core.records.run import Run, RunFilter
from laneway.ports.control import Answer, Cancel, Pause, Resume, RunChange, Swept
from laneway.ports.sessions import Extent
from laneway.ports.settings import (
    BreakerClosed,
    Hold,
    LaneSetting,
    LaneUnset,
    SessionSetting,
    Setting,
    TaskDisabled,
    UserCap,
)
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec.decode import run_of
from laneway.stores.redis.verbs.script_caller import Calling


class Steering(Calling):
    """Cancels, pauses, answers, and sets limits; each verb is one script."""

    async def change_run(self, call: str, run_id: str, change: RunChange) -> Run:
        """Cancel, pause, resume or answer the run; see `ControlStore`."""
        return run_of(await self._call(*_change(call, run_id, change), about=run_id))

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that fit, in pages: a page is atomic, and all of it can be repeated; see `ControlStore`."""
        changed, last, seen = 0, None, after
        while changed < limit and seen is not False:
            more, newest, seen = await self._call(
                "control/cancel_where", call, encode.wanted(wanted), seen, until, limit - changed
            )
            changed, last = changed + more, newest or last
        return Swept(changed, last if changed == limit and limit > 0 else None)

    async def stop(self, call: str, name: str, extent: Extent) -> Stopped:
        """Stop what goes on in the session; see `SessionStore`."""
        wide, abandon = extent is not Extent.OLDEST, extent is Extent.ABANDON
        cancelled, dropped = await self._call("control/stop", call, name, wide, abandon)
        return Stopped(tuple(cancelled), tuple(dropped))

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        """Take note of what is declared of lanes; see `LaneStore`."""
        # Of two with one name only the last counts: the first must not let anything go on.
        last = {lane.name: lane for lane in lanes}
        await self._list(
            await self._call("settings/declare_lanes", *([name, encode.lane(lane)] for name, lane in last.items()))
        )

    async def set(self, setting: Setting) -> None:
        """Set what an operator sets; see `SettingStore`."""
        match setting:
            case LaneSetting(lane):
                await self._list(await self._call("settings/set_lane", lane.name, encode.lane(lane)))
            case LaneUnset(name):
                await self._list(await self._call("settings/set_lane", name))
            case UserCap(user, lane_name, cap):
                await self._call("settings/set_cap", user, lane_name, cap)
            case SessionSetting(name, rule, throttled):
                await self._call("settings/set_session", name, encode.rule(rule), throttled)
            case Hold(what, name, held):
                await self._call("settings/hold", what.value, name, held)
            case TaskDisabled(task, disabled):
                await self._call("settings/disable", task, disabled)
            case BreakerClosed(task, of_user):
                await self._call("settings/close_breaker", key_of(task, of_user))
            case _:
                assert_never(setting)

    async def _list(self, lanes: Sequence[str]) -> None:
        """List the runs of lanes that have just come to drop the oldest; whoever sets lanes next does what is left."""
        for lane in lanes:
            after: int | bool = 0
            while after is not False:
                after = await self._call("settings/index_lane", lane, after)


def _change(call: str, run_id: str, change: RunChange) -> tuple[Any, ...]:
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
