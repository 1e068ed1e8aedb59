"""The frame holds: lock, wheel, commands, CI and the direction of imports."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
STORES = [*EXTRAS["redis"], *EXTRAS["postgres"]]
ASKED_FOR = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"], *STORES]

# Not ours, or made by a run.
UNREAD = {".git", ".hypothesis", ".import_linter_cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tools"}
UNREAD |= {"__pycache__", "build", "dist", "htmlcov"}


def locked() -> dict[str, tuple[str, int]]:
    """Return the version and the number of hashes of every package in the lock."""
    entries = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)
    pins = [re.match(r"([\w.-]+)==(\S+)", entry) for entry in entries]
    return {
        canonicalize_name(pin[1]): (pin[2], entry.count("--hash=sha256:"))
        for pin, entry in zip(pins, entries, strict=True)
        if pin
    }


def our_files() -> Iterator[Path]:
    """Walk the checkout, without asking git, which may be absent or unwilling."""
    for folder, subfolders, names in os.walk(ROOT):
        here = Path(folder)
        subfolders[:] = [
            name for name in subfolders if name not in UNREAD and not (here / name / "pyvenv.cfg").exists()
        ]
        yield from (here / name for name in names if name not in UNREAD)


def our_texts() -> Iterator[tuple[Path, str]]:
    for path in our_files():
        try:
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_every_locked_package_is_pinned_with_hashes() -> None:
    pins = locked()

    lines = [line for line in LOCK.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(pins) == len(lines) > 0
    assert [name for name, (_, hashes) in pins.items() if hashes == 0] == []


def test_the_lock_names_no_address_and_no_path() -> None:
    for address in ("http", "://", "--index", "--extra-index", "--find-links", " @ ", "file:"):
        assert address not in LOCK


@pytest.mark.parametrize("line", ASKED_FOR)
def test_the_lock_holds_what_the_project_asks_for(line: str) -> None:
    requirement = Requirement(line)

    version, _ = locked()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


def test_no_file_names_a_folder_of_the_machine_it_was_written_on() -> None:
    # Written in pieces so that this file passes its own test.
    machine_path = re.compile(r"(?<![\w.~)}-])/" + r"(?:root|work|home/\w+)/")

    found = {str(path): match[0] for path, text in our_texts() if (match := machine_path.search(text))}
    assert found == {}


def test_ci_calls_make_test() -> None:
    script = ROOT / ".ci" / "run"

    assert script.read_text(encoding="utf-8").splitlines()[-1] == "make test"
    assert os.access(script, os.X_OK)


def test_every_extra_installs_something_that_laneway_uses() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))

    named = {name: [Requirement(line).name for line in lines] for name, lines in EXTRAS.items()}
    every = named.pop("all")
    assert every == ["laneway"]
    assert Requirement(EXTRAS["all"][0]).extras == set(named)
    unused = [package for packages in named.values() for package in packages if f" {package}" not in sources]
    assert unused == []


def test_mypy_by_itself_checks_what_there_is() -> None:
    assert [name for name in PROJECT["tool"]["mypy"]["files"] if not (ROOT / name).exists()] == []


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    # A copy with a planted file shows that the rule covers data that no one has written yet.
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "src" / "laneway" / "planted.sql").write_text("select 1;\n", encoding="utf-8")

    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=tmp_path, check=True)

    [wheel] = (tmp_path / "dist").glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("laneway/")}
    written = {str(path.relative_to(tmp_path / "src")) for path in (tmp_path / "src").rglob("*") if path.is_file()}
    assert packed == written
    assert {"laneway/py.typed", "laneway/planted.sql"} <= packed


def lint_imports(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Check the imports of `folder`, even though the package that is installed lies elsewhere."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache", *options]
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_import_contracts_are_kept() -> None:
    checked = lint_imports(ROOT)

    assert checked.returncode == 0, checked.stdout
    assert "0 broken" in checked.stdout


@pytest.mark.parametrize(
    ("contract", "file", "planted"),
    [
        ("layers", "core/__init__.py", "import laneway.engine"),
        ("layers", "core/__init__.py", "from laneway import Scheduler"),
        ("layers", "errors.py", "import laneway.core"),
        ("layers", "engine/__init__.py", "import laneway.stores"),
        ("layers", "sync/__init__.py", "import laneway.scheduler"),
        ("layers", "engine/__init__.py", "import laneway.sync"),
        ("layers", "engine/__init__.py", "def planted() -> None:\n    import laneway.scheduler"),
        (
            "layers",
            "ports/__init__.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import laneway.engine",
        ),
        ("layers", "helpers.py", ""),
        ("testing", "__init__.py", "import laneway.testing"),
        ("testing", "cli/__init__.py", "def planted() -> None:\n    from laneway import testing"),
        ("pure", "core/__init__.py", "import random"),
        ("pure", "core/planted.py", "from os.path import join"),
        ("pure", "errors.py", "def planted() -> None:\n    from time import time"),
        ("terminal", "scheduler.py", "import click"),
        ("terminal", "engine/planted.py", "from rich.console import Console"),
        ("json", "cli/planted.py", "import pickle"),
    ],
)
def test_a_wrong_import_breaks_its_contract(tmp_path: Path, contract: str, file: str, planted: str) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "src" / "laneway" / file).open("a", encoding="utf-8") as wronged:
        wronged.write(f"\n{planted}\n")

    checked = lint_imports(tmp_path, "--contract", contract)

    assert checked.returncode == 1
    assert "1 broken" in checked.stdout
