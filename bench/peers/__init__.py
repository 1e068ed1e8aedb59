"""Comparisons with other libraries that are installed: `--peers` prints which are not.

Each is the fastest peer of a store that was found, at the settings that were its fastest, with a handler that does
nothing, laneway's payload, plain asyncio, and in this process as laneway is. Each checks that it did all of its work.
docs/benchmarks.md tells how each is set up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from bench.latency import one_round, percentiles, pick_ups_from_another
from bench.peers import huey, pgqueuer, repid
from bench.peers.pickups import pick_ups
from bench.plan import Plan
from bench.rows import Experiment, Round, Row, Turn, duel, experiment, percentile
from bench.subjects import STORES
from bench.throughput import draining, submitting

CALLERS = 20
Theirs = Callable[[Plan], AbstractAsyncContextManager[Turn]]


@dataclass(frozen=True)
class Peer:
    """Another library: its package, the modules that it needs, and the experiments against it."""

    name: str
    package: str
    modules: tuple[str, ...]
    experiments: tuple[Experiment, ...]

    @property
    def installed(self) -> bool:
        return all(find_spec(module) for module in self.modules)


def titled(peer: str) -> str:
    """Return the peer with its version, as a title has it."""
    try:
        return f"{peer} {version(peer)}"
    except PackageNotFoundError:
        return peer


def drain(peer: str, store: str, theirs: Theirs, must: float, aim: float) -> Experiment:
    title = f"drain, {STORES[store]}: laneway / {titled(peer)}"

    @experiment(Row(name=f"peer.drain.{store}", title=title, unit="/s", must=must, aim=aim))
    async def measure(plan: Plan) -> list[list[Round]]:
        return [await duel(plan, partial(theirs, plan), partial(draining, plan, store))]

    return measure


def submit(peer: str, store: str, theirs: Theirs, must: float, aim: float) -> Experiment:
    title = f"submit, {CALLERS} callers, {STORES[store]}: laneway / {titled(peer)}"

    @experiment(Row(name=f"peer.submit.{store}", title=title, unit="/s", must=must, aim=aim))
    async def measure(plan: Plan) -> list[list[Round]]:
        return [await duel(plan, partial(theirs, plan), partial(submitting, plan, store, CALLERS))]

    return measure


def pick_up(peer: str, store: str) -> Experiment:
    title = f"idle pick-up, from another process, p50, {STORES[store]}: laneway / {titled(peer)}"

    @experiment(Row(name=f"peer.pickup.{store}.{peer}", title=title, unit="ms", better="less", must=1, aim=0.5))
    async def measure(plan: Plan) -> list[list[Round]]:
        sides = (partial(pick_ups, plan, peer, store), partial(pick_ups_from_another, plan, store))
        theirs, ours = zip(*[await one_round(plan, sides) for _ in range(plan.rounds)], strict=True)
        halves, _ = percentiles(ours, [percentile(times, 0.5) for times in theirs])
        return [halves]

    return measure


PEERS = (
    Peer(
        "huey",
        "huey",
        ("huey",),
        (
            drain("huey", "memory", partial(huey.draining, store="memory"), 1.2, 2),
            drain("huey", "sqlite", partial(huey.draining, store="sqlite"), 5, 15),
            submit("huey", "sqlite", huey.submitting, 3, 10),
            pick_up("huey", "sqlite"),
            pick_up("huey", "redis"),
        ),
    ),
    Peer(
        "repid",
        "repid[redis]",
        ("repid",),
        (
            drain("repid", "redis", repid.draining, 3, 6),
            submit("repid", "redis", partial(repid.submitting, callers=CALLERS), 2, 5),
            pick_up("repid", "redis"),
        ),
    ),
    Peer(
        "pgqueuer",
        "pgqueuer[asyncpg]",
        ("pgqueuer", "asyncpg"),
        (
            drain("pgqueuer", "postgres", pgqueuer.draining, 1.5, 3),
            submit("pgqueuer", "postgres", partial(pgqueuer.submitting, callers=CALLERS), 4, 15),
            pick_up("pgqueuer", "postgres"),
        ),
    ),
)
EXPERIMENTS = tuple(each for peer in PEERS for each in peer.experiments)
