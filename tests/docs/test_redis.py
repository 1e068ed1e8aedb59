"""A server understands the commands of the page about Redis."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from laneway import Scheduler
from laneway.stores.redis.client.address import Address
from laneway.testing.servers import ValkeyServer, valkey_server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "redis.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


ADDRESSES = [line.split()[0] for line in blocks("text")[0].splitlines()]
COMMANDS = [line.partition("#")[0].removeprefix("redis-cli ").strip() for line in blocks("sh")[0].splitlines()]


LONG = "ann" * 1000  # what is short stands in the record


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with valkey_server() as server:
        yield server


@pytest.mark.parametrize("url", ADDRESSES)
def test_every_address_is_one(url: str) -> None:
    assert Address.parse(url).shown


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith("--")])
async def test_every_command_is_understood_and_finds_its_key(server: ValkeyServer, command: str) -> None:
    server.command("FLUSHALL")
    async with Scheduler(server.url) as app:

        @app.task
        async def greet(name: str) -> str:
            return f"hello {name}"

        receipt = await app.submit(greet, {"name": LONG})
        await app.drain()
        answer = server.command(*shlex.split(command.replace("RUN", receipt.run_id)))

    match command.split(maxsplit=1)[0], command.rpartition(":")[2]:
        case "HGETALL", _:
            assert answer == ["succeeded", "1"]
        case "HGET", what:
            kept = {"ids": "1", "args": f'{{"name":"{LONG}"}}', "results": f'"hello {LONG}"'}
            assert answer == kept.get(what.split()[0], answer)
            assert answer
        case (("ZCARD" | "HLEN"), _):
            assert answer == 0
        case "MEMORY", _:
            assert isinstance(answer, int)
            assert answer > 0


async def test_a_user_with_the_rights_that_are_named_can_work(server: ValkeyServer) -> None:
    server.command(*shlex.split(blocks("text")[1]))

    async with Scheduler(server.url.replace("redis://", "redis://laneway:password@") + "?namespace=rights") as app:

        @app.task
        async def greet(name: str) -> str:
            return f"hello {name}"

        receipt = await app.submit(greet, {"name": "ann"})
        await app.drain()
        assert await app.result(receipt) == "hello ann"


def test_a_namespace_is_removed_by_its_pattern(server: ValkeyServer) -> None:
    server.command("SET", "laneway:{staging}:runs", "1")
    server.command("SET", "laneway:{default}:runs", "1")
    [pattern] = re.findall(r"--pattern '([^']+)'", PAGE)

    assert server.command("KEYS", pattern) == ["laneway:{staging}:runs"]
