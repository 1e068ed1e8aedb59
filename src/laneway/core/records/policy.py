"""Policies of tasks, lanes and sessions: plain values, checked when they are made."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

import msgspec

from laneway.core.common.checks import checked_choice, checked_count, checked_name
from laneway.core.common.instants import duration
from laneway.core.records.breakers import Breaker
from laneway.core.records.retry import Retry
from laneway.errors import BadSetting

PRIORITIES = range(-100, 101)


class WhenFull(StrEnum):
    """What a lane does with a submission when `max_pending` runs of it are pending."""

    WAIT = "wait"  # the caller waits, at most `submit_timeout`
    REFUSE = "refuse"
    DROP_OLD = "drop_old"  # the oldest run that was never started is dropped


class Lane(msgspec.Struct, frozen=True):
    """A named stream of runs with its own limits, which hold across all processes.

    `limit` bounds the running runs, `per_user` those of one user, `worker_limit` those of one worker. `max_pending`
    bounds the pending runs; `when_full` says what a submission does when they are as many.

    >>> Lane("main", limit=0)
    Traceback (most recent call last):
    laneway.errors.BadSetting: Lane('main').limit is 0; it must be a whole number, 1 or more
    """

    name: str
    limit: int = 30
    per_user: int | None = None
    worker_limit: int | None = None
    max_pending: int | None = None
    when_full: str = WhenFull.WAIT

    def __post_init__(self) -> None:
        checked_name(self.name, "lane")
        checked_count(self.limit, f"Lane({self.name!r}).limit")
        for field in ("per_user", "worker_limit", "max_pending"):
            if getattr(self, field) is not None:
                checked_count(getattr(self, field), f"Lane({self.name!r}).{field}")
        when_full = checked_choice(WhenFull, self.when_full, "when_full")
        msgspec.structs.force_setattr(self, "when_full", when_full)


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


class Mode(StrEnum):
    """What a new message does while its session is busy."""

    QUEUE = "queue"
    COLLECT = "collect"
    INTERRUPT = "interrupt"
    REJECT = "reject"
    STEER = "steer"


class Drop(StrEnum):
    """Which message goes when a session's queue is full."""

    OLD = "old"
    NEW = "new"


class WhileWaiting(StrEnum):
    """What a new message of the same user does while the active run waits for an answer."""

    CANCEL = "cancel"
    QUEUE = "queue"
    ANSWER = "answer"


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of a session's policy that belong to the session, not to one message. None: not given."""

    max_concurrent: int | None = None
    cap: int | None = None
    drop: Drop | None = None
    while_waiting: WhileWaiting | None = None
    pass_on_retry: bool | None = None

    def over(self, other: Rule) -> Rule:
        """Return this rule, with the other's values where this one has none.

        >>> Rule(cap=3).over(Rule(cap=5, max_concurrent=2))
        Rule(max_concurrent=2, cap=3, drop=None, while_waiting=None, pass_on_retry=None)
        """
        if self == NO_RULE:
            return other
        mine = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(other, **mine)


NO_RULE = Rule()
DEFAULT_RULE = Rule(max_concurrent=1, cap=10, drop=Drop.OLD, while_waiting=WhileWaiting.CANCEL, pass_on_retry=False)


class SessionIntent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a message comes to its session. Durations are microseconds; `throttled` is what `load` says, if anything."""

    mode: Mode = Mode.QUEUE
    debounce: int = 0
    max_wait: int = 0
    rule: Rule = NO_RULE
    throttled: bool | None = None


PLAIN = SessionIntent()


class SessionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a session does with a new message.

    `mode` (queue, collect, interrupt, reject, steer), `debounce` and `max_wait` (seconds; five times the debounce if
    not given) hold for the message that they come with. The others belong to the session; a value that is not given
    stays as it was. `max_concurrent` runs are active at the same time (1). At most `cap` are queued (10), and `drop`
    says which goes when more come (old). `while_waiting` says what a message does while the active run waits for an
    answer (cancel). `pass_on_retry` says whether the next may pass a run that waits for its next attempt (False).

    >>> SessionPolicy(mode="interupt")
    Traceback (most recent call last):
    laneway.errors.BadSetting: unknown mode 'interupt', did you mean 'interrupt'?
    """

    mode: str = Mode.QUEUE
    max_concurrent: int | None = None
    cap: int | None = None
    drop: str | None = None
    debounce: timedelta | float = 0
    max_wait: timedelta | float | None = None
    while_waiting: str | None = None
    pass_on_retry: bool | None = None

    def __post_init__(self) -> None:
        choose = msgspec.structs.force_setattr
        choose(self, "mode", checked_choice(Mode, self.mode, "mode"))
        if self.drop is not None:
            choose(self, "drop", checked_choice(Drop, self.drop, "drop"))
        if self.while_waiting is not None:
            choose(self, "while_waiting", checked_choice(WhileWaiting, self.while_waiting, "while_waiting"))
        for field in ("max_concurrent", "cap"):
            if getattr(self, field) is not None:
                checked_count(getattr(self, field), f"SessionPolicy.{field}")
        if self.pass_on_retry is not None and not isinstance(self.pass_on_retry, bool):
            raise BadSetting(f"SessionPolicy.pass_on_retry is {self.pass_on_retry!r}; it must be True or False")
        debounce = duration(self.debounce, "debounce")
        if self.max_wait is not None and duration(self.max_wait, "max_wait") < debounce:
            raise BadSetting(f"max_wait is {self.max_wait}, less than the debounce of {self.debounce}")

    @property
    def rule(self) -> Rule:
        """The part of the policy that belongs to the session."""
        return Rule(
            max_concurrent=self.max_concurrent,
            cap=self.cap,
            drop=None if self.drop is None else Drop(self.drop),
            while_waiting=None if self.while_waiting is None else WhileWaiting(self.while_waiting),
            pass_on_retry=self.pass_on_retry,
        )

    def arrival(self) -> SessionIntent:
        """Return the policy in the form that stores take."""
        debounce = duration(self.debounce, "debounce")
        max_wait = 5 * debounce if self.max_wait is None else duration(self.max_wait, "max_wait")
        return SessionIntent(mode=Mode(self.mode), debounce=debounce, max_wait=max_wait, rule=self.rule)


class TaskPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs of one task are treated."""

    lane: str = MAIN
    timeout: int | None = None  # microseconds
    retry: Retry = Retry()
    max_crashes: int = 3
    breaker: Breaker | None = None

    @classmethod
    def of(
        cls,
        *,
        lane: str,
        timeout: timedelta | float | None,
        retry: Retry | int | None,
        max_crashes: int,
        breaker: Breaker | None = None,
    ) -> TaskPolicy:
        """Return the policy from the options of `@app.task`."""
        length = None if timeout is None else duration(timeout, "timeout")
        if length == 0:
            raise BadSetting("timeout is 0; leave it out for none, or give the seconds an attempt may take")
        if isinstance(retry, int) and not isinstance(retry, bool):
            retry = Retry(attempts=retry)
        if retry is not None and not isinstance(retry, Retry):
            raise BadSetting(f"retry is {retry!r}; it must be a Retry, a number of attempts, or None for no retry")
        if breaker is not None and not isinstance(breaker, Breaker):
            raise BadSetting(f"breaker is {breaker!r}; it must be a Breaker, such as Breaker(5, open_for=60), or None")
        return cls(
            lane=checked_name(lane, "lane"),
            timeout=length,
            retry=Retry(attempts=1) if retry is None else retry,
            max_crashes=checked_count(max_crashes, "max_crashes"),
            breaker=breaker,
        )
