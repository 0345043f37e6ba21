"""Where ``Cls.create``, ``Cls.get`` and ``Cls.get_or_create`` find actors: a port."""

from __future__ import annotations

from typing import Any, Protocol

from django.core.exceptions import ImproperlyConfigured


class ActorDirectory(Protocol):
    """Makes and finds actors; each method gives a handle. ``key`` is a canonical text.

    Creating obeys the caller's transaction: rolled back, there is no actor.
    """

    def create(self, actor_class: type[Any], key: str, input: Any) -> Any:
        """``ActorExistsError`` where there is one already, also one made at the same moment."""

    def get(self, actor_class: type[Any], key: str) -> Any:
        """``ActorNotFoundError`` where there is none."""

    def get_or_create(self, actor_class: type[Any], key: str, input: Any) -> Any:
        """``input`` counts only where this call made the actor. Two at once get the same one."""

    async def acreate(self, actor_class: type[Any], key: str, input: Any) -> Any: ...

    async def aget(self, actor_class: type[Any], key: str) -> Any: ...

    async def aget_or_create(self, actor_class: type[Any], key: str, input: Any) -> Any: ...


def install_directory(directory: ActorDirectory) -> None:
    """Called once, when the app is ready."""
    global _directory
    _directory = directory


def installed_directory() -> ActorDirectory:
    if _directory is None:
        raise ImproperlyConfigured(
            "django_rivet is not ready: add 'django_rivet' to INSTALLED_APPS, call django.setup() in "
            "scripts, and create or get actors inside functions, not while a module is imported"
        )
    return _directory


_directory: ActorDirectory | None = None
