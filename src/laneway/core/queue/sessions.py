"""Admission to a session: an ordered series of runs, at most `max_concurrent` of them active.

A run that is due *joins* its session. It is *admitted* at once if there is room and nobody is before it, else it is
held in the order of joining. An admitted run keeps its place until it ends, through retries and releases; with
`pass_on_retry` it *steps out* while it waits for its next attempt, and comes back before those that were held.

At most one admitted run has not started yet. That is what makes "runs start in the order they joined" true for every
`max_concurrent`: two unstarted runs of a session in a lane's order could be swapped there by priority or a cap.

A run that is paused before it was started keeps its place and counts as queued: whoever is behind it waits.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laneway.core.records.policy import DEFAULT_RULE, NO_RULE, Drop, SessionIntent


class Window(msgspec.Struct, frozen=True, gc=False):
    """An open debounce window: whose messages it takes, the run they become, and when it closes at the latest."""

    task: str
    user: str | None
    number: int
    until: int


class SessionBook:
    """What is known of one session. Idle when nothing is active, queued or in a window; then it need not be kept.

    No Struct, for the reason given in `core.queue.turns`.
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
        self.admitted = [] if admitted is None else admitted  # runs that hold a place, by admission
        self.unstarted = unstarted  # the one of them that has not started, if any
        self.held = held
        self.back = back  # of the held, those that were started before: they are the first
        self.joined = joined  # the last place given
        self.front = front  # the first place given to one that came back
        self.outside: list[int] = []  # runs that were started and stepped out
        self.asking: list[int] = []  # of all these, the ones that wait for an answer
        self.windows: list[Window] = []
        self.given = NO_RULE  # by messages
        self.ruled = NO_RULE  # by an operator: wins, and is kept when the session is idle
        self.rule = DEFAULT_RULE  # what holds
        self.throttled = False
        self.paused = False  # by an operator
        self.alone = False  # the next must wait until nothing is admitted: it interrupted them

    @property
    def idle(self) -> bool:
        """Tell whether nothing of the session is going on."""
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
        """Tell whether a message that finds the queue full displaces the oldest."""
        return self.rule.drop is not Drop.NEW

    def take(self, arrival: SessionIntent) -> None:
        """Take note of what a message says of the session; what it does not say stays."""
        if arrival.throttled is not None:
            self.throttled = arrival.throttled
        if arrival.rule != NO_RULE:
            self.given = arrival.rule.over(self.given)
            self.judge()

    def judge(self) -> None:
        """Work out what holds: what an operator set, else what a message gave last, else the default."""
        self.rule = self.ruled.over(self.given).over(DEFAULT_RULE)

    def admits(self) -> bool:
        """Tell whether the next in order may be admitted now.

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
        """Count a run that waits for its next attempt as holding no place."""
        self.admitted.remove(number)
        self.outside.append(number)

    def leave(self, *, back: bool = False) -> None:
        """Count a held run as held no more."""
        self.held -= 1
        self.back -= back

    def end(self, number: int) -> None:
        """Count a run as ended, whether it holds a place or not."""
        if number in self.admitted:
            self.admitted.remove(number)
        elif number in self.outside:
            self.outside.remove(number)
        if number == self.unstarted:
            self.unstarted = 0
        self.hear(number)

    def hear(self, number: int) -> None:
        """Count a run as waiting for an answer no more."""
        self.asking = [other for other in self.asking if other != number]

    def before(self, number: int, held: Sequence[int], *, again: bool) -> list[int]:
        """Return the runs that this one waits for; `held` are those that are held, in order.

        `again` says that it was started before: it holds a place, or has stepped out and will come back before those
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
        """Forget the window of a run that is due, or gone."""
        self.windows = [window for window in self.windows if window.number != number]
