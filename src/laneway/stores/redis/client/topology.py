"""Getting to the server that has our keys: straight, through sentinels, or through a cluster's nodes.

A namespace lives on one node, whichever way the servers are set up, so reaching the store means finding that one node
and connecting to it. In a cluster it is the master of the namespace's slot; any node tells which that is.
"""

from __future__ import annotations

import asyncio
import ssl
from binascii import crc_hqx
from collections.abc import Callable, Iterable
from typing import Any

from laneway.errors import BadURL
from laneway.stores.redis.client.address import CLUSTER, SENTINEL, SINGLE, UNIX, Address, Node
from laneway.stores.redis.client.connection import Broken, Failed, Wire, packed

SLOTS = 16384
NAME = "laneway"
FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
Heard = Callable[[Any], None]
Login = tuple[str | None, str | None]

_REQUIRED = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class Unreachable(Exception):
    """No server was reached; `moving` if another one may take its place in a moment. Nothing was sent."""

    def __init__(self, text: str, *, moving: bool = False) -> None:
        super().__init__(text)
        self.moving = moving


class Reach:
    """Opens connections to wherever the store is now."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._login: Login = (address.username, address.password)
        self._tls: ssl.SSLContext | None = None
        self._nodes = address.nodes
        self._moved: Node | None = None

    @property
    def moves(self) -> bool:
        """Tell whether another server may take this one's place."""
        return self._address.kind in (CLUSTER, SENTINEL)

    def moved(self, said: str) -> None:
        """Heed `MOVED slot host:port`: the next connection goes there."""
        host, _, port = said.rpartition(" ")[2].rpartition(":")
        self._moved = (host, int(port)) if host and port.isdigit() else None

    async def wire(self, heard: Heard | None = None) -> Wire:
        """Return a new connection, logged in. Raises Unreachable, or what the server answers instead of letting us in.

        Messages that nobody asked for go to `heard`.
        """
        kind = self._address.kind
        if kind in (UNIX, SINGLE):
            node = self._nodes[0] if kind == SINGLE else None
            return await self._enter(node, self._login, heard)
        node = await (self._master() if kind == SENTINEL else self._owner())
        try:
            wire = await self._enter(node, self._login, heard)
        except Unreachable as error:
            raise Unreachable(str(error), moving=True) from error
        if kind == SENTINEL and not await _is_master(wire):
            wire.close()
            raise Unreachable(f"{_named(node)} is not the master of {self._address.service!r} yet", moving=True)
        return wire

    async def _owner(self) -> Node:
        """Ask the nodes of a cluster who has our slot."""
        moved, self._moved = self._moved, None
        if moved is not None:
            return moved
        slot = crc_hqx(self._address.namespace.encode(), 0) % SLOTS
        known = dict.fromkeys((*self._nodes, *self._address.nodes))
        node, reply = await self._first_answer(known, self._login, "CLUSTER", "SLOTS")
        masters = {(first, last): _node(master, node) for first, last, master, *_ in reply}
        self._nodes = tuple(_node(part, node) for _, _, *nodes in reply for part in nodes) or self._nodes
        for (first, last), master in masters.items():
            if first <= slot <= last:
                return master
        raise Unreachable(f"nobody in the cluster has slot {slot}, which ours is", moving=True)

    async def _master(self) -> Node:
        """Ask the sentinels who is the master."""
        service, login = self._address.service, self._address.sentinel_login
        _, reply = await self._first_answer(self._nodes, login, "SENTINEL", "get-master-addr-by-name", service)
        if reply is None:
            raise Unreachable(f"the sentinels know no service {service!r}")
        return reply[0].decode(), int(reply[1])

    async def _first_answer(self, nodes: Iterable[Node], login: Login, *question: str) -> tuple[Node, Any]:
        """Return the first answer that one of the nodes gives, and who gave it."""
        trouble: list[str] = []
        nodes = list(nodes)
        patience = max(self._address.timeout / len(nodes), min(self._address.timeout, 0.5))
        for node in nodes:
            try:
                wire = await self._enter(node, login, timeout=patience)
                try:
                    answer = await _asked(wire, *question)
                finally:
                    wire.close()
            except (Unreachable, Broken) as error:
                trouble.append(str(error))
            else:
                return node, answer
        raise Unreachable("; ".join(trouble))

    async def _enter(
        self, node: Node | None, login: Login, heard: Heard | None = None, timeout: float | None = None
    ) -> Wire:
        wire = await self._connected(node, timeout or self._address.timeout, heard)
        username, password = login
        hello = [packed("CLIENT", "SETNAME", NAME)]
        if password is not None:
            hello.insert(0, packed("AUTH", *([username] if username else []), password))
        if self._address.db and login is self._login:
            hello.append(packed("SELECT", self._address.db))
        try:
            for command, reply in zip(hello, await _answers(wire, hello), strict=True):
                # A user without the right to name its connection can do without.
                if isinstance(reply, Failed) and not (b"SETNAME" in command and str(reply).startswith("NOPERM")):
                    raise reply
        except BaseException as error:
            wire.close()
            if isinstance(error, Broken):
                raise Unreachable(f"{_named(node)}: {error}") from error
            raise
        return wire

    async def _connected(self, node: Node | None, timeout: float, heard: Heard | None) -> Wire:
        where, tls = _named(node) if node else self._address.path, self._context()
        loop = asyncio.get_running_loop()

        def made() -> Wire:
            return Wire(timeout, heard)

        try:
            if node is None:
                dialling = asyncio.ensure_future(loop.create_unix_connection(made, self._address.path))
            else:
                dialling = asyncio.ensure_future(loop.create_connection(made, *node, ssl=tls))
            _, wire = await asyncio.wait_for(dialling, timeout)
            return wire
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


async def _answers(wire: Wire, commands: list[bytes]) -> list[Any]:
    return await asyncio.gather(*[wire.ask(command) for command in commands])


async def _asked(wire: Wire, *parts: str) -> Any:
    reply = await wire.ask(packed(*parts))
    if isinstance(reply, Failed):
        raise reply
    return reply


async def _is_master(wire: Wire) -> bool:
    try:
        role = await _asked(wire, "ROLE")
    except BaseException:
        wire.close()
        raise
    return bool(role[0] == b"master")


def _node(part: list[Any], asked: Node) -> Node:
    host, port = part[0], int(part[1])
    return (host.decode() if host else asked[0]), port


def _named(node: Node | None) -> str:
    if node is None:
        return "the socket"
    host, port = node
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: OSError) -> str:
    """Say shortly why."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "connection refused; is the server running there?"
    return error.strerror or str(error)
