"""Carry out what an operator asks for, whoever asks: a handle, or the admin where the actor's class is gone."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from django_rivet.runtime.bell import ring_on_commit
from django_rivet.store.lifecycle import Verdict
from django_rivet.store.transactions import engine_transaction


def carry_out(
    act: Callable[[uuid.UUID], Verdict],
    actor_id: uuid.UUID,
    type_name: str,
    record: Callable[[], None] = lambda: None,
) -> bool:
    """Do it, and ``record`` it in the same transaction; False, and nothing, where the status does not allow it."""
    with engine_transaction(observed=False):
        verdict = act(actor_id)
        if verdict.done:
            record()
        if verdict.is_due:
            ring_on_commit(actor_id, type_name)
    return verdict.done
