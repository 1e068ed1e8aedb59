"""Promise 5. No one starves: users of a lane take turns, and priority is a head start, not a wall."""

from __future__ import annotations

from laneway import Context, Scheduler, Submission


async def test_one_users_thousand_runs_delay_another_by_one_turn(app: Scheduler) -> None:
    order: list[str | None] = []

    @app.task
    async def work(*, ctx: Context) -> None:
        order.append(ctx.user)

    await app.submit_many([Submission(work, user="ann") for _ in range(1000)])
    await app.submit(work, user="ben")
    await app.drain(concurrency=10)

    assert len(order) == 1001
    # Ten are taken at a time, in an order among themselves that only the loop knows.
    assert order.index("ben") < 10


async def test_users_take_turns_whatever_each_of_them_brought(app: Scheduler) -> None:
    order: list[str | None] = []

    @app.task
    async def work(*, ctx: Context) -> None:
        order.append(ctx.user)

    for user, count in (("ann", 30), ("ben", 10), ("cem", 10)):
        await app.submit_many([Submission(work, user=user) for _ in range(count)])
    await app.drain(concurrency=1)

    rounds = [order[start : start + 3] for start in range(0, 30, 3)]
    assert [sorted(map(str, users)) for users in rounds] == [["ann", "ben", "cem"]] * 10
    assert order[30:] == ["ann"] * 20


async def test_an_urgent_run_goes_first_and_a_lowly_one_still_comes_to_its_turn() -> None:
    order: list[str] = []
    app = Scheduler("memory://")

    @app.task
    async def work(name: str) -> None:
        order.append(name)

    await app.submit(work, {"name": "lowly"}, priority=-1)
    await app.submit_many([(work, {"name": "plain"}) for _ in range(1500)])
    await app.submit(work, {"name": "urgent"}, priority=1)
    await app.drain(concurrency=1)

    assert order[0] == "urgent"
    assert 900 < order.index("lowly") < 1100
