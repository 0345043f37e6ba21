"""What a subclass of an actor inherits, and what it may change."""

from __future__ import annotations

from datetime import timedelta

from django_rivet.actors.actor import Actor
from django_rivet.actors.declarations import Event, Queue, action, workflow
from django_rivet.actors.meta import ActorMeta


class Staff: ...


class Shop(Actor):
    """The parent of the examples on inheritance."""

    class Meta:
        abstract = True
        celery_queue = "shop"
        max_running = 4

    orders = Queue(dict, permission_classes=[Staff])
    sold = Event(dict)

    @workflow
    def run(self, ctx):
        return "parent"

    @run.on_error
    def note(self, event): ...

    @action(readonly=True, permission_classes=[Staff])
    def look(self) -> str:
        return "parent"


def test_declarations_are_inherited_and_overridden():
    """A subclass has what its parents have, except for what it says anew."""

    class Mine(Shop):
        orders = Queue(list)
        more = Queue()

        @action
        def pay(self): ...

    definition = Mine.definition
    assert {name: queue.body.annotation for name, queue in definition.queues.items()}["orders"] is list
    assert list(definition.queues) == ["orders", "more"]
    assert list(definition.events) == ["sold"]
    assert list(definition.actions) == ["look", "pay"]
    assert Shop.definition.queues["orders"].body.annotation is dict


def test_a_plain_override_of_an_action_stays_that_action():
    """Overriding a method does not change who may call it."""

    class Mine(Shop):
        def look(self) -> str:
            return "child"

    look = Mine.definition.action("look")
    assert (look.readonly, look.permission_classes) == (True, (Staff,))
    assert look.function(Mine("1", "main")) == "child"


def test_a_decorated_override_says_everything_anew():
    """Options of the parent's decorator are not mixed in."""

    class Mine(Shop):
        @action
        def look(self) -> str:
            return "child"

    look = Mine.definition.action("look")
    assert (look.readonly, look.permission_classes) == (False, None)


def test_none_takes_an_inherited_declaration_away():
    """As with the fields of an abstract model."""

    class Mine(Shop):
        look = None  # type: ignore[assignment]
        orders = None  # type: ignore[assignment]
        run = None  # type: ignore[assignment]

    definition = Mine.definition
    assert (dict(definition.actions), dict(definition.queues), definition.workflow) == ({}, {}, None)


def test_mixins_may_declare_too():
    """A class that is no actor itself can be shared by some that are."""

    class Lookable:
        @action
        def peek(self): ...

    class Before(Lookable, Actor): ...

    class After(Actor, Lookable): ...

    assert list(Before.definition.actions) == list(After.definition.actions) == ["peek"]


def test_an_overridden_workflow_keeps_the_error_hook():
    """With and without the decorator."""

    class Decorated(Shop):
        @workflow
        def run(self, ctx):
            return "child"

    class Plain(Shop):
        def run(self, ctx):
            return "child"

    for cls in (Decorated, Plain):
        found = cls.definition.workflow
        assert found is not None
        assert found.on_error is Shop.note
        assert found.function(cls("1", "main"), None) == cls("1", "main").run(None) == "child"


def test_a_subclass_may_register_a_hook_of_its_own():
    """With or without a workflow of its own; the parent keeps the hook it has."""

    class Own(Shop):
        @workflow
        def run(self, ctx): ...

        @run.on_error
        def other(self, event): ...

    class Borrowed(Shop):
        @Shop.run.on_error
        def third(self, event): ...

    class Overridden(Shop):
        def note(self, event): ...

    class Sibling(Shop): ...

    hooks = {cls.__name__: cls.definition.workflow for cls in (Own, Borrowed, Overridden, Sibling)}
    assert {name: found and found.on_error for name, found in hooks.items()} == {
        "Own": Own.other,
        "Borrowed": Borrowed.third,
        "Overridden": Overridden.note,
        "Sibling": Shop.note,
    }


def test_meta_is_inherited_option_by_option():
    """Except for the name and for being abstract, which each class says of itself."""

    class Mine(Shop):
        class Meta:
            name = "mine"
            max_running = None
            run_timeout = timedelta(minutes=2)
            permission_classes = [Staff, "shop.permissions.Customers"]

    class Child(Mine):
        class Meta(Shop.Meta):
            retention = 60

    assert Mine.definition.meta == ActorMeta(
        name="mine",
        celery_queue="shop",
        run_timeout=120.0,
        permission_classes=(Staff, "shop.permissions.Customers"),
    )
    assert Child.definition.type_name == "tests.Child"
    assert Child.definition.meta == ActorMeta(
        celery_queue="shop",
        max_running=4,
        run_timeout=120.0,
        retention=60.0,
        permission_classes=(Staff, "shop.permissions.Customers"),
    )
