"""What a run takes of a Redis server's memory: while it is pending, and once it has ended."""

from __future__ import annotations

from bench.growth import DONE, new_run, put
from bench.plan import Plan
from bench.rows import Round, Row, experiment
from bench.subjects import IN_FLIGHT, noop
from laneway import Scheduler
from laneway.testing.hand import Hand
from laneway.testing.servers import ValkeyServer, valkey_server

DAY = 86_400 * 1_000_000


@experiment(
    Row(name="memory.redis.pending", title="memory of a pending run: Redis", unit="B", better="less"),
    Row(name="memory.redis.finished", title="memory of a finished run: Redis", unit="B", better="less"),
)
async def memory(plan: Plan) -> list[list[Round]]:
    """Fill a server with runs of a hundred users and finish them all; the arguments are about 130 bytes of JSON."""
    with valkey_server() as server:
        async with Scheduler(server.url) as app:
            app.task(noop)
            store = await app.open()
            await store.submit([new_run()])
            empty = used(server)
            await put(store, plan.crowd)
            pending = used(server)
            hand = await Hand(store, "finisher", tasks=["noop"], lease=DAY).register()
            while claimed := await hand.claim(room=IN_FLIGHT):
                await hand.settle(claimed, DONE)
            finished = used(server)
    return [[Round((each - empty) / plan.crowd)] for each in (pending, finished)]


def used(server: ValkeyServer) -> int:
    # What scripts have left behind is no run's.
    server.command("SCRIPT", "FLUSH", "SYNC")
    return int(server.facts("memory")["used_memory"])


EXPERIMENTS = (memory,)
