"""TLS, to a real server through a proxy: the servers that tests are run on have none of their own."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from laneway.errors import BadURL, StoreUnavailable
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.client import RedisClient
from laneway.testing.servers import Server
from tests.stores.redis.tools import ECHO, opened_client


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def certificate(authority: trustme.CA, tmp_path: Path) -> Path:
    """What vouches for the server."""
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
async def port(redis_server: Server, authority: trustme.CA) -> AsyncIterator[int]:
    """A port that speaks TLS and passes on what it hears to the server."""
    [node] = Address.parse(redis_server.url).nodes
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    lines = set[asyncio.Task[None]]()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        lines.add(task)
        task.add_done_callback(lines.discard)
        inner_reader, inner_writer = await asyncio.open_connection(*node)
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(_copied(reader, inner_writer))
                ways.create_task(_copied(inner_reader, writer))
        finally:
            inner_writer.transport.abort()
            writer.transport.abort()

    async with await asyncio.start_server(pass_on, "127.0.0.1", ssl=context) as server:
        yield server.sockets[0].getsockname()[1]
    for line in list(lines):
        line.cancel()
    await asyncio.gather(*lines, return_exceptions=True)
    await asyncio.sleep(0)  # a transport closes its socket in the loop's next turn


async def test_calls_and_wake_ups_go_through_tls(port: int, certificate: Path) -> None:
    async with opened_client(f"rediss://localhost:{port}?ssl_ca_certs={certificate}") as client:
        heard = asyncio.Event()
        client.subscriptions.subscribe("channel", heard.set)
        await heard.wait()

        assert await client.call(ECHO, "x" * 100_000) == b"x" * 100_000
        assert await asyncio.to_thread(client.call_now, ECHO, "y") == b"y"


async def test_a_certificate_that_nobody_vouches_for_is_refused_unless_that_is_wanted(port: int) -> None:
    client = RedisClient(Address.parse(f"rediss://localhost:{port}"))
    with pytest.raises(StoreUnavailable) as caught:
        await client.open()
    async with opened_client(f"rediss://127.0.0.1:{port}?ssl_cert_reqs=none") as other:
        assert await other.call(ECHO, "x") == b"x"

    assert str(caught.value).startswith(f"no TLS with localhost:{port}: its certificate is not trusted (")


async def test_a_certificate_of_another_name_is_refused_unless_that_is_wanted(port: int, certificate: Path) -> None:
    url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificate}"
    with pytest.raises(StoreUnavailable, match="its certificate is not trusted"):
        await RedisClient(Address.parse(url)).open()

    async with opened_client(f"{url}&ssl_check_hostname=false") as client:
        assert await client.call(ECHO, "x") == b"x"


async def test_a_server_without_tls_is_said_to_have_none(redis_server: Server) -> None:
    [(host, plain)] = Address.parse(redis_server.url).nodes

    with pytest.raises(StoreUnavailable, match=f"^no answer from {host}:{plain} within 0.3 s; does it speak TLS there"):
        await RedisClient(Address.parse(f"rediss://{host}:{plain}?timeout=0.3")).open()


async def test_files_that_are_not_there_are_the_fault_of_the_address(port: int) -> None:
    with pytest.raises(BadURL, match=r"cannot use ssl_ca_certs=/nowhere.pem: No such file or directory$"):
        await RedisClient(Address.parse(f"rediss://localhost:{port}?ssl_ca_certs=/nowhere.pem")).open()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # whoever tries a wrong address hangs up
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()
