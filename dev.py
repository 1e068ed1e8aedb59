"""Run a command of this checkout: `python3 dev.py help` lists them, and `make` offers the same ones.

It needs Python 3.11 with venv or pip, and nothing else. The first command installs the locked tools into `.venv`;
later ones find its stamp up to date, and start at once and offline. `LANEWAY_VENV` moves the environment.
"""

import sys

# An older Python must get this far, so the file keeps to a syntax that it can read and nothing is imported before.
if sys.version_info < (3, 11):  # noqa: UP036 - the point is to be read by a Python that is too old
    sys.exit("laneway needs Python 3.11 or newer, and this is Python %d.%d." % sys.version_info[:2])  # noqa: UP031 - as above

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / (os.environ.get("LANEWAY_VENV") or ".venv")
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "laneway-stamp"
LOCK = ROOT / "requirements.lock"

# Where packages come from is the user's choice, by pip's own configuration; where they go is ours.
_FOREIGN = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_CONSTRAINT"}
_OURS = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0"}
_OURS |= {"PIP_ROOT_USER_ACTION": "ignore", "PYTHONNOUSERSITE": "1"}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in _FOREIGN} | _OURS

# A command is what `help` says of it, then its steps: a program of the environment, and its arguments. ARGS stands for
# those of the command; a step that ends with & runs beside those that follow.
_PYTEST = f"-m pytest -n {1 + max(2, os.cpu_count() or 1)} --dist worksteal -m 'not chaos and not wall_clock'"
_ALONE = "python -m pytest -p tests.memory ARGS -n 0 -m wall_clock"  # tests that say how long something takes
_CHECKS = ("mypy &", "ruff format --check .", "ruff check .", "lint-imports --no-logo")
_COVERED = ("coverage combine --quiet", "coverage html --quiet", "coverage report --skip-covered")
COMMANDS: dict[str, tuple[str, ...]] = {
    "help": ("Show this list.",),
    "demo": ("Run laneway's demo.", "python -m laneway demo ARGS"),
    "test": (
        "Run the checks and all but the long tests.",
        *_CHECKS,
        f"python {_PYTEST} -p tests.memory ARGS",
        _ALONE,
    ),
    "test-matrix": ("Run the contract on other versions of Redis and PostgreSQL.", "python -m tests.matrix ARGS"),
    "check": ("Check format, lint, imports and types.", *_CHECKS),
    "coverage": ("Measure which lines the tests reach; pages in htmlcov.", f"coverage run {_PYTEST} ARGS", *_COVERED),
    "bench": ("Run the benchmarks.", "python -m bench ARGS"),
    "chaos": ("Run the system and chaos tests in their long form.", f"python {_PYTEST} -m 'system or chaos' ARGS"),
    "sync": ("Write the blocking face, `app.sync`, again from the async one.", "python -m tools.sync_face"),
    "oracle": ("Compare schedules with a slow answer at every change of a clock.", "python -m tests.oracle ARGS"),
    "lock": (
        "Make requirements.lock again; ARGS=--upgrade takes newer versions.",
        "pip install --quiet 'uv>=0.9,<1'",
        "uv pip compile --quiet --no-cache --output-file requirements.lock ARGS pyproject.toml",
    ),
    "clean": ("Remove the environment and the caches.",),
}


def main(name: str = "help", *arguments: str) -> int:
    """Run the command of that name with these arguments, and return its exit status."""
    if name in ("help", "-h", "--help"):
        print("Use: make COMMAND ARGS='...'   or: python3 dev.py COMMAND ...\n")
        print("\n".join(f"  {each:<11} {command[0]}" for each, command in COMMANDS.items()))
        return 0
    if name not in COMMANDS:
        print(f"There is no command {name!r}; there are: {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    if name == "clean":
        remove_venv()
        for cache in (*ROOT.glob(".*_cache"), ROOT / ".hypothesis", ROOT / ".tools", ROOT / "htmlcov"):
            shutil.rmtree(cache, ignore_errors=True)
        return 0
    install()
    os.chdir(ROOT)
    programs = shlex.quote(str(VENV / "bin"))
    steps = [shlex.split(f"{programs}/{step}".replace("ARGS", shlex.join(arguments))) for step in COMMANDS[name][1:]]
    if len(steps) == 1:  # a signal for this process must reach the program
        os.execve(steps[0][0], steps[0], ENVIRONMENT | ({"LANEWAY_CHAOS": "1"} if name == "chaos" else {}))
    return run(name, steps)


def run(name: str, steps: Sequence[Sequence[str]]) -> int:
    """Run every step, also after one failed, and say what failed and how long it took."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        beside = {s[0]: subprocess.Popen(s[:-1], env=ENVIRONMENT, stdout=output) for s in steps if s[-1] == "&"}
        failed = [step[0] for step in steps if step[-1] != "&" and call(*step)]
        failed += [program for program, process in beside.items() if process.wait()]
        output.seek(0)
        print(output.read().decode(errors="replace"), end="", flush=True)
    failures = f"failed ({', '.join(Path(program).name for program in failed)})"
    print(f"==> {name} {failures if failed else 'succeeded'} after {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


def call(*command: str | Path, quiet: bool = False) -> int:
    """Run a program in the checkout and return its exit status."""
    output = subprocess.DEVNULL if quiet else None
    print("==>", Path(command[0]).name, *command[1:], file=sys.stderr, flush=True)
    return subprocess.call(list(map(str, command)), cwd=ROOT, env=ENVIRONMENT, stdout=output, stderr=output)


def install() -> None:
    """Make the environment anew unless its stamp is up to date; one process at a time, and the stamp comes last."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    asked = [project.get(table) for table in ("build-system", "project", "dependency-groups")]
    # A copied checkout needs an environment of its own, because scripts in it name the path.
    stamp = repr((sys.version, ROOT, VENV, hashlib.sha256(LOCK.read_bytes()).hexdigest(), asked))
    VENV.parent.mkdir(parents=True, exist_ok=True)
    with VENV.with_name(f"{VENV.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel lets go of it when this process ends, however it ends
        if PYTHON.exists() and STAMP.exists() and STAMP.read_text("utf-8") == stamp:
            return
        remove_venv()
        pip = (PYTHON, "-m", "pip", "install", "--quiet", "--quiet", "--no-deps", "--no-compile")
        locked = (*pip, "--require-hashes", "--requirement", LOCK)
        ours = (*pip, "--no-build-isolation", "--editable", ROOT)
        if make_venv() or call(*locked) or call(*ours):
            sys.exit("There is no environment, for the reason above. Debian may lack: python3-venv, or python3-pip.")
        STAMP.write_text(stamp, encoding="utf-8")


def make_venv() -> int:
    """Make an empty environment with pip; where Debian's python3-venv is missing, this Python's own pip brings it."""
    venv = (sys.executable, "-m", "venv", VENV)
    if call(*venv, quiet=True) == 0:
        return 0
    pip = (sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", "pip")
    return call(*venv, "--clear", "--without-pip") or call(*pip)


def remove_venv() -> None:
    """Remove the environment, its stamp first, and nothing that is not one."""
    if VENV.exists() and not (VENV / "pyvenv.cfg").exists() and any(VENV.iterdir()):
        sys.exit(f"{VENV} holds something else than an environment; let LANEWAY_VENV name a new folder.")
    STAMP.unlink(missing_ok=True)
    shutil.rmtree(VENV, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
