"""A slot of a type with ``max_running`` has become free: ring those that wait for it."""

from __future__ import annotations

import logging

from django.db import Error

from django_rivet.runtime.bell import ring
from django_rivet.store.slots import Cap, next_in_line

logger = logging.getLogger(__name__)


def ring_next(cap: Cap) -> None:
    """After a release. Losing it costs latency only: the sweeper finds whose turn it is."""
    try:
        for actor_id, _ in next_in_line(cap):
            ring(actor_id, cap.type_name)
    except Error as error:
        logger.warning(
            "who waits for a slot of %s was not looked up (%s); the sweeper will do it", cap.type_name, error
        )
