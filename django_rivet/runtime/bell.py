"""Ring Celery: a hint that an actor is due. Losing it is harmless, the sweeper finds what is due."""

from __future__ import annotations

import logging
import uuid
from functools import partial

from celery import Celery, current_app
from django.db import transaction

from django_rivet.actors.registry import registry
from django_rivet.conf import get_settings
from django_rivet.store.database import alias

TASK = "django_rivet.drive"

logger = logging.getLogger(__name__)


def ring_on_commit(actor_id: uuid.UUID, type_name: str) -> None:
    """Ring once the surrounding transaction has committed; at once where there is none."""
    transaction.on_commit(partial(ring, actor_id, type_name), using=alias(), robust=True)


def ring(actor_id: uuid.UUID, type_name: str) -> bool:
    """Send one hint; False where there is no broker to take it. Never raises, never waits long for a broker."""
    app: Celery = current_app._get_current_object()  # type: ignore[attr-defined]  # a proxy, of which the stubs know nothing
    if not has_broker(app):
        return False
    return send(app, actor_id, type_name)


def send(app: Celery, actor_id: uuid.UUID, type_name: str) -> bool:
    try:
        app.send_task(
            TASK,
            args=[str(actor_id)],
            queue=queue_of(type_name) or app.conf.task_default_queue,
            ignore_result=True,
            retry=False,
            expires=60,
        )
    except Exception as error:
        # What is due stands in the database: a broker that is down costs latency and nothing else.
        logger.warning("no hint for actor %s was sent (%s); the sweeper will find it", actor_id, error)
        return False
    return True


def has_broker(app: Celery) -> bool:
    """Whether another process can hear us: ``memory://`` is heard in this process only, and would fill it."""
    url = app.conf.broker_write_url or app.conf.broker_url
    return bool(url) and not str(url).startswith("memory:")


def queue_of(type_name: str) -> str | None:
    """The Celery queue of an actor type: its ``Meta.celery_queue``, else ``RIVET["CELERY_QUEUE"]``."""
    try:
        own = registry.get(type_name).definition.meta.celery_queue
    except LookupError:
        own = None
    return own or get_settings().CELERY_QUEUE
