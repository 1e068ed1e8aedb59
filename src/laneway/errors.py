"""Every error that laneway raises, grouped by who must act.

```
LanewayError
├── UsageError               the caller: change the call
│   ├── BadArguments         arguments do not fit the task, are not JSON, or are too large
│   ├── BadSetting           a setting, option or policy is unknown or out of range
│   ├── BadURL               the store's address is not one laneway knows
│   ├── UnknownTask          no such task is registered
│   ├── UnknownRun           no such run (or a prefix that fits several)
│   ├── UnknownLane          no such lane
│   ├── UnknownJob           no such job (or a name that several have)
│   ├── JobExists            a job of that name is there already
│   ├── JobChanged           others keep changing the job; read it and try again
│   ├── KeyConflict          the key was used with other arguments
│   ├── WrongState           the run's state does not allow this
│   ├── NotWaiting           the run waits for no such answer (any more)
│   ├── MoveRefused          a move that is not possible: the target is not empty, another move, or one that is done
│   ├── SameStore            both addresses of a move are the same store
│   └── WrongThread          a blocking call on a thread whose event loop it would block
├── RunEnded                 the run: it ended without success
│   ├── RunFailed
│   ├── RunCancelled
│   └── RunDropped
├── StoreError               the operator, or wait
│   ├── StoreUnavailable     cannot be reached or written now; `maybe_done`: the call may have happened
│   ├── StoreMoved           its content was moved to `where`, or is being moved
│   ├── MoveUnfinished       a store to be moved still executes runs
│   ├── MoveDiffers          the two sides of a move hold different content
│   ├── StoreTooNew          made by a newer laneway
│   └── NotAStore            the file or server holds something else
├── LeaseLost                nobody: another worker has the run now
├── StepsChanged             the handler's author: an attempt asks or calls something else than an earlier one
├── GiveUp                   a handler raises it: trying again cannot help
└── Snooze                   a handler raises it: run me later, nothing is charged
```

Facts are attributes. The `__cause__` is the driver's own error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import timedelta


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'?` for the known name closest to `wrong`, or nothing.

    >>> did_you_mean("sumarize", ["summarize", "cleanup"])
    ", did you mean 'summarize'?"
    >>> did_you_mean("zzz", ["summarize"])
    ''
    """
    near = difflib.get_close_matches(wrong, sorted(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


class LanewayError(Exception):
    """The base class of all errors."""


class UsageError(LanewayError):
    """The caller must change something."""


class BadArguments(UsageError):
    """Arguments that do not fit the task, are not JSON, or are too large."""


class BadSetting(UsageError):
    """A setting, option or policy that is unknown or out of range."""

    @classmethod
    def unknown(cls, kind: str, name: str, known: Iterable[str]) -> BadSetting:
        """Return the error for a name that is none of the `known` ones."""
        known = sorted(known)
        hint = did_you_mean(name, known) or f"; it can be {', '.join(known)}"
        return cls(f"unknown {kind} {name!r}{hint}")


class BadURL(UsageError):
    """A store address that laneway cannot use."""


class UnknownTask(UsageError):
    """No task of that name is registered."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        known = sorted(known)
        hint = did_you_mean(name, known) or (f"; registered: {', '.join(known)}" if known else "; none is registered")
        super().__init__(f"unknown task {name!r}{hint}")
        self.name = name


class UnknownRun(UsageError):
    """No run has that id."""

    def __init__(self, run_id: str, matches: int = 0) -> None:
        why = f"{matches} runs begin with {run_id!r}, give more of the id" if matches else f"no run {run_id!r}"
        super().__init__(why)
        self.run_id, self.matches = run_id, matches


class UnknownLane(UsageError):
    """No lane has that name."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        known = sorted(known)
        hint = did_you_mean(name, known) or (f"; there are {', '.join(known)}" if known else "")
        super().__init__(f"unknown lane {name!r}{hint}")
        self.name = name


class UnknownJob(UsageError):
    """No job has that name or id, or several have."""

    def __init__(self, name: str, known: Iterable[str] = (), matches: int = 0, *, by_id: bool = False) -> None:
        if matches and by_id:
            why = f"{matches} jobs have an id that begins with {name!r}, give more of it"
        elif matches:
            why = f"{matches} jobs are named {name!r}; say which by its owner or by its id"
        else:
            why = f"no job {name!r}{did_you_mean(name, known)}"
        super().__init__(why)
        self.name, self.matches = name, matches


class JobExists(UsageError):
    """The owner has a job of that name already; `job_id` is its id."""

    def __init__(self, name: str, job_id: str) -> None:
        super().__init__(f"there is a job {name!r} already; change that one, or use another name")
        self.name, self.job_id = name, job_id


class JobChanged(UsageError):
    """Others changed the job again and again while this call tried to change it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"job {name!r} is being changed by others; look at it and try again")
        self.name = name


class KeyConflict(UsageError):
    """The key was used for other arguments of the same task and user; `run_id` is the run that it made."""

    def __init__(self, key: str, run_id: str) -> None:
        super().__init__(f"key {key!r} was used with other arguments, by run {run_id}; use another key")
        self.key, self.run_id = key, run_id


class WrongState(UsageError):
    """The run's state does not allow this move."""

    def __init__(self, state: str, move: str) -> None:
        super().__init__(f"a {state} run cannot be {_DONE.get(move, move)}")
        self.state, self.move = state, move


_DONE = {"cancel": "cancelled", "pause": "paused", "resume": "resumed", "retry": "tried again", "drop": "dropped"}


class NotWaiting(UsageError):
    """The run does not wait for this answer: it never asked, asked something else, or does not wait any more."""

    def __init__(self, run_id: str, found: str) -> None:
        super().__init__(f"run {run_id} waits for no answer: it is {found}")
        self.run_id, self.found = run_id, found


class MoveRefused(UsageError):
    """The move is not possible: the target is not empty, another move is under way, or this one is done."""


class SameStore(UsageError):
    """Both addresses of a move lead to one store. Nothing was changed."""

    def __init__(self, source: str, target: str) -> None:
        names = source if source == target else f"{source} and {target}"
        super().__init__(f"FROM and TO are the same store, {names}")
        self.source, self.target = source, target


class WrongThread(UsageError):
    """A blocking call on a thread with a running event loop. Await the scheduler's own call there."""


class RunEnded(LanewayError):
    """The run whose result was awaited ended without success."""

    ending = "ended"

    def __init__(self, run_id: str, reason: str | None = None, message: str | None = None) -> None:
        detail = ": ".join(part for part in (reason, message) if part)
        super().__init__(f"run {run_id} {self.ending}" + (f" ({detail})" if detail else ""))
        self.run_id, self.reason, self.message = run_id, reason, message


class RunFailed(RunEnded):
    """The run failed for good; `reason` says how, `message` is the last error."""

    ending = "failed"


class RunCancelled(RunEnded):
    """The run was cancelled."""

    ending = "was cancelled"


class RunDropped(RunEnded):
    """The run was accepted and never started."""

    ending = "was dropped"


class StoreError(LanewayError):
    """The operator must act, or wait."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written to at the moment.

    `maybe_done` is True when the call may have taken effect although no answer came.
    """

    def __init__(self, message: str, *, maybe_done: bool = False) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class StoreMoved(StoreError):
    """The store's content was moved, or is being moved. `where` is the new address, without a password."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where

    def __str__(self) -> str:
        """Return the message, with the new address."""
        return f"this store has moved to {self.where}; use that address"


class MoveUnfinished(StoreError):
    """The store to be moved still executes runs. It stays shut; the same move can be continued."""

    def __init__(self, place: str, running: int) -> None:
        super().__init__(f"{running} run{'s are' if running != 1 else ' is'} still executed in {place}")
        self.place, self.running = place, running


class MoveDiffers(StoreError):
    """The two sides of a move hold different content. The target is not opened."""

    def __init__(self, source: str, target: str, differences: list[str]) -> None:
        super().__init__(f"{target} does not hold what {source} has: {'; '.join(differences)}")
        self.source, self.target, self.differences = source, target, differences


class StoreTooNew(StoreError):
    """A newer laneway made this store."""


class NotAStore(StoreError):
    """The address holds something that is not a laneway store."""


class LeaseLost(LanewayError):
    """The store does not know this incarnation any more, or another worker has the run."""


class StepsChanged(LanewayError):
    """An attempt asks or calls something else than an earlier one did at this place: what was kept does not fit."""


class GiveUp(LanewayError):
    """Raised by a handler to fail its run for good: trying again cannot help."""


class Snooze(LanewayError):
    """Raised by a handler to run again after a delay (seconds or a timedelta). It charges no attempt."""

    def __init__(self, delay: timedelta | float) -> None:
        super().__init__(f"to be run again after {delay}")
        self.delay = delay
