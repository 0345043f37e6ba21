"""The routes of ``urls.py``, in its order; those of operators are in ``operating.py``."""

from __future__ import annotations

from typing import Any

from django.db import connections, transaction
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from django_rivet.actors.exceptions import ActorExistsError
from django_rivet.actors.json_values import result_value
from django_rivet.actors.key import normalize_key
from django_rivet.api import serializers as shapes
from django_rivet.api.base import ActorKeyView, RivetView
from django_rivet.api.creation import CreatesActors
from django_rivet.api.description import describe_type
from django_rivet.api.filters import ActorFilter
from django_rivet.api.openapi import CONFLICTS, ERRORS, IDEMPOTENCY_KEY, KEY, REFUSALS
from django_rivet.api.pagination import ActorPagination, HistoryPagination
from django_rivet.api.permissions import MayDestroy, MayView, visible_types
from django_rivet.api.queries import actors_of, described, live_entries, queue_contents
from django_rivet.models import Actor
from django_rivet.runtime.answers import output_of, user_code
from django_rivet.runtime.destroying import destroy_actor
from django_rivet.runtime.waiting import refuse_waiting, wait_for_answer

MAX_TREE_ENTRIES = 10_000
"""A longer history is read page by page."""


class TypesView(RivetView):
    """The actor types that the user may see."""

    @extend_schema(operation_id="actor_types_list", responses={200: shapes.TypeListSerializer, **ERRORS})
    def get(self, request: Request) -> Response:
        """All types with their actions, queues and events as JSON Schema."""
        types = [describe_type(definition) for definition in visible_types(request, self)]
        if not types and not request.user.is_authenticated:
            self.permission_denied(request)
        return Response({"results": types})


