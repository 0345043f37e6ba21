"""Every frame, and what each sort of visitor may do by it. A frame without a row fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from channels.db import database_sync_to_async
from rest_framework.permissions import IsAdminUser

from django_rivet import Actor, Event, action
from django_rivet.live import frames
from django_rivet.testing import isolated_actors
from tests.api.authorisation import VISITORS, IsGuest, club, everything, user_called
from tests.live.conftest import cookie_of, listening, path_of, refusal

pytestmark = pytest.mark.django_db(transaction=True)

Codes = Mapping[str, str]
DENIED = dict.fromkeys(VISITORS, "permission_denied") | {"anonymous": "not_authenticated"}


def looking() -> Codes:
    """For whom the type's classes let in; staff need ``view_actor`` besides."""
    return dict.fromkeys(VISITORS, "forbidden") | dict.fromkeys(("guest", "operator", "superuser"), "result")


def using(answer: str = "result") -> Codes:
    """For whom the type's classes let in; staff need nothing more. ``answer`` comes from behind the door."""
    return DENIED | dict.fromkeys(("guest", "staff", "operator", "superuser"), answer)


def only(visitor: str) -> Codes:
    """The action or queue has classes of its own, which let in nobody else."""
    return DENIED | {visitor: "result"}


class Row(NamedTuple):
    frame: Mapping[str, Any]
    codes: Codes
    changes: bool = False
    """Whether the database is another one afterwards, for whom it is done."""


ROWS = [
    Row({"type": "subscribe"}, dict.fromkeys(VISITORS, "result")),
    Row({"type": "subscribe", "events": ["news"]}, dict.fromkeys(VISITORS, "result")),
    Row({"type": "subscribe", "events": ["said"]}, looking()),
    Row({"type": "subscribe", "events": ["news", "said"], "since": 0}, looking()),
    Row({"type": "unsubscribe"}, dict.fromkeys(VISITORS, "result")),
    Row({"type": "action", "action": "count"}, using(), changes=True),
    Row({"type": "action", "action": "knock"}, only("caller"), changes=True),
    Row({"type": "action", "action": "nothing"}, using("unknown_action")),
    Row({"type": "send", "queue": "orders", "body": 1}, using(), changes=True),
    Row({"type": "send", "queue": "bell", "body": 1}, only("ringer"), changes=True),
    Row({"type": "send", "queue": "nothing", "body": 1}, using("unknown_queue")),
]


@pytest.fixture
def cookies(transactional_db: None) -> dict[str, str | None]:
    """Of each visitor, from a log-in."""
    users = {who: user_called(who) for who in VISITORS}
    return {who: None if user is None else cookie_of(user) for who, user in users.items()}


def test_every_frame_has_a_row() -> None:
    """And no row is about a frame that is gone."""
    assert {row.frame["type"] for row in ROWS} == set(frames.TYPES)


async def test_each_may_connect_as_the_table_says(cookies: dict[str, str | None]) -> None:
    """To an actor without an event for everybody."""
    with isolated_actors():

        class Den(Actor):
            class Meta:
                permission_classes = [IsGuest | IsAdminUser]

            said = Event(str)

            @action(permission_classes=[])
            def count(self) -> None: ...

        await Den.acreate("main")
        found = {who: await refusal(path_of(Den), cookies[who]) for who in VISITORS}

    allowed = dict.fromkeys(("guest", "operator", "superuser"))
    assert found == dict.fromkeys(VISITORS, 4403) | {"anonymous": 4401} | allowed


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.frame['type']}-{index}" for index, row in enumerate(ROWS)])
async def test_each_may_do_what_the_table_says(row: Row, cookies: dict[str, str | None]) -> None:
    """On a connection that an event for everybody has opened; who may not has changed nothing."""
    with club() as actor_class:
        await actor_class.acreate("main")
        found = {}
        for who in VISITORS:
            async with listening(path_of(actor_class), cookies[who]) as client:
                await client.hear()
                before = await database_sync_to_async(everything)()
                await client.say(**row.frame, id="x")
                answer = await client.hear()
                found[who] = answer.get("code", answer["type"])
                is_same = await database_sync_to_async(everything)() == before
                assert is_same == (found[who] != "result" or not row.changes), who
    assert found == row.codes
