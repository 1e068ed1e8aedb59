"""Workers: register, claim and settle, renew, take over from dead ones."""

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

    A lease is (run, fence, incarnation). A write is refused and changes nothing if its fence is not the run's newest,
    or if its incarnation does not hold the lease. An incarnation exists from `register` until it leaves, is seen to be
    gone, or has lapsed *and* another caller acted on that. From then on all its calls raise LeaseLost.
    """

    async def register(self, incarnation: Incarnation, wake: Callable[[], None]) -> None:
        """Register the incarnation as alive. `wake` is called, from any thread, when it is idle and there is work.

        A wake-up is a hint that may get lost. So an idle worker also makes a step when `due_in` is over, and polls
        `Store.look` once a second, for stores that can lose hints.
        If `wake` is a `WakeHandle`, it may get the reply to an offered step instead of being called.
        """
        ...

    async def step(self, step: Step) -> StepReply:
        """Write results and events, make due runs startable, claim up to `room`, and be idle if room is left.

        Order of effects: due runs become startable, or join their sessions, before any run that a result lets start.
        Results free their slots before the claim, so a worker can claim a run that its own result lets start.
        Claims: never over a lane's limit or a user's cap; users of a lane take turns (`turns`); a session's runs start
        in order; each claim raises the run's fence and is its `started` event. Only tasks that the incarnation knows.
        Results are independent: a refused one (see `refused`) does not touch the others.
        Idle (`park`, and fewer claimed than `room`, and not `more`): from the same instant on, the store calls the
        worker's `wake` for any run that becomes startable, so none is missed in between. The next step ends this.
        Claim-ahead (`offers_next`, idle, and nothing claimed or refused): the worker offers its next step, whose call
        number and room are known. A change that makes something startable, for which the store would wake the worker,
        may make that step instead, in the same atomic step, and push its reply; once while the worker is idle, and only
        if its process is seen to live. Whatever wakes the worker, it makes just that step next (with no room if it must
        claim nothing). If the store has made it, this is a repeat, so the claims are handed over once and a lost
        wake-up loses nothing. So a worker sends nothing in an offered step, and does not leave before it has made it. A
        repeat of an earlier step gets the reply of that one: nothing claimed. A store may ignore all this.
        Writes under a lease (events, checkpoints, `overdue`) come before the results.
        Repeatable by `step.call`: the same number again returns the same reply, claims included, without runs that were
        cancelled since, and with the `requests` of now.
        Raises LeaseLost if the incarnation is not known (any more). A store that can lose acknowledged steps, as a
        server can in a fail-over, also raises it if it does not know `step.last`, or any step before this one: then
        steps of this incarnation are lost, and its leases are taken over.
        """
        ...

    def renew(self, incarnation: str) -> RenewReply:
        """Keep the incarnation alive; return the leases the store knows it has.

        A plain call, made from the renewer's own thread; it may block. If no incarnation had renewed for half a lease,
        a grace of one lease begins, in which no lapse has consequences. Raises LeaseLost.
        """
        ...

    async def reclaim(self, incarnation: str, gone: Sequence[str], *, limit: int = 500) -> ReclaimReply:
        """Renew, then take over the leases of the incarnations that left, are `gone`, or have lapsed outside a grace.

        They belong to the caller now, marked as lapsed; it settles them by `step`, with their fences unchanged. Lapsed
        leases that the caller holds already are returned again, so a lost answer loses nothing. Raises LeaseLost.
        """
        ...

    async def leave(self, incarnation: str) -> None:
        """Unregister the incarnation: its leases can be reclaimed at once. Unknown incarnations are ignored."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """Return all incarnations that have not left, and those that left and still hold leases; oldest first."""
        ...

    def look(self) -> bool:
        """Return whether the store may have changed since the last call; always False if that is not cheap to know.

        An idle worker calls it once a second, in case a wake-up got lost. It never waits.
        """
        ...
