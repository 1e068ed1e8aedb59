"""The verbs that steer runs, sessions and what operators set."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.lifecycle.arrivals import Stopped
from laneway.core.queue.circuits import key_of
from laneway.core.records.policy import Lane, Rule
from laneway.core.records.run import Run, RunFilter
from laneway.ports.control import Swept
from laneway.ports.gates import Held
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec.decode import run_of
from laneway.stores.redis.verbs.base import Calling


class Steering(Calling):
    """Cancels, pauses, answers, and sets limits; each verb is one script."""

    async def cancel(self, call: str, run_id: str, *, abandon: bool = False) -> Run:
        """Cancel the run; see `ControlStore`."""
        return run_of(await self._call("cancel", call, run_id, abandon, about=run_id))

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that fit, in pages: a page is atomic, and all of it can be repeated; see `ControlStore`."""
        changed, last, seen = 0, None, after
        while changed < limit and seen is not False:
            more, newest, seen = await self._call(
                "cancel_where", call, encode.wanted(wanted), seen, until, limit - changed
            )
            changed, last = changed + more, newest or last
        return Swept(changed, last if changed == limit and limit > 0 else None)

    async def pause(self, call: str, run_id: str) -> Run:
        """Pause the run; see `ControlStore`."""
        return run_of(await self._call("pause", call, run_id, about=run_id))

    async def resume(self, call: str, run_id: str) -> Run:
        """Resume the run; see `ControlStore`."""
        return run_of(await self._call("resume", call, run_id, about=run_id))

    async def answer(self, call: str, run_id: str, answer: str, *, name: str | None = None) -> Run:
        """Answer a question; see `MemoStore`."""
        return run_of(await self._call("answer", call, run_id, answer, name, about=run_id))

    async def stop(self, call: str, name: str) -> Stopped:
        """Cancel the session's oldest active run; see `SessionStore`."""
        return _stopped(*await self._call("stop", call, name, False, False))

    async def stop_all(self, call: str, name: str, *, abandon: bool = False) -> Stopped:
        """Cancel and drop all of the session; see `SessionStore`."""
        return _stopped(*await self._call("stop", call, name, True, abandon))

    async def declare_lanes(self, lanes: Sequence[Lane]) -> None:
        """Take note of what is declared of lanes; see `LaneStore`."""
        await self._list(await self._call("declare_lanes", *([lane.name, encode.lane(lane)] for lane in lanes)))

    async def set_lane(self, lane: Lane) -> None:
        """Set a lane; see `LaneStore`."""
        await self._list(await self._call("set_lane", lane.name, encode.lane(lane)))

    async def unset_lane(self, name: str) -> None:
        """Let what is declared of a lane hold again; see `LaneStore`."""
        await self._list(await self._call("set_lane", name))

    async def _list(self, lanes: Sequence[str]) -> None:
        """List the runs of lanes that have just come to drop the oldest; whoever sets lanes next does what is left."""
        for lane in lanes:
            after: int | bool = 0
            while after is not False:
                after = await self._call("list_lane", lane, after)

    async def set_cap(self, user: str, lane: str, cap: int | None) -> None:
        """Set a user's cap; see `UserStore`."""
        await self._call("set_cap", user, lane, cap)

    async def set_session(self, name: str, rule: Rule, *, throttled: bool | None = None) -> None:
        """Set what is given of a session's rule; see `SessionStore`."""
        await self._call("set_session", name, encode.rule(rule), throttled)

    async def hold(self, what: Held, name: str, *, held: bool) -> None:
        """Pause or resume a lane, user, session or task; see `GateStore`."""
        await self._call("hold", what.value, name, held)

    async def disable(self, task: str, *, disabled: bool) -> None:
        """Refuse a task's new runs, or not; see `GateStore`."""
        await self._call("disable", task, disabled)

    async def close_breaker(self, task: str, user: str | None = None) -> None:
        """Close a circuit; see `GateStore`."""
        await self._call("close_breaker", key_of(task, user))


def _stopped(cancelled: Sequence[str], dropped: Sequence[str]) -> Stopped:
    return Stopped(tuple(cancelled), tuple(dropped))
