"""Addresses of Redis stores: how they are parsed, and the errors of bad ones."""

from __future__ import annotations

import pytest

from laneway.core.common.addresses import without_password
from laneway.errors import BadURL
from laneway.stores.redis.client.address import Address

NAMES = "it has letters, digits, - _ and . only, and at most 100 of them"


@pytest.mark.parametrize(
    ("url", "nodes", "db"),
    [
        ("redis://", (("localhost", 6379),), 0),
        ("redis://:6380", (("localhost", 6380),), 0),
        ("redis://host", (("host", 6379),), 0),
        ("redis://host/3", (("host", 6379),), 3),
        ("valkey://host:7000/", (("host", 7000),), 0),
        ("redis://host:7000?db=2", (("host", 7000),), 2),
        ("redis://[::1]:7000/1", (("::1", 7000),), 1),
        ("redis+cluster://a:1,b:2", (("a", 1), ("b", 2)), 0),
        ("rediss+cluster://a:1,b:2/0", (("a", 1), ("b", 2)), 0),
        ("redis+sentinel://a,b:2/service/5", (("a", 26379), ("b", 2)), 5),
        ("redis+sentinel://a/service", (("a", 26379),), 0),
    ],
)
def test_servers_and_database_are_read(url: str, nodes: tuple[tuple[str, int], ...], db: int) -> None:
    address = Address.parse(url)

    assert (address.nodes, address.db) == (nodes, db)


def test_user_and_password_are_decoded_and_never_shown() -> None:
    address = Address.parse("redis://a%40nn:s%2Fe%3Acr%40t@host:7000/2?namespace=n&timeout=1.5")

    assert (address.username, address.password) == ("a@nn", "s/e:cr@t")
    assert (address.namespace, address.timeout, address.prefix) == ("n", 1.5, "laneway:{n}")
    assert address.shown == "redis://host:7000/2"
    assert "cr" not in repr(address)


def test_a_password_may_stand_alone() -> None:
    assert (Address.parse("redis://:pw@h").username, Address.parse("redis://:pw@h").password) == (None, "pw")


def test_a_socket_is_a_path() -> None:
    address = Address.parse("unix://ann:pw@/run/valkey%20x.sock?db=3")

    assert (address.path, address.db, address.password) == ("/run/valkey x.sock", 3, "pw")
    assert address.shown == "unix:///run/valkey%20x.sock"


def test_sentinels_have_a_service_and_their_own_login() -> None:
    address = Address.parse("rediss+sentinel://u:p@a:1/mymaster/0?sentinel_password=q&ssl_cert_reqs=none")

    assert (address.service, address.password, address.sentinel_login) == ("mymaster", "p", (None, "q"))
    assert address.tls == {"ssl_cert_reqs": "none"}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://host?namspace=x", "redis://: unknown parameter 'namspace', did you mean 'namespace'?"),
        (
            "redis://host?namespace=a b",
            "namespace 'a b': it has letters, digits, - _ and . only, and at most 100 of them",
        ),
        ("redis://host?namespace=", "namespace '': it has letters, digits, - _ and . only, and at most 100 of them"),
        ("redis://host?timeout=soon", "timeout 'soon': it is a number of seconds, from above 0 to 3600"),
        ("redis://host?timeout=nan", "timeout 'nan': it is a number of seconds, from above 0 to 3600"),
        ("redis://host?timeout=0", "timeout '0': it is a number of seconds, from above 0 to 3600"),
        ("redis://host/first", "redis://: the database is a number, such as /0, not 'first'"),
        ("redis://host/-1", "redis://: the database is a number, such as /0, not '-1'"),
        ("redis://a:1,b:2", "redis:// names one server; for several write redis+cluster:// or redis+sentinel://"),
        ("redis+cluster://a:1/2", "a cluster has database 0 only, not 2; ?namespace= keeps stores apart"),
        ("redis+sentinel://a:1", "redis+sentinel:// names no service; write redis+sentinel://host:26379/service/0"),
        ("unix://", "unix:// names no socket; write unix:///path/to/server.sock"),
        ("unix://run/x.sock", "unix:// names no socket; write unix:///path/to/server.sock"),
        ("redis://host:99999", "redis://: a port is a number from 1 to 65535"),
        ("redis://host?ssl_ca_certs=x", "redis://: ssl_ca_certs is for TLS; write rediss://"),
        ("valkey://host?ssl_ca_certs=x", "valkey://: ssl_ca_certs is for TLS; write valkeys://"),
        ("redis://host?sentinel_password=x", "redis://: sentinel_password is for redis+sentinel://"),
        ("rediss://host?ssl_cert_reqs=maybe", "ssl_cert_reqs 'maybe': it is none, optional or required"),
    ],
)
def test_a_bad_address_gets_one_clear_line(url: str, message: str) -> None:
    with pytest.raises(BadURL) as caught:
        Address.parse(url)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    "url",
    [
        "redis://:sec/ret@host",
        "redis://:sec?ret@host",
        "redis://:sec#ret@host",
        "redis://:sec@ret@host",
        "redis://ann:secret",
        "redis://ann:secret@",
        "redis://ann:secret@host:port",
        "redis://ann:secret@host:70000",
        "redis://ann:secret@host/x",
        "redis://ann:secret@host?password=secret",
        "redis://host?password=secret",
        "unix://ann:secret@",
        "redis+sentinel://ann:secret@host",
        "redis+cluster://ann:secret@host,,other",
    ],
)
def test_what_is_said_of_an_address_never_holds_its_password(url: str) -> None:
    try:
        said = Address.parse(url).shown
    except BadURL as error:
        said = str(error)

    assert "sec" not in said
    assert "ret" not in said
    if "@" in url:
        assert "sec" not in without_password(url)


def test_an_address_is_shown_with_its_namespace_and_without_user_password_and_other_parameters() -> None:
    assert (
        without_password("redis+cluster://u:p@a:1,b:2?timeout=1&namespace=x") == "redis+cluster://a:1,b:2?namespace=x"
    )
    assert without_password("redis+sentinel://u:p@a:1/s/0") == "redis+sentinel://a:1/s/0"
    assert without_password("unix:///run/x.sock?db=1") == "unix:///run/x.sock"
    assert without_password("sqlite:///who@home/x.db") == "sqlite:///who@home/x.db"
