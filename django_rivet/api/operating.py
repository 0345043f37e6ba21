"""What operators do with an actor over HTTP: the routes of ``urls.py`` that need a permission of their own."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from django_rivet.actors.exceptions import WorkflowFinishedError
from django_rivet.api import serializers as shapes
from django_rivet.api.base import ActorKeyView
from django_rivet.api.errors import NothingToRecoverError, NothingToResumeError
from django_rivet.api.openapi import CONFLICTS, KEY
from django_rivet.api.permissions import MayCancel, MayCompensate, MayPause, MayRecover, MayReplay
from django_rivet.models import WorkflowRun
from django_rivet.runtime.handles import Handle
from django_rivet.runtime.operating import MAX_PERSON
from django_rivet.store.database import alias


@extend_schema(parameters=[KEY])
class RecoverView(ActorKeyView):
    """Fresh attempts for a failed workflow."""

    extra_permissions = [MayRecover]

    @extend_schema(
        operation_id="actors_recover",
        request=shapes.EmptySerializer,
        responses={200: shapes.OperatedSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str, key: str) -> Response:
        """Try again what failed the workflow or its rollback; 409 where nothing has failed."""
        self.read_body(shapes.EmptySerializer)
        _, handle = self.find()
        if not handle.recover():
            raise NothingToRecoverError
        return _status(handle)


@extend_schema(parameters=[KEY])
class CancelView(ActorKeyView):
    """The end of a workflow."""

    extra_permissions = [MayCancel]

    @extend_schema(
        operation_id="actors_cancel",
        request=shapes.CancelSerializer,
        responses={200: shapes.OperatedSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str, key: str) -> Response:
        """End the workflow; one that is running stops at its next entry. 409 where it has ended already."""
        body = self.read_body(shapes.CancelSerializer)
        _, handle = self.find()
        if not handle.cancel(rollback=body["rollback"]):
            raise WorkflowFinishedError(f"The workflow of the {type} {handle.key!r} has ended already.")
        return _status(handle)


@extend_schema(parameters=[KEY])
class PauseView(ActorKeyView):
    """A workflow stands still."""

    extra_permissions = [MayPause]

    @extend_schema(
        operation_id="actors_pause",
        request=shapes.EmptySerializer,
        responses={200: shapes.OperatedSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str, key: str) -> Response:
        """Stop the workflow until it is resumed; one that is running stops at its next entry. 409 where it stands
        still anyway.
        """
        self.read_body(shapes.EmptySerializer)
        _, handle = self.find()
        if not handle.pause():
            status = handle.status.replace("_", " ")
            raise WorkflowFinishedError(f"The workflow of the {type} {handle.key!r} stands still: it is {status}.")
        return _status(handle)


@extend_schema(parameters=[KEY])
class ResumeView(ActorKeyView):
    """A paused workflow goes on."""

    extra_permissions = [MayPause]

    @extend_schema(
        operation_id="actors_resume",
        request=shapes.EmptySerializer,
        responses={200: shapes.OperatedSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str, key: str) -> Response:
        """Go on as before the pause; what became due meanwhile is done now. 409 where it is not paused."""
        self.read_body(shapes.EmptySerializer)
        _, handle = self.find()
        if not handle.resume():
            raise NothingToResumeError
        return _status(handle)


@extend_schema(parameters=[KEY])
class ReplayView(ActorKeyView):
    """A workflow runs again from one of its steps."""

    extra_permissions = [MayReplay]

    @extend_schema(
        operation_id="actors_replay",
        request=shapes.ReplaySerializer,
        responses={200: shapes.OperatedSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str, key: str) -> Response:
        """Set a step and all later history aside, and run again from there. Nothing of it is undone. 404 where the
        history has no such step; 409 while a worker drives the actor, it is cancelled, or its rollback is not over.
        """
        body = self.read_body(shapes.ReplaySerializer)
        _, handle = self.find()
        handle.replay_from(body["entry"])
        return _status(handle)


@extend_schema(parameters=[KEY])
class RetryRollbackView(ActorKeyView):
    """Fresh attempts for one rollback handler."""

    extra_permissions = [MayCompensate]

    @extend_schema(
        operation_id="actors_rollback_retry",
        request=shapes.RetryRollbackSerializer,
        responses={200: shapes.OperatedSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str, key: str) -> Response:
        """Try a handler again that is out of attempts, and go on with the rollback; 409 where it has not failed."""
        body = self.read_body(shapes.RetryRollbackSerializer)
        _, handle = self.find()
        handle.retry_rollback(body["path"])
        return _status(handle)


@extend_schema(parameters=[KEY])
class SkipRollbackView(ActorKeyView):
    """A step that will not be undone."""

    extra_permissions = [MayCompensate]

    @extend_schema(
        operation_id="actors_rollback_skip",
        request=shapes.SkipRollbackSerializer,
        responses={200: shapes.OperatedSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str, key: str) -> Response:
        """Leave what a step did as it is, and go on with the rollback; the history tells why, and who decided it."""
        body = self.read_body(shapes.SkipRollbackSerializer)
        _, handle = self.find()
        handle.skip_rollback(body["path"], body["reason"], by=_person(request))
        return _status(handle)


@extend_schema(parameters=[KEY])
class ConfirmRollbackView(ActorKeyView):
    """A step that somebody has undone by hand."""

    extra_permissions = [MayCompensate]

    @extend_schema(
        operation_id="actors_rollback_confirm",
        request=shapes.ConfirmRollbackSerializer,
        responses={200: shapes.OperatedSerializer, **CONFLICTS},
    )
    def post(self, request: Request, type: str, key: str) -> Response:
        """Note that a step was undone by hand, and go on with the rollback; the history tells how, and who says so."""
        body = self.read_body(shapes.ConfirmRollbackSerializer)
        _, handle = self.find()
        handle.confirm_rollback(body["path"], body["note"], by=_person(request))
        return _status(handle)


# Below: how it is done ---------------------------------------------------------------------------


def _person(request: Request) -> str:
    return str(request.user.get_username())[:MAX_PERSON]


def _status(handle: Handle) -> Response:
    run = WorkflowRun.objects.using(alias()).only("status").get(actor__id=handle.id)
    return Response({"status": run.status})
