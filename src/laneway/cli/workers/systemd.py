"""Messages to systemd for services of `Type=notify`: sd_notify without its library."""

from __future__ import annotations

import contextlib
import os
import socket

SOCKET = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Send a state such as `READY=1` to the socket of systemd, if there is one."""
    address = os.environ.get(SOCKET, "")
    # A message that cannot be sent must not stop the worker: systemd has a time-out of its own.
    with contextlib.suppress(OSError):
        if address.startswith(("/", "@")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                line.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
                line.send(state.encode())
