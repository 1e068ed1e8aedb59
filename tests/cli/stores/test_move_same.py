"""`laneway move` finds out that FROM and TO are one store, however they are spelt, before anything is deleted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from laneway import Scheduler
from tests.cli.conftest import Invoke

Refused = Callable[[str, str], None]


async def greet(name: str) -> str:
    return f"hello {name}"


def submit(url: str, *names: str) -> None:
    app = Scheduler(url)
    app.task(greet)
    for name in names:
        app.sync.submit("greet", {"name": name})
    app.sync.close()


@pytest.fixture(params=[(), ("--overwrite",)], ids=["plain", "overwrite"])
def refused(request: pytest.FixtureRequest, invoke: Invoke) -> Refused:
    """See that a store with two runs, and nobody else at it, is as it was after a move to another name of it."""

    def see(source: str, target: str) -> None:
        submit(source, "ann", "bob")

        result = invoke("move", source, target, *request.param)

        assert (result.exit_code, result.stdout) == (2, "")
        assert "are the same store" in result.stderr
        assert result.stderr.count("\n") == 1
        assert len(json.loads(invoke("runs", "list", "--store", source, "--json").stdout)) == 2
        assert json.loads(invoke("workers", "list", "--store", source, "--json").stdout) == []
        submit(source, "eve")  # it is open
        assert invoke("doctor", "--store", source).exit_code == 0
        given_up = invoke("move", source, target, "--abort")
        assert given_up.exit_code in (2, 5)
        assert len(json.loads(invoke("runs", "list", "--store", source, "--json").stdout)) == 3

    return see


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [("/0?", "?"), ("/0?", "?db=0&"), ("redis://", "valkey://"), ("127.0.0.1", "localhost"), ("?", "?timeout=9&")],
)
def test_a_redis_store_by_another_name(refused: Refused, redis_url: str, written: str, otherwise: str) -> None:
    assert written in redis_url
    refused(redis_url, redis_url.replace(written, otherwise))


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [("127.0.0.1", "localhost"), ("postgresql://", "postgres://"), ("?", "?connect_timeout=9&")],
)
def test_a_postgres_store_by_another_name(refused: Refused, postgres_place: str, written: str, otherwise: str) -> None:
    assert written in postgres_place
    refused(postgres_place, postgres_place.replace(written, otherwise))


@pytest.mark.parametrize("way", ["symlink", "hard link", "through a folder", "absolute", "the same"])
def test_a_file_by_another_name(refused: Refused, folder: Path, way: str) -> None:
    source, other = folder / "self.db", folder / "other.db"
    (folder / "sub").mkdir()
    source.touch()
    if way == "symlink":
        other.symlink_to(source)
    elif way == "hard link":
        os.link(source, other)
    named = {"through a folder": "sub/../self.db", "absolute": str(source), "the same": "self.db"}

    refused("sqlite:///self.db", f"sqlite:///{named.get(way, 'other.db')}")


def test_two_databases_of_a_server_are_two_stores(invoke: Invoke, redis_url: str) -> None:
    source, target = (redis_url.replace("/0?", f"?db={number}&") for number in (0, 1))
    submit(source, "ann", "bob")

    assert invoke("move", source, target).exit_code == 0

    assert len(json.loads(invoke("runs", "list", "--store", target, "--json").stdout)) == 2
