"""Who a connection belongs to, and what permission classes say about it.

They are REST framework's, asked as it would ask them about a request for the actor. Everything here is synchronous
and asks the database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
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

from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.exceptions import InvalidKeyError, UnknownActorTypeError
from django_rivet.actors.key import key_from_url, key_parts
from django_rivet.actors.registry import registry
from django_rivet.conf import get_settings, permission_classes
from django_rivet.models import Actor as ActorRow
from django_rivet.runtime.answers import INTERNAL_ERROR, Failure
from django_rivet.runtime.handles import Handle

logger = logging.getLogger(__name__)

Scope = Mapping[str, Any]

NOT_AUTHENTICATED = Failure(401, "not_authenticated", "Authentication credentials were not provided.")
PERMISSION_DENIED = Failure(403, "permission_denied", "You do not have permission to perform this action.")
NOT_FOUND = Failure(404, "not_found", "Not found.")


class Visitor:
    """The user of a connection, as the database knows it now, who asks for something of the connection's actor."""

    def __init__(self, scope: Scope, *, method: str = "GET", data: Any = None, **names: str) -> None:
        """``data`` is the body of the request that this would be over HTTP; ``names`` are those in its address."""
        self.user = _current_user(scope)
        self.definition = _definition_of(scope)
        """None: there is no such type."""
        self.key = _key_of(scope)
        """None: the address names no actor."""
        self._request = _request(scope, self.user, method, {} if data is None else data)
        # What a view of the REST face shows to permission classes.
        self._view = SimpleNamespace(
            request=self._request,
            kwargs={**scope["url_route"]["kwargs"], **names},
            declaration=self.definition,
            actor_key=self.key,
            queryset=ActorRow.objects.all(),
            action="retrieve" if method == "GET" else "create",
            detail=True,
        )

    @property
    def may_look(self) -> bool:
        """Staff need ``view_actor``, as in the admin; others are let in by the actor's own classes alone."""
        is_staff = getattr(self.user, "is_staff", False) or getattr(self.user, "is_superuser", False)
        return not is_staff or bool(self.user.has_perm("django_rivet.view_actor"))

    def classes(self, own: Any = None) -> Any:
        """``own`` of an action or queue, else the actor's, else the default.

        An unknown type is guarded by the default, so that who is not let in does not learn that it is unknown.
        """
        declared = own
        if declared is None and self.definition is not None:
            declared = self.definition.meta.permission_classes
        return get_settings().DEFAULT_PERMISSION_CLASSES if declared is None else declared

    def refusal(self, classes: Any, handle: Handle | None = None, **names: str) -> Failure | None:
        """What the first class that says no tells the client; None: all say yes.

        Without a ``handle`` they are asked about the request, with one about that actor; ``names`` stand in the
        address besides.
        """
        known = self._view.kwargs
        self._view.kwargs = {**known, **names}
        try:
            for each in permission_classes(classes):
                permission = each()
                if failure := self._refusal_by(permission, _question(permission, handle)):
                    return failure
            return None
        finally:
            self._view.kwargs = known

    # Below: how it is done -------------------------------------------------------------------

    def _refusal_by(self, permission: Any, asks: Callable[[Any, Any], object]) -> Failure | None:
        try:
            if asks(self._request, self._view):
                return None
        except Http404:
            return NOT_FOUND
        except PermissionDenied:
            return PERMISSION_DENIED
        except Exception as error:
            # REST framework's own refusals bear a status; anything else is a bug, and nobody is let in by a bug.
            if getattr(error, "status_code", None) is not None:
                return _told_by(error)
            logger.exception("the permission class %s failed", type(permission).__qualname__)
            return INTERNAL_ERROR
        if not self.user.is_authenticated:
            return NOT_AUTHENTICATED
        code, message = getattr(permission, "code", None), getattr(permission, "message", None)
        return Failure(403, str(code or PERMISSION_DENIED.code), str(message or PERMISSION_DENIED.message))


def _question(permission: Any, handle: Handle | None) -> Callable[[Any, Any], object]:
    if handle is None:
        return permission.has_permission  # type: ignore[no-any-return]
    asks = getattr(permission, "has_object_permission", None)
    return lambda request, view: asks is None or asks(request, view, handle)


def _told_by(error: Any) -> Failure:
    """An exception of REST framework, which this face does not know."""
    code, detail = getattr(error, "default_code", "error"), getattr(error, "detail", "")
    code = getattr(detail, "code", code)
    return Failure(int(error.status_code), str(code), str(detail if isinstance(detail, str) else error.default_detail))


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


def _request(scope: Scope, user: Any, method: str, data: Any) -> Any:
    """What a permission class may look at: the opening request, with REST framework's names on top."""
    request: Any = ASGIRequest({**scope, "type": "http", "method": method}, BytesIO())
    request.user = user
    request.session = scope.get("session")
    request.auth = None
    request.query_params = request.GET
    request.data = data
    return request
