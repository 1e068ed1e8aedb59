"""Marks of processes: enough to tell one from every other, and to see that it is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from laneway.core.records.liveness import ProcessMark
from laneway.engine.common import processes
from laneway.engine.common.processes import is_gone, mark


def test_this_process_is_not_gone() -> None:
    mine = mark()

    assert mine == mark()
    assert mine.pid == os.getpid()
    assert mine.boot
    assert mine.namespace.startswith("pid:[")
    assert mine.started > 0
    assert not is_gone(mine)


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ({"started": 1}, True),  # the pid was reused
        ({"pid": 2**22 + 1}, True),  # no such pid can be
        ({"boot": "another"}, False),  # another machine, or this one before it was started again: not to be seen
        ({"namespace": "pid:[1]"}, False),  # another container
        ({"boot": ""}, False),  # a system without /proc
    ],
)
def test_a_process_is_gone_only_where_that_can_be_seen(change: dict[str, object], gone: bool) -> None:
    other = msgspec.structs.replace(mark(), **change)

    assert is_gone(other) is gone


def test_a_child_is_there_while_it_lives_and_gone_when_it_has_ended() -> None:
    code = (
        "import msgspec, sys; from laneway.engine.common.processes import mark;"
        "print(msgspec.json.encode(mark()).decode(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        childs = msgspec.json.decode(child.stdout.readline(), type=ProcessMark)

        alive = is_gone(childs)

    assert childs.pid == child.pid
    assert alive is False
    assert is_gone(childs) is True


FIRST_THREAD_ENDS = """
import ctypes, msgspec, platform, sys, threading
from laneway.engine.common.processes import mark
mine = msgspec.json.encode(mark()).decode()
threading.Thread(target=lambda: (print(mine, flush=True), sys.stdin.read())).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)  # exit, of this thread alone
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is seen to be gone")
def test_a_process_whose_first_thread_has_ended_is_there_while_another_runs() -> None:
    command = [sys.executable, "-c", FIRST_THREAD_ENDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        childs = msgspec.json.decode(child.stdout.readline(), type=ProcessMark)
        while "State:\tZ" not in Path(f"/proc/{childs.pid}/status").read_text():
            pass

        gone = is_gone(childs)

        child.kill()
        os.waitid(os.P_PID, childs.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(childs)
    assert not gone


def test_where_there_is_no_proc_nobody_is_ever_seen_to_be_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = mark()
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    processes._boot.cache_clear()
    processes._namespace.cache_clear()
    try:
        blind = mark()

        assert (blind.boot, blind.namespace, blind.started) == ("", "", 0)
        assert not is_gone(mine)
        assert not is_gone(blind)
    finally:
        processes._boot.cache_clear()
        processes._namespace.cache_clear()


def test_a_process_that_may_not_be_looked_at_is_not_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # /proc mounted with hidepid: boot id and our own entries are there, those of other users are not.
    mine = processes.mark()
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(mine.boot)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to(mine.namespace)
    monkeypatch.setattr(processes, "_PROC", tmp_path)

    assert not processes.is_gone(mine)
