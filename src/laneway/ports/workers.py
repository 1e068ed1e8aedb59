"""Workers: registering, claiming and settling, staying alive, taking over from the dead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from laneway.core.lifecycle.step import PushedReply, ReclaimReply, RenewReply, Step, StepReply
from laneway.core.records.liveness import Incarnation, WorkerInfo


class WakeHandle(ABC):
    """Wakes a worker, and hands over the reply to the step that it offered, so that the worker need not make it."""

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether the worker lives. A worker that ended silently must get nothing. Any thread may read it."""

    @abstractmethod
    def __call__(self) -> None:
        """Wake the worker, from any thread."""

    @abstractmethod
    def push(self, reply: PushedReply) -> None:
        """Hand over the reply and wake the worker. Any thread may call it, once that step is committed."""


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
        If `wake` is a `WakeHandle`, it may get the reply to an offered step instead of being called.
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
        Claim-ahead (`offers_next`, idle, and nothing claimed or refused): the worker offers its next step, whose call
        number and room are known. A change that makes something startable, for which the store would wake the worker,
        may make that step instead, in the same atomic step, and push its reply; once while the worker is idle, and only
        if its process is seen to live. Whatever wakes the worker, it makes just that step next (with no room if it must
        claim nothing). If the store has made it, this is a repeat, so the claims are handed over once and a lost
        wake-up loses nothing. So a worker sends nothing in an offered step, and does not leave before it has made it. A
        repeat of the step before is answered as that was: nothing claimed. A store may ignore all this.
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
