"""What code declares about lanes, and what operators set: the verbs of `SettingStore`, and `declare_lanes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from laneway.core.queue.circuits import key_of
from laneway.core.records.policy import Lane
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
from laneway.stores.redis.verbs.script_caller import ScriptCaller


class SettingVerbs:
    """Sets limits, caps, rules, and what is paused or disabled."""

    def __init__(self, scripts: ScriptCaller) -> None:
        self._scripts = scripts

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        """Set what code declares about lanes."""
        # Of two with one name only the last counts: the first must not let any run start.
        last = {lane.name: lane for lane in lanes}
        packed = ([name, encode.lane(lane)] for name, lane in last.items())
        await self._index(await self._scripts.call("settings/declare_lanes", *packed))

    async def set(self, setting: Setting) -> None:
        """Set what an operator sets."""
        call = self._scripts.call
        match setting:
            case LaneSetting(lane):
                await self._index(await call("settings/set_lane", lane.name, encode.lane(lane)))
            case LaneUnset(name):
                await self._index(await call("settings/set_lane", name))
            case UserCap(user, lane_name, cap):
                await call("settings/set_cap", user, lane_name, cap)
            case SessionSetting(name, rule, throttled):
                await call("settings/set_session", name, encode.rule(rule), throttled)
            case Hold(what, name, held):
                await call("settings/hold", what.value, name, held)
            case TaskDisabled(task, disabled):
                await call("settings/disable", task, disabled)
            case BreakerClosed(task, of_user):
                await call("settings/close_breaker", key_of(task, of_user))
            case _:
                assert_never(setting)

    async def _index(self, lanes: Sequence[str]) -> None:
        """Index the runs of lanes whose policy has become drop_old.

        Crash here: scripts return lanes that are not indexed yet, so the next change of a lane goes on with them.
        """
        for lane in lanes:
            after: int | bool = 0
            while after is not False:
                after = await self._scripts.call("settings/index_lane", lane, after)
