"""Messages to sessions: each has a number, and its number and the seed determine all of it.

So a producer that takes over from a killed one sends the very same messages, and the rules know what each of them asked
for.
"""

from __future__ import annotations

from random import Random
from typing import Any

from laneway import SessionPolicy, Submission
from laneway.core.records.policy import Mode
from tests.system.load.session_shape import SessionShape

QUEUE, COLLECT, INTERRUPT, REJECT, STEER = Mode.QUEUE, Mode.COLLECT, Mode.INTERRUPT, Mode.REJECT, Mode.STEER
BURST = 40  # messages that a producer sends mostly to the same few sessions
BURST_SESSIONS = 3  # so many


BOTH = ("reply", "ponder")
SHAPES = (
    SessionShape(),
    SessionShape(drop="new", tasks=("ponder",)),
    SessionShape(modes=(QUEUE, COLLECT), debounced=1),
    SessionShape(modes=(COLLECT,), cap=2),
    SessionShape(modes=(STEER,), longest=0.4),
    SessionShape(modes=(STEER, STEER, QUEUE), tasks=("ponder",), failing=0.3),
    SessionShape(modes=(QUEUE, QUEUE, INTERRUPT)),
    SessionShape(modes=(STEER, STEER, STEER, INTERRUPT), longest=0.4, stopped=True),
    SessionShape(modes=(REJECT, REJECT, QUEUE)),
    SessionShape(pass_on_retry=True, failing=0.5, cap=20),
    SessionShape(modes=(STEER, QUEUE), pass_on_retry=True, failing=0.5),
    SessionShape(delayed=0.3, people=2, cap=20),
    SessionShape(lane="tight", cap=6),
    SessionShape(lane="fresh", modes=(QUEUE, COLLECT), cap=6, people=3),
    SessionShape(modes=tuple(Mode), max_concurrent=2, people=2, tasks=BOTH, debounced=0.2, stopped=True),
    SessionShape(modes=tuple(Mode), people=2, tasks=BOTH, debounced=0.2, stopped=True),
)


def shape_of(session: str) -> SessionShape:
    """Return the shape of a session, by its name."""
    return SHAPES[int(session.rpartition("-")[2]) % len(SHAPES)]


def has_key(number: int) -> bool:
    """Tell whether a producer that takes over from a killed one can send the message again."""
    return number % 2 == 1


class Messages:
    """The messages of all producers, of whom each has a share of the numbers and sessions of its own.

    Nobody promises an order among several producers of one session.
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

    def _args(self, number: int, random: Random, shape: SessionShape, **noted: float) -> dict[str, Any]:
        failing = random.random() < shape.failing
        failures = random.choice((1, 1, 1, 2, 5)) if failing else 0
        return {
            "numbers": [number],
            "takes": round(random.random() ** 3 * shape.longest, 3),
            "failures": failures,
            **noted,
        }

    def _session(self, number: int, random: Random) -> str:
        """Return the session: people send in bursts."""
        producer, own = number // self.each, self._sessions // self._producers
        if random.random() < 0.8:
            first = Random(f"{self._seed} {producer} {number // BURST}").randrange(own)
            place = (first + random.randrange(BURST_SESSIONS)) % own
        else:
            place = random.randrange(own)
        return f"chat-{producer}-{place}"
