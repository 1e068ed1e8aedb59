"""Debounce on random traces in virtual time, against a list that is written down message by message."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.records.policy import SessionPolicy
from laneway.core.records.run import ReceiptOutcome
from laneway.stores.memory.store import MemoryStore
from laneway.testing import FakeClock, Hand, new_run

TICK = 100_000  # microseconds: all times are whole tenths of a second


@dataclass(frozen=True)
class Said:
    """One message: how long after the one before it, whose it is, and how it is debounced, in ticks."""

    after: int
    task: str
    user: str | None
    debounce: int
    max_wait: int


@dataclass
class Expected:
    """A run as it must come out: when it starts, and who was merged into it."""

    id: str
    who: tuple[str, str | None]
    due: int
    until: int
    merged: list[str] = field(default_factory=list)


SAID = st.builds(
    lambda after, task, user, debounce, more: Said(after, task, user, debounce, debounce + more),
    st.integers(0, 12),
    st.sampled_from(["work", "mail"]),
    st.sampled_from([None, "ann"]),
    st.sampled_from([0, 1, 5, 5, 10]),
    st.integers(0, 30),
)


def expected(trace: list[Said]) -> list[Expected]:
    """Return the runs, by the prose: a message goes to the open window of its task and user, else it is a run."""
    now, runs = 0, list[Expected]()
    for number, said in enumerate(trace):
        now += said.after
        name, who = f"m{number:03d}", (said.task, said.user)
        open_ = [run for run in runs if run.who == who and run.until >= 0 and now < run.due]
        if not open_:
            until = now + said.max_wait if said.debounce else -1
            runs.append(Expected(name, who, now + said.debounce, until))
            continue
        [window] = open_
        window.merged.append(name)
        if said.debounce:
            window.due = min(now + said.debounce, window.until)
    return runs


async def found(trace: list[Said]) -> list[Expected]:
    """Do it, with a worker that always looks when it was told to, and return what started when."""
    clock = FakeClock()
    start, store = clock.now(), MemoryStore(clock)
    hand = await Hand(store, tasks={"work", "mail"}, lease=10**12).register()
    started: list[Expected] = []
    messages, numbers = list(trace), count()
    speaks_at = messages[0].after if messages else None
    while True:
        now = (clock.now() - start) // TICK
        if speaks_at == now:
            said = messages.pop(0)
            policy = SessionPolicy(
                debounce=said.debounce / 10, max_wait=said.max_wait / 10, max_concurrent=1000, cap=1000
            )
            new = new_run(f"m{next(numbers):03d}", task=said.task, user=said.user, session="chat", policy=policy)
            [receipt] = await store.submit([new])
            assert receipt.outcome in (ReceiptOutcome.ACCEPTED, ReceiptOutcome.MERGED)
            speaks_at = now + messages[0].after if messages else None
            if speaks_at == now:
                continue
        reply = await hand.step(room=1000)
        for run in reply.claimed:
            merged = [message.id for message in await store.messages(run.id)]
            started.append(Expected(run.id, (run.task, run.user), now, 0, merged))
        waits = [
            at for at in (speaks_at, None if reply.due_in is None else now + reply.due_in // TICK) if at is not None
        ]
        if not waits:
            return started
        await clock.advance((min(waits) - now) / 10)


@given(st.lists(SAID, max_size=25))
@settings(max_examples=200, deadline=None)
def test_messages_inside_a_window_become_one_run_that_starts_when_it_closes(trace: list[Said]) -> None:
    wanted = {run.id: (run.due, run.merged) for run in expected(trace)}

    runs = asyncio.run(found(trace))

    assert {run.id: (run.due, run.merged) for run in runs} == wanted
    assert sum(1 + len(run.merged) for run in runs) == len(trace)


@given(st.integers(1, 10), st.integers(0, 30), st.integers(1, 60))
@settings(max_examples=50, deadline=None)
def test_however_fast_messages_come_the_first_waits_no_longer_than_max_wait(
    debounce: int, more: int, messages: int
) -> None:
    trace = [Said(int(number > 0), "work", "ann", debounce, debounce + more) for number in range(messages)]

    runs = asyncio.run(found(trace))

    spoken = {f"m{number:03d}": number for number in range(messages)}
    for run in runs:
        assert run.due - spoken[run.id] <= debounce + more
        assert all(spoken[name] < run.due for name in run.merged)
