"""Who is let in, to which events, and for how long."""

from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.models import Session
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import path
from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import AllowAny, BasePermission, IsAdminUser, IsAuthenticated

from django_rivet import Actor, Event, action
from django_rivet.live.consumer import ActorConsumer
from django_rivet.testing import isolated_actors
from tests.live.conftest import ClosedByServer, cookie_of, listening, path_of, refusal

pytestmark = pytest.mark.django_db(transaction=True)

_suspicious: Any = ActorConsumer.as_asgi(recheck_seconds=0)
ALWAYS_RECHECKING = [path("ws/rivet/<str:type>/<str:key>/", _suspicious)]


@pytest.fixture
def user(transactional_db):
    return User.objects.create_user("user")


def declare(actor_classes=None, event_classes=None):
    with isolated_actors():

        class Guarded(Actor):
            class Meta:
                permission_classes = actor_classes

            said = Event(str, permission_classes=event_classes)
            plain = Event(str)

            @action
            def say(self, text: str) -> None:
                self.said.broadcast(text)
                self.plain.broadcast(text)

        yield Guarded


@pytest.fixture
def guarded(request):
    """``@pytest.mark.parametrize("guarded", [(actor's, event's)], indirect=True)``"""
    yield from declare(*request.param)


# At the door -------------------------------------------------------------------------------------


async def test_nobody_is_let_in_by_default(ticker, user, operator):
    """Of an actor that says nothing about it, only staff with ``view_actor`` hear anything."""
    await ticker.acreate("main")
    colleague = await User.objects.acreate(username="colleague", is_staff=True)
    cookies = {each.username: await database_sync_to_async(cookie_of)(each) for each in (user, colleague, operator)}
    assert await refusal(path_of(ticker)) == 4401
    assert await refusal(path_of(ticker), cookies["user"]) == 4403
    assert await refusal(path_of(ticker), cookies["colleague"]) == 4403
    assert await refusal(path_of(ticker), cookies["operator"]) is None


async def test_a_forged_cookie_is_nobody(ticker):
    """A session that does not exist belongs to no user."""
    await ticker.acreate("main")
    assert await refusal(path_of(ticker), "sessionid=" + "a" * 32) == 4401


@pytest.mark.parametrize("address", ["tests.Nothing/main", "tests.Ticker/other", "tests.Ticker/..", "tests.Ticker/a~~"])
async def test_what_does_not_exist_is_told_to_who_may_know(ticker, user, cookie, address):
    """Others get the same answer as for an actor that exists."""
    await ticker.acreate("main")
    assert await refusal(f"/ws/rivet/{address}/", cookie) == 4404
    assert await refusal(f"/ws/rivet/{address}/") == 4401
    assert await refusal(f"/ws/rivet/{address}/", await database_sync_to_async(cookie_of)(user)) == 4403


async def test_without_an_authentication_middleware_all_are_anonymous(ticker):
    """A forgotten ``AuthMiddlewareStack`` lets nobody in."""
    from asgiref.testing import ApplicationCommunicator
    from channels.routing import URLRouter

    from django_rivet.routing import websocket_urlpatterns

    await ticker.acreate("main")
    scope = {"type": "websocket", "path": path_of(ticker), "query_string": b"", "headers": []}
    bare = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    await bare.send_input({"type": "websocket.connect"})
    assert (await bare.receive_output())["code"] == 4401
    await bare.send_input({"type": "websocket.disconnect", "code": 1006})
    await bare.wait()


async def test_a_server_that_can_answers_with_a_status(ticker, cookie):
    """Close codes of a refusal do not cross the wire; a status does."""
    await ticker.acreate("main")
    from tests.live.conftest import Listener

    client = Listener(path_of(ticker, "other"), cookie, extensions={"websocket.http.response": {}})
    assert (await client.connect())["status"] == 404
    assert await client.connection.receive_output() == {
        "type": "websocket.http.response.body",
        "body": b'{"code": "not_found", "message": "there is no such actor"}',
    }
    await client.leave()


@pytest.mark.parametrize("guarded", [([IsAuthenticated], None)], indirect=True)
async def test_the_actor_says_who_may_listen(guarded, user):
    """Its classes take the place of the default; the staff still needs its permission."""
    await guarded.acreate("main")
    colleague = await User.objects.acreate(username="colleague", is_staff=True)
    assert await refusal(path_of(guarded)) == 4401
    assert await refusal(path_of(guarded), await database_sync_to_async(cookie_of)(user)) is None
    assert await refusal(path_of(guarded), await database_sync_to_async(cookie_of)(colleague)) == 4403


@pytest.mark.parametrize("guarded", [(None, ["rest_framework.permissions.AllowAny"])], indirect=True)
async def test_an_event_of_its_own_rules(guarded):
    """A public event lets everybody in, to itself alone; the others are as closed as they were."""
    main = await guarded.acreate("main")
    async with listening(path_of(guarded)) as client:
        await client.hear()
        await client.say(type="subscribe", events=["said", "plain"])
        assert (await client.hear())["code"] == "forbidden"
        await main.acall("say", "too early")
        assert await client.hears_nothing()

        await client.say(type="subscribe")
        await main.acall("say", "hello")
        assert [frame["name"] for frame in await client.hear(2)] == ["said", "said"]
        assert await client.hears_nothing()


