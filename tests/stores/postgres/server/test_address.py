"""Addresses of PostgreSQL stores: their parts, and the errors of bad ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

from laneway.core.common.addresses import without_password
from laneway.errors import BadURL
from laneway.stores.postgres.server.address import Address

UNREADABLE = (
    "postgresql://: this address cannot be read; it is postgresql://user:password@host:5432/database, with"
    " / ? # @ : written as %2F %3F %23 %40 %3A in user and password"
)
SCHEMAS = (
    "it begins with a small letter, though not with pg_, and has small letters, digits and _ only, 48 of them at most"
)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://", "postgresql:///"),
        ("postgres://host", "postgresql://host/"),
        ("postgresql://host:5433/shop", "postgresql://host:5433/shop"),
        ("postgresql://ann:pw@host/shop?sslmode=require", "postgresql://host/shop"),
        ("postgresql://ann@host", "postgresql://host/ann"),
        ("postgresql:///shop?host=/run/postgresql&port=5433", "postgresql:///run/postgresql/shop"),
        ("postgresql://[::1]:7000/shop", "postgresql://::1:7000/shop"),
        ("postgresql://a,b:7000/shop", "postgresql://a,b:7000/shop"),
        ("postgresql://ann:pw@a:6000,b:7000/shop", "postgresql://a:6000,b:7000/shop"),
        ("postgresql:///shop?host=a,b&port=7000", "postgresql://a:7000,b:7000/shop"),
        ("postgresql:///shop?host=/run/a,b&port=6000,7000", "postgresql:///run/a,b:7000/shop"),
        ("postgresql://host/shop?schema=jobs&timeout=1", "postgresql://host/shop?schema=jobs"),
    ],
)
def test_an_address_is_shown_by_server_database_and_schema(url: str, shown: str) -> None:
    assert Address.parse(url).shown == shown


def test_what_is_laneways_own_is_read_and_the_rest_is_libpqs() -> None:
    address = Address.parse("postgresql://h/d?schema=s_1&timeout=1.5&pooled=yes&sslmode=require&application_name=a%26b")

    assert (address.schema, address.timeout, address.pooled) == ("s_1", 1.5, True)
    assert address.conninfo == "postgresql://h/d?sslmode=require&application_name=a%26b"


def test_of_several_servers_the_one_that_can_be_written_is_meant() -> None:
    assert Address.parse("postgresql://a,b/d").conninfo.endswith("/d?target_session_attrs=read-write")
    assert Address.parse("postgresql://a,b/d?target_session_attrs=any").conninfo.endswith("?target_session_attrs=any")


def test_schemas_have_locks_and_channels_of_their_own() -> None:
    one, other = (Address.parse(f"postgresql://h/d?schema={name}") for name in ("one", "other"))

    assert len({one.lock, one.migration_lock, other.lock, other.migration_lock}) == 4
    assert one.news != other.news


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/d", "a PostgreSQL store is written postgresql://user:password@host/database"),
        ("postgresql://h/d?shema=x", "postgresql://: unknown parameter 'shema', did you mean 'schema'?"),
        ("postgresql://h/d?sslmod=x", "postgresql://: unknown parameter 'sslmod', did you mean 'sslmode'?"),
        (
            "postgresql://h/d?zzz=x",
            "postgresql://: unknown parameter 'zzz'; laneway's own are schema, timeout, pooled",
        ),
        ("postgresql://h/d?schema=", f"schema '': {SCHEMAS}"),
        ("postgresql://h/d?schema=Shop", f"schema 'Shop': {SCHEMAS}"),
        ("postgresql://h/d?schema=pg_shop", f"schema 'pg_shop': {SCHEMAS}"),
        ("postgresql://h/d?schema=a;b", f"schema 'a;b': {SCHEMAS}"),
        ('postgresql://h/d?schema=a"b', f"schema 'a\"b': {SCHEMAS}"),
        (f"postgresql://h/d?schema={'x' * 49}", f"schema '{'x' * 49}': {SCHEMAS}"),
        ("postgresql://h/d?timeout=soon", "timeout 'soon': it is a number of seconds, from above 0 to 3600"),
        ("postgresql://h/d?timeout=nan", "timeout 'nan': it is a number of seconds, from above 0 to 3600"),
        ("postgresql://h/d?timeout=0", "timeout '0': it is a number of seconds, from above 0 to 3600"),
        ("postgresql://h/d?pooled=maybe", "pooled 'maybe': it is yes or no"),
        ("postgresql://h:port/d", UNREADABLE),
        ("postgresql://[::1/d", UNREADABLE),
        ("postgresql://h/d%zz", UNREADABLE),
    ],
)
def test_a_bad_address_gets_one_clear_line(url: str, message: str) -> None:
    with pytest.raises(BadURL) as caught:
        Address.parse(url)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:sec/ret@host/d",
        "postgresql://ann:sec?ret@host/d",
        "postgresql://ann:sec?schema=ret@host/d",
        "postgresql://ann:sec?timeout=ret@host/d",
        "postgresql://ann:sec#ret@host/d",
        "postgresql://ann:sec@ret@host/d",
        "postgresql://ann:sec:ret@host/d",
        "postgresql://ann:sec%ret@host/d",
        "postgresql://ann:secret",
        "postgresql://ann:secret@",
        "postgresql://ann:secret@host:port/d",
        "postgresql://ann:secret@host/d?zzz=1",
        "postgresql://host/d?password=secret",
        "postgresql://host/d?user=ann&password=secret&sslpassword=secret",
        "postgresql://ann:secret@one:6000,two:7000/d?target_session_attrs=read-write",
        "postgresql://ann:secret@one:6000,two:port/d",
        "postgresql://ann:sec/ret@one:6000,two:7000/d",
        "postgresql://ann:sec@ret@one:6000,two:7000/d",
    ],
)
def test_what_is_said_of_an_address_never_holds_its_password(url: str) -> None:
    try:
        address = Address.parse(url)
        said = f"{address.shown} {address!r}"
    except BadURL as error:
        said = f"{error} {error!r} {error.__cause__}"

    assert "sec" not in said
    assert "ret" not in said
    if "@" in url:
        assert "sec" not in without_password(url)


def test_a_missing_client_is_said_with_what_installs_it() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from laneway import Scheduler\nfrom laneway.errors import BadURL\n"
        "try: Scheduler('postgresql://ann:secret@host/d')\n"
        "except BadURL as error: print(error)\n"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50).stdout

    assert said == "postgresql:// needs a package more: pip install 'laneway[postgres]'\n"
