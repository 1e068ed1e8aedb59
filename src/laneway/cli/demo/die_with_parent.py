"""`laneway` on a leash: it ends when whoever started it does, however that ends.

Its stdin is a pipe that the demo holds open. The kernel closes it with the demo, also by kill -9, and then this process
leaves at once: no demo leaves a worker behind.
"""

from __future__ import annotations

import os
import sys
import threading


def main() -> None:
    """Be the `laneway` command until stdin ends."""
    threading.Thread(target=_leave_with_stdin, daemon=True).start()
    from laneway.cli import main as command

    command()


def _leave_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
