"""The form in which a store's content is moved: one piece for each thing that it keeps, the same for every store.

A store packs its content into pieces, and unpacks those of another one. Pieces hold facts, not a layout. A store makes
everything that it keeps only for finding (indexes, copies, lists by state) from the facts. Counts are moved and not
computed, so a right count stays right, and `doctor` finds one that was wrong.

There are no leases among them: a store is packed when nothing is executed any more. Incarnations and the heartbeat stay
behind.

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
    """A thing that is moved whole. The tag names its kind."""


class Counters(_Piece, frozen=True):
    """The newest acceptance number, and the latest time at which a job was written."""

    accepted: int
    jobs_at: int


class LaneIn(_Piece, frozen=True):
    """A lane: its effective, declared and operator's settings, how full it is, and its virtual times."""

    lane: Lane
    declared: Lane | None = None
    ruled: Lane | None = None
    paused: bool = False
    active: int = 0
    pending: int = 0
    paces: tuple[tuple[int, int, int], ...] = ()  # priority, v, ready; by priority
    counts: dict[str, int] = {}


class Cap(_Piece, frozen=True):
    """An operator's cap for a user in a lane."""

    user: str
    lane: str
    cap: int


class PausedIn(_Piece, frozen=True):
    """A user, session or task that is paused. A paused lane says so itself."""

    what: str
    name: str


class Disabled(_Piece, frozen=True):
    """A task whose new runs are refused."""

    task: str


class SessionRule(_Piece, frozen=True):
    """An operator's rule for a session."""

    name: str
    rule: Rule


class CircuitIn(_Piece, frozen=True):
    """A circuit that is not closed, or that counts failures."""

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
    """How much of a lane a user occupies."""

    lane: str
    user: str
    active: int = 0
    parked: int = 0
    out: int = 0


class SessionIn(_Piece, frozen=True):
    """A session that is not idle, from its book. What operators set for it are pieces of their own."""

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
        """Its book, without an operator's settings."""
        book = SessionBook(list(self.admitted), self.unstarted, self.held, self.back, self.joined, self.front)
        book.outside, book.asking, book.windows = list(self.outside), list(self.asking), list(self.windows)
        book.given, book.throttled, book.alone = self.given, self.throttled, self.alone
        book.judge()
        return book


class JobIn(_Piece, frozen=True):
    """A job, and the records of its fires, by number."""

    job: JobRecord
    fires: tuple[FireRecord, ...] = ()


class KeyIn(_Piece, frozen=True):
    """An idempotency key of a run, or of a pruned run, whose id it has then."""

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
    """A run that is not running, with everything that belongs to it. Texts are JSON; instants are microseconds."""

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
    request: str | None = None  # only of a waiting run
    wait: Wait | None = None  # what it waits for, or waited for last
    call: str = ""  # the id of the newest call that changed it
    checkpoint: str | None = None
    prepared: str | None = None
    log: tuple[Stamped, ...] = ()
    streamed: bool = False  # its log has deltas, to be trimmed
    memos: tuple[Memo, ...] = ()  # in the order of writing
    taken: tuple[Taken, ...] = ()  # by kind and number
    read: int = 0  # how many of its inbox were read
    keys: tuple[KeyIn, ...] = ()  # its keys, by task, user and key


class Place(_Piece, frozen=True):
    """Where a pending run is: its shelf, its lane or session, its rank, and how it came there.

    `gate` is the gate that it is parked behind. A run that is paused while it is held has a place, too.
    """

    number: int
    shelf: str  # of `core.queue.shelves.Shelf`
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

Mark = tuple[str, str]  # a part, and its last piece so far; "" before the first
PARTS = ("settings", "turns", "seats", "sessions", "jobs", "keys", "runs", "places")
FIRST: Mark = (PARTS[0], "")


class Page(msgspec.Struct, frozen=True):
    """Some pieces, and the mark from which to go on; None if these were the last."""

    pieces: Sequence[Piece]
    mark: Mark | None


def page_of(part: str, pieces: Sequence[Piece], last: str | None) -> Page:
    """Return a page of a part. `last` names its last piece if there may be more of the part.

    >>> page_of("places", [], None).mark is None, page_of("runs", [], None).mark
    (True, ('places', ''))
    """
    if last is not None:
        return Page(pieces, (part, last))
    after = PARTS.index(part) + 1
    return Page(pieces, (PARTS[after], "") if after < len(PARTS) else None)
