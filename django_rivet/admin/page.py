"""What the page of one actor shows, read in a handful of statements."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models.functions import Substr
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext

from django_rivet.actors.exceptions import UnknownActorTypeError
from django_rivet.actors.registry import registry
from django_rivet.admin import words
from django_rivet.admin.frames import Trace, read_trace
from django_rivet.admin.handlers import FailedHandler, failed_handlers
from django_rivet.admin.history import MAX_ENTRIES, RecentHistory
from django_rivet.admin.lateness import late_among
from django_rivet.admin.lines import Line
from django_rivet.admin.operations import owed
from django_rivet.admin.text import Excerpt, excerpt, pretty_json, read_error, visible
from django_rivet.admin.timeline import Timeline
from django_rivet.models import Actor, Message, WorkflowRun
from django_rivet.store.database import alias, database_now
from django_rivet.store.lifecycle import FINISHED, STANDS_STILL

MAX_STATE = 16 * 1024
MAX_VALUE = 4 * 1024
MAX_BODY = 2000
MAX_MESSAGES = 20
MAX_GENERATIONS = 20
MAX_ERROR = 2000

SECONDS = 1
SECONDS_STILL = 5
"""Where only an operator can make it go on."""

AT_REST = (*STANDS_STILL, "paused")


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    id: int
    queue: str
    body: Excerpt
    sent: str
    due: str
    """Where it is delayed."""
    idempotency_key: str


@dataclass(frozen=True)
class ActorPage:
    """Everything that the template draws."""

    facts: list[Fact]
    error: Excerpt | None
    trace: Trace | None
    handlers: list[FailedHandler]
    """Rollback handlers that an operator has to decide about."""
    state: Excerpt
    misfit: str
    """Why the state cannot be loaded any more."""
    input: Excerpt | None
    output: Excerpt | None
    messages: list[WaitingMessage]
    message_count: int
    timeline: Timeline
    lines: list[Line]
    older_than: int | None
    is_newest: bool
    generation: int
    is_current: bool
    generations: list[int] = field(default_factory=list)
    """That can be read; the current one in front."""
    max_entries: int = MAX_ENTRIES
    seconds: int | None = None
    """How often who looks on should look again; None: nothing will happen any more."""


def actor_page(actor: Actor, generation: int | None = None, before: int | None = None) -> ActorPage:
    """``generation``: an earlier one, None for the current; ``before``: only what is older than that entry."""
    run = actor.run
    error = read_error(run.error)
    now = database_now()
    history = RecentHistory(actor.pk, generation, before)
    timeline = Timeline(history.tree(), run.updated_at if run.status in AT_REST else now)
    messages, message_count = _waiting_messages(actor.pk)
    return ActorPage(
        facts=_facts(actor, now),
        error=excerpt(str(error), MAX_ERROR) if error is not None else None,
        trace=read_trace(error.stack) if error is not None and error.stack else None,
        handlers=failed_handlers(actor.pk),
        state=pretty_json(actor.state, MAX_STATE),
        misfit=_misfit(actor),
        input=_value(actor.input),
        output=_value(run.output),
        messages=messages,
        message_count=message_count,
        timeline=timeline,
        lines=list(history.lines(timeline)),
        older_than=history.older_than,
        is_newest=before is None,
        generation=run.generation if generation is None else generation,
        is_current=generation is None,
        generations=list(range(run.generation, max(-1, run.generation - MAX_GENERATIONS), -1)),
        seconds=None if run.status in FINISHED else SECONDS_STILL if run.status in AT_REST else SECONDS,
    )


# Below: how it is done ---------------------------------------------------------------------------


def _facts(actor: Actor, now: datetime) -> list[Fact]:
    run = actor.run
    facts = [
        Fact(gettext("Type"), visible(actor.type), _type_note(actor.type)),
        Fact(gettext("Key"), visible(actor.key)),
        Fact(gettext("Status"), words.badge(run.status, run.get_status_display()), _status_note(run)),
        *_waits(run, now),
    ]
    if run.holder is not None and run.lease_until is not None:
        lease = format_html("{}, {}", gettext("lease until"), words.exact(run.lease_until))
        facts.append(Fact(gettext("Worker"), visible(run.holder), lease))
    if run.takeovers:
        facts.append(Fact(gettext("Takeovers"), str(run.takeovers), gettext("workers in a row that died here")))
    debts = owed(actor.pk)
    if debts:
        words_for = ngettext("%(count)d step would be rolled back", "%(count)d steps would be rolled back", debts)
        facts.append(Fact(gettext("Rollback"), words_for % {"count": debts}))
    return [
        *facts,
        Fact(gettext("Updated"), words.relative(run.updated_at, now)),
        Fact(gettext("Created"), words.relative(actor.created_at, now)),
        Fact(gettext("Instance"), str(actor.pk)),
    ]


def _type_note(type_name: str) -> str:
    try:
        registry.get(type_name)
    except UnknownActorTypeError:
        return gettext("not registered in this process; shown as it is stored")
    return ""


def _status_note(run: WorkflowRun) -> str:
    notes = []
    if late_among([run.pk]):
        notes.append(gettext("overdue: is a worker running?"))
    if run.pausing:
        notes.append(gettext("asked to pause"))
    if run.status == "paused" and run.paused_from:
        notes.append(gettext("was %(status)s") % {"status": run.get_paused_from_display()})
    if run.request and run.status not in ("cancelled", "completed"):
        notes.append(gettext("asked to %(request)s") % {"request": run.get_request_display()})
    return "; ".join(notes)


def _waits(run: WorkflowRun, now: datetime) -> list[Fact]:
    facts = []
    if run.waiting is not None:
        queues = [name for name in run.waiting.split(",") if name]
        where = gettext("a message in %(queues)s") % {"queues": ", ".join(queues)} if queues else gettext("any message")
        facts.append(Fact(gettext("Waits for"), visible(where)))
    if run.wake_at is not None:
        label = gettext("Due") if run.wake_at <= now else gettext("Wakes")
        facts.append(Fact(label, words.relative(run.wake_at, now)))
    return facts


def _misfit(actor: Actor) -> str:
    try:
        actor_class = registry.get(actor.type)
    except UnknownActorTypeError:
        return ""
    try:
        actor_class.definition.state_type.load(actor.state)
    except Exception as error:  # a model's validators are the project's code and may raise anything
        return visible(str(error)[:MAX_ERROR])
    return ""


def _value(stored: str | None) -> Excerpt | None:
    return None if stored in (None, "null") else pretty_json(str(stored), MAX_VALUE)


def _waiting_messages(actor_id: uuid.UUID) -> tuple[list[WaitingMessage], int]:
    queued = Message.objects.using(alias()).filter(actor_id=actor_id, status=Message.Status.QUEUED)
    columns = ("id", "queue", "created_at", "visible_at", "idempotency_key")
    rows = list(queued.order_by("id").values(*columns, shown=Substr("body", 1, MAX_BODY + 1))[: MAX_MESSAGES + 1])
    count = len(rows) if len(rows) <= MAX_MESSAGES else queued.count()
    return [_waiting_message(row) for row in rows[:MAX_MESSAGES]], count


def _waiting_message(row: dict[str, Any]) -> WaitingMessage:
    return WaitingMessage(
        id=row["id"],
        queue=visible(row["queue"]),
        body=pretty_json(row["shown"], MAX_BODY),
        sent=words.exact(row["created_at"]),
        due=words.exact(row["visible_at"]) if row["visible_at"] > row["created_at"] else "",
        idempotency_key=visible(row["idempotency_key"] or ""),
    )
