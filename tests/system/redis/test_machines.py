"""Several machines that share nothing but a Redis server: a limit holds for all of them together."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from laneway import Lane, Submission
from laneway.testing.servers import valkey_server
from tests.system.harness.forms import report, sized, time_limit
from tests.system.harness.stage import Stage
from tests.system.load.app import plod, stroll
from tests.system.oracle.check import check

pytestmark = [pytest.mark.system, time_limit()]

MACHINES, EACH, LIMIT = 5, 2, 7


async def test_five_workers_in_networks_of_their_own_share_a_limit_of_seven(stage: Stage) -> None:
    socket, inside, count = stage.sockets / "server.sock", _a_network_of_its_own(), sized(150, 5000)
    # A path is all that reaches into such a network: there is not even a loopback in it.
    with valkey_server(config={"unixsocket": str(socket)}):
        stage.url = f"unix://{socket}"
        async with stage.client() as client:
            await client.lanes.set(Lane("shared", LIMIT))
            fleet = [stage.worker(concurrency=EACH, inside=inside) for _ in range(MACHINES)]
            await stage.ready(*fleet)
            networks = {_network_of(process.pid) for process in fleet} - {_network_of(os.getpid())}

            tasks = (stroll, stroll, plod)
            await client.submit_many([Submission(tasks[n % 3], {"takes": 0.1}, lane="shared") for n in range(count)])
            took = await stage.drained(client, within=sized(60, 600))

            await stage.stop(*fleet)
            figures = await check(stage, client)
    where = f"{len(networks)} networks of their own" if inside else "one network: this machine allows no others"
    report(f"{MACHINES} workers in {where}, {figures.peaks['shared']} at once at most; {count} runs in {took:.1f} s")
    assert len(networks) == (MACHINES if inside else 0)
    assert figures.peaks == {"shared": LIMIT}
    assert (figures.runs, figures.failed, figures.taken_over) == (count, 0, 0)
    assert len(figures.by_process) * EACH >= LIMIT


def _a_network_of_its_own() -> list[str]:
    """Return the command that gives a process a network of its own; nothing where this machine does not allow it."""
    unshare = shutil.which("unshare")
    for more in (["--net"], ["--user", "--map-root-user", "--net"]) if unshare else ():
        command = [str(unshare), *more]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    return []


def _network_of(process: int) -> str:
    return str(Path(f"/proc/{process}/ns/net").readlink())
