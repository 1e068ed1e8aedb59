"""What a worker is handed by a step on Redis: groups of runs that have much in common, under fences that may differ."""

from laneway.core.policy import Lane
from laneway.stores.redis.codec.decode import handed
from laneway.stores.redis.store import RedisStore
from laneway.testing import Hand
from laneway.testing.hand import new_run, new_runs

WIDE = Lane("main", limit=10_000)
MANY = 3000  # more groups than Lua could hand over as the values of one call


def test_a_group_says_once_what_its_runs_have_in_common() -> None:
    lease = [2, 1, 0, "hand"]
    own = ["a", 17, 17, "{}", "b", 18, 18, '{"n":1}']
    alone = ["work", "main", False, "chat", 5, "c", 19, 19, "{}", False, *lease]

    first, second, last = handed([1, 2, 3], [["work", "main", False, False, 0, *lease, own], alone])

    assert (first.number, first.id, first.user, first.fence, first.args) == (1, "a", None, 2, "{}")
    assert (second.number, second.id, second.task, second.args, second.worker) == (2, "b", "work", '{"n":1}', "hand")
    assert (last.number, last.id, last.user, last.session, last.priority) == (3, "c", None, "chat", 5)


def test_a_group_of_many_owners_says_of_each_run_whose_it_is() -> None:
    own = ["work", "main", "ann", False, 5, "a", 17, 17, "{}", "play", "other", False, "chat", 0, "b", 18, 18, "{}"]

    first, second = handed([8, 9], [[1, 1, 0, "hand", own]])

    assert (first.number, first.task, first.lane, first.user, first.session) == (8, "work", "main", "ann", None)
    assert (second.number, second.task, second.lane, second.user, second.session) == (9, "play", "other", None, "chat")
    assert (first.priority, second.priority, second.id, second.fence) == (5, 0, "b", 1)


async def test_a_repeat_is_answered_with_the_runs_and_the_fences_of_its_first_answer(redis_store: RedisStore) -> None:
    await redis_store.declare_lanes([WIDE])
    hand = await Hand(redis_store, tasks=["work"]).register()
    await redis_store.submit([*new_runs(3, "plain"), new_run("ann", user="ann"), new_run("chat", session="chat")])
    early = await hand.claim(4)
    await hand.release(*early[::2])
    await hand.release(*early[1::2])
    long = new_run("long", args={"x": "y" * 2000})
    await redis_store.submit([*new_runs(3, "late"), new_run("bob", user="bob"), long])

    claimed = await hand.claim(100)

    assert {run.fence for run in claimed} == {1, 2}
    assert (await hand.repeat_last()).claimed == claimed


async def test_a_step_hands_over_thousands_of_runs_of_which_no_two_are_alike(redis_store: RedisStore) -> None:
    await redis_store.declare_lanes([WIDE])
    hand = await Hand(redis_store, tasks=["work", "play"]).register()
    runs = [new_run(f"run-{number}", task=("work", "play")[number % 2]) for number in range(MANY)]
    for first in range(0, MANY, 500):
        await redis_store.submit(runs[first : first + 500])

    claimed = await hand.claim(MANY)

    assert [(run.id, run.task) for run in claimed] == [(run.id, run.task) for run in runs]
