"""An actor that stands at a gate while operators do something with it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from django_rivet import Actor, workflow
from tests.journeys import outside

PATIENCE_SECONDS = 60.0


class GatedActor(Actor):
    """Its body stands still until somebody notes ``go:<key>`` in the world outside."""

    @workflow
    def run(self, ctx):
        ctx.rollback_checkpoint("start")
        ctx.step("before", int, rollback=self.undo)
        ctx.step("gate", self.stand, atomic=False, timeout=0)
        ctx.step("after", self.go_on, atomic=False)

    def stand(self) -> None:
        outside.note(f"stands:{self.key}", "once")
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            if f"go:{self.key}" in outside.effects(Path(os.environ[outside.VARIABLE])):
                return
            time.sleep(0.02)

    def go_on(self) -> None:
        outside.note(f"after:{self.key}", "once")

    def undo(self, rollback, output) -> None:
        outside.note(f"undone:{self.key}", "once")
