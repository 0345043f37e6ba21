"""Who is let in, and to which events.

Permission classes are REST framework's, asked as it would ask them about a ``GET`` of the actor. They are the event's
own, else the actor's, else ``DEFAULT_PERMISSION_CLASSES``; of the staff the latter two also need ``view_actor``.
Everything here is synchronous and asks the database: call it by ``database_sync_to_async``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from types import SimpleNamespace
from typing import Any

from django.conf import settings as django_settings
from django.contrib.auth import SESSION_KEY, get_user, get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404

from django_rivet.actors.declarations import Event
from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.exceptions import ActorNotFoundError, InvalidKeyError, UnknownActorTypeError
from django_rivet.actors.key import key_from_url, key_parts
from django_rivet.actors.registry import registry
from django_rivet.conf import get_settings, permission_classes
from django_rivet.live.stored_events import last_seqs
from django_rivet.models import Actor as ActorRow

logger = logging.getLogger(__name__)

ANONYMOUS = 4401
FORBIDDEN = 4403
NOT_FOUND = 4404

Scope = Mapping[str, Any]


class RefusedError(Exception):
    """Carries the code that the connection is closed with."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Admission:
    """What somebody may listen to, at this moment."""

    actor_id: uuid.UUID
    seq: int
    """The number of the actor's last event."""
    definition: ActorDefinition
    events: frozenset[str]
    """Those that this client may see."""


def admit(scope: Scope) -> Admission:
    """Decide afresh, from what the database says now, or raise ``RefusedError``.

    Whether an actor exists, or a type, is told only to who might see it.
    """
    definition, key = _definition_of(scope), _key_of(scope)
    visitor = _Visitor(scope, definition, key)
    visitor.require(visitor.may_see_actor() or visitor.visible_events())
    if definition is None or key is None:
        raise _not_found()
    try:
        handle = definition.actor_class.get(key)
    except ActorNotFoundError:
        raise _not_found() from None
    visitor.found(handle)
    events = visitor.visible_events()
    visitor.require(visitor.may_see_actor() or events)
    actor_id = uuid.UUID(handle.id)
    seq = last_seqs([actor_id]).get(actor_id)
    if seq is None:
        raise _not_found()
    return Admission(actor_id, seq, definition, events)


# Below: how it is done ---------------------------------------------------------------------------


class _Visitor:
    """One user, asked about one actor."""

    def __init__(self, scope: Scope, definition: ActorDefinition | None, key: tuple[str, ...] | None) -> None:
        self.user = _current_user(scope)
        self._definition = definition
        self._request = _request(scope, self.user)
        # What a view of the REST face shows to permission classes.
        self._view = SimpleNamespace(
            request=self._request,
            kwargs=dict(scope["url_route"]["kwargs"]),
            declaration=definition,
            actor_key=key,
            queryset=ActorRow.objects.all(),
            action="retrieve",
            detail=True,
        )
        self._handle: Any = None
        self._code = FORBIDDEN if self.user.is_authenticated else ANONYMOUS

    def found(self, handle: Any) -> None:
        """From now on the classes are asked about this very actor too."""
        self._handle = handle

    def require(self, allowed: object) -> None:
        if not allowed:
            raise _not_found() if self._code == NOT_FOUND else RefusedError(self._code, "you may not see this actor")

    def visible_events(self) -> frozenset[str]:
        declared = self._definition.events if self._definition is not None else {}
        if not declared:
            return frozenset()
        by_default = self.may_see_actor()
        return frozenset(
            name
            for name, event in declared.items()
            if (by_default if event.permission_classes is None else self._may_see_event(event))
        )

    def may_see_actor(self) -> bool:
        """An unknown type is guarded by the default, so that who is not let in does not learn that it is unknown."""
        if _is_staff(self.user) and not self.user.has_perm("django_rivet.view_actor"):
            return False
        declared = self._definition.meta.permission_classes if self._definition is not None else None
        return self._passes(get_settings().DEFAULT_PERMISSION_CLASSES if declared is None else declared)

    def _may_see_event(self, event: Event) -> bool:
        self._view.kwargs["event"] = event.name
        try:
            return self._passes(event.permission_classes or ())
        finally:
            del self._view.kwargs["event"]

    def _passes(self, classes: Any) -> bool:
        permissions = [each() for each in permission_classes(classes)]
        return all(self._says_yes(each) for each in permissions)

    def _says_yes(self, permission: Any) -> bool:
        try:
            if not permission.has_permission(self._request, self._view):
                return False
            if self._handle is None or not hasattr(permission, "has_object_permission"):
                return True
            return bool(permission.has_object_permission(self._request, self._view, self._handle))
        except Http404:
            self._code = NOT_FOUND
        except PermissionDenied:
            pass
        except Exception as error:
            # REST framework's own refusals bear a status; anything else is a bug, and nobody is let in by a bug.
            if getattr(error, "status_code", None) is None:
                logger.exception("the permission class %s failed", type(permission).__qualname__)
        return False


def _definition_of(scope: Scope) -> ActorDefinition | None:
    try:
        definition: ActorDefinition = registry.get(scope["url_route"]["kwargs"]["type"]).definition
    except UnknownActorTypeError:
        return None
    return definition


def _key_of(scope: Scope) -> tuple[str, ...] | None:
    try:
        return key_parts(key_from_url(scope["url_route"]["kwargs"]["key"]))
    except InvalidKeyError:
        return None


def _is_staff(user: Any) -> bool:
    return bool(getattr(user, "is_staff", False) or getattr(user, "is_superuser", False))


def _not_found() -> RefusedError:
    return RefusedError(NOT_FOUND, "there is no such actor")


def _current_user(scope: Scope) -> Any:
    """The connection's user as it is now: logged out, deactivated and deleted ones are anonymous."""
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        return AnonymousUser()
    if isinstance(user, get_user_model()):
        user = _by_session(scope, user) or get_user_model()._default_manager.filter(pk=user.pk).first()
    return user if user is not None and getattr(user, "is_active", True) else AnonymousUser()


def _by_session(scope: Scope, user: Any) -> Any:
    """Who the session belongs to now; None where it was not the session that said who the user is."""
    session = scope.get("session")
    if session is None or session.get(SESSION_KEY) != user._meta.pk.value_to_string(user):
        return None
    # The scope's own has long been read: a logout has not reached it.
    store = import_module(django_settings.SESSION_ENGINE).SessionStore
    asking: Any = SimpleNamespace(session=store(session.session_key))
    return get_user(asking)


def _request(scope: Scope, user: Any) -> Any:
    """What a permission class may look at: the opening request, with REST framework's names on top."""
    request: Any = ASGIRequest({**scope, "type": "http", "method": "GET"}, BytesIO())
    request.user = user
    request.session = scope.get("session")
    request.auth = None
    request.query_params = request.GET
    request.data = {}
    return request
