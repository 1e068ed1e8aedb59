"""The order in which accepted runs start."""

from __future__ import annotations

import pytest

from laneway import Scheduler, Submission


@pytest.mark.checklist("W2-11")
async def test_a_users_low_priority_starts_though_a_higher_one_never_runs_dry(app: Scheduler) -> None:
    order = []

    @app.task
    async def work(name: str) -> None:
        order.append(name)
        if name == "plain" and len(order) < 1500:  # as soon as one has started, the next comes
            await app.submit(work, {"name": "plain"}, user="ann")

    await app.submit(work, {"name": "lowly"}, user="ann", priority=-1)
    await app.submit_many([Submission(work, {"name": "plain"}, user="ann") for _ in range(20)])
    await app.drain(concurrency=10)

    assert 900 < order.index("lowly") < 1100


@pytest.mark.checklist("W2-11")
async def test_what_is_accepted_at_the_same_instant_starts_in_the_order_of_acceptance(app: Scheduler) -> None:
    order = []

    @app.task
    async def work(n: int) -> None:
        order.append(n)

    # The clock stands still.
    await app.submit_many([Submission(work, {"n": n}, user="ann") for n in range(20)])
    for n in range(20, 30):
        await app.submit(work, {"n": n}, user="ann")
    await app.drain(concurrency=1)

    assert order == list(range(30))
