"""The examples of the page about transactions work."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from laneway import Scheduler
from laneway.stores.postgres.server.address import Address
from laneway.testing.servers import postgres_server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "transactions.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


async def test_the_examples_run(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANEWAY_STORE", postgres_url)
    conninfo = Address.parse(postgres_url).conninfo
    found: dict[str, Any] = {"DATABASE": conninfo}
    exec(compile("\n".join(blocks("python")), "docs/transactions.md", "exec"), found)
    with psycopg.connect(conninfo, autocommit=True) as link:
        link.execute("CREATE TABLE orders (number int)")
        try:
            await found["buying"]()
            assert capsys.readouterr().out == "order 7 is confirmed\n"
            await asyncio.to_thread(found["buying_with_sqlalchemy"])
            assert link.execute("SELECT number FROM orders ORDER BY number").fetchall() == [(7,), (8,)]
        finally:
            link.execute("DROP TABLE orders")
    app: Scheduler = found["app"]
    async with app:
        assert [run.args for run in await app.runs(state="pending")] == [{"order": 8}]
    await asyncio.to_thread(app.sync.close)


async def test_a_user_with_no_other_rights_than_the_page_says_can_submit() -> None:
    with postgres_server() as server:
        async with Scheduler(server.url) as app:

            @app.task
            def confirm(order: int) -> int:
                return order

            await app.open()
            server.execute("CREATE ROLE shop LOGIN")
            for statement in blocks("sql")[0].splitlines():
                server.execute(statement)
            with psycopg.connect(server.url.replace("postgres@", "shop@")) as link:
                receipt = await app.submit(confirm, {"order": 7}, connection=link)
            assert (await app.get(receipt)).state == "pending"
