"""A terminal to show things on."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path


def on_terminal(folder: Path, columns: int, *arguments: str, **environment: str) -> str:
    """Return what `laneway` shows on a terminal of that width."""
    main, side = pty.openpty()
    settings = os.environ | {"COLUMNS": str(columns), "TERM": "xterm-256color", **environment}
    command = [sys.executable, "-m", "laneway", *arguments]
    with subprocess.Popen(command, cwd=folder, env=settings, stdout=side, stderr=subprocess.STDOUT, stdin=side):
        os.close(side)
        shown = b""
        with contextlib.suppress(OSError):  # Linux's way to say that the other side has closed
            while part := os.read(main, 4096):
                shown += part
    os.close(main)
    return shown.decode().replace("\r\n", "\n")
