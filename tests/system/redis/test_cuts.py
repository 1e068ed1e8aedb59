"""Connections to a Redis store that are cut around each call: the call has its effect once.

The store is compared, key by key, with one of the same calls over a connection that held.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec
import pytest

from laneway.core.records.run import Receipt
from laneway.errors import StoreUnavailable
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.client import RedisClient
from laneway.stores.redis.client.scripts import script
from laneway.stores.redis.store import RedisStore
from laneway.testing import FakeClock
from laneway.testing.servers import valkey_server
from tests.stores.redis.lua_names import verbs
from tests.support.invariants import check_invariants
from tests.system.faults import store_calls
from tests.system.faults.proxy import Cut, Proxy, proxy_to
from tests.system.faults.store_calls import CASES, SUBMISSIONS, TOLD_ONCE, Call, Scene

pytestmark = pytest.mark.system

Case = Any  # a function of `store_calls`
READERS = {
    b"hash": "HGETALL",
    b"zset": "ZRANGE",
    b"set": "SORT",
    b"list": "LRANGE",
    b"stream": "XRANGE",
    b"string": "GET",
}
MORE: dict[bytes, tuple[str, ...]] = {
    b"zset": ("0", "-1", "WITHSCORES"),
    b"set": ("ALPHA",),
    b"list": ("0", "-1"),
    b"stream": ("-", "+"),
}


@dataclass
class Lines:
    """A server behind a line that can be cut, and namespaces of it."""

    proxy: Proxy
    url: str  # of the server itself

    def __post_init__(self) -> None:
        self._namespaces = count(1)

    @asynccontextmanager
    async def scene(self, case: Case) -> AsyncIterator[tuple[RedisStore, RedisClient, Call]]:
        """Set the scene of a case in a namespace; give the store, a client that is not cut off, and the call."""
        clock, namespace = FakeClock(), f"?namespace={case.__name__}-{next(self._namespaces)}"
        store, client = RedisStore(self.proxy.url + namespace, clock), RedisClient(Address.parse(self.url + namespace))
        try:
            yield store, client, await case(await Scene.set_up(store, clock))
        finally:
            self.proxy.plan.clear()
            await store.close()
            await client.close()


@pytest.fixture(scope="module")
def lines() -> Iterator[Lines]:
    with valkey_server() as server, proxy_to(server.port) as proxy:
        # Loaded before: a call that has to load a script is two calls.
        for verb in verbs():
            known = script(verb)
            server.command("SCRIPT", "LOAD", known.text)
            if known.library is not None:
                server.command("FUNCTION", "LOAD", "REPLACE", known.library.text)
        yield Lines(proxy, server.url)


@pytest.mark.parametrize("cut", Cut, ids=lambda cut: cut.name.lower())
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_a_call_that_is_cut_off_has_its_effect_once(lines: Lines, case: Case, cut: Cut) -> None:
    async with lines.scene(case) as (store, client, call):
        before, calls = await picture(client), lines.proxy.calls
        expected = await call()
        calls, kept = lines.proxy.calls - calls, await picture(client)
    assert kept != before or case is store_calls.open_again, "the call has no effect"

    for nth in range(calls):
        # Once: the client repeats it, and the caller does not notice.
        async with lines.scene(case) as (store, client, call):
            lines.proxy.plan.extend([*[None] * nth, cut])
            got = await call()

            assert not lines.proxy.plan, "the call was not cut"
            assert await picture(client) == kept
            if case in SUBMISSIONS:
                assert without_places(got) == without_places(expected)
            elif cut is Cut.BEFORE or case not in TOLD_ONCE:
                assert got == expected

        # Twice: the caller gets an error, and repeats it.
        async with lines.scene(case) as (store, client, call):
            lines.proxy.plan.extend([*[None] * nth, cut, cut])
            if case is store_calls.open_again and nth == calls - 1:
                await call()  # the last call only makes functions; a caller that needs them gets the error
            else:
                with pytest.raises(StoreUnavailable) as unavailable:
                    await call()
                assert unavailable.value.maybe_done
            await call()

            assert not lines.proxy.plan, "the call was not cut twice"
            assert await picture(client) == kept
            await check_invariants(store)


async def test_a_server_that_is_not_reached_has_done_nothing(lines: Lines) -> None:
    async with lines.scene(store_calls.submit) as (store, client, call):
        before = await picture(client)
        await store.close()
        lines.proxy.open = False
        try:
            with pytest.raises(StoreUnavailable) as unavailable:
                await call()
        finally:
            lines.proxy.open = True

        assert not unavailable.value.maybe_done
        assert await picture(client) == before


async def picture(client: RedisClient) -> dict[bytes, Any]:
    """Return all that the namespace holds, by key without its prefix."""
    prefix = client.address.prefix.encode()
    keys = sorted(await client.command("KEYS", prefix + b"*"))
    kinds = await client.read(*(("TYPE", key) for key in keys))
    held = await client.read(
        *((READERS[kind], key, *MORE.get(kind, ())) for kind, key in zip(kinds, keys, strict=True))
    )
    return {
        key.removeprefix(prefix): frozenset(_pairs(found)) if kind == b"hash" else found
        for key, kind, found in zip(keys, kinds, held, strict=True)
    }


def _pairs(found: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(found[::2], found[1::2], strict=True)


def without_places(receipts: Any) -> list[Receipt]:
    """Return receipts without positions: a repeat does not return them."""
    return [msgspec.structs.replace(receipt, position=None) for receipt in receipts]
