"""Connections that tests hand on to each other: who is next need not connect, nor have every statement planned anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest
from psycopg.pq import TransactionStatus

from laneway.stores.postgres import connection, reader, writer
from laneway.stores.postgres.address import Address
from laneway.stores.postgres.connection import Link

Connect = Callable[..., Link]


class KeptLink(Link):
    """A connection that is kept when it is closed, if it was lent and nothing is wrong with it."""

    kept: ClassVar[dict[Address, list[KeptLink]]] = {}
    lent_at: Address | None = None

    def close(self) -> None:
        """Give it back."""
        at, fine = self.lent_at, self.pgconn.transaction_status == TransactionStatus.IDLE
        if at is None or not fine:
            super().close()
        elif self not in self.kept.setdefault(at, []):
            self.kept[at].append(self)


def _lending(connect: Connect) -> Connect:
    def lend(address: Address, *, again: bool = False) -> Link:
        kept = KeptLink.kept.get(address)
        link = kept.pop() if kept else connect(address, again=again)
        assert isinstance(link, KeptLink)
        link.lent_at = address
        return link

    return lend


@contextmanager
def links_kept() -> Iterator[None]:
    """Let stores in a schema that stays as it is hand on their writers' and readers' connections."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "Link", KeptLink)
        patch.setattr(writer, "connect", _lending(connection.connect))
        patch.setattr(reader, "connect_bare", _lending(connection.connect_bare))
        yield


def close_kept_links() -> None:
    """Close what was kept."""
    for links in KeptLink.kept.values():
        for link in links:
            link.lent_at = None
            link.close()
    KeptLink.kept.clear()
