"""A mixed load: every way a run can be asked for, drawn by a seed."""

from __future__ import annotations

from random import Random

from laneway import SessionPolicy, Submission
from tests.system.load.app import plod, stroll

USERS = ("ann", "ben", "cem", "dua", None)
SESSIONS = 8


def load(random: Random, count: int, *, longest: float = 0.05, name: str = "") -> list[Submission]:
    """Return so many submissions; `longest` is what a handler takes at most, `name` sets the sessions apart."""
    return [_submission(random, longest, name) for _ in range(count)]


def max_concurrent(session: str) -> int:
    """Return how many runs of a session may be active: two in every fourth."""
    place = session.rpartition("-")[2]
    return 2 if place.isdecimal() and int(place) % 4 == 0 else 1


def _submission(random: Random, longest: float, name: str) -> Submission:
    failures = random.choices((0, 1, 2, 3), (80, 10, 6, 4))[0]
    session = f"{name}session-{random.randrange(SESSIONS)}" if random.random() < 0.4 else None
    delay = round(random.random(), 3) if random.random() < 0.2 else 0
    return Submission(
        random.choice((stroll, stroll, plod)),
        {"takes": random.random() * longest, "failures": failures, "delay": delay},
        user=random.choice(USERS),
        session=session,
        session_policy=None if session is None else SessionPolicy(max_concurrent=max_concurrent(session), cap=100_000),
        priority=random.choice((0, 0, 0, 1, -1)),
        delay=delay,
        lane=random.choice((None, None, None, "narrow")),
    )
