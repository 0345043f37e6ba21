"""Who is let in, and what those who are not may learn: nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.permissions import AllowAny, BasePermission, IsAdminUser, IsAuthenticated
from rest_framework.request import Request
from rest_framework.test import APIClient

from django_rivet import Actor, Queue, WorkflowUsageError, action, workflow
from django_rivet.models import Actor as ActorRow
from django_rivet.models import Message
from django_rivet.testing import isolated_actors

pytestmark = pytest.mark.django_db

LOGIN = {"code": "not_authenticated", "message": "Authentication credentials were not provided.", "metadata": {}}
REASON = "You do not have permission to perform this action."
FORBIDDEN = {"code": "permission_denied", "message": REASON, "metadata": {}}
ROUTES = [
    ("get", ""),
    ("get", "{key}/"),
    ("get", "{key}/history/"),
    ("get", "{key}/queues/"),
    ("post", ""),
    ("put", "{key}/"),
    ("post", "{key}/actions/total/"),
    ("post", "{key}/queues/orders/"),
    ("post", "{key}/recover/"),
    ("post", "{key}/cancel/"),
    ("post", "{key}/pause/"),
    ("post", "{key}/resume/"),
    ("post", "{key}/replay/"),
    ("post", "{key}/rollback/retry/"),
    ("post", "{key}/rollback/skip/"),
    ("post", "{key}/rollback/confirm/"),
    ("delete", "{key}/"),
]
READING = ROUTES[:4]
WRITING = ROUTES[4:8]


class IsTenant(BasePermission):
    """Lets a user at the actors whose key begins with the user's name; sees the key in the address."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return bool(view.actor_key and view.actor_key[0] == request.user.username)


class OwnsActor(BasePermission):
    """The same, decided when the actor is known."""

    def has_object_permission(self, request: Request, view: Any, obj: Any) -> bool:
        return bool(obj.key_parts[0] == request.user.username)


def declared(*classes: Any) -> type[Actor[Any]]:
    class DoorActor(Actor):
        class State:
            opened: int = 0

        class Meta:
            permission_classes = list(classes) or None

        orders = Queue()
        bell = Queue(permission_classes=[AllowAny])

        @workflow
        def run(self, ctx):
            ctx.queue.next("wait")

        @action(readonly=True)
        def total(self) -> int:
            return int(self.state.opened)

        @action(permission_classes=[IsAuthenticated])
        def knock(self) -> None:
            self.state.opened += 1

    return DoorActor


@pytest.fixture
def door() -> Iterator[type[Actor[Any]]]:
    """An actor that says nothing of permissions."""
    with isolated_actors():
        yield declared()


def ask(client: APIClient, method: str, path: str, key: str = "main", type_name: str = "tests.DoorActor") -> Any:
    return getattr(client, method)(f"/api/actors/{type_name}/{path.format(key=key)}")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nobody_is_let_in_by_default(
    anonymous: APIClient, member: User, client_of: Callable[[Any], APIClient], door: Any, method: str, path: str
) -> None:
    """Not who is not logged in, not who is no staff."""
    door.create("main")

    for client, answer in ((anonymous, LOGIN), (client_of(member), FORBIDDEN)):
        response = ask(client, method, path)
        assert (response.status_code, response.json()) == (403, answer)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_who_is_not_let_in_learns_nothing(
    member: User, client_of: Callable[[Any], APIClient], door: Any, method: str, path: str
) -> None:
    """The answer is the same whether there is such an actor, such a type, such an action, or not."""
    door.create("main")
    client = client_of(member)

    answers = [
        ask(client, method, path),
        ask(client, method, path, key="nobody"),
        ask(client, method, path, key="~~~"),
        ask(client, method, path, type_name="tests.Nobody"),
        ask(client, method, path.replace("orders", "x").replace("total", "x")),
    ]

    assert [(each.status_code, each.json()) for each in answers] == [(403, FORBIDDEN)] * 5
    assert ActorRow.objects.count() == 1
    assert not Message.objects.exists()


