"""The README's twenty lines, by the real command line, with the kill -9 it speaks of."""

from __future__ import annotations

import json
import re

import pytest

from laneway.core.records.events import LAPSED, PROGRESS
from tests.support.invariants import check_invariants
from tests.system.harness.forms import report, time_limit
from tests.system.harness.stage import ROOT, Stage
from tests.system.harness.until import until

pytestmark = [pytest.mark.system, time_limit()]


async def test_the_readmes_app_survives_kill_9(stage: Stage) -> None:
    [first, *_] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    (stage.folder / "app.py").write_text(first.replace("asyncio.sleep(1)", "asyncio.sleep(0.5)"))
    worker = await stage.laneway_worker("app:app")
    waiting = stage.laneway("submit", "app:app", "summarize", "doc=42", "--wait")
    others = [stage.laneway("submit", "app:app", "summarize", f"doc={n}", "--json") for n in range(3)]
    for other in others:
        assert await other.ended() == 0
    receipts = [json.loads(other.stdout) for other in others]

    async with stage.client() as client:
        store = await client.open()

        async def all_are_in_the_middle() -> bool:
            logs = [await store.events(run.id) for run in await client.runs()]
            return len(logs) == 4 and all(PROGRESS in [event.kind for event in log] for log in logs)

        await until(all_are_in_the_middle, "all four runs are in the middle")
        worker.kill()
        heir = await stage.laneway_worker("app:app")
        took = await stage.drained(client)

        report(f"all ended {took:.1f} s after the second worker was ready")
        assert await waiting.ended() == 0
        assert waiting.stdout == '"summary of 42"\n'
        assert (await store.depths()).runs == {"succeeded": 4}
        for receipt in receipts:
            kinds = [event.kind for event in await store.events(receipt["run_id"])]
            assert kinds.count(LAPSED) == 1
        await stage.stop(heir)
        await check_invariants(store)

    listing = stage.laneway("runs", "list", "--json", "--store", stage.url)
    assert await listing.ended() == 0
    assert [(run["state"], run["fence"]) for run in json.loads(listing.stdout)] == [("succeeded", 2)] * 4
