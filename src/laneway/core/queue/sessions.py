"""Admission to a session: an ordered series of runs, at most `max_concurrent` of them active.

A run that is due *joins* its session. It is *admitted* at once if there is room and nobody is before it, else it is
held in the order of joining. An admitted run keeps its place until it ends, through retries and releases; with
`pass_on_retry` it *steps out* while it waits for its next attempt, and comes back before those that were held.

At most one admitted run has not started yet. This is why runs start in the order they joined, for every
`max_concurrent`: if two of them waited in a lane's order, priority or a cap could swap them there.

A run that is paused before it started keeps its place and counts as queued: the runs behind it wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laneway.core.records.policy import DEFAULT_RULE, NO_RULE, Drop, SessionIntent


class Window(msgspec.Struct, frozen=True, gc=False):
    """An open debounce window: the task and user whose messages it takes, the run they become, and its latest end."""

    task: str
    user: str | None
    number: int
    until: int


class SessionBook:
    """The state of one session. It is idle when nothing is active, queued or in a window; then it need not be kept.

    It is no Struct, for the reason given in `core.queue.turns`.
    """

    __slots__ = (
        "admitted",
        "alone",
        "asking",
        "back",
        "front",
        "given",
        "held",
        "joined",
        "outside",
        "paused",
        "rule",
        "ruled",
        "throttled",
        "unstarted",
        "windows",
    )

    def __init__(
        self,
        admitted: list[int] | None = None,
        unstarted: int = 0,
        held: int = 0,
        back: int = 0,
        joined: int = 0,
        front: int = 0,
    ) -> None:
        self.admitted = (
            [] if admitted is None else admitted
        )  # numbers of the runs that hold a place, in the order of admission
        self.unstarted = unstarted  # the one of them that has not started, or 0
        self.held = held
        self.back = back  # of the held, those that were started before: they come first
        self.joined = joined  # the last place that was given
        self.front = front  # the first place that was given to a run that came back
        self.outside: list[int] = []  # runs that were started and stepped out
        self.asking: list[int] = []  # of all these, those that wait for an answer
        self.windows: list[Window] = []
        self.given = NO_RULE  # set by messages
        self.ruled = NO_RULE  # set by an operator: it wins, and is kept while the session is idle
        self.rule = DEFAULT_RULE  # the rule that holds
        self.throttled = False
        self.paused = False  # by an operator
        self.alone = False  # the next run waits until none is admitted: it interrupted them

    @property
    def idle(self) -> bool:
        """Whether nothing of the session is going on."""
        return not (self.admitted or self.held or self.outside or self.windows)

    @property
    def limit(self) -> int:
        """How many runs may be admitted at once."""
        return 1 if self.throttled else self.rule.max_concurrent or 1

    @property
    def queued(self) -> int:
        """How many runs have joined and were never started."""
        return self.held - self.back + (self.unstarted > 0)

    @property
    def active(self) -> list[int]:
        """The runs that were started and have not ended: those that stepped out, then by admission."""
        return self.outside + [number for number in self.admitted if number != self.unstarted]

    @property
    def cap(self) -> int:
        """How many runs may be queued."""
        return self.rule.cap or 1

    @property
    def drops_old(self) -> bool:
        """Whether a message that finds the queue full displaces the oldest one."""
        return self.rule.drop is not Drop.NEW

    def take(self, arrival: SessionIntent) -> None:
        """Take over what a message says about the session; the rest stays."""
        if arrival.throttled is not None:
            self.throttled = arrival.throttled
        if arrival.rule != NO_RULE:
            self.given = arrival.rule.over(self.given)
            self.judge()

    def judge(self) -> None:
        """Compute the rule that holds: an operator's, else the last one of a message, else the default."""
        self.rule = self.ruled.over(self.given).over(DEFAULT_RULE)

    def admits(self) -> bool:
        """Tell whether the next run in order may be admitted now.

        >>> book = SessionBook()
        >>> book.admits(), book.admit(7), book.admits()
        (True, None, False)
        """
        if self.paused or (self.admitted and (self.alone or len(self.admitted) >= self.limit)):
            return False
        return self.back > 0 or not self.unstarted

    def place(self) -> int:
        """Count a run as held; return its place, behind all others."""
        self.held += 1
        self.joined += 1
        return self.joined

    def place_at_head(self) -> int:
        """Count a run as held; return its place, before all others that were never started."""
        self.held += 1
        return 0

    def place_in_front(self) -> int:
        """Count a run that stepped out as held; return its place, before all others."""
        self.held += 1
        self.back += 1
        self.front -= 1
        return self.front

    def admit(self, number: int) -> None:
        """Count a run as admitted and not started."""
        self.admitted.append(number)
        self.unstarted = number
        self.alone = False

    def call_in(self, number: int) -> None:
        """Count a held run that has not started as admitted."""
        self.held -= 1
        self.admitted.append(number)
        self.unstarted = number
        self.alone = False

    def call_back(self, number: int) -> None:
        """Count a held run that had stepped out as admitted again."""
        self.held -= 1
        self.back -= 1
        self.admitted.append(number)
        self.outside.remove(number)

    def step_out(self, number: int) -> None:
        """Count a run that waits for its next attempt as one without a place."""
        self.admitted.remove(number)
        self.outside.append(number)

    def leave(self, *, back: bool = False) -> None:
        """Stop counting a run as held."""
        self.held -= 1
        self.back -= back

    def end(self, number: int) -> None:
        """Count a run as ended, whether or not it holds a place."""
        if number in self.admitted:
            self.admitted.remove(number)
        elif number in self.outside:
            self.outside.remove(number)
        if number == self.unstarted:
            self.unstarted = 0
        self.stop_asking(number)

    def stop_asking(self, number: int) -> None:
        """Stop counting a run as one that waits for an answer."""
        self.asking = [other for other in self.asking if other != number]

    def before(self, number: int, held: Sequence[int], *, again: bool) -> list[int]:
        """Return the runs that this one waits for; `held` are the held runs, in order.

        `again` says that it was started before: it holds a place, or it has stepped out and will come back before those
        that were never started.

        >>> SessionBook(admitted=[1], held=2).before(3, [2, 3], again=False)
        [1, 2]
        """
        if number in self.admitted or (again and number not in self.outside):
            return []
        is_held = number in held
        ahead = list(held[: held.index(number)] if is_held else () if again else held)
        if not ahead and not is_held and self.admits():
            return []
        if len(self.admitted) >= self.limit or self.alone:
            return self.admitted + ahead
        return [self.unstarted, *ahead] if self.unstarted and not again else ahead

    def window(self, task: str, user: str | None) -> Window | None:
        """Return the window that takes messages of this task and user, if one is open."""
        return next((window for window in self.windows if (window.task, window.user) == (task, user)), None)

    def close(self, number: int) -> None:
        """Remove the window of a run that is due, or has ended."""
        self.windows = [window for window in self.windows if window.number != number]
