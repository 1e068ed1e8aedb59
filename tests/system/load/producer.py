"""A producer process of a system test: `python -m tests.system.load.producer '{"seed": 1, "count": 100}'`.

It submits and, once a submission is acknowledged, writes that into the journal. Killed in between, it may have
submitted more runs than it knows of; it must never know of a run that the store does not have.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from laneway import StoreMoved, StoreUnavailable, Submission
from tests.system.faults.lossy_store import make_lossy
from tests.system.load.app import app, journal, stroll
from tests.system.load.mixed_load import load
from tests.system.oracle.journal import Accepted, Unanswered

CALLERS = 4  # that submit at once


class Plan(msgspec.Struct, frozen=True):
    """What to submit: `count` runs of a mixed load, or with `batch`, runs that are alike, so many in each call."""

    seed: int
    count: int
    batch: int = 0
    pause: float = 0  # seconds a caller waits between two calls
    longest: float = 0.05  # seconds a handler takes at most
    lossy: float = 0


async def main(plan: Plan) -> None:
    """Submit what is planned."""
    random = Random(plan.seed)
    if plan.lossy:
        store = make_lossy(app, random)
        await app.open()
        store.chance = plan.lossy
    parcels = _batches(plan) if plan.batch else _singles(plan, random)
    await asyncio.gather(*(_submit_all(parcels, plan.pause) for _ in range(CALLERS)))
    if not plan.lossy:
        await app.aclose()


def _singles(plan: Plan, random: Random) -> Iterator[Sequence[Submission]]:
    # A session has one producer here: nobody promises an order among several.
    return ([item] for item in load(random, plan.count, longest=plan.longest, name=f"{journal().process}-"))


def _batches(plan: Plan) -> Iterator[Sequence[Submission]]:
    for first in range(0, plan.count, plan.batch):
        yield [Submission(stroll, user=f"{journal().process}-batch-{first // plan.batch}") for _ in range(plan.batch)]


async def _submit_all(parcels: Iterator[Sequence[Submission]], pause: float) -> None:
    for parcel in parcels:
        await asyncio.sleep(pause)
        try:
            receipts = await app.submit_many(parcel)
        except StoreUnavailable:
            journal().write(Unanswered)
            continue
        except StoreMoved:
            return
        for receipt in receipts:
            journal().write(Accepted, run=receipt.run_id)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Plan)))
