"""Actions and messages over a WebSocket: done as over HTTP, refused as over HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404
from pydantic import Field
from rest_framework.exceptions import NotAcceptable, Throttled
from rest_framework.permissions import AllowAny, BasePermission, IsAuthenticated
from rest_framework.test import APIClient

from django_rivet import Actor, ActorBusyError, ActorNotFoundError, Event, Queue, UserError, action, workflow
from django_rivet.models import Message
from django_rivet.runtime.handles import Handle
from django_rivet.testing import drive, isolated_actors
from tests.live.conftest import cookie_of, listening, path_of
from tests.live.test_events import destroy

pytestmark = pytest.mark.django_db(transaction=True)

DESK = "/api/actors/tests.Desk/main/"


class Refused(BasePermission):
    message = "not on Sundays"
    code = "sunday"

    def has_permission(self, request: Any, view: Any) -> bool:
        return False


def raising(error: Exception) -> type[BasePermission]:
    class Raising(BasePermission):
        def has_permission(self, request: Any, view: Any) -> bool:
            raise error

    return Raising


class NeverThisOne(BasePermission):
    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return False


class Attentive(BasePermission):
    """Sees of a frame what it would see of a request."""

    def has_permission(self, request: Any, view: Any) -> bool:
        assert request.method == "POST"
        assert view.kwargs == {"type": "tests.Desk", "key": "main", "action": "seen"}
        assert view.actor_key == ("main",)
        return bool(request.data == {"args": ["please"]} and request.user.username)


@pytest.fixture
def desk() -> Iterator[Any]:
    """Lets every user of the site in; some of its actions do not."""
    with isolated_actors():

        class Desk(Actor):
            class State:
                words: list[str] = []

            class Meta:
                permission_classes = [AllowAny]
                max_queue_size = 2
                max_message_size = 200

            noted = Event(str)
            orders = Queue(dict[str, str])
            private = Queue(permission_classes=[IsAuthenticated])

            @workflow
            def run(self, ctx: Any) -> None:
                for turn in ctx.loop("orders"):
                    order = turn.queue.next("wait", names=["orders"]).body
                    turn.step("note", self.note, order["id"])
                    if order["id"] == "last":
                        break

            @action
            def note(self, word: str, times: Annotated[int, Field(gt=0)] = 1) -> int:
                self.state.words += [word] * times
                self.noted.broadcast(word)
                return len(self.state.words)

            @action
            async def note_later(self, word: str) -> int:
                self.state.words.append(word)
                return len(self.state.words)

            @action(readonly=True)
            def parcel(self) -> dict[str, Any]:
                return {"price": Decimal("1.10"), "at": datetime(2026, 1, 2, tzinfo=UTC), "words": self.state.words}

            @action
            def refuse(self) -> None:
                self.state.words.append("lost")
                raise UserError("Sold out.", code="sold_out", metadata={"left": 0}, status=410)

            @action
            def unsayable(self) -> float:
                self.state.words.append("lost")
                return float("nan")

            @action
            def search(self) -> None:
                raise ActorNotFoundError("the secret actor is away")

            @action(permission_classes=[IsAuthenticated])
            def knock(self) -> str:
                return "come in"

            @action(permission_classes=[Refused])
            def closed(self) -> None: ...

            @action(permission_classes=[raising(Http404())])
            def hidden(self) -> None: ...

            @action(permission_classes=[raising(PermissionDenied())])
            def denied(self) -> None: ...

            @action(permission_classes=[raising(Throttled())])
            def throttled(self) -> None: ...

            @action(permission_classes=[raising(NotAcceptable("in no way"))])
            def unacceptable(self) -> None: ...

            @action(permission_classes=[raising(ZeroDivisionError("a secret"))])
            def broken(self) -> None: ...

            @action(permission_classes=[NeverThisOne])
            def never(self) -> None: ...

            @action(permission_classes=[Attentive])
            def seen(self, word: str) -> str:
                return word

        yield Desk


@pytest.fixture
def member(transactional_db: None) -> User:
    return User.objects.create_user("member")


async def test_an_action_answers_with_its_result(desk: Any) -> None:
    """The answer bears the frame's id, and what the action broadcast comes as to everybody."""
    main = await desk.acreate("main")
    async with listening(path_of(desk)) as client:
        await client.hear()
        await client.say(type="action", id="a-1", action="note", args=["hello"], kwargs={"times": 2})
        assert await client.hear() == {"type": "result", "id": "a-1", "output": 2}
        await client.say(type="subscribe", id=7, since=0)
        heard = await client.hear(2)

    assert {"type": "result", "id": 7, "output": None} in heard
    assert {"type": "event", "name": "noted", "payload": "hello", "seq": 1} in heard
    assert (await main.asnapshot()).state.words == ["hello", "hello"]


