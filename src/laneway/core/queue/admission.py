"""Admission of pending runs: into their session, into their lane's ready order, and out of both.

A run that is due joins its session, if it has one. Once the session admits it, it enters the ready order of its lane,
or the parked set of its user. `core.queue.claim` builds the claim on this.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Generic

from laneway.core.queue.circuits import Circuits
from laneway.core.queue.sessions import SessionBook
from laneway.core.queue.shelves import E, Shelf, Shelves
from laneway.core.queue.turns import AGAIN, ASIDE, BACK, FRESH, OUT, STILL, LaneBook, Ledger, Seat
from laneway.core.records.policy import SessionIntent


class Admission(Generic[E]):
    """The rules of admission, over a store's shelves and books.

    `aside` collects the tasks whose runs were set aside, so that the store can wake workers that know these tasks.
    """

    __slots__ = ("aside", "circuits", "lanes", "sessions", "shelves")

    def __init__(
        self,
        shelves: Shelves[E],
        lanes: dict[str, LaneBook],
        sessions: Ledger[str, SessionBook],
        circuits: Circuits | None = None,
    ) -> None:
        self.shelves, self.lanes, self.sessions = shelves, lanes, sessions
        self.circuits = Circuits() if circuits is None else circuits
        self.aside: set[str] = set()

    def join(self, run: E, arrival: SessionIntent | None = None, *, head: bool = False) -> int | None:
        """Add a run that is due for the first time to its session, or to its lane if it has none.

        Returns how many runs of its session are ahead if it has to wait, else None. With `head` it goes before all runs
        of the session that were never started.
        """
        if run.session is None:
            self._enter(run)
            return None
        book = self.sessions[run.session]
        if arrival is not None:
            book.take(arrival)
        if book.windows:
            book.close(run.number)
        ahead = None
        if not book.held and book.admits():
            book.admit(run.number)
            self._enter_lane(run)
        else:
            ahead = None if head else len(book.admitted) + book.held
            self.shelves.put_held(run, book.place_at_head() if head else book.place())
            self._admit(run.session, book)
        return ahead

    def rejoin(self, run: E) -> None:
        """Take back a run that was claimed before and is due again: it kept its session's place, or stepped out."""
        run.kind = AGAIN
        if run.session is not None and run.number in self.sessions[run.session].outside:
            book = self.sessions[run.session]
            self.shelves.put_held(run, book.place_in_front())
            self._admit(run.session, book)
        else:
            self._enter(run)

    def step_out(self, run: E) -> None:
        """If the session's rule allows it, let other runs pass this one, which waits for its next attempt."""
        if run.session is not None:
            book = self.sessions[run.session]
            if book.rule.pass_on_retry and run.number in book.admitted:
                book.step_out(run.number)
                self._admit(run.session, book)

    def wait(self, run: E, *, asks: bool) -> None:
        """Record that a run asks or calls and so waits. It keeps its session's place unless others may pass it."""
        if run.session is not None:
            if asks:
                self.sessions[run.session].asking.append(run.number)
            self.step_out(run)

    def stop_asking(self, run: E) -> None:
        """Record that a run does not wait for an answer any more."""
        if run.session is not None:
            self.sessions[run.session].stop_asking(run.number)

    def take_up(self, run: E, arrival: SessionIntent | None = None) -> None:
        """Take back a due run that was paused, to where it was: its place in the session, or the session's tail.

        `arrival` is what the run says about its session if it has not joined the session yet.
        """
        if run.session is None or run.number in self.sessions[run.session].admitted:
            self._enter(run)
        elif run.kind & AGAIN:
            self.rejoin(run)
        else:
            self.join(run, arrival)

    def is_admitted(self, run: E) -> bool:
        """Tell whether a run that was never started has a place in its session. If so, it was due at some time."""
        if run.session is None or run.kind & AGAIN:
            return False
        book = self.sessions[run.session]
        if book.idle:
            self.sessions.emptied(run.session)
        return book.unstarted == run.number

    def _admit(self, session: str, book: SessionBook) -> None:
        """Admit the session's next runs as far as it has room. A paused run takes its place and waits there."""
        while book.held and book.admits():
            run = self.shelves.take_held(session)
            if run.kind & AGAIN:
                book.call_back(run.number)
                if not run.paused:
                    self._enter_lane(run)
                continue
            book.call_in(run.number)
            if not run.paused:
                self._enter_lane(run)
            return  # the next one is admitted only after this one has started

    def free(self, run: E) -> None:
        """Free the lane's and the user's slot of a run that is not executed any more."""
        book = self.lanes[run.lane]
        book.active -= 1
        user = run.user
        if user is not None:
            seat = book.seats[user]
            seat.active -= 1
            if seat.parked:
                self._bring_back(book, user, seat)
            elif seat.idle:
                book.seats.emptied(user)

    def end(self, run: E) -> None:
        """Free the place in its session of a run that has ended, if it had one."""
        session = run.session
        if session is not None:
            book = self.sessions[session]
            book.end(run.number)
            book.close(run.number)
            self._admit(session, book)
            if book.idle:
                self.sessions.emptied(session)

    def withdraw(self, run: E, shelf: Shelf) -> None:
        """Undo the counts of a pending run that ends, taken from this shelf. `end` frees its place in the session."""
        if shelf is Shelf.HELD:
            self.unhold(run)
        self.set_down(run, shelf)

    def unhold(self, run: E) -> None:
        """Stop counting a run as held by its session, be it pending or paused."""
        assert run.session is not None
        self.sessions[run.session].leave(back=bool(run.kind & AGAIN))

    def set_down(self, run: E, shelf: Shelf) -> None:
        """Undo the lane's counts of a pending run that was taken from this shelf, or is paused while it is held.

        The run keeps its place in the session. If it comes back, it does so as it came the first time.
        """
        book = self.lanes[run.lane]
        book.pending -= 1
        if shelf is Shelf.READY or shelf is Shelf.PARKED:
            self._withdraw_from_lane(book, run, shelf)
        elif shelf is Shelf.DUE and run.session is not None:
            session = self.sessions[run.session]
            session.close(run.number)
            if session.idle:
                self.sessions.emptied(run.session)
        run.kind &= AGAIN

    def _withdraw_from_lane(self, book: LaneBook, run: E, shelf: Shelf) -> None:
        if run.kind & STILL:
            return
        back, user = run.kind & BACK, run.user
        if not run.kind & AGAIN:
            book.wait_no_more(run)
        if shelf is Shelf.READY:
            book.leave(run)
        if user is not None:
            seat = book.seats[user]
            if shelf is Shelf.PARKED and not run.kind & ASIDE:
                seat.parked -= 1
            if back:
                self._bring_back(book, user, seat)
            if seat.idle:
                book.seats.emptied(user)

    def keep_still(self, run: E, shelf: Shelf) -> None:
        """Park an admitted run, taken from this shelf of its lane, because its session was paused."""
        self._withdraw_from_lane(self.lanes[run.lane], run, shelf)
        run.kind &= AGAIN
        self._enter(run)

    def throttle(self, session: str, *, throttled: bool) -> None:
        """Limit the session to one run at a time, or lift that limit."""
        book = self.sessions[session]
        if book.throttled is not throttled:
            book.throttled = throttled
            self._admit(session, book)

    def let_go_on(self, session: str, still: Sequence[E]) -> None:
        """Continue a session that is not paused any more, or has more room; the runs in `still` come first."""
        for run in still:
            run.kind &= ~STILL
            self._enter(run)
        self._admit(session, self.sessions[session])

    def reopen(self, lane: str, users: Set[str]) -> None:
        """Bring back parked runs of these users, after the lane's limits changed."""
        book = self.lanes[lane]
        for user in sorted(users):
            self._bring_back(book, user, book.seats[user])

    def _enter(self, run: E) -> None:
        if run.session is not None and self.sessions[run.session].paused:
            run.kind = run.kind & AGAIN | STILL
            run.rank = 0
            self.shelves.put_parked(run, f"session:{run.session}")
        else:
            self._enter_lane(run)

    def _enter_lane(self, run: E) -> None:
        """Put a run into its lane's ready order. Its session, if it has one, has admitted it and is not paused."""
        book, user = self.lanes[run.lane], run.user
        if user is not None and run.kind == FRESH and (seat := book.seats[user]).parked:
            # Invariant: the gate of the set is closed, or one run of it is back in the order. One more changes nothing.
            book.enter(run, 0)
            seat.parked += 1
            self.shelves.put_parked(run, seat.gate or _gate(seat, user))
        else:
            book.enter(run)
            self.shelves.put_ready(run)

    def _park(self, book: LaneBook, run: E) -> None:
        user = run.user
        assert user is not None
        run.kind &= ~BACK
        seat = book.seats[user]
        seat.parked += 1
        self.shelves.put_parked(run, seat.gate or _gate(seat, user))
        self._bring_back(book, user, seat)

    def _bring_back(self, book: LaneBook, user: str, seat: Seat) -> None:
        """Move the user's first parked run to the ready order, if the gate is open and none of them is there yet."""
        if seat.out or not seat.parked:
            return
        cap = book.cap(user)
        if cap is not None and seat.active >= cap:
            return
        run = self.shelves.take_parked(book.lane.name, seat.gate or _gate(seat, user))
        seat.parked -= 1
        seat.out = OUT + run.priority
        run.kind |= BACK
        book.enter(run)
        self.shelves.put_ready(run)


def _gate(seat: Seat, user: str) -> str:
    """Return the gate's name of a user's parked set. It is kept, because a new string must be hashed each time."""
    seat.gate = f"user:{user}"
    return seat.gate
