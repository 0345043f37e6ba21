"""What all views share: who is let in, what a body may be, how an actor is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import Http404
from rest_framework.exceptions import NotAuthenticated, PermissionDenied
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.serializers import Serializer
from rest_framework.settings import api_settings

from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.exceptions import ActorNotFoundError, InvalidKeyError, UnknownActorTypeError
from django_rivet.actors.key import key_from_url, key_parts
from django_rivet.actors.registry import registry
from django_rivet.api.errors import LengthRequiredError, answer_error
from django_rivet.api.parsers import StrictJSONParser
from django_rivet.api.permissions import declared_permissions, may_see_errors
from django_rivet.api.queries import find_actor
from django_rivet.api.renderers import StrictJSONRenderer
from django_rivet.models import Actor
from django_rivet.runtime.handles import Handle


class RivetView(GenericAPIView[Any]):
    """JSON in, JSON out, and every failure as code, message and metadata.

    Authentication, throttling and versioning are the project's own.
    """

    throttle_scopes: tuple[str, ...] = ()
    """Scopes of its own, in front of ``rivet_read`` or ``rivet_write``."""

    parser_classes = [StrictJSONParser]
    renderer_classes = [StrictJSONRenderer]
    permission_classes: list[Any] = []
    # Its answer to OPTIONS would look for objects before it has asked for permission.
    metadata_class = None
    # For permission classes that ask a view for its model.
    queryset = Actor.objects.all()

    declaration: ActorDefinition | None = None
    """What a permission class may look at: the type's declaration; None where there is no such type."""
    actor_key: tuple[str, ...] | None = None
    """The same: the parts of the key; None where the address names no actor."""

    def get_exception_handler(self) -> Callable[..., Any]:
        return answer_error

    @property
    def throttle_scope(self) -> str | None:
        """For ``ScopedRateThrottle``: the first of its scopes that the project has set a rate for.

        None where there is none: else a project that limits views of its own by scope would have to know ours.
        """
        general = "rivet_read" if self.request.method in SAFE_METHODS else "rivet_write"
        rates = api_settings.DEFAULT_THROTTLE_RATES
        return next((scope for scope in (*self.throttle_scopes, general) if scope in rates), None)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if "Transfer-Encoding" in request.headers and "Content-Length" not in request.headers:
            raise LengthRequiredError

    def read_body(self, shape: type[Serializer[Any]]) -> dict[str, Any]:
        """The body in that shape, or a 400 that lists every fault of it."""
        return self.checked(shape(data=self.request.data))

    def checked(self, serializer: Serializer[Any]) -> dict[str, Any]:
        serializer.is_valid(raise_exception=True)
        data: dict[str, Any] = serializer.validated_data
        return data

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "shows_errors": may_see_errors(self.request.user)}


class ActorTypeView(RivetView):
    """Below ``actors/{type}/``.

    Permission comes first: only who is let in learns whether there is such a type, action or actor.
    """

    extra_permissions: list[type[BasePermission]] = []
    """Needed beside those that the actor declares."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        self.declaration = _declaration(kwargs["type"])
        super().initial(request, *args, **kwargs)

    def get_permissions(self) -> list[Any]:
        extra = [each() for each in self.get_extra_permissions()]
        return declared_permissions(self.declaration, self.own_permissions()) + extra

    def get_extra_permissions(self) -> list[type[BasePermission]]:
        return self.extra_permissions

    def own_permissions(self) -> Any:
        """Of the action or queue that the address names, if it has its own."""
        return None

    @property
    def definition(self) -> ActorDefinition:
        """The declaration, or a 404. It suggests no other name: those may be nobody's business."""
        if self.declaration is None:
            raise UnknownActorTypeError(f"There is no actor type {self.kwargs['type']!r}.")
        return self.declaration

    def allows(self, actor: Actor) -> bool:
        """Whether the object permissions let the user at this actor."""
        handle = Handle(self.definition.actor_class, actor.key, actor.pk)
        try:
            self.check_object_permissions(self.request, handle)
        except (PermissionDenied, NotAuthenticated, Http404):
            return False
        return True


class ActorKeyView(ActorTypeView):
    """Below ``actors/{type}/{key}/``."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        try:
            self.actor_key = key_parts(key_from_url(kwargs["key"]))
        except InvalidKeyError:
            # Told by ``key``, to who is let in.
            self.actor_key = None
        super().initial(request, *args, **kwargs)

    @property
    def key(self) -> str:
        """The key in its canonical form, or a 400."""
        return key_from_url(self.kwargs["key"])

    def find(self) -> tuple[Actor, Handle]:
        """The actor, or a 404: also where object permissions refuse it, which must not tell that it exists."""
        definition, key = self.definition, self.key
        actor = find_actor(definition.type_name, key)
        if actor is None or not self.allows(actor):
            raise ActorNotFoundError(f"There is no {definition.type_name} with the key {key!r}.")
        return actor, Handle(definition.actor_class, key, actor.pk)


# Below: how it is done ---------------------------------------------------------------------------


def _declaration(type_name: str) -> ActorDefinition | None:
    try:
        definition: ActorDefinition = registry.get(type_name).definition
    except UnknownActorTypeError:
        return None
    return definition