@pytest.mark.parametrize("guarded", [([AllowAny], [IsAdminUser])], indirect=True)
async def test_an_event_may_be_more_private_than_its_actor(guarded):
    """Who may see the actor does not hear everything it says."""
    main = await guarded.acreate("main")
    async with listening(path_of(guarded)) as client:
        await client.hear()
        await client.say(type="subscribe")
        await main.acall("say", "hello")
        assert (await client.hear())["name"] == "plain"
        assert await client.hears_nothing()


class IsOwner(BasePermission):
    def has_permission(self, request, view):
        assert request.method == "GET"
        assert view.kwargs["type"] == view.declaration.type_name
        return request.headers["host"] == "testserver"

    def has_object_permission(self, request, view, obj):
        return obj.key == request.user.username == view.actor_key[0]


@pytest.mark.parametrize("guarded", [([IsOwner], None), ([IsOwner & IsAuthenticated], None)], indirect=True)
async def test_object_permissions_are_asked_too(guarded, user):
    """A class that looks at the actor is asked about this very one, as the REST face does."""
    await guarded.acreate("user")
    await guarded.acreate("other")
    cookie = await database_sync_to_async(cookie_of)(user)
    assert await refusal(path_of(guarded, "user"), cookie) is None
    assert await refusal(path_of(guarded, "other"), cookie) == 4403


def raising(error):
    class Raising(BasePermission):
        def has_permission(self, request, view):
            raise error

    return Raising


@pytest.mark.parametrize(
    ("guarded", "code"),
    [
        (([raising(Http404())], None), 4404),
        (([raising(PermissionDenied())], None), 4401),
        (([raising(NotAuthenticated())], None), 4401),
        (([raising(ZeroDivisionError())], None), 4401),
    ],
    indirect=["guarded"],
)
async def test_a_class_that_raises_lets_nobody_in(guarded, code):
    """Not even by a bug of its own."""
    await guarded.acreate("main")
    assert await refusal(path_of(guarded)) == code


async def test_a_session_of_one_user_does_not_speak_for_another(ticker, operator, user):
    """A middleware of the project's own said who it is, whatever cookie came along."""
    await ticker.acreate("main")
    cookie = await database_sync_to_async(cookie_of)(operator)
    assert await refusal(path_of(ticker), cookie, user=user) == 4403
    assert await refusal(path_of(ticker), None, user=operator) is None
    assert await refusal(path_of(ticker), cookie, user=AnonymousUser()) == 4401


# While it is open --------------------------------------------------------------------------------


def deactivate(operator):
    operator.is_active = False
    operator.save()


def log_out(operator):
    Session.objects.all().delete()


def change_password(operator):
    operator.set_password("another")
    operator.save()


def take_permission(operator):
    operator.user_permissions.clear()


@pytest.mark.parametrize(
    ("revoke", "code"),
    [
        (deactivate, 4401),
        (User.delete, 4401),
        (log_out, 4401),
        (change_password, 4401),
        (take_permission, 4403),
    ],
)
async def test_who_loses_the_right_hears_no_more(ticker, operator, cookie, revoke, code):
    """The connection is closed before the next event, once the last check is old enough."""
    main = await ticker.acreate("main")
    async with listening(path_of(ticker), cookie, routes=ALWAYS_RECHECKING) as client:
        await client.hear()
        await client.say(type="subscribe")
        await main.acall("tick", 1)
        assert (await client.hear())["seq"] == 1

        await database_sync_to_async(revoke)(operator)
        await main.acall("tick", 2)
        with pytest.raises(ClosedByServer) as closed:
            await client.hear()
        assert closed.value.code == code


@pytest.mark.parametrize("revoke", [deactivate, take_permission])
async def test_a_subscription_asks_again(ticker, operator, cookie, revoke):
    """Whatever was decided at the door is decided anew."""
    await ticker.acreate("main")
    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await database_sync_to_async(revoke)(operator)
        await client.say(type="subscribe")
        with pytest.raises(ClosedByServer):
            await client.hear()


@pytest.mark.parametrize("guarded", [([AllowAny], [IsAuthenticated])], indirect=True)
async def test_who_loses_one_event_keeps_the_others(guarded, user):
    """And is told which."""
    main = await guarded.acreate("main")
    cookie = await database_sync_to_async(cookie_of)(user)
    async with listening(path_of(guarded), cookie, routes=ALWAYS_RECHECKING) as client:
        await client.hear()
        await client.say(type="subscribe")
        await client.settle()
        await database_sync_to_async(log_out)(user)
        assert await client.hear() == {
            "type": "error",
            "code": "forbidden",
            "message": "you may no longer see said",
            "metadata": {},
        }
        await main.acall("say", "hello")
        assert (await client.hear())["name"] == "plain"


async def test_another_actor_of_the_same_key_is_another_actor(ticker, cookie):
    """Made again after it was destroyed, its events are not the old one's."""
    main = await ticker.acreate("main")
    from tests.live.test_events import destroy

    async with listening(path_of(ticker), cookie) as client:
        await client.hear()
        await destroy(main)
        await ticker.acreate("main")
        await client.say(type="subscribe")
        with pytest.raises(ClosedByServer) as closed:
            await client.hear()
        assert closed.value.code == 4404
