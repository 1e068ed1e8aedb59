"""Commands to a test server over a plain socket, so that starting one needs no client library."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from io import BufferedReader
from urllib.parse import unquote, urlsplit

Reply = str | int | None | list["Reply"]

TIMEOUT = 5.0


class CommandRefused(Exception):
    """The server answered a command with an error."""


@dataclass(frozen=True)
class Endpoint:
    """The address of one server, and its login."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    database: int = 0
    tls: bool = False

    @classmethod
    def of(cls, url: str) -> Endpoint:
        """Parse a `redis://` or `rediss://` URL, or `valkey://` or `valkeys://`."""
        parts = urlsplit(url)
        user, password = (unquote(text) if text else None for text in (parts.username, parts.password))
        host, port, database = parts.hostname or "localhost", parts.port or 6379, int(parts.path.strip("/") or 0)
        return cls(host, port, user, password, database, tls=parts.scheme in ("rediss", "valkeys"))

    def ask(self, *words: str | int, timeout: float = TIMEOUT) -> Reply:
        """Send one command over a connection of its own and return the answer.

        Raises CommandRefused when the server answers with an error, OSError when it does not answer.
        """
        commands: list[tuple[str | int, ...]] = [words]
        if self.database:
            commands.insert(0, ("SELECT", self.database))
        if self.password is not None:
            commands.insert(0, ("AUTH", *([self.user] if self.user else []), self.password))
        with socket.create_connection((self.host, self.port), timeout) as plain:
            line = ssl.create_default_context().wrap_socket(plain, server_hostname=self.host) if self.tls else plain
            line.sendall(b"".join(map(_encoded, commands)))
            with line.makefile("rb") as answers:
                replies = [_reply(answers) for _ in commands]
        for reply in replies:
            if isinstance(reply, CommandRefused):
                raise reply
        last = replies[-1]
        assert not isinstance(last, CommandRefused)
        return last

    def facts(self, section: str) -> dict[str, str]:
        """Return a section of INFO as names and values; CLUSTER INFO for the section `cluster info`."""
        text = self.ask(*(section.split() if " " in section else ("INFO", section)))
        assert isinstance(text, str)
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _encoded(words: tuple[str | int, ...]) -> bytes:
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def _reply(answers: BufferedReader) -> Reply | CommandRefused:
    line = answers.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionResetError("the server hung up")
    kind, rest = line[:1], line[1:-2].decode()
    match kind:
        case b"+":
            return rest
        case b"-":
            return CommandRefused(rest)
        case b":":
            return int(rest)
        case b"$":
            return None if rest == "-1" else answers.read(int(rest) + 2)[:-2].decode(errors="replace")
        case b"*":
            items = [_reply(answers) for _ in range(max(0, int(rest)))]
            return [None if isinstance(item, CommandRefused) else item for item in items]
        case _:
            raise ConnectionResetError(f"the server talks something else: {line!r}")
