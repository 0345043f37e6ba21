"""Which actor types there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from django_rivet.actors.definition import ActorDefinition
from django_rivet.actors.exceptions import UnknownActorTypeError


class Registry:
    """The actor classes of this process by type name.

    Names depend on app labels, so they are worked out when they are asked for: a class may be made
    before Django knows its apps.
    """

    def __init__(self) -> None:
        self._layers = [_Layer(None)]
        self._known: dict[str, type[Any]] | None = None

    @property
    def given_label(self) -> str | None:
        """The app label of classes that are made now; None: that of their module."""
        return self._layers[-1].app_label

    def register(self, cls: type[Any]) -> None:
        """Called for each actor class that is not abstract, when it is made.

        ``ImproperlyConfigured`` where another class has its type name. The same class made again (a
        module was reloaded) takes the place of the old one.
        """
        layer = self._layers[-1]
        before = dict(layer.classes)
        layer.classes[cls.__module__, cls.__qualname__] = cls
        self._known = None
        if apps.apps_ready:
            try:
                layer.by_name()
            except ImproperlyConfigured:
                layer.classes = before
                raise

    def get(self, type_name: str) -> type[Any]:
        """The class of that name, or ``UnknownActorTypeError`` that tells of near ones."""
        known = self._by_name()
        if type_name in known:
            return known[type_name]
        near = get_close_matches(str(type_name), known, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "is its app in INSTALLED_APPS, its module named actors?"
        )
        raise UnknownActorTypeError(f"no actor type {type_name!r} is registered; {hint}")

    def __iter__(self) -> Iterator[ActorDefinition]:
        """All definitions, sorted by type name."""
        known = self._by_name()
        for type_name in sorted(known):
            definition: ActorDefinition = known[type_name].definition
            yield definition

    @contextmanager
    def isolated(self, app_label: str) -> Iterator[Registry]:
        """Classes made inside bear this app label, are seen by all threads, and are gone afterwards.

        What was registered before stays visible; a class made inside hides one of its name.
        """
        layer = _Layer(app_label)
        self._layers.append(layer)
        self._known = None
        try:
            yield self
        finally:
            self._layers.remove(layer)
            self._known = None

    def _by_name(self) -> dict[str, type[Any]]:
        if self._known is not None:
            return self._known
        known: dict[str, type[Any]] = {}
        for layer in self._layers:
            known |= layer.by_name()
        # Before the apps are there, labels may still change.
        self._known = known if apps.apps_ready else None
        return known


class _Layer:
    """Classes that came together and may go together."""

    def __init__(self, app_label: str | None) -> None:
        self.app_label = app_label
        self.classes: dict[tuple[str, str], type[Any]] = {}

    def by_name(self) -> dict[str, type[Any]]:
        known: dict[str, type[Any]] = {}
        for cls in self.classes.values():
            other = known.setdefault(cls.definition.type_name, cls)
            if other is not cls:
                raise ImproperlyConfigured(
                    f"{_path(other)} and {_path(cls)} are both the actor type {cls.definition.type_name!r}: "
                    "give one of them a name of its own, class Meta: name = ... "
                    "(in tests: define them inside isolated_actors())"
                )
        return known


def _path(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


registry = Registry()
"""The one of this process."""
