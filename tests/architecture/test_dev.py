"""`dev.py` and `make` keep what they promise to whoever has just cloned the project."""

import ast
import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import dev
from tests import memory

ROOT = Path(dev.__file__).parent


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make as if no make above it had arguments of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_make_alone_lists_every_command() -> None:
    shown = make(f"PYTHON={sys.executable}").stdout

    assert re.findall(r"^  ([\w-]+) +\S", shown, flags=re.MULTILINE) == list(dev.COMMANDS)


@pytest.mark.parametrize("command", list(dev.COMMANDS))
def test_make_passes_its_arguments_to_dev_py(command: str) -> None:
    planned = make("--dry-run", command, "PYTHON=python9", "ARGS=--one two")

    assert planned.stdout == f"python9 dev.py {command} --one two\n"


def test_an_unknown_command_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main("tset") == 2

    assert "no command 'tset'" in capsys.readouterr().err


def test_a_too_old_python_reads_the_file_far_enough_to_be_refused_by_a_sentence() -> None:
    source = Path(dev.__file__).read_text(encoding="utf-8")

    ast.parse(source, feature_version=(3, 7))
    refusal = source[: source.index("import hashlib")].replace("import fcntl", "").replace("(3, 11)", "(9, 0)")
    refused = subprocess.run([sys.executable, "-c", refusal], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("laneway needs Python 3.11 or newer, and this is Python 3.")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without packages to install, and a record of what was called."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "requirements.lock").touch()
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "LOCK", tmp_path / "requirements.lock")
    _in(monkeypatch, tmp_path / ".venv")
    return tmp_path


def _in(monkeypatch: pytest.MonkeyPatch, venv: Path) -> None:
    monkeypatch.setattr(dev, "VENV", venv)
    monkeypatch.setattr(dev, "PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(dev, "STAMP", venv / "laneway-stamp")


@pytest.fixture
def calls(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    made: list[tuple[str, ...]] = []

    def call(*command: str | Path, quiet: bool = False) -> int:
        made.append(tuple(map(str, command)))
        if "venv" in command:
            dev.PYTHON.parent.mkdir(parents=True)
            dev.PYTHON.touch()
            (dev.VENV / "pyvenv.cfg").touch()
        return 0

    monkeypatch.setattr(dev, "call", call)
    return made


def test_the_second_start_calls_nothing_and_so_needs_no_network(calls: list[tuple[str, ...]]) -> None:
    dev.install()
    assert calls
    calls.clear()

    dev.install()

    assert calls == []


def test_a_changed_lock_a_half_made_environment_and_a_copied_checkout_are_installed_anew(
    checkout: Path, calls: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed() -> bool:
        calls.clear()
        dev.install()
        return bool(calls)

    assert installed()
    dev.LOCK.write_text("# changed")
    assert installed()
    dev.STAMP.unlink()
    assert installed()
    monkeypatch.setattr(dev, "ROOT", Path(shutil.copytree(checkout, checkout / "copy")))
    _in(monkeypatch, checkout / "copy" / ".venv")
    assert installed()


def test_a_second_installation_waits_for_the_first(checkout: Path, calls: list[tuple[str, ...]]) -> None:
    second = threading.Thread(target=dev.install)
    with (checkout / ".venv.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second.start()
        second.join(0.2)
        assert second.is_alive()
        assert calls == []

    second.join(30)
    assert dev.STAMP.exists()


def test_a_folder_that_is_no_environment_is_never_removed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = checkout / "thesis"
    precious.mkdir()
    (precious / "chapter-1").touch()
    _in(monkeypatch, precious)

    with pytest.raises(SystemExit, match="holds something else"):
        dev.remove_venv()
    assert (precious / "chapter-1").exists()


@pytest.mark.parametrize("ensurepip", [True, False])
def test_an_environment_with_pip_is_made_also_without_debian_s_python3_venv(
    checkout: Path, ensurepip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = dev.call

    def without(*command: str | Path, quiet: bool = False) -> int:
        if "--without-pip" not in command and "venv" in command and not ensurepip:
            return 1
        # The environment's own pip stands for one from the network.
        return 0 if "install" in command else call(*command, quiet=True)

    monkeypatch.setattr(dev, "call", without)

    assert dev.make_venv() == 0
    assert dev.call(dev.PYTHON, "-c", "") == 0


def test_every_step_is_made_and_one_that_failed_is_named(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    steps = [["/bin/sh", "-c", "echo beside", "&"], ["/bin/false"], ["/bin/echo", "after"]]

    assert dev.run("check", steps) == 1

    printed = capfd.readouterr().out
    assert printed.index("after") < printed.index("beside") < printed.index("check failed (false) after")


def test_files_of_killed_tests_are_removed_from_memory_and_others_are_not(tmp_path: Path) -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    left, used, others = (
        tmp_path / name for name in (f"{memory.PREFIX}{ended.pid}-a", f"{memory.PREFIX}{os.getpid()}-b", "others")
    )
    for folder in (left / "deep", used, others):
        folder.mkdir(parents=True)

    memory.remove_left(tmp_path)

    assert set(tmp_path.iterdir()) == {used, others}


def test_tests_keep_to_the_disk_where_memory_is_scarce_or_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "ROOM", 1)
    assert memory.has_room(tmp_path)
    assert not memory.has_room(tmp_path / "missing")
    monkeypatch.setattr(memory, "ROOM", 1 << 70)
    assert not memory.has_room(tmp_path)
