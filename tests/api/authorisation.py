"""Who may be somebody, and an actor that lets in some of them: for the tables of what each may do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission, User
from rest_framework.permissions import AllowAny, BasePermission, IsAdminUser

from django_rivet import Actor, Event, Queue, action, workflow
from django_rivet.testing import isolated_actors

VISITORS = ("anonymous", "stranger", "guest", "caller", "ringer", "staff", "operator", "superuser")
"""Nobody; a user with no rights; users whom classes of the type, an action or a queue let in; staff without and with
all model permissions of actors; a superuser.
"""


def user_called(name: str) -> User | None:
    """A new user for that visitor; None for nobody."""
    if name == "anonymous":
        return None
    if name == "superuser":
        return User.objects.create_superuser(name)
    user = User.objects.create_user(name, is_staff=name in ("staff", "operator"))
    if name == "operator":
        user.user_permissions.set(Permission.objects.filter(content_type__app_label="django_rivet"))
    return user


class Named(BasePermission):
    """Lets in one user."""

    name: str

    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(request.user and request.user.get_username() == self.name)


class IsGuest(Named):
    name = "guest"


class IsCaller(Named):
    name = "caller"


class IsRinger(Named):
    name = "ringer"


@contextmanager
def club() -> Iterator[Any]:
    """An actor type that one guest may use, and staff; one action and one queue have users of their own."""
    with isolated_actors():

        class Club(Actor):
            class State:
                calls: int = 0

            class Meta:
                permission_classes = [IsGuest | IsAdminUser]

            orders = Queue(int)
            bell = Queue(int, permission_classes=[IsRinger])
            said = Event(str)
            news = Event(str, permission_classes=[AllowAny])

            @workflow
            def run(self, ctx: Any) -> None:
                ctx.queue.next("wait")

            @action
            def count(self) -> int:
                self.state.calls += 1
                return int(self.state.calls)

            @action(permission_classes=[IsCaller])
            def knock(self) -> int:
                self.state.calls += 1
                return int(self.state.calls)

        yield Club


def everything() -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    return {
        model._meta.label: list(model._default_manager.order_by("pk").values_list())
        for model in apps.get_models(include_auto_created=True)
    }
