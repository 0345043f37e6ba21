"""Who is let in: the classes that an actor declares, and what staff need beyond them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.registry import registry
from django_rivet.conf import get_settings, permission_classes


def declared_permissions(definition: ActorDefinition | None, own: Any = None) -> list[BasePermission]:
    """``own`` of an action or queue, else the actor's, else ``RIVET["DEFAULT_PERMISSION_CLASSES"]``.

    An unknown type (None) is guarded by the default, so that who is not let in does not learn that it is unknown.
    """
    declared = own
    if declared is None and definition is not None:
        declared = definition.meta.permission_classes
    if declared is None:
        declared = get_settings().DEFAULT_PERMISSION_CLASSES
    return [each() for each in permission_classes(declared)]


class MayView(BasePermission):
    """Staff need ``view_actor``, as in the admin; others are let in by the actor's own classes alone."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return not _is_staff(request.user) or has_model_permission(request.user, "view_actor")


class OperatorPermission(BasePermission):
    """Staff with one model permission of ``Actor``: the same that the admin's button asks for."""

    codename: str

    def has_permission(self, request: Request, view: APIView) -> bool:
        return _is_staff(request.user) and has_model_permission(request.user, self.codename)


class MayRecover(OperatorPermission):
    codename = "recover_actor"


class MayCancel(OperatorPermission):
    codename = "cancel_actor"


class MayPause(OperatorPermission):
    codename = "pause_actor"


class MayReplay(OperatorPermission):
    codename = "replay_actor"


class MayCompensate(OperatorPermission):
    codename = "compensate_actor"


class MayDestroy(OperatorPermission):
    codename = "destroy_actor"


def may_see_errors(user: Any) -> bool:
    """Errors are written for who runs the place, not for who uses it."""
    return _is_staff(user) and has_model_permission(user, "view_actor")


def has_model_permission(user: Any, codename: str) -> bool:
    return bool(user.has_perm(f"django_rivet.{codename}"))


def visible_types(request: Request, view: Any) -> Iterator[ActorDefinition]:
    """The types whose actors the user may look at."""
    for definition in registry:
        view.declaration = definition
        needed = [*declared_permissions(definition), MayView()]
        if all(each.has_permission(request, view) for each in needed):
            yield definition


# Below: how it is done ---------------------------------------------------------------------------


def _is_staff(user: Any) -> bool:
    # A project's authentication may hand over None, or an object of its own.
    return bool(getattr(user, "is_staff", False) or getattr(user, "is_superuser", False))
