"""System checks: what ``manage.py check`` says about actors and the settings they run under."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router

from django_rivet.actors.registry import registry
from django_rivet.conf import get_settings


def register_checks() -> None:
    """Called when the app is ready."""
    for check in (
        check_action_names,
        check_declared_types,
        check_settings,
        check_time_zones,
        check_sqlite_options,
        check_channel_layer,
    ):
        register(check, "rivet")


def check_action_names(**kwargs: Any) -> list[CheckMessage]:
    """E001: a handle has a name of its own where an action should be called."""
    from django_rivet.runtime.handles import Handle

    # The last two are set on each handle when it is made.
    taken = {name for name in dir(Handle) if not name.startswith("_")} | {"created", "key"}
    return [
        Error(
            f"{definition.type_name} names actions like attributes that every handle has: {', '.join(clashes)}.",
            hint="Rename them: handle.<name>() would never reach the action.",
            obj=definition.actor_class,
            id="rivet.E001",
        )
        for definition in registry
        if (clashes := sorted(taken & definition.actions.keys()))
    ]


def check_declared_types(**kwargs: Any) -> list[CheckMessage]:
    """E002: an annotation names nothing, or nothing that values can be validated by."""
    return [
        Error(str(error), obj=definition.actor_class, id="rivet.E002")
        for definition in registry
        if (error := _type_fault(definition))
    ]


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """E003: ``RIVET`` holds a key or a value that is not allowed."""
    try:
        get_settings()
    except ImproperlyConfigured as error:
        return [Error(str(error), hint="The keys are listed in the reference of settings.", id="rivet.E003")]
    return []


def check_time_zones(**kwargs: Any) -> list[CheckMessage]:
    """E004: without time zones, points in time cannot be compared with the database's clock."""
    if settings.USE_TZ:
        return []
    return [Error("django_rivet needs USE_TZ = True.", hint="Set it; it is Django's default.", id="rivet.E004")]


def check_sqlite_options(**kwargs: Any) -> list[CheckMessage]:
    """W001: the engine's SQLite database loses transactions to "database is locked" under load."""
    from django_rivet.models import Actor

    alias = router.db_for_write(Actor)
    connection = connections[alias]
    if connection.vendor != "sqlite":
        return []
    faults = list(_sqlite_faults(connection.settings_dict))
    if not faults:
        return []
    return [
        Warning(
            f'DATABASES["{alias}"], which holds the actors, is SQLite {" and ".join(faults)}.',
            hint=f'Put "OPTIONS": {_SQLITE_OPTIONS} into it.',
            id="rivet.W001",
        )
    ]


def check_channel_layer(**kwargs: Any) -> list[CheckMessage]:
    """W002: events are declared, and nothing carries them to other processes."""
    declared = [f"{each.type_name}.{event}" for each in registry for event in each.events]
    if not declared or "default" in getattr(settings, "CHANNEL_LAYERS", {}):
        return []
    return [
        Warning(
            f"Events are declared ({', '.join(declared)}), but CHANNEL_LAYERS has no default: clients find stored ones "
            "only by looking into the database again and again, and never get those with stored=False.",
            hint='Set CHANNEL_LAYERS = {"default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", '
            '"CONFIG": {"hosts": ["redis://..."]}}}.',
            id="rivet.W002",
        )
    ]


# Private -----------------------------------------------------------------------------------------

_SQLITE_OPTIONS = (
    '{"transaction_mode": "IMMEDIATE", "timeout": 20, '
    '"init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;"}'
)
_WAL = re.compile(r"journal_mode\s*=\s*['\"]?wal\b", re.IGNORECASE).search


def _type_fault(definition: Any) -> ImproperlyConfigured | None:
    try:
        definition.verify()
    except ImproperlyConfigured as error:
        return error
    return None


def _sqlite_faults(database: dict[str, Any]) -> Iterator[str]:
    options = database.get("OPTIONS") or {}
    # With the default, two transactions that read before they write fail at once, whatever the timeout.
    if str(options.get("transaction_mode")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield "without transaction_mode IMMEDIATE"
    # A database in memory has no other journal, and no other process.
    if not _is_in_memory(str(database["NAME"])) and not _WAL(options.get("init_command") or ""):
        yield "without journal_mode WAL"
    if options.get("timeout", 5) < 5:
        yield "with a timeout under 5 s"


def _is_in_memory(name: str) -> bool:
    return ":memory:" in name or "mode=memory" in name
