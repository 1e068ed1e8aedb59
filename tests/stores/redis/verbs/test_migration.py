"""A store of layout 5 is migrated when it is opened: its runs go on, and everything in it agrees."""

from __future__ import annotations

from laneway.core.records.policy import Lane, SessionPolicy
from laneway.stores.redis.codec.keys import LAYOUT
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock, Hand, new_run, new_runs
from tests.stores.redis.raw_keys import RawKeys
from tests.stores.redis.tools import lua, opened_client
from tests.support.invariants import check_drains

# Writes session, user and worker as layout 5 had them: the first held and the first parked run stood in the texts of
# session and user, a place had a code behind it, and a worker's last reply had spans of fences.
TO_LAYOUT_5 = lua("""
local prefix, SCALE, CODE = KEYS[1] .. ':', 256, 7

local function edit(key, field, change)
  local value = cmsgpack.unpack(redis.call('HGET', prefix .. key, field))
  redis.call('HSET', prefix .. key, field, cmsgpack.pack(change(value)))
end

edit('sessions', 'chat', function(book)
  local first = redis.call('ZPOPMIN', prefix .. 'held:chat')
  local others = redis.call('ZRANGE', prefix .. 'held:chat', 0, -1, 'WITHSCORES')
  for i = 1, #others, 2 do
    redis.call('ZADD', prefix .. 'held:chat', others[i + 1] * SCALE + CODE, others[i])
  end
  local line = string.format('%d %d ', tonumber(first[1]), first[2] * SCALE + CODE)
  local old = {book[1], book[2], book[3], 0, book[4], book[5], book[6], line, false}
  for i = 7, 14 do
    old[i + 3] = book[i]
  end
  return old
end)

edit('seats:main', 'ann', function(seat)
  local first = redis.call('ZPOPMIN', prefix .. 'parked:4:main:user:ann')
  return {seat[1], seat[2], seat[3], {tonumber(first[2]), tonumber(first[1]), 0}, seat[4]}
end)

edit('workers', 'hand', function(worker)
  local reply = cmsgpack.unpack(worker[7])
  reply[1], reply[2], reply[7] = table.concat(reply[1], ' '), {1, reply[2][1]}, {}
  worker[7] = cmsgpack.pack(reply)
  return worker
end)

redis.call('HSET', prefix .. 'meta', 'layout', 5)
""")


async def test_a_store_of_layout_5_goes_on_after_its_migration(
    redis_url: str, redis_store: RedisStore, raw: RawKeys, clock: FakeClock
) -> None:
    await redis_store.declare_lanes([Lane("main", limit=10, per_user=1)])
    await redis_store.submit(new_runs(6, "chat", session="chat", policy=SessionPolicy(cap=100)))
    await redis_store.submit([new_run(f"ann-{nth}", user="ann") for nth in range(5)])
    hand = await Hand(redis_store).register()
    claimed = await hand.claim(8)
    held = await raw.do("ZRANGE", "held:chat", 0, -1, "WITHSCORES")
    parked = await raw.do("ZRANGE", "parked:4:main:user:ann", 0, -1, "WITHSCORES")
    async with opened_client(redis_url) as client:
        await client.call(TO_LAYOUT_5)

    await redis_store.open()

    assert int(await raw.do("HGET", "meta", "layout")) == LAYOUT
    assert await raw.do("ZRANGE", "held:chat", 0, -1, "WITHSCORES") == held
    assert await raw.do("ZRANGE", "parked:4:main:user:ann", 0, -1, "WITHSCORES") == parked
    assert await redis_store.check() == []
    assert [run.id for run in (await hand.repeat_last()).claimed] == [run.id for run in claimed]
    await check_drains(redis_store, clock)


async def test_workers_of_an_older_version_find_that_the_store_has_moved(redis_store: RedisStore, raw: RawKeys) -> None:
    await raw.do("HSET", "meta", "layout", 5)

    await redis_store.open()

    assert await raw.do("HGET", "moving", "phase") == b"frozen"
    assert await redis_store.moving() is None