class ActorsView(CreatesActors):
    """The actors of one type."""

    filter_backends = [DjangoFilterBackend]
    filterset_class = ActorFilter
    pagination_class = ActorPagination
    serializer_class = shapes.ActorSummarySerializer

    def get_extra_permissions(self) -> list[type[BasePermission]]:
        return [MayView] if self.request.method in SAFE_METHODS else []

    def get_queryset(self) -> QuerySet[Actor]:
        return actors_of(self.kwargs.get("type", ""))

    @extend_schema(operation_id="actors_list", responses={200: shapes.ActorSummarySerializer(many=True), **ERRORS})
    def get(self, request: Request, type: str) -> Response:
        """The actors of a type, page by page in the order of their keys."""
        _ = self.definition
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        allowed = [actor for actor in page if self.allows(actor)]
        return self.get_paginated_response(self.get_serializer(allowed, many=True).data)

    @extend_schema(
        operation_id="actors_create",
        request=shapes.CreateActorSerializer,
        responses={201: shapes.MadeActorSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str) -> Response:
        """Make an actor; 409 where there is one of that key."""
        _ = self.definition
        body = self.read_body(shapes.CreateActorSerializer)
        key = normalize_key(body["key"])
        actor, created = self.get_or_create(key, body["input"])
        if not created:
            raise ActorExistsError(f"There is a {type} with the key {key!r} already.")
        return self.answer_made(actor, created)


@extend_schema(parameters=[KEY])
class ActorView(CreatesActors, ActorKeyView):
    """One actor."""

    def get_extra_permissions(self) -> list[type[BasePermission]]:
        if self.request.method == "DELETE":
            return [MayDestroy]
        return [MayView] if self.request.method in SAFE_METHODS else []

    @extend_schema(operation_id="actors_retrieve", responses={200: shapes.ActorSerializer, **ERRORS})
    def get(self, request: Request, type: str, key: str) -> Response:
        """What is committed now: status, state, output, error and what it waits for."""
        actor, _ = self.find()
        return Response(shapes.ActorSerializer(actor, context=self.get_serializer_context()).data)

    @extend_schema(
        operation_id="actors_get_or_create",
        request=shapes.GetOrCreateActorSerializer,
        responses={200: shapes.MadeActorSerializer, 201: shapes.MadeActorSerializer, **ERRORS},
    )
    def put(self, request: Request, type: str, key: str) -> Response:
        """The actor, which is made if there is none; the input counts only then."""
        _ = self.definition
        body = self.read_body(shapes.GetOrCreateActorSerializer)
        return self.answer_made(*self.get_or_create(self.key, body["input"]))

    @extend_schema(
        operation_id="actors_destroy", parameters=[shapes.DestroyQuerySerializer], responses={204: None, **CONFLICTS}
    )
    def delete(self, request: Request, type: str, key: str) -> Response:
        """Delete the actor and all that belongs to it; 409 where a rollback would have something to undo."""
        force = self.checked(shapes.DestroyQuerySerializer(data=request.query_params))["force"]
        self.read_body(shapes.EmptySerializer)
        actor, _ = self.find()
        destroy_actor(self.definition.actor_class, actor.pk, actor.key, force=force, around_hook=user_code)
        return Response(status=204)


@extend_schema(parameters=[KEY])
class ActionView(ActorKeyView):
    """One action of one actor."""

    throttle_scopes = ("rivet_call",)

    def own_permissions(self) -> Any:
        declared = self.declaration.actions.get(self.kwargs["action"]) if self.declaration else None
        return declared.permission_classes if declared else None

    @extend_schema(
        operation_id="actors_call_action",
        request=shapes.CallActionSerializer,
        responses={200: shapes.OutputSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str, key: str, action: str) -> Response:
        """Run an action and answer with its result. One whose result JSON cannot say leaves no trace."""
        definition = self.definition.action(action)
        body = self.read_body(shapes.CallActionSerializer)
        # Faults of these arguments are the client's; of those inside the action it shall not hear.
        definition.signature.bind(body["args"], body["kwargs"])
        _, handle = self.find()
        return Response({"output": output_of(handle, definition, body["args"], body["kwargs"])})


@extend_schema(parameters=[KEY])
class QueuesView(ActorKeyView):
    """The mailbox of one actor."""

    extra_permissions = [MayView]

    @extend_schema(operation_id="actors_queues", responses={200: shapes.QueueListSerializer, **ERRORS})
    def get(self, request: Request, type: str, key: str) -> Response:
        """What waits in each queue, the oldest first."""
        actor, _ = self.find()
        contents = queue_contents(actor.pk, self.definition.queues)
        return Response(shapes.QueueListSerializer({"results": contents}).data)


@extend_schema(parameters=[KEY])
class QueueView(ActorKeyView):
    """One queue of one actor."""

    throttle_scopes = ("rivet_send",)

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Under ``ATOMIC_REQUESTS`` as well it sends in a transaction of its own: no worker would see it before."""
        view = super().as_view(**initkwargs)
        for name in connections:
            view = transaction.non_atomic_requests(name)(view)
        return view

    def own_permissions(self) -> Any:
        declared = self.declaration.queues.get(self.kwargs["queue"]) if self.declaration else None
        return declared.permission_classes if declared else None

    @extend_schema(
        operation_id="actors_send",
        parameters=[IDEMPOTENCY_KEY],
        request=shapes.SendMessageSerializer,
        responses={200: shapes.AnswerSerializer, 202: shapes.ReceiptSerializer, **REFUSALS},
    )
    def post(self, request: Request, type: str, key: str, queue: str) -> Response:
        """Store a message. It is worked on soon; the answer waits for that only where it is told to."""
        self.definition.queue(queue)
        body = self.read_body(shapes.SendMessageSerializer)
        _, handle = self.find()
        if body["wait"]:
            refuse_waiting("a request that waits")
        receipt = handle.send(queue, body["body"], idempotency_key=request.headers.get("Idempotency-Key"))
        if body["wait"]:
            return self._answer(queue, receipt.id, body["timeout"])
        return Response(shapes.ReceiptSerializer(receipt).data, status=202)

    # Below: how it is done -------------------------------------------------------------------

    def _answer(self, queue: str, message_id: int, timeout: float) -> Response:
        with user_code():
            answer = wait_for_answer(self.definition, queue, message_id, timeout)
            if answer.status != "completed":
                return Response({"status": answer.status})
            response = result_value(self.definition.queue(queue).response, answer.response)
        return Response({"status": answer.status, "response": response})


@extend_schema(parameters=[KEY])
class ActorHistoryView(ActorKeyView):
    """What one actor's workflow did."""

    extra_permissions = [MayView]
    pagination_class = HistoryPagination

    @extend_schema(
        operation_id="actors_history",
        parameters=[shapes.HistoryQuerySerializer],
        responses={200: shapes.HistoryNodeSerializer(many=True), **ERRORS},
    )
    def get(self, request: Request, type: str, key: str) -> Response:
        """The entries page by page in the order they happened, or all of them as a tree."""
        wants_tree = self.checked(shapes.HistoryQuerySerializer(data=request.query_params))["tree"]
        actor, handle = self.find()
        entries = live_entries(actor.pk)
        context = self.get_serializer_context()
        if wants_tree:
            if entries[: MAX_TREE_ENTRIES + 1].count() > MAX_TREE_ENTRIES:
                raise ValidationError({"tree": f"It has over {MAX_TREE_ENTRIES} entries: read it page by page."})
            roots = shapes.HistoryNodeSerializer(handle.history().tree(), many=True, context=context).data
            return Response({"next": None, "previous": None, "results": roots})
        page = described(self.paginate_queryset(entries) or [], actor.pk)
        return self.get_paginated_response(shapes.HistoryEntrySerializer(page, many=True, context=context).data)
