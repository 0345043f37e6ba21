"""What an actor class declares."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel

from django_rivet.actors.actor import Actor
from django_rivet.actors.declarations import Event, Queue, action, workflow
from django_rivet.actors.exceptions import (
    InvalidInputError,
    UnknownActionError,
    UnknownEventError,
    UnknownQueueError,
)
from django_rivet.actors.meta import ActorMeta


class Staff: ...


class Customers: ...


class Shop(Actor):
    """One class for several stories."""

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


def test_a_class_tells_what_it_declares():
    """Names come from the attributes, defaults from the contract."""

    class Checkout(Actor):
        orders = Queue(dict, int, permission_classes=[Staff], max_deliveries=2)
        other = Queue()
        failed = Event(str, stored=False)

        @workflow
        def run(self, ctx): ...

        @action
        def pay(self, amount: int) -> int:
            return amount

        @action(readonly=True, permission_classes=[Customers])
        async def look(self): ...

        def helper(self): ...

    definition = Checkout.definition
    orders, other, failed = definition.queues["orders"], definition.queues["other"], definition.events["failed"]
    assert definition.actor_class is Checkout
    assert definition.type_name == "tests.Checkout"
    assert definition.meta == ActorMeta()
    assert (definition.meta.max_queue_size, definition.meta.max_message_size) == (1000, 65536)
    assert (orders.name, orders.body.annotation, orders.response.annotation) == ("orders", dict, int)
    assert (orders.permission_classes, orders.max_deliveries) == ((Staff,), 2)
    assert (other.permission_classes, other.max_deliveries) == (None, 5)
    assert (failed.name, failed.payload.annotation, failed.stored) == ("failed", str, False)
    assert definition.workflow is not None
    assert (definition.workflow.name, definition.workflow.on_error) == ("run", None)
    assert list(definition.actions) == ["pay", "look"]
    pay, look = definition.action("pay"), definition.action("look")
    assert (pay.readonly, pay.permission_classes, pay.is_async) == (False, None, False)
    assert (look.readonly, look.permission_classes, look.is_async) == (True, (Customers,), True)
    assert pay.signature.bind(["7"]).args == [7]
    assert pay.function(Checkout("1", "main"), 7) == 7


def test_an_empty_class_is_an_actor():
    """It sleeps, and has nothing to call."""

    class Quiet(Actor):
        pass

    assert Quiet.definition.workflow is None
    assert (dict(Quiet.definition.actions), dict(Quiet.definition.queues)) == ({}, {})


def test_declarations_stay_what_they_were_in_the_class():
    """An action is an ordinary method, so is the workflow, and queues can be named by attribute."""

    class Mine(Shop):
        pass

    mine = Mine("1", "main")
    assert mine.look() == "parent"
    assert mine.run(None) == "parent"
    assert Mine.orders is mine.orders is Mine.definition.queues["orders"]
    assert Mine.sold.payload.annotation is dict


def test_the_name_of_a_type_is_made_of_app_and_class():
    """Unless Meta says otherwise."""

    class Labelled(Actor):
        class Meta:
            app_label = "billing"

    class Named(Actor):
        class Meta:
            name = "checkout"

    assert Labelled.definition.type_name == "billing.Labelled"
    assert Named.definition.type_name == "checkout"
    assert Named.definition.app_label == "tests"


def test_an_unknown_name_tells_of_the_near_one():
    """Or of all there are."""

    class Mine(Shop): ...

    with pytest.raises(UnknownActionError, match=r"tests\.Mine has no action 'lok'; did you mean 'look'\?"):
        Mine.definition.action("lok")
    with pytest.raises(UnknownQueueError, match="it declares orders"):
        Mine.definition.queue("zzz")
    with pytest.raises(UnknownEventError, match="did you mean 'sold'"):
        Mine.definition.event("solt")


class Basket(BaseModel):
    size: int


def test_the_type_of_the_input_is_that_of_the_hook_that_annotates_it():
    """create_state before on_create; without an annotation, anything."""

    class Made(Actor):
        def create_state(self, input: Basket):
            return {}

        def on_create(self, input): ...

    class Told(Actor):
        def create_state(self, input):
            return {}

        def on_create(self, input: Basket): ...

    class Untold(Actor):
        def on_create(self, input): ...

    assert Made.definition.input_type.validate({"size": "1"}, "input") == Basket(size=1)
    assert Told.definition.input_type.annotation is Basket
    assert Untold.definition.input_type.validate({"size": "1"}, "input") == {"size": "1"}
    with pytest.raises(InvalidInputError, match=r"input\.size"):
        Told.definition.input_type.validate({}, "input")


def test_annotations_may_name_what_stands_around_the_class():
    """Local classes and classes in the actor's own body, with annotations as strings."""

    class Local(BaseModel):
        n: int

    class Mine(Actor):
        class Inner(BaseModel):
            n: int

        @action
        def act(self, first: Local, second: Inner) -> None: ...

    bound = Mine.definition.action("act").signature.bind([{"n": 1}, {"n": 2}])
    assert bound.args == [Local(n=1), Mine.Inner(n=2)]


def test_verify_finds_types_that_name_nothing():
    """They are not looked at while the class is made, since they may name what comes later."""

    class Fine(Shop):
        @action
        def act(self, value: Later) -> None: ...

    class Broken(Actor):
        @action
        def act(self, value: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    Fine.definition.verify()
    with pytest.raises(ImproperlyConfigured, match="'Nowhere'"):
        Broken.definition.verify()


class Later(BaseModel):
    n: int
