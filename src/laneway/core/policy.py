"""What a task, a lane and a session are told to do: plain, checked values."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from laneway.core.instants import duration
from laneway.core.retry import Retry
from laneway.errors import BadSetting

NAME_LIMIT = 200  # of a lane, user, session or task name, in characters
PRIORITIES = range(-100, 101)


def checked_name(name: object, what: str) -> str:
    """Return `name` if it can name a lane, user, session or task, else say what is wrong with it.

    >>> checked_name("", "session")
    Traceback (most recent call last):
    laneway.errors.BadSetting: a session needs a name: text of 1 to 200 characters, not ''
    """
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT:
        shown = repr(name) if not isinstance(name, str) or not name else f"one of {len(name)}"
        raise BadSetting(f"a {what} needs a name: text of 1 to {NAME_LIMIT} characters, not {shown}")
    if "\x00" in name or not name.isprintable():
        raise BadSetting(f"the {what} name {name!r} has characters that cannot be printed")
    return name


def checked_count(value: object, what: str) -> int:
    """Return `value` if it is a whole number of 1 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadSetting(f"{what} is {value!r}; it must be a whole number, 1 or more")
    return value


class Lane(msgspec.Struct, frozen=True):
    """A named stream of runs with its own limits, which hold across all processes.

    `limit` bounds the runs running at once, `per_user` those of one user.

    >>> Lane("main", limit=0)
    Traceback (most recent call last):
    laneway.errors.BadSetting: Lane('main').limit is 0; it must be a whole number, 1 or more
    """

    name: str
    limit: int = 30
    per_user: int | None = None

    def __post_init__(self) -> None:
        checked_name(self.name, "lane")
        checked_count(self.limit, f"Lane({self.name!r}).limit")
        if self.per_user is not None:
            checked_count(self.per_user, f"Lane({self.name!r}).per_user")


MAIN = "main"
DEFAULT_LANES = (
    Lane(MAIN, limit=30),
    Lane("subagent", limit=50),
    Lane("team", limit=100),
    Lane("cron", limit=30),
    Lane("foreground", limit=5, per_user=2),
    Lane("background", limit=3, per_user=1),
    Lane("delivery", limit=10),
)


class SessionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a session does with a new run: it waits its turn; at most `max_concurrent` are active at once."""

    max_concurrent: int = 1

    def __post_init__(self) -> None:
        checked_count(self.max_concurrent, "SessionPolicy.max_concurrent")


class TaskPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs of one task are treated."""

    lane: str = MAIN
    timeout: int | None = None  # microseconds
    retry: Retry = Retry()
    max_crashes: int = 3

    @classmethod
    def of(
        cls, *, lane: str, timeout: timedelta | float | None, retry: Retry | int | None, max_crashes: int
    ) -> TaskPolicy:
        """Return the policy for what a user wrote at `@app.task`."""
        length = None if timeout is None else duration(timeout, "timeout")
        if length == 0:
            raise BadSetting("timeout is 0; leave it out for none, or give the seconds an attempt may take")
        if isinstance(retry, int) and not isinstance(retry, bool):
            retry = Retry(attempts=retry)
        if retry is not None and not isinstance(retry, Retry):
            raise BadSetting(f"retry is {retry!r}; it must be a Retry, a number of attempts, or None for no retry")
        return cls(
            lane=checked_name(lane, "lane"),
            timeout=length,
            retry=Retry(attempts=1) if retry is None else retry,
            max_crashes=checked_count(max_crashes, "max_crashes"),
        )
