"""The circuits of tasks: which one keeps a run from starting, and what the end of a lease does to them.

A circuit has a *key*: a task, or a task and a user, because a breaker counts all runs of its task together, or those of
each user apart. The claim does not know the tasks' policies, so it looks at both circuits. The settlement was made by a
worker that knows the policy, so it says what to charge (`Charge`).

A closed circuit that counts nothing is not kept.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

import msgspec

from laneway.core.records.breakers import CLOSED, Breaker, Circuit, Per

FOREVER = 2**63 - 1  # `until` of an open circuit that does not close by itself
NOBODY: frozenset[str] = frozenset()


class Lease(Protocol):
    """What a circuit needs to know of a run that starts, or has ended."""

    number: int
    fence: int
    task: str
    user: str | None


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What an attempt reports to its task's breaker: that it failed, or that it did not."""

    breaker: Breaker
    failed: bool

    def key(self, task: str, user: str | None) -> str:
        """Return the key of the circuit to charge."""
        return key_of(task, user or "") if self.breaker.per is Per.USER else task


def key_of(task: str, user: str | None = None) -> str:
    """Return the key of a task's circuit, or of one user's circuit of it; "" stands for runs without a user.

    >>> key_of("mail"), key_of("mail", "ann").split()
    ('mail', ['mail', 'ann'])
    """
    return task if user is None else f"{task}\n{user}"


def named(key: str) -> tuple[str, str | None]:
    """Return the task and the user that a key stands for.

    >>> named("mail"), named(key_of("mail", "ann"))
    (('mail', None), ('mail', 'ann'))
    """
    task, split, user = key.partition("\n")  # no name has a line break in it
    return task, user if split else None


def holder(key: str) -> str:
    """Return whose circuit it is, in words for people.

    >>> holder("mail"), holder(key_of("mail", "ann"))
    ('task mail', 'task mail of user ann')
    """
    task, user = named(key)
    return f"task {task}" + ("" if user is None else f" of user {user}" if user else " without a user")


class Circuits:
    """The circuits of all tasks, by key. A store may load missing ones."""

    def __init__(self) -> None:
        self._kept: dict[str, Circuit] = {}
        self._open: set[str] = set()
        self._guarded: frozenset[str] | None = NOBODY  # computed on demand; None: something changed

    @property
    def tasks(self) -> Set[str]:
        """The tasks with a circuit that is not closed. Only their runs need a look at the circuits."""
        if self._guarded is None:
            self._guarded = frozenset(named(key)[0] for key in self._open)
        return self._guarded

    @property
    def keys(self) -> Set[str]:
        """The keys of the circuits that are kept."""
        return self._kept.keys()

    def get(self, key: str) -> Circuit:
        """Return a circuit; a closed one if none is kept."""
        return self._kept.get(key, CLOSED)

    def put(self, key: str, circuit: Circuit) -> None:
        """Store a circuit."""
        if circuit == CLOSED:
            self._kept.pop(key, None)
        else:
            self._kept[key] = circuit
        if (circuit.until is None) is (key in self._open):
            self._open ^= {key}
            self._guarded = None

    def holds(self, task: str, user: str | None, now: int) -> str | None:
        """Return the key of the circuit that keeps such a run from starting, or None."""
        for key in (task, key_of(task, user or "")):
            if not self.get(key).lets_start(now):
                return key
        return None

    def start(self, run: Lease, now: int) -> list[str]:
        """Record that a run starts now, with its next fence. Return the keys of circuits that let no more start."""
        full = []
        for key in _keys(run):
            circuit = self.get(key)
            after = circuit.started(run.number, run.fence + 1, now)
            if after is not circuit:
                self.put(key, after)
                full.append(key)
        return full

    def end(self, run: Lease, charge: Charge | None, now: int, *, succeeded: bool = False) -> bool:
        """Record the end of a run's lease; return whether its task is to be disabled.

        A circuit that is not charged learns nothing from it, unless the run was its probe and has succeeded.
        """
        charged = None if charge is None else charge.key(run.task, run.user)
        disables = False
        for key in _keys(run):
            circuit = self.get(key)
            if charge is not None and key == charged:
                after = _charged(circuit, charge, run, now)
                disables = after.until == FOREVER
            elif succeeded and circuit.probe == (run.number, run.fence):
                after = CLOSED  # the breaker that opened it does not exist any more
            else:
                after = circuit.let_go(run.number, run.fence)
            if after is not circuit:
                self.put(key, after)
        return disables


def _keys(run: Lease) -> tuple[str, str]:
    return run.task, key_of(run.task, run.user or "")


def _charged(circuit: Circuit, charge: Charge, run: Lease, now: int) -> Circuit:
    if not charge.failed:
        return circuit.succeeded(run.number, run.fence)
    after = circuit.failed(charge.breaker, run.number, run.fence, now)
    if charge.breaker.disable and after is not circuit and after.until is not None:
        return msgspec.structs.replace(after, until=FOREVER)
    return after
