"""Telling systemd how this service is doing (`Type=notify`), where it asked for it: sd_notify, without its library."""

from __future__ import annotations

import contextlib
import os
import socket

SOCKET = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Send a state such as `READY=1` to the socket systemd named, if it did."""
    address = os.environ.get(SOCKET, "")
    # What cannot be told must not keep a worker from working: systemd has its own time-out for that.
    with contextlib.suppress(OSError):
        if address.startswith(("/", "@")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                line.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
                line.send(state.encode())
