"""Drive this checkout: `python3 dev.py help` lists the commands, `make` offers the same ones.

It needs Python 3.11 and its standard library, nothing else. The first command installs the locked tools into `.venv`;
every later one sees by the stamp in it that nothing changed, and starts at once and offline.
All it writes is in the checkout, in the temporary folder, in `/dev/shm` and in pip's cache; `LANEWAY_VENV` moves the
environment.
"""

import sys

# An older Python must get this far, so the file keeps to a syntax that it can read and nothing is imported before.
if sys.version_info < (3, 11):  # noqa: UP036 - the point is to be read by a Python that is too old
    sys.exit("laneway needs Python 3.11 or newer, and this is Python %d.%d." % sys.version_info[:2])  # noqa: UP031 - as above

import contextlib
import hashlib
import importlib.util
import os
import shutil
import sqlite3
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent
TOOLS = ROOT / ".tools"
LOCK = ROOT / "requirements.lock"
PYPROJECT = ROOT / "pyproject.toml"
VENV = ROOT / (os.environ.get("LANEWAY_VENV") or ".venv")
STAMP = VENV / "laneway-stamp"
SCRIPTS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = SCRIPTS / ("python.exe" if os.name == "nt" else "python")
MEMORY = Path("/dev/shm")  # where Linux keeps files in memory
FOLDER = "laneway-tests-"
NEW = 60  # seconds
ROOM = 2 * 2**30  # bytes: five times what the tests were seen to have there at once
CACHES = (".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache")

# What the user's shell or pip settings say about where packages go must not reach our pip; what they say about where
# packages come from must. Nor must a `make` that a test starts hear what the `make` above us was told. And whoever
# starts hundreds of Pythons lets them keep what they compiled: a third of the time of a child process's start.
PATHS = {"PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "VIRTUAL_ENV"}
PLACES = {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_CONSTRAINT"}
MAKE = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "PYTHON"}
SLOW = {"PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in PATHS | PLACES | MAKE | SLOW} | {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_USER": "0",
    "PYTHONNOUSERSITE": "1",
    "UV_CACHE_DIR": str(TOOLS / "uv-cache"),
    "VIRTUALENV_OVERRIDE_APP_DATA": str(TOOLS / "virtualenv-data"),
}

LOCK_HEADER = """\
# The tools and libraries that `dev.py` installs, for Python 3.11 to 3.14 on every system.
# Made by `python3 dev.py lock`; do not edit.
"""


def main(arguments: list[str]) -> int:
    """Run the command that the first argument names, with the rest as its arguments."""
    name = arguments[0] if arguments else "help"
    if name in ("-h", "--help"):
        name = "help"
    if name not in COMMANDS:
        say(f"There is no command {name!r}; there are: {', '.join(COMMANDS)}.")
        return 2
    try:
        return COMMANDS[name](arguments[1:])
    except KeyboardInterrupt:
        return 130


def show_help(_: list[str]) -> int:
    """Show this list."""
    print("Use: make COMMAND ARGS='...'   or: python3 dev.py COMMAND ...\n")
    for name, command in COMMANDS.items():
        print(f"  {name:<11} {command.__doc__}")
    return 0


def demo(arguments: list[str]) -> int:
    """Run laneway's demo; the arguments go to `laneway demo`."""
    return become("-m", "laneway", "demo", *arguments)


def test(arguments: list[str]) -> int:
    """Run the checks, then all tests but the long ones; the arguments go to pytest."""
    install()
    return timed("checks and tests", lambda: check_all(meanwhile=lambda: quick_tests(arguments)))


def test_matrix(arguments: list[str]) -> int:
    """Run the contract of stores on other versions of Redis and PostgreSQL; the arguments go to pytest."""
    return become("-m", "tests.matrix", *arguments)


def check(_: list[str]) -> int:
    """Check format, lint, types and the direction of imports."""
    install()
    return timed("checks", check_all)


def bench(arguments: list[str]) -> int:
    """Run the benchmarks; the arguments go to them."""
    return become("-m", "bench", *arguments)


def chaos(arguments: list[str]) -> int:
    """Run the system and chaos tests in their long form; the arguments go to pytest."""
    install()
    ENVIRONMENT["LANEWAY_CHAOS"] = "1"
    return timed("chaos", lambda: pytest("system or chaos", arguments))


def oracle(arguments: list[str]) -> int:
    """Compare every schedule's fires with a slow answer, at every change of a clock; the arguments go to it."""
    return become("-m", "tests.oracle", *arguments)


def lock(arguments: list[str]) -> int:
    """Make requirements.lock again; add --upgrade to take newer versions too."""
    with tempfile.TemporaryDirectory(prefix="laneway-lock-") as scratch:
        tools, fresh = Path(scratch, "tools"), Path(scratch, "requirements.lock")
        # The old pins are the starting point: only --upgrade moves those that still fit.
        if LOCK.exists():
            shutil.copy(LOCK, fresh)
        must(sys.executable, "-m", "pip", "install", "--quiet", "--quiet", "--target", tools, "uv>=0.9,<1")
        uv = tools / "bin" / ("uv.exe" if os.name == "nt" else "uv")
        shape = ("--universal", "--python-version", "3.11", "--generate-hashes", "--group", "dev")
        stores = ("--extra", "redis", "--extra", "postgres")
        # The file must be the same wherever it is made, so it names no registry, no machine and no command line.
        silent = ("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links")
        output = ("--quiet", "--no-cache", "--output-file", fresh)
        must(uv, "pip", "compile", *shape, *stores, *silent, *output, *arguments, "pyproject.toml")
        LOCK.write_text(LOCK_HEADER + fresh.read_text(encoding="utf-8"), encoding="utf-8")
    return 0


def clean(_: list[str]) -> int:
    """Remove the environment and everything else that these commands made."""
    with alone():
        remove_venv()
    for name in (*CACHES, ".tools", "build", "dist"):
        shutil.rmtree(ROOT / name, ignore_errors=True)
    for folder in ("src", "tests", "bench", "chaos", "examples"):
        for cache in list((ROOT / folder).rglob("__pycache__")):
            shutil.rmtree(cache, ignore_errors=True)
    lock_file().unlink(missing_ok=True)
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "help": show_help,
    "demo": demo,
    "test": test,
    "test-matrix": test_matrix,
    "check": check,
    "bench": bench,
    "chaos": chaos,
    "oracle": oracle,
    "lock": lock,
    "clean": clean,
}


