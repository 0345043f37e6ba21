"""Actors whose worker process freezes itself in the middle of a commit."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from django_rivet import Actor, current_step, workflow
from django_rivet.store import transactions
from tests.journeys import outside


class FrozenCommitActor(Actor):
    """Its first worker freezes just before it commits the record of the one step.

    Which step, the key says: one that ``asks nothing`` of the database, or runs ``outside`` of its transaction.
    """

    @workflow
    def run(self, ctx):
        ctx.step("step", self.step, atomic=self.key != "outside", timeout=5)

    def step(self) -> None:
        outside.note("step", current_step().idempotency_key)
        if sum(outside.effects(Path(os.environ[outside.VARIABLE]))["step"].values()) == 1:
            transactions.observers.append(_FreezesBeforeCommit())


class _FreezesBeforeCommit:
    """All statements are sent, all locks are held, and COMMIT is not."""

    def before(self) -> None:
        transactions.observers.remove(self)
        outside.note("frozen", str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)

    def after(self) -> None:
        """Told of the commit that it held up; nothing to do."""