async def test_calls_need_neither_an_id_nor_arguments(desk: Any) -> None:
    """Answers come in the order of the frames, results as they look over HTTP; an action may be async."""
    await desk.acreate("main")
    async with listening(path_of(desk)) as client:
        await client.hear()
        await client.say(type="action", action="note_later", args=["x"])
        await client.say(type="action", action="parcel")
        answers = await client.hear(2)

    assert answers == [
        {"type": "result", "output": 1},
        {"type": "result", "output": {"price": "1.10", "at": "2026-01-02T00:00:00+00:00", "words": ["x"]}},
    ]


async def test_a_message_is_stored_once_under_its_key(desk: Any) -> None:
    """The receipt is that of HTTP; a client that is not sure sends the same again."""
    main = await desk.acreate("main")
    send = {"type": "send", "queue": "orders", "body": {"id": "one"}, "idempotency_key": "k1"}
    async with listening(path_of(desk)) as client:
        await client.hear()
        for number in range(2):
            await client.say(**send, id=number)
        first, again = await client.hear(2)

    message = await Message.objects.aget()
    assert (first["id"], again["id"]) == (0, 1)
    assert first["output"] == again["output"] == {"id": message.pk, "status": "queued"}
    await database_sync_to_async(drive)(main)
    assert (await main.asnapshot()).state.words == ["one"]


def over_http(user: Any, frame: dict[str, Any]) -> Any:
    client = APIClient()
    client.force_authenticate(user)
    kind, name = ("actions", frame.get("action")) if "action" in frame else ("queues", frame.get("queue"))
    body = {k: v for k, v in frame.items() if k not in ("type", "id", "action", "queue", "idempotency_key")}
    headers = {"Idempotency-Key": frame["idempotency_key"]} if "idempotency_key" in frame else {}
    response = client.generic(
        "POST", f"{DESK}{kind}/{name}/", json.dumps(body), content_type="application/json", headers=headers
    )
    return response.json()


def act(action: str, **fields: Any) -> dict[str, Any]:
    return {"type": "action", "action": action, **fields}


def send(queue: str, **fields: Any) -> dict[str, Any]:
    return {"type": "send", "queue": queue, **fields}


def nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


FAILURES = {
    "no such action": (act("nothing"), "unknown_action"),
    "no such queue": (send("nothing", body=1), "unknown_queue"),
    "an argument is missing": (act("note"), "invalid_input"),
    "arguments do not fit": (act("note", args=[1], kwargs={"times": 0, "self": 1, "ctx": 2}), "invalid_input"),
    "args is no list": (act("note", args="abc"), "invalid_input"),
    "args is null": (act("note", args=None), "invalid_input"),
    "kwargs is no object": (act("note", args={}, kwargs=[]), "invalid_input"),
    "an unknown field": (act("note", args=["x"], state={}, status="completed"), "invalid_input"),
    "another actor": (act("note", args=["x"], key="other"), "invalid_input"),
    "what cannot be stored": (act("note", args=["a\0b"]), "invalid_input"),
    "half a character": (act("note", args=["\ud800"]), "invalid_input"),
    "too deep": (act("note", args=nested(120)), "invalid_input"),
    "the action refuses": (act("refuse"), "sold_out"),
    "an error of the action": (act("search"), "internal_error"),
    "a result that is no JSON": (act("unsayable"), "internal_error"),
    "a message without a body": (send("orders"), "invalid_input"),
    "a message that does not fit": (send("orders", body={"id": 7}), "invalid_input"),
    "a message with other fields": (send("orders", body={"id": "x"}, attempts=3, delay=1), "invalid_input"),
    "a message that is too large": (send("orders", body={"id": "x" * 200}), "message_too_large"),
    "an unfit idempotency key": (send("orders", body={"id": "x"}, idempotency_key="x" * 256), "invalid_input"),
    "a class that says no": (act("closed"), "sunday"),
    "a class that says it is not there": (act("hidden"), "not_found"),
    "a class that raises Django's refusal": (act("denied"), "permission_denied"),
    "a class that raises one of REST framework": (act("throttled"), "throttled"),
    "a class that raises one with words": (act("unacceptable"), "not_acceptable"),
    "a class that is broken": (act("broken"), "internal_error"),
    "a class that refuses the actor": (act("never"), "actor_not_found"),
    "permission before the name of a fault": (act("closed", args="abc", state={}), "sunday"),
}


