"""The simplest shelves: one list that is searched. And a lane's flow over them."""

from __future__ import annotations

from collections.abc import Callable, Set
from operator import attrgetter

from laneway.core.queue.claim import Flow
from laneway.core.queue.sessions import SessionBook
from laneway.core.queue.shelves import BREAKER, NO_GATES, Entry, Shelf
from laneway.core.queue.turns import AGAIN, STILL, LaneBook, Ledger, Seat, Turns
from laneway.core.records.policy import Lane, Rule, SessionIntent


class Item(Entry):
    """A run, with the shelf it is on: `ready`, a gate, `held`, `due`, `active`, `paused`, `ended` or `nowhere`.

    One that is paused where it is held stays `held`.
    """

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

    @property
    def broken(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for item in self.items:
            if item.shelf.startswith(BREAKER):
                found.setdefault(item.lane, set()).add(item.shelf.removeprefix(BREAKER))
        return found

    def taking(self, lane: str, tasks: Set[str], gates: Set[str] = NO_GATES) -> Callable[[], Item | None]:
        def take() -> Item | None:
            places = {"ready", *(f"task:{task}" for task in tasks), *gates}
            return self._take([item for item in self.items if item.lane == lane and item.shelf in places])

        return take

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

    def held(self, session: str) -> list[Item]:
        """Return what the session holds back, in order."""
        return sorted((item for item in self.on("held") if item.session == session), key=attrgetter("place"))

    def on(self, shelf: str) -> list[Item]:
        """Return the items on a shelf."""
        return [item for item in self.items if item.shelf == shelf]

    def _put(self, run: Item, shelf: str) -> None:
        assert run.shelf in ("nowhere", "active", "paused", "due"), run
        run.shelf = shelf
        if run not in self.items:
            self.items.append(run)

    def _take(self, fit: list[Item]) -> Item | None:
        return self._off(min(fit, key=attrgetter("rank", "number"))) if fit else None

    def _off(self, run: Item) -> Item:
        run.shelf = "paused" if run.paused else "nowhere"
        return run


class Floor:
    """A flow over plain shelves, and what is active on it."""

    def __init__(self, *lanes: Lane) -> None:
        self.shelves = PlainShelves()
        self.books = {lane.name: LaneBook(lane, {}, Turns(), Ledger(Seat)) for lane in lanes}
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
        pass_on_retry: bool | None = None,
    ) -> Item:
        self.accepted += 1
        item = Item(self.accepted, task=task, lane=lane, user=user, session=session, priority=priority)
        self.books[lane].pending += 1
        self.flow.join(item, SessionIntent(rule=Rule(max_concurrent=max_concurrent, pass_on_retry=pass_on_retry)))
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
        """Take back a run that is due at once."""
        self._free(item)
        self.flow.rejoin(item)

    def later(self, item: Item) -> None:
        """Take back a run that is due some time later."""
        self._free(item)
        item.shelf = "due"
        self.flow.step_out(item)

    def due(self, item: Item) -> None:
        """Let a run that waited for its next attempt go on."""
        self.flow.rejoin(item)

    def cancel(self, item: Item) -> None:
        """Cancel a run that waits or is paused."""
        before, item.shelf = item.shelf, "ended"
        if not item.paused:
            self.flow.withdraw(item, shelf_of(before))
        elif before == "held":
            self.flow.unhold(item)
        item.paused = False
        self.flow.end(item)

    def pause(self, item: Item) -> None:
        """Pause a run that waits. One that is held stays where it is."""
        before, item.paused = item.shelf, True
        item.shelf = "held" if before == "held" else "paused"
        self.flow.set_down(item, shelf_of(before))

    def resume(self, item: Item) -> None:
        """Resume a run that is due."""
        item.paused = False
        self.books[item.lane].pending += 1
        if item.shelf != "held":
            self.flow.take_up(item)

    def hold(self, session: str, *, held: bool) -> None:
        """Pause or resume a session."""
        book = self.sessions.get(session)
        if book is None or book.paused is held:
            return
        book.paused = held
        inside = [item for item in self.shelves.items if item.number in book.admitted]
        if held:
            for item in [item for item in inside if item.shelf not in ("active", "due", "paused")]:
                before, item.shelf = item.shelf, "nowhere"
                self.flow.keep_still(item, shelf_of(before))
        else:
            still = [item for item in inside if item.kind & STILL]
            for item in still:
                item.shelf = "nowhere"
            self.flow.let_go_on(session, still)

    def set_lane(self, lane: Lane) -> None:
        book = self.books[lane.name]
        book.lane = lane
        self.flow.reopen(lane.name, set(book.seats))

    def _free(self, item: Item) -> None:
        self.active.remove(item)
        self.books[item.lane].pending += 1
        self.flow.free(item)


def shelf_of(where: str) -> Shelf:
    return Shelf(where) if where in ("ready", "held", "due") else Shelf.PARKED


def is_started(item: Item) -> bool:
    return bool(item.kind & AGAIN)
