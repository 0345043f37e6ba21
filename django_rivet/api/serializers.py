"""The shapes of bodies and answers. A body with a field that is not listed here is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.reverse import reverse

from django_rivet.actors.json_values import jsonable, stored_value
from django_rivet.actors.key import key_parts, key_to_url
from django_rivet.models import Actor, WorkflowRun
from django_rivet.runtime.operating import MAX_NOTE
from django_rivet.store.run_errors import load_run_error

DEFAULT_WAIT_SECONDS = 5.0
MAX_WAIT_SECONDS = 60.0
"""A request that waits takes one of the server's threads; who wants to wait longer asks again."""

KEY_SCHEMA = {
    "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
    "description": "A string, or its parts as a list of strings.",
}


class RivetSerializer(serializers.Serializer[Any]):
    # In OpenAPI its name begins with Rivet, so that it meets no serializer of the project. No docstring here:
    # drf-spectacular would give it to every serializer that has none.
    pass


class StatusField(serializers.ChoiceField):
    """How a workflow stands: one component of OpenAPI, where the project may have other fields of that name."""

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=WorkflowRun.Status.choices, **options)


# Bodies ------------------------------------------------------------------------------------------


class StrictSerializer(RivetSerializer):
    """Unknown fields are refused: a client that misspells one, or tries to set what is not its own, is told."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = [str(name) for name in data if name not in self.fields]
            if unknown:
                raise serializers.ValidationError(dict.fromkeys(unknown, "Unknown field."))
        return super().to_internal_value(data)


@extend_schema_field(KEY_SCHEMA)
class KeyField(serializers.JSONField):
    pass


class CreateActorSerializer(StrictSerializer):
    key = KeyField()
    input = serializers.JSONField(default=None, allow_null=True)


class GetOrCreateActorSerializer(StrictSerializer):
    input = serializers.JSONField(default=None, allow_null=True)


class CallActionSerializer(StrictSerializer):
    args = serializers.ListField(child=serializers.JSONField(allow_null=True), default=list)
    kwargs = serializers.DictField(child=serializers.JSONField(allow_null=True), default=dict)


class SendMessageSerializer(StrictSerializer):
    body = serializers.JSONField(allow_null=True)
    wait = serializers.BooleanField(default=False, help_text="Answer when the workflow has completed the message.")
    timeout = serializers.FloatField(
        default=DEFAULT_WAIT_SECONDS,
        min_value=0,
        max_value=MAX_WAIT_SECONDS,
        help_text="Seconds to wait for that.",
    )


class EmptySerializer(StrictSerializer):
    pass


class CancelSerializer(StrictSerializer):
    rollback = serializers.BooleanField(default=False, help_text="Compensate the completed steps first.")


class ReplaySerializer(StrictSerializer):
    entry = serializers.CharField(
        trim_whitespace=False,
        allow_null=True,
        default=None,
        help_text="The path of the step to begin with, as the history has it; null: everything.",
    )


class RetryRollbackSerializer(StrictSerializer):
    path = serializers.CharField(trim_whitespace=False, help_text="Of the step, as the history has it.")


class SkipRollbackSerializer(RetryRollbackSerializer):
    reason = serializers.CharField(max_length=MAX_NOTE, help_text="Why it is not undone.")


class ConfirmRollbackSerializer(RetryRollbackSerializer):
    note = serializers.CharField(max_length=MAX_NOTE, help_text="How it was undone.")


class DestroyQuerySerializer(RivetSerializer):
    force = serializers.BooleanField(default=False, help_text="Also where a rollback would have something to undo.")


class HistoryQuerySerializer(RivetSerializer):
    tree = serializers.BooleanField(default=False, help_text="All entries at once, each with its children.")


# Answers -----------------------------------------------------------------------------------------


class ErrorSerializer(RivetSerializer):
    """A failure: ``code`` is a word for programs, ``message`` a sentence for people."""

    code = serializers.CharField()
    message = serializers.CharField()
    metadata = serializers.JSONField(help_text="Where a body was wrong: errors, a list of path and message.")


class FailureSerializer(RivetSerializer):
    """What went wrong inside a workflow; only for staff who may view actors."""

    name = serializers.CharField()
    message = serializers.CharField()


class ActorSummarySerializer(RivetSerializer):
    id = serializers.UUIDField(help_text="A new one after the actor was destroyed and made again.")
    type = serializers.CharField()
    key = serializers.SerializerMethodField()
    url = serializers.SerializerMethodField()
    status = StatusField(source="run.status")
    created_at = serializers.DateTimeField()

    @extend_schema_field(KEY_SCHEMA)
    def get_key(self, actor: Actor) -> str | list[str]:
        parts = key_parts(actor.key)
        return parts[0] if len(parts) == 1 else list(parts)

    @extend_schema_field(OpenApiTypes.URI)
    def get_url(self, actor: Actor) -> str:
        request = self.context["request"]
        name = f"{request.resolver_match.namespace}:actor"
        return reverse(name, kwargs={"type": actor.type, "key": key_to_url(actor.key)}, request=request)


class MadeActorSerializer(ActorSummarySerializer):
    created = serializers.SerializerMethodField(help_text="Whether this request made the actor.")

    def get_created(self, actor: Actor) -> bool:
        return bool(self.context["created"])


class ActorSerializer(ActorSummarySerializer):
    state = serializers.SerializerMethodField()
    output = serializers.SerializerMethodField(help_text="What the workflow returned, once it is completed.")
    error = serializers.SerializerMethodField()
    waiting_for = serializers.SerializerMethodField(
        help_text="The queues that it waits for; empty: any; null: it waits for no message."
    )
    wake_at = serializers.DateTimeField(source="run.wake_at", allow_null=True, help_text="When it goes on by itself.")

    @extend_schema_field(OpenApiTypes.ANY)
    def get_state(self, actor: Actor) -> Any:
        return stored_value(actor.state)

    @extend_schema_field(OpenApiTypes.ANY)
    def get_output(self, actor: Actor) -> Any:
        return stored_value(actor.run.output)

    @extend_schema_field(FailureSerializer(allow_null=True))
    def get_error(self, actor: Actor) -> Any:
        error = load_run_error(actor.run.error) if self.context["shows_errors"] else None
        return FailureSerializer(error.error).data if error is not None else None

    @extend_schema_field(serializers.ListField(child=serializers.CharField(), allow_null=True))
    def get_waiting_for(self, actor: Actor) -> list[str] | None:
        waiting = actor.run.waiting
        return None if waiting is None else [name for name in waiting.split(",") if name]


class ActionSchemaSerializer(RivetSerializer):
    description = serializers.CharField()
    readonly = serializers.BooleanField()
    arguments = serializers.DictField()
    output = serializers.DictField()


class QueueSchemaSerializer(RivetSerializer):
    body = serializers.DictField()
    response = serializers.DictField()


class EventSchemaSerializer(RivetSerializer):
    payload = serializers.DictField()


class TypeSerializer(RivetSerializer):
    """What a type declares. What is a free object here is a JSON Schema."""

    type = serializers.CharField()
    description = serializers.CharField()
    has_workflow = serializers.BooleanField()
    input = serializers.DictField()
    state = serializers.DictField()
    actions = serializers.DictField(child=ActionSchemaSerializer())
    queues = serializers.DictField(child=QueueSchemaSerializer())
    events = serializers.DictField(child=EventSchemaSerializer())


class TypeListSerializer(RivetSerializer):
    results = TypeSerializer(many=True)


class OutputSerializer(RivetSerializer):
    output = serializers.JSONField(allow_null=True)


class ReceiptSerializer(RivetSerializer):
    id = serializers.IntegerField()
    status = serializers.CharField()


class AnswerSerializer(RivetSerializer):
    """What became of a message; ``response`` is there only where it was completed."""

    status = serializers.CharField(help_text="completed, failed (its workflow ended before that) or timed_out.")
    response = serializers.JSONField(required=False, allow_null=True)


class OperatedSerializer(RivetSerializer):
    status = StatusField()


class WaitingMessageSerializer(RivetSerializer):
    id = serializers.IntegerField()
    queue = serializers.CharField()
    created_at = serializers.DateTimeField()


class QueueContentSerializer(RivetSerializer):
    queue = serializers.CharField()
    size = serializers.IntegerField(help_text="All messages that are not taken yet, also those that are not due.")
    messages = WaitingMessageSerializer(many=True, help_text="The oldest of them.")


class QueueListSerializer(RivetSerializer):
    results = QueueContentSerializer(many=True)


# History -----------------------------------------------------------------------------------------


class RollbackSerializer(RivetSerializer):
    status = serializers.CharField()
    attempts = serializers.IntegerField()
    error = serializers.SerializerMethodField()
    note = serializers.SerializerMethodField(help_text="Why it was skipped, or how it was undone by hand.")
    decided_by = serializers.SerializerMethodField(help_text="Who decided that.")

    @extend_schema_field(FailureSerializer(allow_null=True))
    def get_error(self, record: Any) -> Any:
        return _failure(record.error, self.context)

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_note(self, record: Any) -> Any:
        return record.note if self.context["shows_errors"] else None

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_decided_by(self, record: Any) -> Any:
        return record.decided_by if self.context["shows_errors"] else None


class HistoryEntrySerializer(RivetSerializer):
    path = serializers.CharField(help_text="Names joined by a slash; an iteration's name is its number.")
    kind = serializers.CharField()
    status = serializers.CharField()
    attempts = serializers.IntegerField()
    output = serializers.SerializerMethodField()
    error = serializers.SerializerMethodField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    rollback = RollbackSerializer(allow_null=True)

    @extend_schema_field(OpenApiTypes.ANY)
    def get_output(self, entry: Any) -> Any:
        return jsonable(entry.output)

    @extend_schema_field(FailureSerializer(allow_null=True))
    def get_error(self, entry: Any) -> Any:
        return _failure(entry.error, self.context)


class HistoryNodeSerializer(HistoryEntrySerializer):
    """An entry and what happened inside it; the children are there in a tree only."""

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), "children": HistoryNodeSerializer(many=True, required=False)}


def _failure(error: Any, context: Mapping[str, Any]) -> Any:
    return FailureSerializer(error).data if error is not None and context["shows_errors"] else None
