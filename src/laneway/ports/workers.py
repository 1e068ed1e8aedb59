"""Workers: registering, claiming and settling, staying alive, taking over from the dead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from laneway.core.lifecycle.step import LentReply, ReclaimReply, RenewReply, Step, StepReply
from laneway.core.records.liveness import Incarnation, WorkerInfo


class Standby(ABC):
    """Wakes a worker, as any `wake`; and hands it the answer to the step that it lent, so that it need not ask."""

    @property
    @abstractmethod
    def is_there(self) -> bool:
        """Tell whether the worker lives: one that has ended without a word must be given nothing. From any thread."""

    @abstractmethod
    def __call__(self) -> None:
        """Wake the worker, from any thread."""

    @abstractmethod
    def answer(self, lent: LentReply) -> None:
        """Hand over an answer, and wake the worker. From any thread, and not before that step is committed."""


class WorkerStore(Protocol):
    """Leases runs to incarnations.

    A lease is (run, fence, incarnation). What carries a fence that is not the run's newest, or an incarnation that does
    not hold it, is refused and changes nothing. An incarnation exists from `register` until it leaves, is seen to be
    gone, or has lapsed *and* somebody acted on it; then every call of it raises LeaseLost, for good.
    """

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Make the incarnation known and alive. `wake` is called, from any thread, when it rests and there is work.

        A wake-up is a hint that may get lost: a resting worker also steps when `due_in` is over, and once a second
        looks for itself if the store is one that can lose hints (`Store.look`).
        Where `wake` is a `Standby`, it may be told the answer to a step that was lent instead of being called.
        """
        ...

    async def step(self, step: Step) -> StepReply:
        """Write results and events, make due runs startable, claim up to `room`, and rest if room is left.

        Order of effects: what is due becomes startable, or joins its session, before anything a result lets follow;
        results free their slots before the claim, so a worker can get the run its own result let start.
        Claims: never over a lane's limit or a user's cap; users of a lane take turns (`turns`); a session's runs
        start in order; each claim raises the run's fence and is its `started` event. Only tasks the incarnation knows.
        Results are independent: a refused one (see `refused`) does not touch its neighbours.
        Resting (`park`, and fewer claimed than `room`, and not `more`): from the same instant on, whatever becomes
        startable calls the worker's `wake`, so no run can be missed in between. Any later step ends the rest.
        Lending (`lends`, and resting, and nothing claimed or refused): the worker's next step is known, call number and
        room, as long as nothing happens to it. Whoever makes something startable for which it would be woken may do
        that step instead, in the same instant, and wake it; once in a rest, and only if its process is seen to live.
        The worker in turn makes just that step next, whatever it is woken for (with no room if it is to claim nothing):
        if it was done already this is a repeat of it, so the claims are handed over once, and a lost wake-up loses
        nothing. So a worker says nothing in the step that it lent, and ends none of its lives before it has made it.
        A repeat of the step before it is answered as that was: nothing claimed. A store may ignore all this.
        What goes on under a lease (events, checkpoints, `overdue`) is written before the results.
        Repeatable by `step.call`: the same number again returns the same answer, claims included, but for runs that
        were cancelled out of the worker's hands since, and with `requests` as they stand then.
        Raises LeaseLost if the incarnation is not known (any more). A store that can lose what it has answered, as a
        server can in a fail-over, raises it too when it does not know `step.last`, or any step before this one: then
        steps of this incarnation are gone, and what it holds is taken over.
        """
        ...

    def renew(self, incarnation: str) -> RenewReply:
        """Keep the incarnation alive; return the leases the store knows it has.

        A plain call, made from the renewer's own thread; it may block. If nobody had renewed for half a lease, it
        starts a grace of one lease in which no lapse is acted on. Raises LeaseLost.
        """
        ...

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        """Renew, then take over the leases of the incarnations that left, are `gone`, or have lapsed outside a grace.

        They are the caller's now, marked as lapsed; it settles them by `step` under the fence they have. Lapsed leases
        the caller holds already are returned again, so a lost answer loses nothing. Raises LeaseLost.
        """
        ...

    async def leave(self, incarnation: str) -> None:
        """Say good-bye: what it still holds can be reclaimed at once. Unknown incarnations are ignored."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """Return all incarnations that have not left, and those that left and still hold leases; oldest first."""
        ...

    def look(self) -> bool:
        """Tell whether the store may have changed since this was last asked, where that is cheap to know (else False).

        A resting worker asks once a second, for the wake-up that got lost. It never waits.
        """
        ...
