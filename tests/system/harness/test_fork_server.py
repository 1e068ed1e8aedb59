"""A forked process behaves as a started one, and ends with the test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.harness.fork_server import ForkedProcess, ForkServer
from tests.system.harness.until import until

pytestmark = pytest.mark.system

SCRIPT = """
import os, sys, time
print(os.getcwd(), os.environ["WHO"], __name__, *sys.argv[1:])
match sys.argv[1]:
    case "exit": sys.exit(3)
    case "raise": raise ValueError("no")
    case "sleep": time.sleep(600)
"""


@pytest.fixture
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


def forked(server: ForkServer, folder: Path, act: str) -> ForkedProcess:
    (folder / "script.py").write_text(SCRIPT)
    for name in ("out", "err"):
        (folder / name).touch()
    environment = os.environ | {"PYTHONPATH": str(folder), "WHO": "somebody"}
    return server.fork(["script", act], environment, folder, folder / "out", folder / "err")


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("act", "status", "said"), [("end", 0, ""), ("exit", 3, ""), ("raise", 1, "ValueError: no")])
def test_it_has_a_place_an_environment_and_an_end_of_its_own(
    server: ForkServer, tmp_path: Path, act: str, status: int, said: str
) -> None:
    process = forked(server, tmp_path, act)

    assert process.wait() == process.poll() == status
    assert (tmp_path / "out").read_text() == f"{tmp_path} somebody __main__ {act}\n"
    assert (tmp_path / "err").read_text().rstrip().endswith(said)


async def test_it_can_be_killed_and_dies_with_whoever_forked_it(server: ForkServer, tmp_path: Path) -> None:
    first, second = forked(server, tmp_path, "sleep"), forked(server, tmp_path, "sleep")
    await until(lambda: "sleep" in (tmp_path / "out").read_text(), "it is up")

    first.kill()

    assert first.wait() == -signal.SIGKILL
    assert second.poll() is None
    assert lives(second.pid)
    os.kill(server.pid, signal.SIGKILL)
    await until(lambda: not lives(second.pid), "it is gone")