@pytest.mark.parametrize(("method", "path"), READING)
def test_staff_need_a_permission_to_look(
    staff: Callable[..., User], client_of: Callable[[Any], APIClient], door: Any, method: str, path: str
) -> None:
    """The one that the admin asks for as well."""
    door.create("main")

    assert ask(client_of(staff()), method, path).status_code == 403
    assert ask(client_of(staff("view_actor")), method, path).status_code == 200


@pytest.mark.parametrize(("method", "path"), WRITING)
def test_staff_need_none_to_call_and_send(
    staff: Callable[..., User], client_of: Callable[[Any], APIClient], door: Any, method: str, path: str
) -> None:
    """The actor's permission classes decide that: a 400 comes from behind the door."""
    door.create("main")

    assert ask(client_of(staff()), method, path).status_code in (200, 202, 400)


OPERATING = {
    "recover/": ("recover", 409),
    "cancel/": ("cancel", 200),
    "pause/": ("pause", 200),
    "resume/": ("pause", 409),
    "replay/": ("replay", 200),
    "rollback/retry/": ("compensate", 400),
    "rollback/skip/": ("compensate", 400),
    "rollback/confirm/": ("compensate", 400),
    "": ("destroy", 204),
}
PERMISSIONS = sorted({f"{name}_actor" for name, _ in OPERATING.values()})


def operate(client: APIClient, operation: str) -> Any:
    return ask(client, "post" if operation else "delete", f"{{key}}/{operation}")


@pytest.mark.parametrize("operation", OPERATING)
def test_each_operation_has_a_permission_of_its_own(
    staff: Callable[..., User], client_of: Callable[[Any], APIClient], door: Any, operation: str
) -> None:
    """Who may do all the others may not do this one; looking is not needed for it."""
    door.create("main")
    name, status = OPERATING[operation]
    own = f"{name}_actor"

    refused = operate(client_of(staff("view_actor", *(each for each in PERMISSIONS if each != own))), operation)
    done = operate(client_of(staff(own)), operation)

    assert (refused.status_code, refused.json()) == (403, FORBIDDEN)
    assert done.status_code == status


@pytest.mark.parametrize("operation", OPERATING)
def test_operating_is_for_staff(
    member: User, client_of: Callable[[Any], APIClient], staff: Callable[..., User], operation: str
) -> None:
    """Whom the actor lets in may use it, not operate it; even with the permission."""
    with isolated_actors():
        declared(AllowAny).create("main")
        member.user_permissions.set(staff(*PERMISSIONS).user_permissions.all())

        response = operate(client_of(member), operation)

    assert response.status_code == 403


def test_a_superuser_may_do_everything(client_of: Callable[[Any], APIClient], door: Any) -> None:
    """As everywhere in Django."""
    client = client_of(User.objects.create_superuser("root"))
    door.create("main")

    assert [ask(client, method, path).status_code for method, path in READING] == [200] * 4
    assert ask(client, "post", "{key}/cancel/").status_code == 200


def test_an_actor_can_let_others_in(anonymous: APIClient) -> None:
    """Its own classes take the place of the default: everybody may look at this one and use it."""
    with isolated_actors():
        declared(AllowAny)

        made = ask(anonymous, "put", "{key}/")
        looks = [ask(anonymous, method, path).status_code for method, path in READING]
        called = ask(anonymous, "post", "{key}/actions/total/")

    assert made.status_code == 201
    assert looks == [200] * 4
    assert called.json() == {"output": 0}


def test_an_action_has_its_own_door(
    member: User, anonymous: APIClient, client_of: Callable[[Any], APIClient], door: Any
) -> None:
    """Its permission classes take the place of the actor's, in both directions."""
    door.create("main")

    assert ask(client_of(member), "post", "{key}/actions/knock/").status_code == 200
    assert ask(anonymous, "post", "{key}/actions/knock/").status_code == 403
    assert door.get("main").state.opened == 1


def test_a_queue_has_its_own_door(anonymous: APIClient, door: Any) -> None:
    """The same."""
    door.create("main")

    response = anonymous.post("/api/actors/tests.DoorActor/main/queues/bell/", {"body": 1}, format="json")

    assert response.status_code == 202


