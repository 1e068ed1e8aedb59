"""The keys of a Redis store, read and changed without the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from laneway.stores.redis.client.client import RedisClient
from laneway.stores.redis.client.scripts import script
from tests.stores.redis.tools import opened_client

Part = str | bytes | int


@asynccontextmanager
async def raw_keys(url: str) -> AsyncIterator[RawKeys]:
    """Give the keys of the store at this address."""
    async with opened_client(url) as client:
        yield RawKeys(client)


class RawKeys:
    """The keys of one store, without their prefix."""

    def __init__(self, client: RedisClient) -> None:
        self._client, self._prefix = client, client.address.prefix

    async def do(self, command: str, key: str, *parts: Part) -> Any:
        """Send a command about one key."""
        return await self._client.command(command, f"{self._prefix}:{key}", *parts)

    async def encoding(self, key: str) -> Any:
        """Return how the server encodes the key's value."""
        return await self._client.command("OBJECT", "ENCODING", f"{self._prefix}:{key}")

    async def run(self, verb: str, now: int) -> None:
        """Run a script without arguments at that time."""
        await self._client.call(script(verb), now, msgspec.msgpack.encode([]))

    async def calls(self) -> int:
        """Return how many scripts the server has run. One that it gets for the first time counts as two."""
        stats = await self._client.info("commandstats")
        texts = [text for name, text in stats.items() if name.startswith("cmdstat_eval")]
        return sum(int(text.split("=")[1].split(",")[0]) for text in texts)

    async def change(self, key: str, field: str, edit: Callable[[list[Any]], None]) -> None:
        """Change what is packed under a field of a hash."""
        packed = msgspec.msgpack.decode(await self.do("HGET", key, field))
        edit(packed)
        await self.do("HSET", key, field, msgspec.msgpack.encode(packed))

    async def change_run(self, number: str, edit: Callable[[list[Any]], None]) -> None:
        """Change a run's record, and the lengths of its parts with it."""
        _, _, *values = msgspec.msgpack.decode(await self.do("HGET", "runs", number))
        edit(values)
        state, whose, own = (b"".join(map(msgspec.msgpack.encode, part)) for part in _parts(values))
        first = 13 + len(state)
        lengths = b"".join(b"\xce" + length.to_bytes(4, "big") for length in (first + len(whose), first))
        await self.do("HSET", "runs", number, b"\xdc\x00\x19" + lengths + state + whose + own)

    async def unpacked(self, key: str) -> dict[bytes, Any]:
        """Return a hash; what is packed in it, unpacked."""
        flat = await self.do("HGETALL", key)
        return {field: _opened(value) for field, value in zip(flat[::2], flat[1::2], strict=True)}

    async def member(self, run_id: str) -> str:
        """Return how sorted sets name a run."""
        return f"{int(await self.do('HGET', 'ids', run_id)):015d}"

    async def all(self) -> AsyncIterator[tuple[str, str]]:
        """Go through all keys and their types."""
        cursor = "0"
        while True:
            after, page = await self._client.command("SCAN", cursor, "MATCH", f"{self._prefix}:*", "COUNT", 1000)
            for key in page:
                kind = await self._client.command("TYPE", key)
                yield key.decode().removeprefix(f"{self._prefix}:"), kind.decode()
            cursor = after.decode()
            if cursor == "0":
                return


def _parts(values: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what a record says of its state, of whose it is, and of its own."""
    return values[:13], values[13:18], values[18:]


def _opened(value: bytes) -> Any:
    try:
        return msgspec.msgpack.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return value
