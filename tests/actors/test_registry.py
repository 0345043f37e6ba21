"""Which actor types there are."""

from __future__ import annotations

import threading

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from django_rivet.actors.actor import Actor
from django_rivet.actors.exceptions import UnknownActorTypeError
from django_rivet.actors.registry import Registry


def names(registry: Registry) -> list[str]:
    return [definition.type_name for definition in registry]


def make(class_name: str, module: str = __name__, **meta: str) -> type[Actor]:
    body = {"Meta": type("Meta", (), meta), "__module__": module, "__qualname__": class_name}
    return type(class_name, (Actor,), body)


def test_a_class_is_registered_when_it_is_made(isolated):
    """Under its type name, and listed in order."""
    beta, alpha = make("Beta"), make("Alpha")

    assert isolated.get("tests.Alpha") is alpha
    assert isolated.get("tests.Beta") is beta
    found = [name for name in names(isolated) if name in ("tests.Alpha", "tests.Beta")]
    assert found == ["tests.Alpha", "tests.Beta"]


def test_an_abstract_class_is_not(isolated):
    """There are no actors of it."""

    class Base(Actor):
        class Meta:
            abstract = True

    with pytest.raises(UnknownActorTypeError):
        isolated.get("tests.Base")


def test_an_unknown_type_tells_of_near_ones(isolated):
    """Or where actors are looked for."""
    make("Checkout")

    with pytest.raises(UnknownActorTypeError, match=r"'tests.Chekout' is registered; did you mean tests\.Checkout"):
        isolated.get("tests.Chekout")
    with pytest.raises(UnknownActorTypeError, match="its module named actors"):
        isolated.get("zzzzzz")


def test_two_classes_of_one_name_are_refused_naming_both(isolated, monkeypatch):
    """At start-up, since rows say only the name. The first one stays."""
    monkeypatch.setattr(apps, "apps_ready", True)
    first = make("Checkout", "shop.actors", name="checkout")

    with pytest.raises(ImproperlyConfigured) as refused:
        make("Basket", "basket.actors", name="checkout")

    assert "shop.actors.Checkout and basket.actors.Basket" in str(refused.value)
    assert "class Meta: name = ..." in str(refused.value)
    assert isolated.get("checkout") is first


def test_before_the_apps_are_there_names_are_not_worked_out(isolated, monkeypatch):
    """A class may be made early; its name is that of the app once Django knows it."""
    monkeypatch.setattr(apps, "apps_ready", False)
    make("One", "shop.actors", name="same")
    make("Two", "shop.actors", name="same")

    monkeypatch.setattr(apps, "apps_ready", True)
    with pytest.raises(ImproperlyConfigured, match="both the actor type 'same'"):
        isolated.get("same")


def test_a_module_that_is_loaded_again_replaces_its_classes(isolated):
    """The autoreloader does that."""
    make("Checkout")
    again = make("Checkout")

    assert isolated.get("tests.Checkout") is again


def test_isolated_classes_are_gone_afterwards(isolated):
    """The next block may use the same names, and sees what was there before."""
    outer = make("Outer")
    made = []
    for _ in range(2):
        with isolated.isolated("inner"):
            made.append(make("Checkout"))
            assert isolated.get("inner.Checkout") is made[-1]
            assert isolated.get("tests.Outer") is outer
        with pytest.raises(UnknownActorTypeError):
            isolated.get("inner.Checkout")

    assert made[0] is not made[1]
    assert made[0].definition.type_name == "inner.Checkout"


def test_an_isolated_class_hides_one_of_its_name(isolated):
    """For as long as the block lasts."""
    first = make("Checkout", name="checkout")
    with isolated.isolated("inner"):
        second = make("Other", name="checkout")
        assert isolated.get("checkout") is second
        assert names(isolated).count("checkout") == 1
    assert isolated.get("checkout") is first


def test_an_isolated_block_ends_with_its_classes_on_an_error_too(isolated):
    """A failing test leaves nothing to the next one."""

    def fail() -> None:
        with isolated.isolated("inner"):
            make("Checkout")
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    with pytest.raises(UnknownActorTypeError):
        isolated.get("inner.Checkout")


def test_all_threads_see_isolated_classes(isolated):
    """Workers of a test run in threads."""
    cls = make("Checkout")
    found: list[type] = []
    thread = threading.Thread(target=lambda: found.append(isolated.get("tests.Checkout")))
    thread.start()
    thread.join()

    assert found == [cls]


def test_a_registry_of_ones_own_is_empty():
    """The module's one is only the one that classes enter by themselves."""
    registry = Registry()
    cls = make("Checkout", name="mine")

    assert names(registry) == []
    registry.register(cls)
    assert names(registry) == ["mine"]


def test_the_label_is_that_of_the_app_of_the_module(monkeypatch):
    """Else the module's first name."""
    monkeypatch.setattr("django_rivet.actors.registry.Registry.given_label", None)

    assert make("Mine", "nowhere.to.find.actors").definition.app_label == "nowhere"
    if apps.apps_ready:
        assert make("User", "django.contrib.auth.actors").definition.type_name == "auth.User"
