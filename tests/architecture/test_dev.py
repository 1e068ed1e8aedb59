"""`dev.py` installs when it must, only then, and removes nothing that is not its own."""

import ast
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import dev


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose environment was installed to the end."""
    for name in ("LOCK", "PYPROJECT"):
        file = tmp_path / getattr(dev, name).name
        file.write_text("first", encoding="utf-8")
        monkeypatch.setattr(dev, name, file)
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(dev, "STAMP", tmp_path / ".venv" / "stamp")
    monkeypatch.setattr(dev, "PYTHON", tmp_path / ".venv" / "python")
    dev.VENV.mkdir()
    dev.PYTHON.touch()
    dev.STAMP.write_text("\n".join(dev.stamp()), encoding="utf-8")
    return tmp_path


def test_an_installed_environment_is_current() -> None:
    assert dev.is_current()


@pytest.mark.parametrize("name", ["LOCK", "PYPROJECT"])
def test_a_changed_lock_or_project_asks_for_an_update(name: str) -> None:
    getattr(dev, name).write_text("second", encoding="utf-8")

    assert not dev.is_current()
    assert dev.read_stamp()[0] == dev.stamp()[0]


def test_a_half_finished_install_is_not_current() -> None:
    dev.STAMP.unlink()

    assert not dev.is_current()
    assert dev.read_stamp() == []


def test_an_environment_whose_python_is_gone_is_not_current() -> None:
    dev.PYTHON.unlink()

    assert not dev.is_current()


def test_a_copied_checkout_gets_an_environment_of_its_own(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "ROOT", checkout / "copy")

    assert dev.read_stamp()[0] != dev.stamp()[0]


def test_a_folder_that_is_no_environment_is_never_removed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = checkout / "thesis"
    precious.mkdir()
    (precious / "chapter-1").touch()
    monkeypatch.setattr(dev, "VENV", precious)

    with pytest.raises(SystemExit, match="holds something else"):
        dev.remove_venv()
    assert (precious / "chapter-1").exists()


def test_an_environment_has_the_pip_that_comes_with_python(monkeypatch: pytest.MonkeyPatch) -> None:
    python = dev.VENV / dev.SCRIPTS.name / "python"
    monkeypatch.setattr(dev, "PYTHON", python)

    dev.make_venv()

    assert dev.run(python, "-m", "pip", "check", quiet=True) == 0


def test_a_second_install_waits_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, entered = threading.Event(), threading.Event()
    monkeypatch.setattr(dev, "say", lambda _: waiting.set())

    def enter() -> None:
        with dev.alone():
            entered.set()

    second = threading.Thread(target=enter)
    with dev.alone():
        second.start()
        assert waiting.wait(10)
        assert not entered.is_set()
    second.join(10)

    assert entered.is_set()


def test_an_unknown_command_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["tset"]) == 2

    assert "no command 'tset'" in capsys.readouterr().err


def test_an_old_python_can_read_the_file_far_enough_to_refuse() -> None:
    source = Path(dev.__file__).read_text(encoding="utf-8")

    ast.parse(source, feature_version=(3, 7))


def test_what_is_started_keeps_what_it_compiled() -> None:
    assert "PYTHONDONTWRITEBYTECODE" not in dev.ENVIRONMENT


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for files in memory that has room, and nobody who says where else they go."""
    place = tmp_path / "memory"
    place.mkdir()
    monkeypatch.setattr(dev, "MEMORY", place)
    monkeypatch.setattr(dev, "ROOM", 1)
    monkeypatch.delenv("TMPDIR", raising=False)
    return place


def test_a_folder_in_memory_goes_with_its_block(memory: Path) -> None:
    with dev.memory_folder() as folder:
        assert folder is not None
        assert folder.parent == memory
        (folder / "file").touch()

    assert list(memory.iterdir()) == []


def test_what_a_killed_run_left_in_memory_is_removed_and_what_another_one_has_is_not(memory: Path) -> None:
    left, new, others = (memory / name for name in (f"{dev.FOLDER}left", f"{dev.FOLDER}new", "others"))
    for folder in (left / "deep", new, others):
        folder.mkdir(parents=True)
    os.utime(left, (time.time() - 2 * dev.NEW,) * 2)
    os.utime(others, (0, 0))

    with dev.memory_folder() as first, dev.memory_folder() as second:
        found = set(memory.iterdir())

    assert found == {first, second, new, others}  # the new one may be about to be held


def test_a_process_that_is_killed_lets_go_of_its_folder(memory: Path) -> None:
    script = (
        "import dev, sys, pathlib\nwith dev.held(pathlib.Path(sys.argv[1])) as ours: print(ours, flush=True); input()"
    )
    command = [sys.executable, "-c", script, str(memory)]
    root = Path(dev.__file__).parent
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        with dev.held(memory) as before:
            assert not before
        process.kill()

    with dev.held(memory) as after:
        assert after


def test_files_stay_on_the_disk_where_memory_is_scarce_or_missing_or_somebody_says_so(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given() -> Path | None:
        with dev.memory_folder() as folder:
            return folder

    assert given() is not None
    with monkeypatch.context() as patch:
        patch.setenv("TMPDIR", str(memory))
        assert given() is None
    with monkeypatch.context() as patch:
        patch.setattr(dev, "ROOM", 1 << 70)
        assert given() is None
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, *[10**9] * 6, os.ST_NOEXEC, 255)))
        assert given() is None
    monkeypatch.setattr(dev, "MEMORY", memory / "missing")
    assert given() is None


@pytest.mark.parametrize(("script", "status"), [("print('found'); exit(3)", 3), ("import os; os.abort()", 134)])
def test_what_runs_beside_is_shown_and_judged_at_the_end(
    script: str, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with dev.beside(sys.executable, "-c", script) as finish:
        assert capfd.readouterr().out == ""
        assert finish() == status

    assert ("found" in capfd.readouterr().out) == (status == 3)


def test_what_runs_beside_ends_with_its_block() -> None:
    with pytest.raises(KeyboardInterrupt), dev.beside(sys.executable, "-c", "import signal; signal.pause()"):
        raise KeyboardInterrupt
