"""Rollback handlers by name."""

from __future__ import annotations

from functools import partial, wraps
from typing import Any

import pytest

from django_rivet.actors.actor import Actor
from django_rivet.actors.declarations import action
from django_rivet.actors.references import reference_of, resolve
from django_rivet.engine.exceptions import RollbackHandlerError


def logged(function: Any) -> Any:
    @wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


def refund(rollback, output):
    return ("refund", output)


@logged
def decorated(rollback, output):
    return ("decorated", output)


def maker() -> Any:
    def made(rollback, output): ...

    return made


made = maker()
renamed = refund
nameless = lambda rollback, output: None  # noqa: E731
shadowed = refund


class Gateway:
    def refund(self, rollback, output): ...

    @staticmethod
    def static(rollback, output): ...


class Checkout(Actor):
    class Meta:
        name = "shop.Checkout"

    @action
    def release(self, rollback, output):
        return (self.key, output)

    @logged
    def wrapped(self, rollback, output):
        return (self.key, output)

    @staticmethod
    def static(rollback, output):
        return output

    @classmethod
    def of_class(cls, rollback, output):
        return (cls, output)

    odd = maker()
    short = lambda self, rollback, output: None  # noqa: E731

    async def later(self, rollback, output): ...


class Child(Checkout):
    class Meta:
        abstract = True

    def release(self, rollback, output):
        return ("child", output)


@pytest.mark.parametrize(
    ("give", "reference"),
    [
        (lambda actor: actor.release, "self:release"),
        (lambda actor: Checkout.release, "self:release"),
        (lambda actor: actor.wrapped, "self:wrapped"),
        (lambda actor: actor.static, "self:static"),
        (lambda actor: actor.of_class, "self:of_class"),
        (lambda actor: actor.later, "self:later"),
        (lambda actor: refund, "tests.actors.test_references:refund"),
        (lambda actor: renamed, "tests.actors.test_references:refund"),
        (lambda actor: decorated, "tests.actors.test_references:decorated"),
    ],
)
def test_a_handler_is_found_again_by_its_reference(give, reference):
    """Methods of the actor and functions of a module."""
    actor = Checkout("1", "main")
    handler = give(actor)

    assert reference_of(handler, actor) == reference
    found = resolve(reference, actor)
    assert found == handler or found == handler.__get__(actor)


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (nameless, "is a lambda, which has no name to find it by"),
        (made, "is defined inside another function; move it to the top"),
        (partial(refund, None), "is no method of this actor and no function of a module"),
        (Gateway().refund, "is a method of another object"),
        (Checkout("2", "other").release, "is a method of another object"),
        (Gateway.static, "is not what its module knows by that name"),
        (Gateway.refund, "is not what its module knows by that name"),
        (Child.release, "is not what its module knows by that name"),
        (Gateway, "is no method of this actor"),
        (len, "is no method of this actor"),
        ("self:release", "is no method of this actor"),
        (None, "is no method of this actor"),
    ],
)
def test_what_has_no_name_of_its_own_is_refused(handler, reason):
    """When the step is called, not when its money is to be given back."""
    with pytest.raises(RollbackHandlerError) as refused:
        reference_of(handler, Checkout("1", "main"))

    assert reason in str(refused.value)
    assert "handlers are stored by name" in str(refused.value)


def test_a_method_whose_class_has_another_name_for_it_is_refused():
    """It would not be found by the name that it bears itself."""
    actor = Checkout("1", "main")
    with pytest.raises(RollbackHandlerError, match="is not what its class knows by that name"):
        reference_of(actor.odd, actor)
    with pytest.raises(RollbackHandlerError, match="is a lambda"):
        reference_of(actor.short, actor)


def test_a_function_of_main_is_refused(monkeypatch):
    """A worker's ``__main__`` is another module."""
    monkeypatch.setattr(refund, "__module__", "__main__")
    with pytest.raises(RollbackHandlerError, match="is defined in __main__"):
        reference_of(refund, Checkout("1", "main"))


def test_a_method_is_looked_up_on_the_class_when_it_runs():
    """A deploy that changed the method changed the handler; a subclass has its own."""
    child = Child("1", "main")

    assert reference_of(child.release, child) == "self:release"
    assert resolve("self:release", child)(None, 7) == ("child", 7)


@pytest.mark.parametrize(
    "reference",
    [
        "self:gone",
        "self:Meta_",
        "self:id",
        "tests.actors.test_references:gone",
        "tests.nowhere:f",
        "",
        "x",
        ":",
        "self:",
    ],
)
def test_a_handler_that_is_gone_is_told_with_the_way_out(reference):
    """The deploy that lost it has to bring it back, or to say where it went."""
    with pytest.raises(RollbackHandlerError, match=r"is not found; restore it, or tell RIVET\['HANDLER_ALIASES'\]"):
        resolve(reference, Checkout("1", "main"))


def test_aliases_lead_to_new_names():
    """A function that moved, a method renamed in one type or in all, and over several deploys."""
    actor = Checkout("1", "main")
    aliases = {
        "old.place:refund": "older.place:refund",
        "older.place:refund": "tests.actors.test_references:refund",
        "self:free": "self:release",
        "shop.Checkout:give_back": "release",
        "self:give_back": "self:nowhere",
        "self:a": "self:b",
        "self:b": "self:a",
    }

    assert resolve("old.place:refund", actor, aliases) is refund
    assert resolve("self:free", actor, aliases) == actor.release
    assert resolve("self:give_back", actor, aliases) == actor.release
    with pytest.raises(RollbackHandlerError, match="leads from 'self:a' back to it"):
        resolve("self:a", actor, aliases)