def check_all(meanwhile: Callable[[], int] = lambda: 0) -> int:
    """Run every check, also after one failed, and return the worst exit status, that of `meanwhile` included.

    The types take longer than the rest and one processor, so all else is done beside them; what is found is said last.
    """
    checks: dict[str, tuple[str | Path, ...]] = {
        "format": (PYTHON, "-m", "ruff", "format", "--check", "."),
        "lint": (PYTHON, "-m", "ruff", "check", "."),
        "imports": (SCRIPTS / "lint-imports", "--no-logo"),
    }
    statuses = {}
    with beside(PYTHON, "-m", "mypy") as types:
        for heading, command in checks.items():
            head(f"check: {heading}")
            statuses[heading] = run(*command)
        others = meanwhile()
        head("check: types")
        statuses["types"] = types()
    failed = [heading for heading, status in statuses.items() if status != 0]
    if failed:
        head(f"check: these failed: {', '.join(failed)}")
    return max(others, *statuses.values())


def quick_tests(arguments: list[str]) -> int:
    """Run all tests but the long ones, with their files in memory if it has room for them."""
    with memory_folder() as folder:
        if folder is not None:
            # The tests that are about a disk look for one where they would have been without us.
            ENVIRONMENT.update(TMPDIR=str(folder), LANEWAY_TEST_DISK=tempfile.gettempdir())
        return timed("tests", lambda: pytest("not chaos", arguments))


