"""A mixed load: every way a run can be asked for, drawn by a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from laneway import SessionPolicy, Submission
from tests.system.load.app import plod, stroll
from tests.system.load.session_shape import SessionShape

USERS = ("ann", "ben", "cem", "dua", None)
SESSIONS = 8
CAP = 100_000


def load(random: Random, count: int, *, longest: float = 0.05, name: str = "") -> list[Submission]:
    """Return so many submissions; a handler takes at most `longest` seconds, `name` begins the names of sessions."""
    return [_submission(random, longest, name) for _ in range(count)]


def shape_of(session: str) -> SessionShape:
    """Return the shape of a session, by its name: in every fourth, two runs may be active."""
    place = session.rpartition("-")[2]
    return SessionShape(max_concurrent=2 if place.isdecimal() and int(place) % 4 == 0 else 1, cap=CAP)


def policy_of(session: str, **options: Any) -> SessionPolicy:
    """Return the policy that submissions to a session carry."""
    return SessionPolicy(max_concurrent=shape_of(session).max_concurrent, cap=CAP, **options)


def _submission(random: Random, longest: float, name: str) -> Submission:
    failures = random.choices((0, 1, 2, 3), (80, 10, 6, 4))[0]
    session = f"{name}session-{random.randrange(SESSIONS)}" if random.random() < 0.4 else None
    delay = round(random.random(), 3) if random.random() < 0.2 else 0
    return Submission(
        random.choice((stroll, stroll, plod)),
        {"takes": random.random() * longest, "failures": failures, "delay": delay},
        user=random.choice(USERS),
        session=session,
        session_policy=None if session is None else policy_of(session),
        priority=random.choice((0, 0, 0, 1, -1)),
        delay=delay,
        lane=random.choice((None, None, None, "narrow")),
    )
