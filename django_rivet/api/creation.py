"""Making actors: by POST, which wants it new, and by PUT, which takes what is there."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from django_rivet.actors.key import key_parts
from django_rivet.api.base import ActorTypeView
from django_rivet.api.queries import actors_of
from django_rivet.api.serializers import MadeActorSerializer
from django_rivet.models import Actor
from django_rivet.runtime.answers import user_code
from django_rivet.runtime.handles import Handle
from django_rivet.store.transactions import engine_transaction


class CreatesActors(ActorTypeView):
    """A view that can make an actor."""

    def get_or_create(self, key: str, given: Any) -> tuple[Actor, bool]:
        """The actor and whether this call made it. One that object permissions refuse is not made."""
        definition = self.definition
        actor = self._summary(key)
        if actor is not None:
            self._check(actor)
            return actor, False
        declared = definition.input_type
        declared.text(declared.validate(given, "input"), "input")
        with engine_transaction(observed=False):
            with user_code():
                handle = definition.actor_class.get_or_create(key_parts(key), given)
            actor = actors_of(definition.type_name).get(pk=handle.id)
            self._check(actor)
        return actor, handle.created

    def answer_made(self, actor: Actor, created: bool) -> Response:
        context = {**self.get_serializer_context(), "created": created}
        data = MadeActorSerializer(actor, context=context).data
        headers = {"Location": data["url"]} if created else None
        return Response(data, status=201 if created else 200, headers=headers)

    # Below: how it is done -----------------------------------------------------------------------

    def _summary(self, key: str) -> Actor | None:
        return actors_of(self.definition.type_name).filter(key=key).first()

    def _check(self, actor: Actor) -> None:
        self.check_object_permissions(self.request, Handle(self.definition.actor_class, actor.key, actor.pk))