@contextlib.contextmanager
def memory_folder() -> Iterator[Path | None]:
    """Make a folder in memory and remove it at the end; give None where there is no room in memory for files.

    Many tests wait for a disk, and few are about one. Who says by TMPDIR where files go is heeded.
    Crash here: a folder whose maker was killed goes with the next run, which sees that nobody holds it.
    """
    if "TMPDIR" in os.environ or not has_room(MEMORY):
        yield None
        return
    for left in MEMORY.glob(f"{FOLDER}*"):
        with held(left) as ours:
            # Race: one that is new may have been made, and not be held yet.
            if ours and time.time() - left.stat().st_mtime > NEW:
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=FOLDER, dir=MEMORY))
    with held(folder):
        folder.chmod(0o711)  # the server that root leaves to `nobody` must find its own folder in it
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold the folder for the block, if nobody else does; tell whether. A process that is killed holds nothing."""
    import fcntl  # there is none on Windows, which has no such folder

    with contextlib.ExitStack() as stack:
        try:
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def has_room(memory: Path) -> bool:
    """Tell whether files in memory may be made there, enough of them, and programs be started."""
    try:
        found = os.statvfs(memory)
    except (AttributeError, OSError):
        return False
    room = found.f_bavail * found.f_frsize
    return os.access(memory, os.W_OK | os.X_OK) and not found.f_flag & os.ST_NOEXEC and room >= ROOM


def pytest(marks: str, arguments: list[str]) -> int:
    """Run pytest in parallel; it fails by itself, with status 5, when it finds no test to run."""
    # One more than there are processors: a third of the time they wait for a server, a disk or a child.
    workers = str(1 + max(2, os.cpu_count() or 1))
    head(f"pytest: {marks}")
    # Who has nothing left takes from the others: some tests take twenty seconds, most of them none.
    return run(PYTHON, "-m", "pytest", "-n", workers, "--dist", "worksteal", "-m", marks, *arguments)


@contextlib.contextmanager
def beside(*command: str | Path) -> Iterator[Callable[[], int]]:
    """Run a command beside the block; what is given waits for its end, shows what it printed and returns its status."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(list(map(str, command)), cwd=ROOT, env=ENVIRONMENT, stdout=output, stderr=output)

        def finish() -> int:
            status = process.wait()
            output.seek(0)
            print(output.read().decode(errors="replace"), end="", flush=True)
            return status if status >= 0 else 128 - status

        try:
            yield finish
        finally:
            process.kill()
            process.wait()


def timed(what: str, work: Callable[[], int]) -> int:
    """Do `work` and say whether it went well and how long it took."""
    start = time.monotonic()
    status = work()
    head(f"{what} {'failed' if status else 'succeeded'} after {time.monotonic() - start:.1f} s")
    return status


def install() -> None:
    """Make the environment complete and current, unless its stamp says that it is.

    Crash here: the old stamp goes before the first change and the new one comes after the last, so whatever is
    interrupted leaves no stamp, and an environment without one is made anew.
    """
    if is_current():
        return
    with alone():
        # Race: another `make` may have done the work while this one waited.
        if is_current():
            return
        start = time.monotonic()
        say(f"Installing the locked tools into {VENV} ...")
        reusable = PYTHON.exists() and read_stamp()[:1] == stamp()[:1]
        STAMP.unlink(missing_ok=True)
        if not reusable:
            make_venv()
        # Most of what is in the packages nobody imports, and it is compiled when somebody does.
        pip = (PYTHON, "-m", "pip", "install", "--quiet", "--quiet", "--no-compile")
        must(*pip, "--no-deps", "--require-hashes", "--requirement", LOCK)
        must(*pip, "--no-deps", "--no-build-isolation", "--editable", ".")
        if not reusable:
            # What a pip that looks for dependencies would have found: one that the lock does not hold. An environment
            # that is kept may hold what an older lock left behind, which wants something else and is in nobody's way.
            must(PYTHON, "-m", "pip", "check")
        # Git, ruff and the like then leave the environment alone, wherever it is.
        (VENV / ".gitignore").write_text("*\n", encoding="utf-8")
        STAMP.write_text("\n".join(stamp()), encoding="utf-8")
        say(f"Installed in {time.monotonic() - start:.1f} s.")


def is_current() -> bool:
    """Tell whether the environment holds what this checkout and this Python ask for."""
    return PYTHON.exists() and read_stamp() == stamp()


def stamp() -> list[str]:
    """Return who the environment is for (a change means a new one) and a digest of what is in it (an update will do).

    The paths are part of it because a copied checkout brings an environment whose scripts point to the original.
    """
    content = hashlib.sha256(PYPROJECT.read_bytes() + b"\0" + LOCK.read_bytes()).hexdigest()
    return [f"{sys.version} | {ROOT} | {VENV}".replace("\n", " "), content]


