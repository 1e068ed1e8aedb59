"""An app with a task for every kind of handler, each in a lane of one slot."""

from __future__ import annotations

import os

import msgspec

from laneway import Lane, Scheduler
from tests.support.stoppable_handlers import KINDS
from tests.system.load.app import SETTINGS

LANES = [Lane(kind.name, limit=1) for kind in KINDS]

app = Scheduler(
    os.environ.get("LANEWAY_STORE", "memory://"), lanes=LANES, **msgspec.json.decode(os.environ.get(SETTINGS, "{}"))
)
for kind in KINDS:
    app.task(name=kind.name, lane=kind.name, process=kind.process, timeout=3, retry=None)(kind.handler)
