"""The writer as verbs know it: one thread per store object, one transaction per batch of whatever waits.

Each piece of work runs inside the transaction, so that one that fails is undone alone; one COMMIT makes all of them
durable, and only then are they answered and wake-ups sent. (Where a store can, what is swift is seen, and its wake-ups
are sent, before it is durable.) How a transaction begins, ends and breaks is a store's own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from typing import TypeVar

from laneway.errors import StoreError
from laneway.stores.tables.runtime.after_commit import Effects, Lender, Woken
from laneway.stores.tables.runtime.worker_thread import Ask, Desk
from laneway.stores.tables.sql.database import Database

T = TypeVar("T")
Write = Callable[[Database, Effects], T]


class Writer(Desk):
    """Does work inside transactions. After a commit it has resting workers woken and, when it rests, watchers told.

    `is_there` tells whether a worker is seen to live, so that its next step may be done.
    """

    def __init__(
        self,
        name: str,
        wake: Callable[[list[Woken]], None],
        tell: Callable[[], None],
        is_there: Callable[[Lender], bool],
    ) -> None:
        super().__init__(name)
        self._wake, self._tell, self._is_there = wake, tell, is_there
        self._news = False  # events were written, and the watchers do not know yet

    async def write(self, work: Write[T], effects: Effects | None = None) -> T:
        """Do the work in a transaction, and return its answer once that is committed."""
        effects = self.known_to(effects or Effects())
        return await self.ask(lambda db: work(db, effects), effects, short=effects.short)

    def write_later(self, work: Write[T], effects: Effects | None = None) -> Future[T]:
        """Do the work in a transaction; the future ends once that is committed. Not for a loop's thread."""
        effects = self.known_to(effects or Effects())
        return self.ask_later(lambda db: work(db, effects), effects)

    def known_to(self, effects: Effects) -> Effects:
        """Return what a piece of work is given, which can tell now whether a worker is seen to live."""
        effects.is_there = self._is_there
        return effects

    def do(self, batch: list[Ask]) -> None:
        """Do the batch in one transaction."""
        try:
            self.transact(batch)
        except StoreError as error:
            for ask in batch:
                ask.error = another(error)
            return
        self.tell_of([ask.note for ask in batch if ask.error is None])

    def tell_of(self, done: list[Effects]) -> None:
        """Do what follows a commit."""
        for each in done:
            self._news = self._news or each.events
            if each.wake:
                self._wake(each.wake)

    @property
    def has_chores(self) -> bool:
        """Tell whether the watchers are to be told."""
        return self._news

    def rest(self) -> None:
        """Tell the watchers, now that nobody waits for an answer."""
        if self._news:
            self._news = False
            self._tell()

    @abstractmethod
    def transact(self, batch: list[Ask]) -> None:
        """Do the batch and commit it, with the steps that resting workers have lent, and tell of those.

        Raises StoreError if nothing of the batch may have been done, or all of it.
        """

    @abstractmethod
    def look(self) -> bool:
        """Tell whether anybody else has committed since this was last asked. From any thread; it never waits."""


def another(error: StoreError) -> StoreError:
    """Return the error for one more caller: raised twice, one object would grow two tracebacks."""
    other = copy(error)
    other.__cause__ = error.__cause__
    return other
