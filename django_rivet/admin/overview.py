"""What the overview shows: how all actors stand, each number leading to the actors behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from django_rivet.admin import words
from django_rivet.admin.lateness import LATE_AFTER
from django_rivet.admin.text import Excerpt, excerpt, visible
from django_rivet.models import WorkflowRun
from django_rivet.store.overview import Overview, overview

Status = WorkflowRun.Status

MAX_TYPES = 100
MAX_ERROR = 200
MAX_WORKERS = 5

URGENT = (Status.ROLLBACK_FAILED, Status.FAILED, Status.DIVERGED)


@dataclass(frozen=True, slots=True)
class Count:
    """A number, and the list of those it counts."""

    number: int
    url: str
    label: str = ""
    tone: str = "plain"
    note: str = ""


@dataclass(frozen=True, slots=True)
class TypeRow:
    type: SafeString
    total: Count
    counts: list[Count]


@dataclass(frozen=True, slots=True)
class Case:
    """An actor that somebody should look at."""

    url: str
    type: str
    key: str
    badge: SafeString
    since: str
    error: Excerpt | None = None


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """Everything that the template draws."""

    urgent: list[Count]
    statuses: list[Count]
    """Those that occur, over all types."""
    total: Count
    types: list[TypeRow]
    more_types: int
    troubled: list[Case]
    late: list[Case]
    facts: list[tuple[str, str]]


def overview_page(site: str) -> OverviewPage:
    """``site``: the name of the admin's site. As many statements for ten actors as for a million."""
    found = overview(LATE_AFTER, with_types=True)
    links = _Links(site)
    occurring = [status for status, number in found.statuses.items() if number]
    types = found.types or {}
    return OverviewPage(
        urgent=_urgent(found, links),
        statuses=[_of_status(status, found.statuses[status], links) for status in occurring],
        total=Count(sum(found.statuses.values()), links.to_list()),
        types=[_type_row(name, types[name], occurring, links) for name in list(types)[:MAX_TYPES]],
        more_types=max(0, len(types) - MAX_TYPES),
        troubled=[
            Case(
                links.to_actor(each.actor_id),
                visible(each.type_name),
                visible(each.key),
                words.badge(each.status, _word(each.status)),
                gettext("%(time)s ago") % {"time": words.seconds(each.seconds)},
                excerpt(str(each.error), MAX_ERROR) if each.error is not None else None,
            )
            for each in found.troubled
        ],
        late=[
            Case(
                links.to_actor(each.actor_id),
                visible(each.type_name),
                visible(each.key),
                words.badge(each.status, _word(each.status)),
                gettext("due for %(time)s") % {"time": words.seconds(each.seconds)},
            )
            for each in found.overdue.oldest
        ],
        facts=list(_facts(found)),
    )


# Below: how it is done ---------------------------------------------------------------------------


class _Links:
    def __init__(self, site: str) -> None:
        self._site = site

    def to_list(self, status: str = "", type_name: str = "", *, overdue: bool = False) -> str:
        wanted = {"run__status__exact": status, "type": type_name, "overdue": "1" if overdue else ""}
        query = urlencode({name: value for name, value in wanted.items() if value})
        address = reverse("admin:django_rivet_actor_changelist", current_app=self._site)
        return f"{address}?{query}" if query else address

    def to_actor(self, actor_id: object) -> str:
        return reverse("admin:django_rivet_actor_change", args=[actor_id], current_app=self._site)


def _word(status: str) -> str:
    return str(Status(status).label) if status in Status.values else visible(status)


def _of_status(status: str, number: int, links: _Links) -> Count:
    return Count(number, links.to_list(status), _word(status), words.tone(status) if number else "plain")


def _urgent(found: Overview, links: _Links) -> list[Count]:
    notes = {
        Status.ROLLBACK_FAILED: gettext("What was taken could not be given back: retry, skip or mark done a handler."),
        Status.FAILED: gettext("Out of attempts, and rolled back: repair the cause, then recover."),
        Status.DIVERGED: gettext("The code does not fit the history: deploy code that does."),
    }
    counts = [_of_status(status, found.statuses[status], links) for status in URGENT]
    overdue = Count(
        found.overdue.count,
        links.to_list(overdue=True),
        gettext("overdue"),
        "warning" if found.overdue.count else "plain",
        gettext("Due, and no worker has come: is one running?"),
    )
    return [
        *(
            Count(each.number, each.url, each.label, each.tone, notes[status])
            for each, status in zip(counts, URGENT, strict=True)
        ),
        overdue,
    ]


def _type_row(name: str, counts: Mapping[str, int], occurring: list[str], links: _Links) -> TypeRow:
    return TypeRow(
        words.type_name(name),
        Count(sum(counts.values()), links.to_list(type_name=name)),
        [
            Count(
                counts.get(status, 0),
                links.to_list(status, name),
                _word(status),
                words.tone(status) if status in URGENT else "plain",
            )
            for status in occurring
        ],
    )


def _facts(found: Overview) -> list[tuple[str, str]]:
    leases, message = found.leases, found.oldest_message
    names = ", ".join(visible(name) for name in leases.workers[:MAX_WORKERS])
    more = "…" if len(leases.workers) > MAX_WORKERS else ""
    driven = ngettext("%(count)d actor is driven", "%(count)d actors are driven", leases.held) % {"count": leases.held}
    facts = [(gettext("Workers"), f"{driven}: {names}{more}" if names else driven)]
    if leases.dead:
        text = ngettext("%(count)d, not yet taken over", "%(count)d, not yet taken over", leases.dead)
        facts.append((gettext("Leases of dead workers"), text % {"count": leases.dead}))
    facts += [
        (
            gettext("%(type)s, all slots taken") % {"type": visible(line.type_name)},
            gettext("%(waiting)d wait, %(running)d of %(limit)d are driven")
            % {"waiting": line.waiting, "running": line.running, "limit": line.limit},
        )
        for line in found.lines
    ]
    if message is not None:
        where = visible(f"{message.type_name} {message.key}"), visible(message.queue)
        text = gettext("%(time)s, to %(actor)s in %(queue)s")
        told = text % {"time": words.seconds(message.seconds), "actor": where[0], "queue": where[1]}
        facts.append((gettext("Oldest waiting message"), told))
    if abs(found.clock_skew) > 1:
        skew = gettext("%(seconds).1f s between the database and this machine") % {"seconds": found.clock_skew}
        facts.append((gettext("Clocks differ"), skew))
    if found.connections is not None:
        used = gettext("%(used)d of %(limit)d") % {"used": found.connections.used, "limit": found.connections.limit}
        facts.append((gettext("Database connections"), used))
    return facts