@pytest.mark.parametrize(("frame", "code"), FAILURES.values(), ids=FAILURES)
async def test_a_failure_is_told_as_over_http(
    desk: Any, member: User, frame: dict[str, Any], code: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Code, message and metadata are the same; nothing happened, and the connection goes on."""
    main = await desk.acreate("main")
    cookie = await database_sync_to_async(cookie_of)(member)
    expected = await database_sync_to_async(over_http)(member, frame)
    assert expected["code"] == code

    with caplog.at_level(logging.CRITICAL):
        async with listening(path_of(desk), cookie) as client:
            await client.hear()
            await client.say(**frame, id=1)
            assert await client.hear() == {"type": "error", "id": 1, **expected}
            await client.settle()

    assert (await main.asnapshot()).state.words == []
    assert not await Message.objects.aexists()


async def test_a_full_and_a_finished_actor_take_no_more(desk: Any) -> None:
    """And a key that was used for another message takes no second one."""
    main = await desk.acreate("main")
    async with listening(path_of(desk)) as client:
        await client.hear()
        for body, key in (("one", "k"), ("two", "k"), ("last", None), ("four", None)):
            await client.say(**send("orders", body={"id": body}, idempotency_key=key))
        answers = await client.hear(4)
        await database_sync_to_async(drive)(main)
        await client.say(**send("orders", body={"id": "five"}))
        answers.append(await client.hear())

    codes = [each.get("code", each["type"]) for each in answers]
    assert codes == ["result", "idempotency_conflict", "result", "queue_full", "workflow_finished"]


async def test_a_busy_actor_is_told(desk: Any, member: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing happened, try again."""

    def busy(self: Handle, *args: Any, **kwargs: Any) -> None:
        raise ActorBusyError("a secret")

    await desk.acreate("main")
    monkeypatch.setattr(Handle, "call", busy)
    expected = await database_sync_to_async(over_http)(member, act("note", args=["x"]))
    async with listening(path_of(desk)) as client:
        await client.hear()
        await client.say(**act("note", args=["x"]))
        assert await client.hear() == {"type": "error", **expected}
    assert expected["code"] == "actor_busy"


async def test_an_error_of_ours_is_logged_and_not_told(desk: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the traceback, the client a word."""
    await desk.acreate("main")
    async with listening(path_of(desk)) as client:
        await client.hear()
        await client.say(**act("search"))
        told = await client.hear()

    assert (told["code"], told["message"]) == ("internal_error", "Something went wrong on the server.")
    [record] = [each for each in caplog.records if each.name == "django_rivet.live.calls"]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ActorNotFoundError)


async def test_permission_is_asked_at_each_frame(desk: Any, member: User) -> None:
    """Of the action or queue itself, about the user as the database knows it at that moment."""
    await desk.acreate("main")
    cookie = await database_sync_to_async(cookie_of)(member)
    async with listening(path_of(desk), cookie) as client, listening(path_of(desk)) as stranger:
        await client.hear()
        await client.say(**act("knock"))
        assert (await client.hear())["output"] == "come in"
        await client.say(**act("seen", args=["please"]))
        assert (await client.hear())["output"] == "please"

        await stranger.hear()
        for frame in (act("knock"), send("private", body=1)):
            await stranger.say(**frame)
            expected = await database_sync_to_async(over_http)(None, frame)
            assert await stranger.hear() == {"type": "error", **expected, "code": "not_authenticated"}

        await User.objects.filter(pk=member.pk).aupdate(is_active=False)
        await client.say(**act("knock"))
        assert (await client.hear())["code"] == "not_authenticated"
    assert not await Message.objects.aexists()


async def test_another_actor_of_the_same_key_is_not_called(desk: Any) -> None:
    """A connection is to the actor that was there when it was made."""
    main = await desk.acreate("main")
    async with listening(path_of(desk)) as client:
        await client.hear()
        await destroy(main)
        await client.say(**act("note", args=["x"]))
        assert (await client.hear())["code"] == "actor_not_found"
        other = await desk.acreate("main")
        await client.say(**act("note", args=["x"]))
        assert (await client.hear())["code"] == "actor_not_found"
    assert (await other.asnapshot()).state.words == []
