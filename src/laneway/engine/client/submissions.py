"""Makes checked submissions from what a caller writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeGuard

import msgspec

from laneway.core.common.checks import checked_name
from laneway.core.common.instants import duration, micros
from laneway.core.records.policy import PLAIN, PRIORITIES, Mode, SessionPolicy
from laneway.core.records.run import NewRun, RunLinks, UniformBatch
from laneway.engine.common.ids import new_run_id
from laneway.engine.handlers.context import carried
from laneway.engine.handlers.replay import Bounds, height
from laneway.engine.handlers.task import Registry, Task
from laneway.errors import BadSetting

OPTIONS = (
    *("user", "session", "priority", "delay", "at", "lane", "session_policy", "key"),
    *("then", "on_failure", "trace"),
)
FOLLOWING = (
    "session",
    "priority",
    "delay",
    "at",
    "lane",
    "then",
    "on_failure",
)  # options of a follow-up; it inherits the rest
_TYING = frozenset({"then", "on_failure", "trace"})
TRACE_LIMIT = 4 * 1024  # bytes of JSON
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
    then: Any = None
    on_failure: Any = None
    trace: Mapping[str, str] | None = None


def parts_of(item: Any) -> tuple[Any, Mapping[str, Any], Mapping[str, Any]]:
    """Return the task, the arguments and the options of an item of `submit_many`."""
    if type(item) is tuple and len(item) == 2:
        return (*item, _NO_OPTIONS)
    if isinstance(item, Submission):
        options = {name: value for name in OPTIONS if (value := getattr(item, name)) is not None}
        return item.task, item.args, options
    raise BadSetting(f"submit_many takes Submission objects or (task, arguments) pairs, not {item!r}")


def _are_uniform(items: Sequence[Any]) -> TypeGuard[Sequence[tuple[Any, dict[str, Any]]]]:
    """Tell whether all items are pairs of the same task and a dict."""
    return all(
        type(item) is tuple and len(item) == 2 and item[0] is items[0][0] and type(item[1]) is dict for item in items
    )


class SubmissionChecker:
    """Makes submissions from what callers of one scheduler write; `loads` tells whether a session is throttled."""

    def __init__(self, registry: Registry, loads: Callable[[str], bool | None], bounds: Bounds) -> None:
        self._registry, self._loads, self._bounds = registry, loads, bounds
        self._limit = bounds.args

    def one(self, task: Any, args: Mapping[str, Any], options: Mapping[str, Any]) -> NewRun:
        """Return a submission. Raises UnknownTask, BadArguments or BadSetting."""
        new = checked(self._registry.known(task), args, options, new_run_id(), self._limit)
        return self._finished(new, options) if options or carried.get() else new

    def child(self, task: Any, args: Mapping[str, Any], options: Mapping[str, Any]) -> NewRun:
        """Return a follow-up or a called run, without id and owner, which come later. Raises the errors of `one`."""
        for option in options:
            if option not in FOLLOWING:
                raise BadSetting(
                    f"a follow-up cannot have {option!r}: it has its parent's user and trace; "
                    f"it can have {', '.join(FOLLOWING)}"
                )
        new = self._tied(checked(self._registry.known(task), args, options, "", self._limit), options)
        if options.get("session", "") is None:
            return msgspec.structs.replace(new, ties=msgspec.structs.replace(new.ties or RunLinks(), session=""))
        return new

    def many(self, items: Iterable[Any]) -> Sequence[NewRun]:
        """Return the submissions of `submit_many`. All are checked before the first is returned."""
        given = list(items)
        if given and not carried.get() and _are_uniform(given):
            task = self._registry.known(given[0][0])
            texts = task.parameters.pack_all([args for _, args in given], self._limit)
            return UniformBatch(task.name, task.policy.lane, new_run_id.many(len(texts)), texts)
        return [self.one(*parts_of(item)) for item in given]

    def _tied(self, new: NewRun, options: Mapping[str, Any]) -> NewRun:
        """Return a submission with its follow-ups and trace."""
        if not carried.get() and _TYING.isdisjoint(options):
            return new  # as most are
        trace = _trace(carried.get() if options.get("trace") is None else options["trace"])
        then, on_failure = (self._follow_ups(options.get(name), name) for name in ("then", "on_failure"))
        if not (trace or then or on_failure):
            return new
        new = msgspec.structs.replace(new, ties=RunLinks(trace=trace, then=then, on_failure=on_failure))
        if height(new) > self._bounds.depth:
            raise BadSetting(
                f"then and on_failure go at most {self._bounds.depth} generations deep (setting max_depth)"
            )
        return new

    def _follow_ups(self, given: Any, option: str) -> tuple[NewRun, ...]:
        if given is None:
            return ()
        items = given if isinstance(given, list) else [given]
        if len(items) > self._bounds.children:
            raise BadSetting(f"{option} has {len(items)} runs; at most {self._bounds.children} (setting max_children)")
        return tuple(self._follow_up(item, option) for item in items)

    def _follow_up(self, item: Any, option: str) -> NewRun:
        if isinstance(item, (Task, str)):
            item = (item, {})
        if not isinstance(item, Submission) and not (type(item) is tuple and len(item) == 2):
            raise BadSetting(f"{option} takes a task, a (task, arguments) pair, a Submission, or a list, not {item!r}")
        task, args, options = parts_of(item)
        given = {name: value for name, value in options.items() if value not in (0, None)}
        return self.child(task, args, given)

    def _finished(self, new: NewRun, options: Mapping[str, Any]) -> NewRun:
        new = self._tied(new, options)
        # For a message of the future, the load at its due time is not known yet.
        return new if new.session is None or new.later else self._weighed(new, new.session)

    def _weighed(self, new: NewRun, session: str) -> NewRun:
        """Return a message with the verdict of its session's load."""
        verdict = self._loads(session)
        if verdict is None:
            return new
        arrival = msgspec.structs.replace(new.arrival or PLAIN, throttled=verdict)
        return msgspec.structs.replace(new, arrival=arrival)


def checked(
    task: Task[..., Any], args: Mapping[str, Any], options: Mapping[str, Any], new_id: str, limit: int
) -> NewRun:
    """Return a submission. Raises BadArguments or BadSetting for unknown, wrong or too large values."""
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


def _trace(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(part, str) for item in given.items() for part in item):
        raise BadSetting(f"trace is {given!r}; it must be a dict of texts by name")
    trace = dict(given)
    try:
        size = len(msgspec.json.encode(trace))
    except UnicodeEncodeError as error:
        raise BadSetting(f"trace cannot be written: {error}") from error
    if size > TRACE_LIMIT:
        raise BadSetting(f"trace takes {size} bytes as JSON; at most {TRACE_LIMIT} are allowed")
    return trace
