"""What users read when a server refuses: one line, which names the address and never the password."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from laneway.errors import BadURL, LanewayError, NotAStore, StoreError, StoreUnavailable
from laneway.stores.redis.client.address import Address
from laneway.stores.redis.client.client import RedisClient
from laneway.stores.redis.client.errors import code_of, refuse_old
from laneway.testing.servers import valkey_server
from tests.stores.redis.tools import COUNT, ECHO, lua, opened_client

ADDRESS = Address.parse("redis://ann:secret@host:7000/0?namespace=shop")


async def _refusal(url: str) -> LanewayError:
    client = RedisClient(Address.parse(url))
    with pytest.raises(LanewayError) as caught:
        await client.open()
    await client.close()
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


async def test_a_wrong_password_is_the_addresses_fault() -> None:
    with valkey_server(config={"requirepass": "right"}) as server:
        bare = f"127.0.0.1:{server.port}"
        wrong = await _refusal(f"redis://:secret@{bare}")
        nobody = await _refusal(f"redis://nobody:secret@{bare}")
        none = await _refusal(f"redis://{bare}")
        async with opened_client(f"redis://:right@{bare}") as client:
            assert await client.call(ECHO, "x") == b"x"

    assert isinstance(wrong, BadURL)
    assert str(wrong) == str(nobody) == f"redis://{bare} refuses this user and password"
    assert str(none) == f"redis://{bare} wants a user or password: redis://user:password@host"


async def test_a_password_that_is_changed_while_at_work_is_waited_for() -> None:
    with valkey_server() as server:
        async with opened_client(server.url) as client:
            server.command("CONFIG", "SET", "requirepass", "new")
            await client.close()
            client._opened = True

            with pytest.raises(StoreUnavailable, match="wants a user or password"):
                await client.call(ECHO, "x")


async def test_a_password_that_the_server_does_not_want_is_said() -> None:
    with valkey_server() as server:
        error = await _refusal(f"redis://:secret@127.0.0.1:{server.port}")

    assert isinstance(error, BadURL)
    assert str(error).endswith("refuses this user and password; it may want none, or a user too")


async def test_a_database_that_is_not_there_is_said() -> None:
    with valkey_server() as server:
        error = await _refusal(f"redis://127.0.0.1:{server.port}/99")

    assert isinstance(error, BadURL)
    assert "there is no database 99" in str(error)


async def test_a_single_server_is_no_cluster() -> None:
    with valkey_server() as server:
        error = await _refusal(f"redis+cluster://127.0.0.1:{server.port}")

    assert isinstance(error, BadURL)
    assert "this server is no cluster; write redis://" in str(error)


async def test_a_key_of_another_type_is_in_the_way() -> None:
    with valkey_server() as server:
        async with opened_client(server.url) as client:
            await client.command("RPUSH", "laneway:{default}:count", "x")
            with pytest.raises(NotAStore) as caught:
                await client.call(COUNT)

    assert str(caught.value).endswith("those that begin with laneway:{default}: are laneway's")


async def test_a_server_without_memory_takes_nothing_new_and_lets_work_go_on() -> None:
    with valkey_server(config={"maxmemory": "1mb"}) as server:
        async with opened_client(server.url) as client:
            with pytest.raises(StoreUnavailable) as caught:
                await client.call(COUNT)
            # A script that has deleted something first may write all the same, whatever the version.
            going_on = lua("redis.call('DEL', KEYS[1] .. ':none') return redis.call('SET', KEYS[1] .. ':x', 'y')")

            assert await client.call(going_on) == b"OK"

    assert "out of memory (maxmemory)" in str(caught.value)
    assert not caught.value.maybe_done


async def test_a_user_that_may_not_do_what_laneway_does_is_told_what() -> None:
    with valkey_server() as server:
        server.command("ACL", "SETUSER", "ann", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-info", "-client")
        async with opened_client(f"redis://ann:secret@127.0.0.1:{server.port}") as client:
            with pytest.raises(StoreError, match="may not do what laneway does") as caught:
                await client.call(ECHO, "x")

    assert "evalsha" in str(caught.value)


@pytest.mark.parametrize(
    ("about", "found"),
    [
        ({"redis_version": "6.0.16"}, "Redis 6.0.16"),
        ({"redis_version": "5.0.7"}, "Redis 5.0.7"),
        ({"redis_version": "7.2.4", "valkey_version": "7.1.9"}, "Valkey 7.1.9"),
    ],
)
def test_a_server_that_is_too_old_is_refused(about: Mapping[str, str], found: str) -> None:
    with pytest.raises(StoreError) as caught:
        refuse_old(about, ADDRESS)

    needed = "which is too old; laneway needs Redis 6.2 or Valkey 7.2"
    assert str(caught.value) == f"redis://host:7000/0 is {found}, {needed}"


@pytest.mark.parametrize(
    "about",
    [{"redis_version": "6.2.0"}, {"redis_version": "8.4.1"}, {"redis_version": "7.2.4", "valkey_version": "10.0"}, {}],
)
def test_a_server_that_is_new_enough_is_taken(about: Mapping[str, str]) -> None:
    refuse_old(about, ADDRESS)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", "OOM"),
        ("ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -OOM command not allowed", "OOM"),
        ("ERR Error running script (call to f_0): @user_script:1: WRONGTYPE Operation against", "WRONGTYPE"),
        ("ERR unknown command 'BROOMS '", "ERR"),
        ("MOVED 3999 127.0.0.1:6381", "MOVED"),
    ],
)
def test_the_kind_of_an_error_is_found_also_inside_a_script(said: str, code: str) -> None:
    assert code_of(said) == code
