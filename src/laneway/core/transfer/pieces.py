"""What is moved: one piece for each thing that a store keeps, in a form that is no store's own.

A store packs all it has into pieces and unpacks those of another one. Pieces hold facts, not a layout: what a store
keeps only to find things again (indexes, copies, lists by state) it makes of the facts. Counts are moved and not made
anew, so that a count that was right is right, and `doctor` finds the one that was not.

There are no leases among them: a store is packed when nobody executes anything any more. Incarnations stay behind, and
so does the heartbeat.

Parts come in a fixed order, because later ones need earlier ones: a place needs its run, a run its lane.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laneway.core.jobs.record import FireRecord, JobRecord
from laneway.core.queue.sessions import SessionBook, Window
from laneway.core.records.events import Stamped
from laneway.core.records.memos import Memo, Wait
from laneway.core.records.policy import Lane, Rule, SessionIntent
from laneway.core.records.run import Failure, Message, RunLinks
from laneway.core.records.states import RunState


class _Piece(msgspec.Struct, frozen=True, omit_defaults=True, tag=lambda name: name.removesuffix("In").lower()):
    """One thing that is moved whole. Its tag names its kind."""


class Counters(_Piece, frozen=True):
    """The newest acceptance number, and the latest time that a job was written at."""

    accepted: int
    jobs_at: int


class LaneIn(_Piece, frozen=True):
    """A lane: what holds, what is declared and what an operator set; how full it is and how far its turns have come."""

    lane: Lane
    declared: Lane | None = None
    ruled: Lane | None = None
    paused: bool = False
    active: int = 0
    pending: int = 0
    paces: tuple[tuple[int, int, int], ...] = ()  # priority, v, ready; by priority
    counts: dict[str, int] = {}


class Cap(_Piece, frozen=True):
    """What an operator set for a user in a lane."""

    user: str
    lane: str
    cap: int


class PausedIn(_Piece, frozen=True):
    """A user, session or task that is paused; a lane says so itself."""

    what: str
    name: str


class Disabled(_Piece, frozen=True):
    """A task whose new runs are refused."""

    task: str


class SessionRule(_Piece, frozen=True):
    """What an operator set of a session."""

    name: str
    rule: Rule


class CircuitIn(_Piece, frozen=True):
    """A circuit that is not closed, or counts failures."""

    key: str
    failures: int
    until: int | None = None


class TurnIn(_Piece, frozen=True):
    """A user's turn in a lane at a priority."""

    lane: str
    user: str | None
    priority: int
    last: int
    waiting: int


class SeatIn(_Piece, frozen=True):
    """How much of a lane a user has."""

    lane: str
    user: str
    active: int = 0
    parked: int = 0
    out: int = 0


class SessionIn(_Piece, frozen=True):
    """A session that is not idle, as its book has it; what operators set of it are pieces of their own."""

    name: str
    admitted: tuple[int, ...] = ()
    unstarted: int = 0
    held: int = 0
    back: int = 0
    joined: int = 0
    front: int = 0
    outside: tuple[int, ...] = ()
    asking: tuple[int, ...] = ()
    windows: tuple[Window, ...] = ()
    given: Rule = Rule()
    throttled: bool = False
    alone: bool = False

    @classmethod
    def of(cls, name: str, book: SessionBook) -> SessionIn:
        """Return the piece of a session."""
        return cls(
            name,
            *(tuple(book.admitted), book.unstarted, book.held, book.back, book.joined, book.front),
            *(tuple(book.outside), tuple(book.asking), tuple(book.windows)),
            *(book.given, book.throttled, book.alone),
        )

    @property
    def book(self) -> SessionBook:
        """Its book, without what operators set."""
        book = SessionBook(list(self.admitted), self.unstarted, self.held, self.back, self.joined, self.front)
        book.outside, book.asking, book.windows = list(self.outside), list(self.asking), list(self.windows)
        book.given, book.throttled, book.alone = self.given, self.throttled, self.alone
        book.judge()
        return book


class JobIn(_Piece, frozen=True):
    """A job, and what is on record of its fires, by number."""

    job: JobRecord
    fires: tuple[FireRecord, ...] = ()


class KeyIn(_Piece, frozen=True):
    """An idempotency key: of a run, or of one that is gone, and then it says which."""

    task: str
    user: str | None
    key: str
    digest: str
    at: int
    run_id: str = ""
    number: int = 0


class Taken(_Piece, frozen=True):
    """A message that a run took; `moved` if another run took it first."""

    message: Message
    moved: bool = False


class RunIn(_Piece, frozen=True):
    """A run that is not running, with all that belongs to it. Texts are JSON; instants are microseconds."""

    number: int
    id: str
    task: str
    args: str
    lane: str
    accepted_at: int
    due_at: int
    user: str | None = None
    session: str | None = None
    priority: int = 0
    state: RunState = RunState.PENDING
    attempt: int = 1
    fence: int = 0
    crashes: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    reason: str | None = None
    error: Failure | None = None
    result: str | None = None
    retry_of: str | None = None
    arrival: SessionIntent | None = None
    ties: RunLinks | None = None
    request: str | None = None  # of one that waits
    wait: Wait | None = None  # what it waits for, or waited for last
    call: str = ""  # the newest that changed it from outside
    checkpoint: str | None = None
    prepared: str | None = None
    log: tuple[Stamped, ...] = ()
    streamed: bool = False  # there are deltas in its log, to be trimmed
    memos: tuple[Memo, ...] = ()  # by when they were written
    taken: tuple[Taken, ...] = ()  # by kind and number
    read: int = 0  # of those in its inbox
    keys: tuple[KeyIn, ...] = ()  # that stand for it, by task, user and key


class Place(_Piece, frozen=True):
    """Where a pending run is: on which shelf, whose (a lane's, or a session's), at which rank, and how it came there.

    `gate` is what it is parked behind. A run that is paused where it is held has its place, too.
    """

    number: int
    shelf: str  # of `core.shelves.Shelf`
    rank: int
    kind: int
    owner: str | None = None
    gate: str | None = None
    paused: bool = False


Piece = (
    Counters
    | LaneIn
    | Cap
    | PausedIn
    | Disabled
    | SessionRule
    | CircuitIn
    | TurnIn
    | SeatIn
    | SessionIn
    | JobIn
    | KeyIn
    | RunIn
    | Place
)

Mark = tuple[str, str]  # a part, and the piece of it that was the last; "" before the first
PARTS = ("settings", "turns", "seats", "sessions", "jobs", "keys", "runs", "places")
FIRST: Mark = (PARTS[0], "")


class Page(msgspec.Struct, frozen=True):
    """Some pieces, and behind which mark to go on; None if these were the last."""

    pieces: Sequence[Piece]
    mark: Mark | None


def page_of(part: str, pieces: Sequence[Piece], last: str | None) -> Page:
    """Return a page of a part: `last` names its last piece if there may be more of the part.

    >>> page_of("places", [], None).mark is None, page_of("runs", [], None).mark
    (True, ('places', ''))
    """
    if last is not None:
        return Page(pieces, (part, last))
    after = PARTS.index(part) + 1
    return Page(pieces, (PARTS[after], "") if after < len(PARTS) else None)
