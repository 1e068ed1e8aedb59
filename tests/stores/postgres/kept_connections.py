"""Connections that tests pass on to each other, so that the next test need not connect and prepare its statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest
from psycopg.pq import TransactionStatus

from laneway.stores.postgres.server import connection
from laneway.stores.postgres.server.address import Address
from laneway.stores.postgres.server.connection import ServerConnection
from laneway.stores.postgres.transactions import listener, reader, write_connection

Connect = Callable[..., ServerConnection]
Use = tuple[str, Address]


class KeptLink(ServerConnection):
    """A connection that is kept when it is closed, if it was lent and nothing is wrong with it."""

    kept: ClassVar[dict[Use, list[KeptLink]]] = {}
    lent_for: Use | None = None

    def close(self) -> None:
        """Give it back."""
        use, fine = self.lent_for, self.pgconn.transaction_status == TransactionStatus.IDLE
        if use is None or not fine:
            super().close()
        elif self not in self.kept.setdefault(use, []):
            self.kept[use].append(self)


def _lending(what: str, connect: Connect) -> Connect:
    def lend(address: Address, *, again: bool = False) -> ServerConnection:
        kept = KeptLink.kept.get((what, address))
        link = kept.pop() if kept else connect(address, again=again)
        assert isinstance(link, KeptLink)
        link.lent_for = what, address
        return link

    return lend


def _hearing_nothing(connect: Connect) -> Connect:
    """Lend connections without listeners, settings or messages of the test before."""

    def lend(address: Address, *, again: bool = False) -> ServerConnection:
        link = connect(address, again=again)
        link.execute("UNLISTEN *")
        for _ in link.notifies(timeout=0):
            pass
        return link

    return lend


@contextmanager
def links_kept() -> Iterator[None]:
    """Let stores in a schema that stays as it is hand on their connections."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "ServerConnection", KeptLink)
        patch.setattr(write_connection, "connect", _lending("writing", connection.connect))
        patch.setattr(reader, "connect_bare", _lending("reading", connection.connect_bare))
        patch.setattr(listener, "connect_bare", _hearing_nothing(_lending("hearing", connection.connect_bare)))
        yield


def close_kept_links() -> None:
    """Close the kept connections."""
    for links in KeptLink.kept.values():
        for link in links:
            link.lent_for = None
            link.close()
    KeptLink.kept.clear()
