"""Control: what people and programs ask of runs from outside."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from laneway.core.records.run import Run, RunFilter


class Cancel(msgspec.Struct, frozen=True):
    """End the run: one that is not running ends at once, with its events; a running one is requested to end.

    A stored cancel wins over whatever the attempt returns. A run whose lease has lapsed ends at once too, and so does
    every run with `abandon`: its slots are free, later writes of its worker are refused, and that worker learns of it
    at its next renewal. The holder of a run that is requested to end is woken.
    """

    abandon: bool = False


class Pause(msgspec.Struct, frozen=True):
    """Pause the run: a pending one at once, a running one when its handler reaches a checkpoint.

    A run that has joined its session keeps its place there, and the runs behind it wait. Once the pause is stored,
    whatever would make the run pending again makes it paused instead.
    """


class Resume(msgspec.Struct, frozen=True):
    """Make a paused run pending again, due when it was; withdraw a pause that was requested of a running one.

    A run that was paused before it was due, and is due by now, joins the tail of its session.
    """


class Answer(msgspec.Struct, frozen=True):
    """Answer a question that the run waits for, with JSON text; `name` may be left out if there is just one question.

    The first answer before the question's time is over wins. A later answer ends the run, if it has not ended yet, and
    raises NotWaiting, as every answer does to a run that does not wait for it. Raises BadSetting if several questions
    are open and no name is given.
    """

    text: str
    name: str | None = None


RunChange: TypeAlias = Cancel | Pause | Resume | Answer


class Swept(msgspec.Struct, frozen=True):
    """The answer to one part of a bulk change: how many runs were changed, and behind which number to go on, if any."""

    changed: int
    last: int | None = None


class ControlStore(Protocol):
    """Changes runs from outside, whether a worker is up or not.

    Each call carries an id that the caller has made. The store keeps, with each run, the id of the newest call that
    changed it.
    """

    async def change_run(self, call: str, run_id: str, change: RunChange) -> Run:
        """Make this change; return the run as it is then. Each kind of change says what it does.

        Repeatable: the same call again changes nothing and returns the run. A change that would leave the run as it is
        changes nothing either. Raises UnknownRun, and WrongState if the run's state does not allow the change;
        `run_id` is the whole id.
        """
        ...

    async def cancel_where(
        self, call: str, wanted: RunFilter, *, after: int = 0, until: int | None = None, limit: int = 500
    ) -> Swept:
        """Cancel the runs that fit, of numbers greater than `after` and up to `until`, at most `limit` of them.

        `changed` counts the runs that this call cancelled or requested to end; runs that had ended, or were requested
        to end before, are not counted. Repeatable: the same call again returns the same count.
        """
        ...
