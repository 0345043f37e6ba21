"""``manage.py rivet_status``: how all actors stand, for a person in a terminal or for monitoring."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from django_rivet.conf import get_settings
from django_rivet.store.capacity import Capacity
from django_rivet.store.overdue import Overdue
from django_rivet.store.overview import TROUBLED, Leases, Overview, overview

SWEEPS = 5
"""After so many sweeps, what is due and was not taken is overdue."""

SWEEP_SECONDS = 1.0
"""How often workers sweep where the settings do not say it. Without a broker they do it more often."""

SHOWN_WORKERS = 5
MAX_ERROR = 200

NEARLY_ALL = 0.9
"""When so much of the server's connections is used, the next worker may get none."""

IS_OVERDUE = 1
COULD_NOT_LOOK = 2


class Command(BaseCommand):
    help = "Show how all actors stand: statuses, what is overdue, leases, the oldest message, and what has failed."
    # Monitoring asks often, and wants to be told of the actors, not of the settings.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--types", action="store_true", help="count each type of actor too")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
        parser.add_argument(
            "--fail-on-overdue",
            type=_seconds,
            metavar="SECONDS",
            help="exit with 1 where an actor has been due for longer than that and no worker has taken it",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        limit: float | None = options["fail_on_overdue"]
        patience = SWEEPS * (get_settings().SWEEP_SECONDS or SWEEP_SECONDS)
        try:
            found = overview(patience if limit is None else min(patience, limit), with_types=options["types"])
        except DatabaseError as error:
            raise CommandError(
                f"the database could not be read: {error}\nIs it up, and are its migrations applied?",
                returncode=COULD_NOT_LOOK,
            ) from error
        text = json.dumps(as_json(found), indent=2) if options["json"] else "\n".join(as_table(found))
        self.stdout.write(text)
        oldest = found.overdue.oldest_seconds
        if limit is not None and oldest is not None and oldest > limit:
            raise CommandError(
                f"an actor has been due for {_duration(oldest)}, longer than {limit:g} s: is a worker running?",
                returncode=IS_OVERDUE,
            )


def as_json(found: Overview) -> dict[str, Any]:
    """Every key is always there, but for ``types``, which has to be asked for."""
    message = found.oldest_message
    return {
        "now": found.now.isoformat(),
        "clock_skew_seconds": _skew(found),
        "statuses": dict(found.statuses),
        **({"types": found.types} if found.types is not None else {}),
        "overdue": {
            "after_seconds": found.overdue.after,
            "count": found.overdue.count,
            "oldest_seconds": found.overdue.oldest_seconds,
            "oldest": [
                {"type": each.type_name, "key": each.key, "status": each.status, "seconds": each.seconds}
                for each in found.overdue.oldest
            ],
        },
        "in_line": [
            {"type": line.type_name, "waiting": line.waiting, "running": line.running, "max_running": line.limit}
            for line in found.lines
        ],
        "held": found.leases.held,
        "dead_leases": found.leases.dead,
        "workers": list(found.leases.workers),
        "takeovers": {"sum": found.takeovers, "max": found.most_takeovers},
        "oldest_message": None
        if message is None
        else {"type": message.type_name, "key": message.key, "queue": message.queue, "seconds": message.seconds},
        "connections": None
        if found.connections is None
        else {"used": found.connections.used, "limit": found.connections.limit},
        "troubled": [
            {
                "type": each.type_name,
                "key": each.key,
                "status": each.status,
                "error": {"name": each.error.name, "message": each.error.message} if each.error is not None else None,
                "seconds": each.seconds,
            }
            for each in found.troubled
        ],
    }


def as_table(found: Overview) -> Iterator[str]:
    """Plain text. What comes from outside cannot steer the terminal."""
    yield _line("actors", sum(found.statuses.values()))
    for status, count in found.statuses.items():
        if count:
            yield _line(f"  {_visible(status)}", count)
    if found.types is not None:
        yield ""
        yield from _types(found)
    yield ""
    yield from _overdue(found.overdue)
    for line in found.lines:
        yield _line("in line", line.waiting, f"{_visible(line.type_name)}: {line.running} of {line.limit} are driven")
    yield from _leases(found.leases)
    yield _line("takeovers", found.takeovers, f"at most {found.most_takeovers} of one actor" if found.takeovers else "")
    message = found.oldest_message
    yield _line(
        "oldest message",
        "none" if message is None else _duration(message.seconds),
        "" if message is None else f"{_visible(message.type_name, message.key)} in {_visible(message.queue)}",
    )
    yield _line("clock skew", f"{_skew(found):.3f} s", "by which the database is ahead of this machine")
    if found.connections is not None:
        yield _line("connections", found.connections.used, _note_on(found.connections))
    if found.troubled:
        yield ""
        yield from _troubled(found)


# Below: how it is done ---------------------------------------------------------------------------


def _line(name: str, value: object, note: str = "") -> str:
    return f"{name:<18}{value!s:>12}   {note}".rstrip()


def _types(found: Overview) -> Iterator[str]:
    """A row for each type, a column for each status that occurs."""
    types = found.types or {}
    statuses = [status for status, count in found.statuses.items() if count]
    table = [["type", "actors", *statuses]]
    table += [
        [_visible(name), str(sum(counts.values())), *(str(counts.get(status, 0)) for status in statuses)]
        for name, counts in types.items()
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *numbers in table:
        cells = [first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(numbers, widths[1:], strict=True))]
        yield "  ".join(cells)


def _overdue(overdue: Overdue) -> Iterator[str]:
    yield _line("overdue", overdue.count, f"due for longer than {overdue.after:g} s")
    for late in overdue.oldest:
        yield _line("", _duration(late.seconds), f"{_visible(late.type_name, late.key)}  {late.status}")


def _leases(leases: Leases) -> Iterator[str]:
    names = ", ".join(map(_visible, leases.workers[:SHOWN_WORKERS]))
    more = len(leases.workers) - SHOWN_WORKERS
    yield _line("held", leases.held)
    yield _line("dead leases", leases.dead, "not yet taken over" if leases.dead else "")
    yield _line("workers", len(leases.workers), f"{names} and {more} more" if more > 0 else names)


def _troubled(found: Overview) -> Iterator[str]:
    total = sum(found.statuses[status] for status in TROUBLED)
    shown = len(found.troubled)
    yield "in trouble" if total <= shown else f"in trouble: {shown} of {total}"
    for each in found.troubled:
        yield f"  {each.status:<15}  {_visible(each.type_name, each.key)}  {_duration(each.seconds)} ago"
        if each.error is not None:
            yield f"    {_shortened(str(each.error))}"


def _note_on(server: Capacity) -> str:
    allowed = f"of {server.limit} that the database server allows"
    is_short = server.used > server.limit * NEARLY_ALL
    return allowed + ("; lower --concurrency or BRANCH_THREADS, or raise max_connections" if is_short else "")


def _skew(found: Overview) -> float:
    # Never minus zero.
    return round(found.clock_skew, 3) + 0.0


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def _visible(*parts: str) -> str:
    """Control characters and those that hide or turn text as ``\\x1b``: a key or an error is anybody's text."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(parts))


def _shortened(text: str) -> str:
    return _visible(text[:MAX_ERROR]) + ("..." if len(text) > MAX_ERROR else "")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0")
    return seconds