def read_stamp() -> list[str]:
    """Return the lines of the stamp, none if there is no stamp."""
    return STAMP.read_text(encoding="utf-8").splitlines() if STAMP.exists() else []


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep every other `dev.py` of this checkout waiting, also if this one is killed in between.

    The lock is SQLite's on an empty file: it works alike on every system and ends with its process.
    """
    lock_file().parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(lock_file(), timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("begin exclusive")
        except sqlite3.OperationalError:
            say("Waiting for another dev.py to finish ...")
            connection.execute("pragma busy_timeout = 1800000")
            connection.execute("begin exclusive")
        yield


def lock_file() -> Path:
    """Return the file that `alone` locks: beside the environment, which is itself removed at times."""
    return VENV.with_name(VENV.name + ".lock")


def make_venv() -> None:
    """Make an empty environment with pip in it, in the first way that works on this machine."""
    for way in (by_unpacking, by_venv, by_virtualenv, by_uv):
        remove_venv()
        if way() and run(PYTHON, "-m", "pip", "--version", quiet=True) == 0:
            return
    sys.exit("This Python can make no virtual environment. Install its venv module (Debian: python3-venv) or its pip.")


def remove_venv() -> None:
    """Remove the environment, and nothing that is not one."""
    strange = VENV != ROOT / ".venv" and VENV.exists() and not (VENV / "pyvenv.cfg").exists()
    if strange and any(VENV.iterdir()):
        sys.exit(f"LANEWAY_VENV names {VENV}, which holds something else; name an empty or a new folder.")
    shutil.rmtree(VENV, ignore_errors=True)


def by_unpacking() -> bool:
    """Use the standard library, and unpack the pip that comes with it: to install that compiles all of it, for 8 s."""
    bundled = importlib.util.find_spec("ensurepip")
    wheels = sorted(Path(bundled.origin).parent.glob("_bundled/pip-*.whl")) if bundled and bundled.origin else []
    if not wheels or run(sys.executable, "-m", "venv", "--without-pip", VENV, quiet=True) != 0:
        return False
    shutil.unpack_archive(wheels[-1], sysconfig.get_path("purelib", "venv", {"base": str(VENV)}), "zip")
    return True


def by_venv() -> bool:
    """Use the standard library. Debian leaves `ensurepip` out of it unless python3-venv is installed."""
    return run(sys.executable, "-m", "venv", VENV, quiet=True) == 0


def by_virtualenv() -> bool:
    """Use virtualenv from `.tools`, which brings its own pip."""
    return fetch("virtualenv>=20.26,<22") and run(sys.executable, "-m", "virtualenv", VENV, quiet=True, path=TOOLS) == 0


def by_uv() -> bool:
    """Use uv from `.tools`, which fetches pip."""
    uv = TOOLS / "bin" / ("uv.exe" if os.name == "nt" else "uv")
    return fetch("uv>=0.9,<1") and run(uv, "venv", "--seed", "--python", sys.executable, VENV, quiet=True) == 0


def fetch(tool: str) -> bool:
    """Put a tool into `.tools`: this pip may be forbidden to install into the system, but not there."""
    return run(sys.executable, "-m", "pip", "install", "--quiet", "--quiet", "--upgrade", "--target", TOOLS, tool) == 0


def become(*arguments: str) -> int:
    """Let the environment's Python take this process over, so that a signal meant for the one reaches the other."""
    install()
    os.chdir(ROOT)
    sys.stdout.flush()
    if os.name == "posix":
        os.execve(PYTHON, [str(PYTHON), *arguments], ENVIRONMENT)
    return run(PYTHON, *arguments)


def run(*command: str | Path, quiet: bool = False, path: Path | None = None) -> int:
    """Run a command in the checkout and return its exit status, 127 if it does not exist."""
    environment = ENVIRONMENT | ({"PYTHONPATH": str(path)} if path else {})
    output = subprocess.DEVNULL if quiet else None
    try:
        status = subprocess.call(list(map(str, command)), cwd=ROOT, env=environment, stdout=output, stderr=output)
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        return 127
    # A command that a signal ended has a negative status, which `max` and the shell would both misread.
    return status if status >= 0 else 128 - status


def must(*command: str | Path) -> None:
    """Run a command whose failure ends everything."""
    status = run(*command)
    if status != 0:
        say(f"This failed with status {status}: {' '.join(map(str, command))}")
        sys.exit(1)


def head(line: str) -> None:
    """Print a heading between what the commands print."""
    print(f"\n==> {line}", flush=True)


def say(line: str) -> None:
    """Talk to the person, apart from what a command prints as its result."""
    print(f"==> {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
