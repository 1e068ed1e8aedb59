"""A producer of messages to sessions: `python -m tests.system.load.message_producer '{"seed": 1, ...}'`.

It journals what it is about to submit, submits it, and journals the receipts. Killed in between, nobody knows what
became of that batch; the process that takes over sends those of its messages again that have a key.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import chain, islice
from random import Random

import msgspec

from tests.system.load.app import journal
from tests.system.load.message_app import app
from tests.system.load.messages import Messages
from tests.system.oracle.journal import Sent

MOST = 12  # messages in one call


class Plan(msgspec.Struct, frozen=True):
    """What to send: the messages `again`, then `first` up to `end`, with pauses of at most `rest` seconds."""

    seed: int
    producers: int
    sessions: int
    each: int
    first: int
    end: int
    rest: float
    again: list[int] = []


async def main(plan: Plan) -> None:
    """Send what is planned."""
    messages = Messages(plan.seed, plan.producers, plan.sessions, plan.each)
    random = Random(plan.first)
    async with app:
        await app.open()
        for numbers in _parcels(plan, random):
            journal().write(Sent, numbers=numbers)
            receipts = await app.submit_many([messages.of(number) for number in numbers])
            journal().received(numbers, receipts)
            await asyncio.sleep(random.random() * plan.rest)


def _parcels(plan: Plan, random: Random) -> Iterator[list[int]]:
    numbers = chain(plan.again, range(plan.first, plan.end))
    while parcel := list(islice(numbers, random.randint(1, MOST))):
        yield parcel


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Plan)))
