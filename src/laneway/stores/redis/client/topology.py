"""Finding the server that has the store's keys, and connecting to it: directly, by sentinels, or by a cluster's nodes.

A namespace is on one node, whichever way the servers are set up. In a cluster it is the master of the namespace's slot;
any node of the cluster knows which one that is.
"""

from __future__ import annotations

import asyncio
import ssl
from binascii import crc_hqx
from collections.abc import Iterable
from typing import Any

from laneway.errors import BadURL
from laneway.stores.redis.client.address import CLUSTER, SENTINEL, SINGLE, UNIX, Address, Node
from laneway.stores.redis.client.connection import BrokenConnection, Connection, OnPush, ReplyError, pack_command

SLOTS = 16384
NAME = "laneway"
FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
Login = tuple[str | None, str | None]

_REQUIRED = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class Unreachable(Exception):
    """No server was reached, so no call was sent; `moving` if another server may take over in a moment."""

    def __init__(self, text: str, *, moving: bool = False) -> None:
        super().__init__(text)
        self.moving = moving


class Topology:
    """Opens connections to the server that has the store now."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._login: Login = (address.username, address.password)
        self._tls: ssl.SSLContext | None = None
        self._nodes = address.nodes
        self._moved: Node | None = None

    @property
    def may_move(self) -> bool:
        """Tell whether another server may take over from this one."""
        return self._address.kind in (CLUSTER, SENTINEL)

    def note_move(self, reply: str) -> None:
        """Connect to that server next time: the reply is `MOVED slot host:port`."""
        host, _, port = reply.rpartition(" ")[2].rpartition(":")
        self._moved = (host, int(port)) if host and port.isdigit() else None

    async def connect(self, on_push: OnPush | None = None) -> Connection:
        """Return a new connection, logged in. Raises Unreachable, or the ReplyError with which the server refuses.

        Messages that come without a command go to `on_push`.
        """
        kind = self._address.kind
        if kind in (UNIX, SINGLE):
            node = self._nodes[0] if kind == SINGLE else None
            return await self._log_in(node, self._login, on_push)
        node = await (self._master() if kind == SENTINEL else self._owner())
        try:
            connection = await self._log_in(node, self._login, on_push)
        except Unreachable as error:
            raise Unreachable(str(error), moving=True) from error
        if kind == SENTINEL and not await _is_master(connection):
            connection.close()
            raise Unreachable(f"{_named(node)} is not the master of {self._address.service!r} yet", moving=True)
        return connection

    async def _owner(self) -> Node:
        """Return the node of a cluster that has the namespace's slot."""
        moved, self._moved = self._moved, None
        if moved is not None:
            return moved
        slot = crc_hqx(self._address.namespace.encode(), 0) % SLOTS
        known = dict.fromkeys((*self._nodes, *self._address.nodes))
        node, reply = await self._first_reply(known, self._login, "CLUSTER", "SLOTS")
        masters = {(first, last): _node(master, node) for first, last, master, *_ in reply}
        self._nodes = tuple(_node(part, node) for _, _, *nodes in reply for part in nodes) or self._nodes
        for (first, last), master in masters.items():
            if first <= slot <= last:
                return master
        raise Unreachable(f"no node of the cluster has slot {slot}, which the namespace is in", moving=True)

    async def _master(self) -> Node:
        """Return the master that the sentinels name."""
        service, login = self._address.service, self._address.sentinel_login
        _, reply = await self._first_reply(self._nodes, login, "SENTINEL", "get-master-addr-by-name", service)
        if reply is None:
            raise Unreachable(f"the sentinels know no service {service!r}")
        return reply[0].decode(), int(reply[1])

    async def _first_reply(self, nodes: Iterable[Node], login: Login, *command: str) -> tuple[Node, Any]:
        """Return the first reply that one of the nodes gives, and that node."""
        errors: list[str] = []
        nodes = list(nodes)
        timeout = max(self._address.timeout / len(nodes), min(self._address.timeout, 0.5))
        for node in nodes:
            try:
                connection = await self._log_in(node, login, timeout=timeout)
                try:
                    reply = await _reply(connection, *command)
                finally:
                    connection.close()
            except (Unreachable, BrokenConnection) as error:
                errors.append(str(error))
            else:
                return node, reply
        raise Unreachable("; ".join(errors))

    async def _log_in(
        self, node: Node | None, login: Login, on_push: OnPush | None = None, timeout: float | None = None
    ) -> Connection:
        connection = await self._connected(node, timeout or self._address.timeout, on_push)
        username, password = login
        hello = [pack_command("CLIENT", "SETNAME", NAME)]
        if password is not None:
            hello.insert(0, pack_command("AUTH", *([username] if username else []), password))
        if self._address.db and login is self._login:
            hello.append(pack_command("SELECT", self._address.db))
        try:
            for command, reply in zip(hello, await _replies(connection, hello), strict=True):
                # The name is not needed: a user may lack the right to set it.
                if isinstance(reply, ReplyError) and not (b"SETNAME" in command and str(reply).startswith("NOPERM")):
                    raise reply
        except BaseException as error:
            connection.close()
            if isinstance(error, BrokenConnection):
                raise Unreachable(f"{_named(node)}: {error}") from error
            raise
        return connection

    async def _connected(self, node: Node | None, timeout: float, on_push: OnPush | None) -> Connection:
        where, tls = _named(node) if node else self._address.path, self._context()
        loop = asyncio.get_running_loop()

        def made() -> Connection:
            return Connection(timeout, on_push)

        try:
            if node is None:
                dialling = asyncio.ensure_future(loop.create_unix_connection(made, self._address.path))
            else:
                dialling = asyncio.ensure_future(loop.create_connection(made, *node, ssl=tls))
            _, connection = await asyncio.wait_for(dialling, timeout)
            return connection
        except TimeoutError:
            speaks = "; does it speak TLS there?" if self._address.tls is not None else ""
            raise Unreachable(f"no answer from {where} within {timeout:g} s{speaks}") from None
        except ssl.SSLError as error:
            raise Unreachable(f"no TLS with {where}: {_reason(error)}") from error
        except OSError as error:
            raise Unreachable(f"cannot connect to {where}: {_reason(error)}") from error

    def _context(self) -> ssl.SSLContext | None:
        words = self._address.tls
        if words is None:
            return None
        if self._tls is None:
            try:
                self._tls = _context(words)
            except OSError as error:
                files = ", ".join(f"{name}={value}" for name, value in words.items() if name in FILES)
                raise BadURL(f"{self._address.shown}: cannot use {files}: {_reason(error)}") from error
        return self._tls


