"""Find out whether a process of this machine is gone, so that its runs need not wait for a lapse.

A pid alone is not enough: it is reused. Boot id, pid namespace, pid and start time together identify one process for
good. Where they cannot be read (not Linux), or boot or namespace differ, no process is seen to be gone, and the lapse
decides.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from laneway.core.records.liveness import ProcessMark

_PROC = Path("/proc")


def mark() -> ProcessMark:
    """Return the mark of this process."""
    pid = os.getpid()
    return ProcessMark(_boot(), _namespace(), pid, _started(pid) or 0)


def is_gone(process: ProcessMark) -> bool:
    """Tell whether that process is gone; False if that cannot be seen."""
    if not process.boot or (process.boot, process.namespace) != (_boot(), _namespace()):
        return False
    started = _started(process.pid)
    return not _exists(process.pid) if started is None else started != process.started


@cache
def _boot() -> str:
    return _text(_PROC / "sys/kernel/random/boot_id")


@cache
def _namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if len(fields) >= 20 and not _has_ended(fields) else None


def _has_ended(fields: list[str]) -> bool:
    # Race: the main thread of a killed process may be a zombie while another thread, with its child, still runs.
    return len(fields) >= 18 and (fields[0] == "X" or (fields[0] == "Z" and int(fields[17]) <= 1))


def _stat(pid: int) -> list[str]:
    # Fields after the command's closing parenthesis: state is the 3rd of all, threads 20th, start time 22nd.
    return _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def _exists(pid: int) -> bool:
    # A process that /proc does not show may only be hidden (hidepid). A zombie exists and executes nothing.
    if _has_ended(_stat(pid)):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
