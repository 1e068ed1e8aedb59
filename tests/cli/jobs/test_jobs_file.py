"""Jobs of `laneway.toml`, heeded by a real worker while it works."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke, Start, heard

SWEEP = '[jobs.sweep]\nschedule = "every 1s"\ntask = "flaky"\n'
WITHIN = 30  # seconds; a few looks at the file take about five


def names(invoke: Invoke) -> set[str]:
    return {job["name"] for job in json.loads(invoke("jobs", "list", "--json").stdout)}


def comes_to(invoke: Invoke, expected: set[str]) -> bool:
    until = time.monotonic() + WITHIN
    while time.monotonic() < until:
        if names(invoke) == expected:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.system
def test_a_worker_heeds_the_file_while_it_works(invoke: Invoke, start: Start, folder: Path) -> None:
    worker = start()
    file = folder / "laneway.toml"

    file.write_text(SWEEP + '[jobs.digest]\nschedule = "daily 09:00"\ntask = "flaky"\n')
    assert comes_to(invoke, {"sweep", "digest"})

    file.write_text(SWEEP + "[jobs.digest\n")
    heard(worker, "is not TOML")
    assert names(invoke) == {"sweep", "digest"}

    file.write_text(SWEEP)
    assert comes_to(invoke, {"sweep"})
    heard(worker, "laneway.toml is heeded again")
    assert json.loads(invoke("jobs", "show", "sweep", "--json").stdout)["fired"] > 0
