"""Make and find actors."""

from __future__ import annotations

import inspect
import uuid
from typing import Any

from asgiref.sync import sync_to_async

from django_rivet.actors.actor import Actor
from django_rivet.actors.exceptions import ActorExistsError, ActorNotFoundError
from django_rivet.actors.turn import turn_open
from django_rivet.engine.current import refuse_in_workflow_code, running_hook
from django_rivet.runtime.actions import finished
from django_rivet.runtime.bell import ring_on_commit
from django_rivet.runtime.handles import Handle
from django_rivet.runtime.turn import WritingTurn
from django_rivet.store import actors
from django_rivet.store.transactions import engine_transaction
from django_rivet.store.turns import refuse_broken


class Directory:
    """Answers ``actors.directory.ActorDirectory``."""

    def create(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        handle = self.get_or_create(actor_class, key, input)
        if not handle.created:
            raise ActorExistsError(f"{actor_class.definition.type_name} {key!r} exists already")
        return handle

    def get(self, actor_class: type[Actor[Any]], key: str) -> Handle:
        refuse_in_workflow_code("get()")
        type_name = actor_class.definition.type_name
        actor_id = actors.find(type_name, key)
        if actor_id is None:
            raise ActorNotFoundError(f"there is no {type_name} {key!r}; create() or get_or_create() makes one")
        return Handle(actor_class, key, actor_id)

    def get_or_create(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        refuse_in_workflow_code("get_or_create()")
        type_name = actor_class.definition.type_name
        actor_id = actors.find(type_name, key)
        if actor_id is not None:
            return Handle(actor_class, key, actor_id)
        return self._create(actor_class, key, input)

    async def acreate(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        return await sync_to_async(self.create)(actor_class, key, input)

    async def aget(self, actor_class: type[Actor[Any]], key: str) -> Handle:
        return await sync_to_async(self.get)(actor_class, key)

    async def aget_or_create(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        return await sync_to_async(self.get_or_create)(actor_class, key, input)

    # Below: how it is done -------------------------------------------------------------------

    def _create(self, actor_class: type[Actor[Any]], key: str, input: Any) -> Handle:
        definition = actor_class.definition
        given = definition.input_type.validate(input, "input")
        input_text = definition.input_type.text(given, "input")
        state = definition.state_type.initial(actor_class, given, key=key)
        with engine_transaction(observed=False) as begun:
            actor_id = actors.insert(
                definition.type_name,
                key,
                input_text,
                definition.state_type.dump(state),
                has_workflow=definition.workflow is not None,
            )
            if actor_id is None:
                return Handle(actor_class, key, _found(actors.find(definition.type_name, key)))
            actor = actor_class(str(actor_id), key)
            turn = WritingTurn(actor)
            with turn_open(turn), running_hook():
                on_create = getattr(actor, "on_create", None)
                if inspect.iscoroutinefunction(on_create):
                    turn.get_state()
                if on_create is not None:
                    finished(on_create(given))
            begun.body_has_ended()
            refuse_broken()
            turn.save()
            if definition.workflow is not None:
                ring_on_commit(actor_id, definition.type_name)
        return Handle(actor_class, key, actor_id, created=True)


def _found(actor_id: uuid.UUID | None) -> uuid.UUID:
    if actor_id is None:
        raise ActorNotFoundError("the actor was destroyed at the same moment; try again")
    return actor_id
