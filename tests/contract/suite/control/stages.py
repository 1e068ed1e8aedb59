"""A run in every stage of its life in which nobody executes it: what control verbs meet."""

from __future__ import annotations

from laneway.core.records.policy import Lane
from laneway.ports.control import Pause
from laneway.ports.store import Store
from laneway.testing.hand import Hand, new_run
from tests.contract.suite.attempts.settling import one_running


async def ready(store: Store) -> None:
    """Leave `a` in the ready order."""
    await store.submit([new_run("a", user="ann")])


async def parked(store: Store) -> None:
    """Leave `a` parked, because its user is at the cap."""
    hand = await Hand(store, "other").register()
    await store.declare_lanes([Lane("main", per_user=1)])
    await store.submit([new_run("b", user="ann"), new_run("a", user="ann")])
    await hand.claim(2)


async def brought_back(store: Store) -> None:
    """Leave `a` in the ready order again after it was parked."""
    hand = await Hand(store, "other").register()
    await store.declare_lanes([Lane("main", per_user=1)])
    await store.submit([new_run("b", user="ann"), new_run("a", user="ann"), new_run("c", user="ann")])
    await hand.succeed(*await hand.claim(3))


async def set_aside(store: Store) -> None:
    """Leave `a` set aside by a worker that does not know its task."""
    hand = await Hand(store, "other", tasks=["other"]).register()
    await store.submit([new_run("a", user="ann"), new_run("b", task="other")])
    await hand.succeed(*await hand.claim(2))


async def held(store: Store) -> None:
    """Leave `a` held back by its session."""
    await store.submit([new_run("b", session="chat"), new_run("a", session="chat"), new_run("c", session="chat")])


async def future(store: Store) -> None:
    """Leave `a` due in a minute."""
    await store.submit([new_run("a", session="chat", delay=60)])


UNSTARTED = [ready, parked, brought_back, set_aside, held, future]


async def between_attempts(store: Store) -> None:
    """Leave `a` due again, after a failure."""
    hand, claimed = await one_running(store)
    await hand.fail(claimed)


async def released(store: Store) -> None:
    """Leave `a` startable again."""
    hand = await Hand(store).register()
    await store.submit([new_run("a", session="chat"), new_run("b", session="chat")])
    await hand.release(*await hand.claim())


async def paused_at_work(store: Store) -> None:
    """Leave `a` paused after it was started."""
    hand, claimed = await one_running(store)
    await store.change_run("p", "a", Pause())
    await hand.pause(claimed)


async def paused_before(store: Store) -> None:
    """Leave `a` paused before it was ever started."""
    await held(store)
    await store.change_run("p", "a", Pause())


PENDING = [*UNSTARTED, between_attempts, released]
NOT_RUNNING = [*PENDING, paused_at_work, paused_before]


def named(stage: object) -> str:
    """Return the stage's name."""
    return getattr(stage, "__name__", str(stage))
