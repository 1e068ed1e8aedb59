"""The messages of the flow test: each has a number, and its number and the seed say all of it.

So a producer that takes over from a killed one sends the very same messages, and whoever compares the books knows what
each of them asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from laneway import SessionPolicy, Submission
from laneway.core.records.policy import Mode

QUEUE, COLLECT, INTERRUPT, REJECT, STEER = Mode.QUEUE, Mode.COLLECT, Mode.INTERRUPT, Mode.REJECT, Mode.STEER
HEAT = 40  # messages during which a producer talks mostly to the same few sessions
HOT = 3  # so many


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the messages of a session are like. `modes` are drawn from, `debounced` and `delayed` are shares."""

    modes: Sequence[Mode] = (QUEUE,)
    max_concurrent: int = 1
    cap: int = 6
    drop: str = "old"
    pass_on_retry: bool = False
    debounced: float = 0
    delayed: float = 0
    failing: float = 0.1
    longest: float = 0.15  # seconds a handler takes, at most
    lane: str = "wide"
    people: int = 1  # users who write into it
    tasks: Sequence[str] = ("reply",)
    stopped: bool = False  # an operator may stop it

    @property
    def steers(self) -> bool:
        """Tell whether messages may reach a run that is active."""
        return STEER in self.modes

    @property
    def clears(self) -> bool:
        """Tell whether an active run may be cancelled."""
        return INTERRUPT in self.modes or self.stopped

    @property
    def plain(self) -> bool:
        """Tell whether a run joins when it is accepted."""
        return not self.debounced and not self.delayed

    @property
    def single_file(self) -> bool:
        """Tell whether its messages are answered in the order in which they were written, one after the other."""
        alone = self.max_concurrent == 1 and self.people == 1 and len(self.tasks) == 1
        return alone and not (self.pass_on_retry or self.steers or self.delayed)


BOTH = ("reply", "ponder")
SHAPES = (
    Shape(),
    Shape(drop="new", tasks=("ponder",)),
    Shape(modes=(QUEUE, COLLECT), debounced=1),
    Shape(modes=(COLLECT,), cap=2),
    Shape(modes=(STEER,), longest=0.4),
    Shape(modes=(STEER, STEER, QUEUE), tasks=("ponder",), failing=0.3),
    Shape(modes=(QUEUE, QUEUE, INTERRUPT)),
    Shape(modes=(STEER, STEER, STEER, INTERRUPT), longest=0.4, stopped=True),
    Shape(modes=(REJECT, REJECT, QUEUE)),
    Shape(pass_on_retry=True, failing=0.5, cap=20),
    Shape(modes=(STEER, QUEUE), pass_on_retry=True, failing=0.5),
    Shape(delayed=0.3, people=2, cap=20),
    Shape(lane="tight", cap=6),
    Shape(lane="fresh", modes=(QUEUE, COLLECT), cap=6, people=3),
    Shape(modes=tuple(Mode), max_concurrent=2, people=2, tasks=BOTH, debounced=0.2, stopped=True),
    Shape(modes=tuple(Mode), people=2, tasks=BOTH, debounced=0.2, stopped=True),
)


def shape_of(session: str) -> Shape:
    """Return what a session is like."""
    return SHAPES[int(session.rpartition("-")[2]) % len(SHAPES)]


def has_key(number: int) -> bool:
    """Tell whether a message can be sent again by whoever takes over from a killed producer."""
    return number % 2 == 1


class Messages:
    """The messages of all producers, of whom each has a share of the numbers and sessions of its own.

    The order among several producers of one session would be nobody's promise.
    """

    def __init__(self, seed: int, producers: int, sessions: int, each: int) -> None:
        self._seed, self._producers, self._sessions, self.each = seed, producers, sessions, each

    def of(self, number: int) -> Submission:
        """Return the message of this number."""
        random = Random(f"{self._seed} {number}")
        session = self._session(number, random)
        shape = shape_of(session)
        mode = random.choice(shape.modes)
        delay = round(random.random() / 2, 3) if random.random() < shape.delayed else 0
        debounce = 0.06 if not delay and random.random() < shape.debounced else 0
        task = random.choice(shape.tasks)
        return Submission(
            task,
            self._args(number, random, shape, delay=delay, debounce=debounce),
            user=f"user-{(int(session.rpartition('-')[2]) + random.randrange(shape.people)) % 8}",
            session=session,
            session_policy=SessionPolicy(
                mode=QUEUE if delay else mode,
                max_concurrent=shape.max_concurrent,
                cap=shape.cap,
                drop=shape.drop,
                debounce=debounce,
                pass_on_retry=shape.pass_on_retry,
            ),
            priority=random.choice((0, 0, 0, 1, -1)),
            delay=delay,
            lane=shape.lane,
            key=f"message-{number}" if has_key(number) else None,
        )

    def _args(self, number: int, random: Random, shape: Shape, **noted: float) -> dict[str, Any]:
        failing = random.random() < shape.failing
        failures = random.choice((1, 1, 1, 2, 5)) if failing else 0
        return {
            "numbers": [number],
            "takes": round(random.random() ** 3 * shape.longest, 3),
            "failures": failures,
            **noted,
        }

    def _session(self, number: int, random: Random) -> str:
        """Return the session: people talk in bursts."""
        producer, own = number // self.each, self._sessions // self._producers
        if random.random() < 0.8:
            first = Random(f"{self._seed} {producer} {number // HEAT}").randrange(own)
            place = (first + random.randrange(HOT)) % own
        else:
            place = random.randrange(own)
        return f"chat-{producer}-{place}"
