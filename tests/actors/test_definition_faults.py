"""Mistakes in an actor class are told when it is made, all of them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_rivet.actors.actor import Actor
from django_rivet.actors.declarations import Event, Queue, action, workflow


def faults_of(make: Callable[[], Any]) -> list[str]:
    with pytest.raises(ImproperlyConfigured) as refused:
        make()
    _, *faults = str(refused.value).split("\n  - ")
    return faults


class Parent(Actor):
    class Meta:
        abstract = True

    orders = Queue()

    @workflow
    def run(self, ctx): ...

    @action
    def look(self): ...


def test_all_mistakes_of_one_class_are_told_together():
    """One start of the server is enough to find them."""

    def make():
        class Checkout(Actor):
            class Meta:
                max_quue_size = 5
                max_running = 0
                retention = "week"

            class State:
                count: int = "many"  # type: ignore[assignment]

            orders = Queue(max_deliveries=0)
            _hidden = Event()

            @workflow
            async def run(self): ...

    with pytest.raises(ImproperlyConfigured) as refused:
        make()

    assert str(refused.value) == (
        "tests.actors.test_definition_faults.test_all_mistakes_of_one_class_are_told_together.<locals>.make.<locals>"
        ".Checkout is not declared correctly:"
        "\n  - Meta.max_quue_size is no option; did you mean max_queue_size?"
        "\n  - Meta.max_running must be a whole number above 0, not 0"
        "\n  - Meta.retention must be seconds (int or float) or a timedelta, not 'week'"
        "\n  - State.count: Input should be a valid integer, unable to parse string as an integer"
        "\n  - _hidden: the name begins with an underscore, but callers are to use it"
        "\n  - orders: max_deliveries must be a whole number above 0, not 0"
        "\n  - run: the workflow is a plain def that returns; step bodies may be async"
        "\n  - run: is called as run(self, ctx), but takes (self)"
    )


def test_a_class_with_mistakes_is_not_registered(isolated):
    """Nobody can reach it by name."""
    before = [definition.type_name for definition in isolated]

    faults_of(lambda: type("Broken", (Actor,), {"_queue": Queue()}))

    assert [definition.type_name for definition in isolated] == before


@pytest.mark.parametrize(
    ("option", "value", "fault"),
    [
        ("abstract", 1, "Meta.abstract must be True or False, not 1"),
        ("name", "a/b", "Meta.name must be a word of letters, digits and _.- (at most 200), not 'a/b'"),
        ("app_label", 7, "Meta.app_label must be a word of letters, digits and _.- (at most 200), not 7"),
        ("max_message_size", True, "Meta.max_message_size must be a whole number above 0, not True"),
        ("run_timeout", -1, "Meta.run_timeout must be at least 0 s, not -1"),
        ("run_timeout", 0, "Meta.run_timeout must be above 0 s (None: no limit), not 0"),
        ("run_timeout", 4e9, "Meta.run_timeout must be at most 3155760000 s (None: no limit), not 4000000000.0"),
        ("max_running", True, "Meta.max_running must be a whole number above 0, not True"),
        ("permission_classes", int, "Meta.permission_classes must be a list of permission classes, not <class 'int'>"),
        ("zzz", 1, "Meta.zzz is no option; there are: abstract, app_label, celery_queue, max_message_size"),
    ],
)
def test_options_are_checked(option, value, fault):
    """A misspelt option would otherwise have no effect, silently."""
    [found] = faults_of(lambda: type("Bad", (Actor,), {"Meta": type("Meta", (), {option: value})}))

    assert found.startswith(fault)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"Meta": {"abstract": True}}, "Meta must be a class: class Meta: ..."),
        ({"look": Queue()}, "look is a Queue, but an action in a parent: give one of them another name"),
        (
            {"orders": action(lambda self: 1)},
            "orders is an action, but a Queue in a parent: give one of them another name",
        ),
        ({"orders": lambda self: 1}, "orders is a function, but a Queue in a parent: give one of them another name"),
        (
            {"look": staticmethod(len)},
            "look is a staticmethod, but an action in a parent: give one of them another name",
        ),
        ({"queue": Queue}, "queue is the class Queue itself: write Queue()"),
        ({"create": action(lambda self: 1)}, "create: the name is taken by every actor"),
        ({"state": Queue()}, "state: the name is taken by every actor"),
        ({"schedule": Queue()}, "schedule: the name is taken by every actor"),
        ({"key": Event()}, "key: the name is taken by every actor"),
        ({"on_destroy": action(lambda self: 1)}, "on_destroy: the name is that of a hook, which is called by itself"),
        ({"act": action(lambda: 1)}, "act: takes no self"),
        ({"q": Queue(permission_classes="ab")}, "q: permission_classes must be a list of permission classes, not 'ab'"),
        ({"on_create": lambda self: 1}, "on_create: is called as on_create(self, input), but takes (self)"),
        ({"on_destroy": 5}, "on_destroy: must be a plain method, def on_destroy(self)"),
        ({"on_before_connect": lambda self: 1}, "on_before_connect: is called as on_before_connect(self, connection)"),
        ({"go": workflow(lambda self, ctx: 1)}, "run and go are both workflows: an actor has one"),
        ({"State": 5}, "State must be a class with annotated attributes, a pydantic model or a dataclass, not 5"),
        ({"State": list}, "State must be a class with annotated attributes"),
        ({"state": 5}, "state must be a dict to begin with, not 5; or declare class State"),
        ({"state": {"a": object()}}, "state.a: a value of type object cannot be stored"),
    ],
)
def test_a_mistake_is_told_with_the_way_out(body, fault):
    """One of each kind."""
    [found] = [each for each in faults_of(lambda: type("Bad", (Parent,), body)) if each.startswith(fault)]

    assert found


def test_an_action_gives_one_result():
    """A generator's would never be looked at."""

    def make():
        class Bad(Actor):
            @action
            def act(self):
                yield 1

    assert faults_of(make) == ["act: an action returns its result, it cannot yield"]