def _context(words: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=words.get("ssl_ca_certs"), capath=words.get("ssl_ca_path"))
    required = _REQUIRED.get(words.get("ssl_cert_reqs", "required"), ssl.CERT_REQUIRED)
    context.check_hostname = required != ssl.CERT_NONE and words.get("ssl_check_hostname", "true") not in _NO
    context.verify_mode = required
    if "ssl_certfile" in words:
        context.load_cert_chain(
            words["ssl_certfile"], words.get("ssl_keyfile"), words.get("ssl_keyfile_password") or None
        )
    return context


_NO = ("false", "no", "0", "off")


async def _replies(connection: Connection, commands: list[bytes]) -> list[Any]:
    return await asyncio.gather(*[connection.send(command) for command in commands])


async def _reply(connection: Connection, *parts: str) -> Any:
    reply = await connection.send(pack_command(*parts))
    if isinstance(reply, ReplyError):
        raise reply
    return reply


async def _is_master(connection: Connection) -> bool:
    try:
        role = await _reply(connection, "ROLE")
    except BaseException:
        connection.close()
        raise
    return bool(role[0] == b"master")


def _node(part: list[Any], source: Node) -> Node:
    host, port = part[0], int(part[1])
    return (host.decode() if host else source[0]), port


def _named(node: Node | None) -> str:
    if node is None:
        return "the socket"
    host, port = node
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: OSError) -> str:
    """Return the reason in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "connection refused; is the server running there?"
    return error.strerror or str(error)