def test_the_default_is_a_setting(
    member: User, client_of: Callable[[Any], APIClient], door: Any, settings: Any
) -> None:
    """RIVET["DEFAULT_PERMISSION_CLASSES"], by dotted path; REST framework's own default does not count."""
    settings.RIVET = {"DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"]}
    door.create("main")

    assert ask(client_of(member), "get", "{key}/").status_code == 200


def test_permissions_can_be_combined(member: User, anonymous: APIClient, client_of: Callable[[Any], APIClient]) -> None:
    """With the operators of REST framework."""
    with isolated_actors():
        declared(IsAdminUser | IsTenant).create("member")

        assert ask(client_of(member), "get", "{key}/", key="member").status_code == 200
        assert ask(client_of(member), "get", "{key}/", key="somebody").status_code == 403
        assert ask(anonymous, "get", "{key}/", key="member").status_code == 403


def test_a_permission_may_look_at_the_key(member: User, client_of: Callable[[Any], APIClient]) -> None:
    """It is asked before the actor is looked for, so a stranger's actors and those that do not exist look the same."""
    with isolated_actors():
        door = declared(IsTenant)
        door.create(("member", "a"))
        door.create(("other", "a"))
        client = client_of(member)

        own = [ask(client, method, path, key="member~a").status_code for method, path in ROUTES[1:4]]
        strange = [ask(client, method, path, key="other~a").status_code for method, path in ROUTES]
        missing = [ask(client, method, path, key="other~b").status_code for method, path in ROUTES]

    assert own == [200, 200, 200]
    assert strange == missing == [403] * len(ROUTES)


@pytest.mark.parametrize(("method", "path"), [ROUTES[1], ROUTES[2], ROUTES[3], ROUTES[6]])
def test_a_permission_may_look_at_the_actor(
    member: User, client_of: Callable[[Any], APIClient], method: str, path: str
) -> None:
    """One that refuses a single actor makes it look as if it were not there."""
    with isolated_actors():
        door = declared(IsAuthenticated, OwnsActor)
        door.create("member")
        door.create("other")
        client = client_of(member)

        assert ask(client, method, path, key="member").status_code == 200
        refused = ask(client, method, path, key="other")
        missing = ask(client, method, path, key="third")

    assert refused.status_code == missing.status_code == 404
    assert refused.json()["message"].replace("other", "third") == missing.json()["message"]


def test_a_list_leaves_out_what_may_not_be_looked_at(member: User, client_of: Callable[[Any], APIClient]) -> None:
    """The actor's classes are asked about each one."""
    with isolated_actors():
        door = declared(IsAuthenticated, OwnsActor)
        for key in ("a", "member", ("member", "x"), "z"):
            door.create(key)

        response = ask(client_of(member), "get", "")

    assert [actor["key"] for actor in response.json()["results"]] == ["member", ["member", "x"]]


def test_an_actor_that_may_not_be_looked_at_is_not_made_either(
    member: User, client_of: Callable[[Any], APIClient]
) -> None:
    """And whether there is one already cannot be found out by trying."""
    with isolated_actors():
        door = declared(IsAuthenticated, OwnsActor)
        door.create("other")
        client = client_of(member)

        tries = [
            ask(client, "put", "{key}/", key="other"),
            ask(client, "put", "{key}/", key="third"),
            client.post("/api/actors/tests.DoorActor/", {"key": "other"}, format="json"),
            client.post("/api/actors/tests.DoorActor/", {"key": "third"}, format="json"),
        ]
        own = ask(client, "put", "{key}/", key="member")

    assert [(each.status_code, each.json()) for each in tries] == [(403, FORBIDDEN)] * 4
    assert own.status_code == 201
    assert sorted(ActorRow.objects.values_list("key", flat=True)) == ["member", "other"]


def test_an_error_in_a_permission_class_lets_nobody_in(operator: APIClient) -> None:
    """And its text stays inside, whatever it is."""

    class Broken(BasePermission):
        def has_permission(self, request: Request, view: Any) -> bool:
            raise WorkflowUsageError("password=hunter2")

    with isolated_actors():
        declared(Broken).create("main")

        response = ask(operator, "get", "{key}/")

    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert b"hunter2" not in response.content