def test_one_queue_has_one_name():
    """Messages are stored under it."""

    def make():
        class Bad(Actor):
            first = second = Queue()

    assert faults_of(make) == ["first and second are one Queue: declare two"]


def test_one_class_registers_one_error_hook():
    """And it takes the event."""

    def make():
        class Bad(Parent):
            @Parent.run.on_error
            def one(self): ...

            @Parent.run.on_error
            def two(self, event): ...

    assert faults_of(make) == [
        "one and two are both registered with on_error: one is enough",
        "one: is called as one(self, event), but takes (self)",
    ]


def test_create_state_cannot_be_async():
    """There is nothing to wait for before the actor is there."""

    def make():
        class Bad(Actor):
            async def create_state(self, input): ...

    assert faults_of(make) == ["create_state: must be a plain def; on_create may be async"]


def test_an_attribute_of_the_state_needs_a_type_and_a_beginning():
    """Else new actors could not be made."""

    def untyped():
        class Bad(Actor):
            class State:
                count = 0

    def bare():
        class Bad(Actor):
            class State:
                count: int

    def own_init():
        class Bad(Actor):
            class State:
                def __init__(self):
                    self.count = 0

    [fault] = faults_of(untyped)
    assert "A non-annotated attribute was detected: `count = 0`" in fault
    assert faults_of(bare) == ["State.count has no default: give it one, or define create_state(self, input)"]
    [fault] = faults_of(own_init)
    assert fault.endswith("State has an __init__ of its own: make it a pydantic model or a dataclass")


@pytest.mark.parametrize("decorator", [action, workflow, Parent.run.on_error])
def test_decorators_go_on_methods(decorator):
    """On anything else they say so at once."""
    with pytest.raises(TypeError, match="goes on a plain method of an actor"):
        decorator(staticmethod(len))
