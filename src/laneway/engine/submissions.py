"""What a caller wrote, made into a checked submission."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from laneway.core.instants import duration, micros
from laneway.core.policy import PLAIN, PRIORITIES, Mode, SessionPolicy, checked_name
from laneway.core.run import NewRun
from laneway.engine.ids import new_run_id
from laneway.engine.tasks import Registry, Task
from laneway.errors import BadSetting

OPTIONS = ("user", "session", "priority", "delay", "at", "lane", "session_policy", "key")
_NO_OPTIONS: Mapping[str, Any] = {}


class Submission(msgspec.Struct, frozen=True):
    """One item for `submit_many`: a task, its arguments, and the options of `submit`."""

    task: Any
    args: Mapping[str, Any] = {}
    user: str | None = None
    session: str | None = None
    priority: int = 0
    delay: timedelta | float = 0
    at: datetime | None = None
    lane: str | None = None
    session_policy: SessionPolicy | None = None
    key: str | None = None


def parts_of(item: Any) -> tuple[Any, Mapping[str, Any], Mapping[str, Any]]:
    """Return the task, the arguments and the options of an item of `submit_many`."""
    if type(item) is tuple and len(item) == 2:
        return (*item, _NO_OPTIONS)
    if isinstance(item, Submission):
        options = {name: value for name in OPTIONS if (value := getattr(item, name)) is not None}
        return item.task, item.args, options
    raise BadSetting(f"submit_many takes Submission objects or (task, arguments) pairs, not {item!r}")


class Checking:
    """Makes submissions of what callers of one scheduler write; `loads` tells whether a session is throttled."""

    def __init__(self, registry: Registry, loads: Callable[[str], bool | None], limit: int) -> None:
        self._registry, self._loads, self._limit = registry, loads, limit

    def one(self, task: Any, args: Mapping[str, Any], options: Mapping[str, Any]) -> NewRun:
        """Return a submission. Raises UnknownTask, BadArguments or BadSetting."""
        return self._weighed(checked(self._known(task), args, options, new_run_id(), self._limit))

    def many(self, items: Iterable[Any]) -> list[NewRun]:
        """Return the submissions of `submit_many`, all of them checked."""
        parts = [parts_of(item) for item in items]
        batch = list[NewRun]()
        known = same = None
        for (task, args, options), new_id in zip(parts, new_run_id.many(len(parts)), strict=True):
            if known is None or task is not same:  # most are of one task
                known, same = self._known(task), task
            batch.append(self._weighed(checked(known, args, options, new_id, self._limit)))
        return batch

    def _known(self, task: Any) -> Task[..., Any]:
        if isinstance(task, str):
            return self._registry.get(task)
        if not isinstance(task, Task):
            shown = getattr(task, "__name__", repr(task))
            raise BadSetting(f"{shown} is not a task; register the function with @app.task, or give a task's name")
        known = self._registry.get(task.name)
        if known is not task:
            raise BadSetting(f"task {task.name!r} is another scheduler's; submit it there, or by its name")
        return known

    def _weighed(self, new: NewRun) -> NewRun:
        """Return a message with what its session's load says."""
        verdict = None if new.session is None else self._loads(new.session)
        if verdict is None:
            return new
        arrival = msgspec.structs.replace(new.arrival or PLAIN, throttled=verdict)
        return msgspec.structs.replace(new, arrival=arrival)


def checked(
    task: Task[..., Any], args: Mapping[str, Any], options: Mapping[str, Any], new_id: str, limit: int
) -> NewRun:
    """Return a submission; raise BadArguments or BadSetting for what is unknown, wrong, or over `limit` bytes."""
    text = task.parameters.pack(args, limit)
    if not options:
        return NewRun(id=new_id, task=task.name, args=text, lane=task.policy.lane)
    return _with_options(task, text, options, new_id)


def _with_options(task: Task[..., Any], args: str, options: Mapping[str, Any], new_id: str) -> NewRun:
    for option in options:
        if option in SessionPolicy.__struct_fields__:
            raise BadSetting(f"{option} is part of the session's policy: session_policy=SessionPolicy({option}=...)")
        if option not in OPTIONS:
            raise BadSetting.unknown("option of submit", option, OPTIONS)
    given = {name: value for name, value in options.items() if value is not None}
    priority, policy = given.get("priority", 0), given.get("session_policy")
    if not isinstance(priority, int) or isinstance(priority, bool) or priority not in PRIORITIES:
        raise BadSetting(f"priority is {priority!r}; it must be a whole number from -100 to 100")
    if policy is not None and not isinstance(policy, SessionPolicy):
        raise BadSetting(f"session_policy is {policy!r}; it must be a SessionPolicy")
    if policy is not None and "session" not in given:
        raise BadSetting("session_policy is given without a session")
    names = {what: checked_name(given[what], what) for what in ("lane", "user", "session", "key") if what in given}
    later = bool(given.get("delay")) or "at" in given
    if policy is not None and later and (policy.mode is not Mode.QUEUE or policy.debounce):
        raise BadSetting("a message for later can only wait its turn: give delay or at without mode and debounce")
    return NewRun(
        id=new_id,
        task=task.name,
        args=args,
        lane=names.get("lane", task.policy.lane),
        user=names.get("user"),
        session=names.get("session"),
        arrival=None if policy is None else policy.arrival(),
        priority=priority,
        delay=duration(given.get("delay", 0), "delay"),
        due_at=_due_at(given),
        key=names.get("key"),
    )


def _due_at(given: Mapping[str, Any]) -> int | None:
    at = given.get("at")
    if at is None:
        return None
    if given.get("delay"):
        raise BadSetting("give delay or at, not both")
    if not isinstance(at, datetime):
        raise BadSetting(f"at is {at!r}; it must be a datetime with a time zone")
    return micros(at)
