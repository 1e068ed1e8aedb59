"""Shelves as plain as can be: one list, looked through. And a lane's flow over them."""

from __future__ import annotations

from collections.abc import Set
from operator import attrgetter

from laneway.core.flow import Entry, Flow, Shelf
from laneway.core.policy import Lane
from laneway.core.sessions import SessionBook
from laneway.core.turns import AGAIN, LaneBook, Ledger, Seat, Turn


class Item(Entry):
    """A run, with the shelf it is on: `ready`, a gate, `held`, `active`, `paused`, `ended` or `nowhere`."""

    __slots__ = ("place", "shelf")

    def __init__(
        self,
        number: int,
        *,
        task: str = "work",
        lane: str = "main",
        user: str | None = None,
        session: str | None = None,
        priority: int = 0,
    ) -> None:
        super().__init__(number, task, lane, user, session, priority)
        self.shelf, self.place = "nowhere", 0

    def __repr__(self) -> str:
        return f"#{self.number} {self.user} {self.session} p{self.priority} rank {self.rank} on {self.shelf}"


class PlainShelves:
    """`core.flow.Shelves`, without a heap or an index."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def put_ready(self, run: Item) -> None:
        self._put(run, "ready")

    def take_ready(self, lane: str, tasks: Set[str]) -> Item | None:
        gates = {"ready", *(f"task:{task}" for task in tasks)}
        return self._take([item for item in self.items if item.lane == lane and item.shelf in gates])

    def put_parked(self, run: Item, gate: str) -> None:
        self._put(run, gate)

    def take_parked(self, lane: str, gate: str) -> Item:
        taken = self._take([item for item in self.items if item.lane == lane and item.shelf == gate])
        assert taken is not None
        return taken

    def put_held(self, run: Item, place: int) -> None:
        self._put(run, "held")
        run.place = place

    def take_held(self, session: str) -> Item:
        held = [item for item in self.items if item.session == session and item.shelf == "held"]
        return self._off(min(held, key=attrgetter("place")))

    def on(self, shelf: str) -> list[Item]:
        """Return the items on a shelf."""
        return [item for item in self.items if item.shelf == shelf]

    def _put(self, run: Item, shelf: str) -> None:
        assert run.shelf in ("nowhere", "active", "paused"), run
        run.shelf = shelf
        if run not in self.items:
            self.items.append(run)

    def _take(self, fit: list[Item]) -> Item | None:
        return self._off(min(fit, key=attrgetter("rank", "number"))) if fit else None

    def _off(self, run: Item) -> Item:
        run.shelf = "nowhere"
        return run


class Floor:
    """A flow over plain shelves, and what is active on it."""

    def __init__(self, *lanes: Lane) -> None:
        self.shelves = PlainShelves()
        self.books = {lane.name: LaneBook(lane, {}, Ledger(Turn), Ledger(Seat)) for lane in lanes}
        self.sessions: Ledger[str, SessionBook] = Ledger(SessionBook)
        self.flow: Flow[Item] = Flow(self.shelves, self.books, self.sessions)
        self.active: list[Item] = []
        self.accepted = 0

    def join(
        self,
        *,
        task: str = "work",
        lane: str = "main",
        user: str | None = None,
        session: str | None = None,
        priority: int = 0,
        max_concurrent: int | None = None,
    ) -> Item:
        self.accepted += 1
        item = Item(self.accepted, task=task, lane=lane, user=user, session=session, priority=priority)
        self.flow.join(item, max_concurrent)
        return item

    def claim(self, room: int, tasks: Set[str] = frozenset({"work"}), turn: int = 0) -> list[Item]:
        started, _ = self.flow.claim(sorted(self.books), room, tasks, turn)
        for item in started:
            item.shelf = "active"
        self.active += started
        return started

    def end(self, item: Item) -> None:
        self.active.remove(item)
        item.shelf = "ended"
        self.flow.free(item)
        self.flow.end(item)

    def again(self, item: Item) -> None:
        self.active.remove(item)
        self.flow.free(item)
        self.flow.rejoin(item)

    def cancel(self, item: Item) -> None:
        """Cancel a run that waits or is paused."""
        self._take_out(item, "ended")
        if item.kind & AGAIN:
            self.flow.end(item)

    def pause(self, item: Item) -> None:
        """Pause a run that waits."""
        self._take_out(item, "paused")

    def resume(self, item: Item) -> None:
        """Resume a run; one that was never started goes behind all others."""
        if item.kind & AGAIN:
            self.flow.rejoin(item)
        else:
            self.accepted += 1
            item.number = self.accepted
            self.flow.join(item)

    def _take_out(self, item: Item, to: str) -> None:
        before, item.shelf = item.shelf, to
        if before != "paused":
            self.flow.withdraw(item, Shelf(before) if before in ("ready", "held") else Shelf.PARKED)

    def set_lane(self, lane: Lane) -> None:
        book = self.books[lane.name]
        book.lane = lane
        self.flow.reopen(lane.name, set(book.seats))
