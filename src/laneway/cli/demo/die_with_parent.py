"""Run `laneway`, and exit when the process that started it has ended, even by kill -9.

Stdin is a pipe that the demo keeps open. The kernel closes it when the demo ends, and then this process exits at once:
no demo leaves a worker behind.
"""

from __future__ import annotations

import os
import sys
import threading


def main() -> None:
    """Run the `laneway` command until stdin ends."""
    threading.Thread(target=_leave_with_stdin, daemon=True).start()
    from laneway.cli import main as command

    command()


def _leave_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
