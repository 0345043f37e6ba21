"""What hints look like inside a real broker, and what a broker that never answers costs."""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery

from django_rivet.runtime import bell, shutdown
from django_rivet.runtime.celery_tasks import drive as drive_task
from django_rivet.runtime.sweeping import Sweeper
from django_rivet.store.runs import Hint
from django_rivet.testing import advance, drive

pytestmark = pytest.mark.django_db(transaction=True)

A_FEW_SECONDS = 10.0
"""Two tries of two seconds each, on a machine that may have much else to do."""

UseBroker = Callable[[str], Celery]


@pytest.fixture
def use_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[UseBroker]:
    """Make the broker at that URL the project's, with nothing but Celery's own defaults."""
    bell._begin_anew()

    def use(url: str) -> Celery:
        app = Celery("of-a-test", broker=url, set_as_current=False)
        monkeypatch.setattr(bell, "current_app", SimpleNamespace(_get_current_object=lambda: app))
        return app

    yield use
    bell.drain(30)
    bell._line.drop()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Connections to it are taken, and nothing that is said is ever answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def messages(url: str, queue: str = "celery") -> list[dict[str, Any]]:
    with redis.Redis.from_url(url) as client:
        return [json.loads(each) for each in client.lrange(queue, 0, -1)]


def test_a_hint_has_no_date(shop: SimpleNamespace, redis_url: str, use_broker: UseBroker) -> None:
    """Not for later, and none that ends: else it would wait in a worker, or be thrown away behind a long queue."""
    use_broker(redis_url)
    actor = shop.Checkout.create("main")
    assert bell.drain(30)

    [message] = messages(redis_url)

    assert message["headers"]["task"] == "django_rivet.drive"
    assert message["headers"]["argsrepr"] == repr((actor.id,)).replace("(", "[").replace(",)", "]")
    assert (message["headers"]["eta"], message["headers"]["expires"]) == (None, None)
    assert "expiration" not in message["properties"]


def test_sleeps_backoffs_and_delayed_messages_leave_nothing_in_the_broker(
    shop: SimpleNamespace, redis_url: str, use_broker: UseBroker
) -> None:
    """Days of waiting are a row in the database; the hint comes when they are over."""
    app = use_broker(redis_url)
    actor = shop.Checkout.create("main")
    drive(actor)
    assert bell.drain(30)
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
    day = 24 * 3600
    actor.send("orders", {"id": "1"}, delay=3 * day)
    assert bell.drain(30)
    rung = len(messages(redis_url))
    sweeper = Sweeper(lambda actor_id, name, epoch: bell.send(app, actor_id, name, Hint(epoch)), pause=1)

    assert rung <= 1
    drive_task(actor.id)
    assert (sweeper.sweep(), len(messages(redis_url))) == (0, rung)

    advance(3 * day + 1)
    assert (sweeper.sweep(), len(messages(redis_url))) == (1, rung + 1)


def test_the_broker_is_asked_what_waits(redis_url: str, use_broker: UseBroker) -> None:
    """Also of a queue that is empty, which Redis does not know of."""
    app = use_broker(redis_url)
    for _ in range(3):
        assert bell.send(app, uuid.uuid4(), "unknown.Type")

    assert (bell.waiting_hints(app, None), bell.waiting_hints(app, "reports")) == (3, 0)


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_hint_gives_up_on_a_broker_that_never_answers(silent_port: int, use_broker: UseBroker, scheme: str) -> None:
    """Within seconds, though Celery's defaults would wait for ever; and so does the question for a queue's length."""
    app = use_broker(f"{scheme}://127.0.0.1:{silent_port}//")
    began = time.monotonic()

    assert not bell.send(app, uuid.uuid4(), "unknown.Type")
    assert bell.waiting_hints(app, None) is None

    assert time.monotonic() - began < 2 * A_FEW_SECONDS


def test_the_project_s_own_limits_go_before_ours(use_broker: UseBroker) -> None:
    """Who knows a slow broker may give it more time."""
    app = use_broker("redis://127.0.0.1:1/0")
    app.conf.broker_transport_options = {"socket_timeout": 30}

    with bell._line.connected(app) as connection:
        assert connection.transport_options["socket_timeout"] == 30
        assert connection.transport_options["socket_connect_timeout"] == bell.SECONDS


def test_a_worker_that_is_to_stop_does_not_wait_for_a_broker_that_never_answers(
    shop: SimpleNamespace, silent_port: int, use_broker: UseBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint for the others is the bell's business, and it has a moment for it."""
    actor = shop.Checkout.create("main")
    use_broker(f"redis://127.0.0.1:{silent_port}/0")
    monkeypatch.setattr(shutdown, "is_requested", lambda: True)
    began = time.monotonic()

    drive_task(actor.id)

    assert time.monotonic() - began < A_FEW_SECONDS


def test_a_worker_that_is_to_stop_waits_for_a_slow_broker(
    shop: SimpleNamespace, use_broker: UseBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may end with the task: the hint for the others must have gone out by then."""
    actor = shop.Checkout.create("main")
    sent: list[str] = []

    def send_slowly(app: Celery, actor_id: uuid.UUID, *rest: object) -> bool:
        time.sleep(0.3)
        sent.append(str(actor_id))
        return True

    monkeypatch.setattr(bell, "send", send_slowly)
    use_broker("redis://127.0.0.1:1/0")
    monkeypatch.setattr(shutdown, "is_requested", lambda: True)

    drive_task(actor.id)

    assert sent == [actor.id]


def test_an_actor_whose_slice_is_over_goes_on_where_nobody_can_be_told(
    shop: SimpleNamespace, redis_url: str, use_broker: UseBroker, settings: Any
) -> None:
    """With the broker there it goes behind the others; without, left alone, it would lie until that is back."""
    actor = shop.Checkout.create("main")
    for number in range(3):
        actor.send("orders", {"id": str(number)})
    settings.RIVET = {"SLICE_SECONDS": 1e-9}

    use_broker(redis_url)
    drive_task(actor.id)
    assert actor.state.completed == []
    assert len(messages(redis_url)) == 1

    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = server.getsockname()[1]
    use_broker(f"redis://127.0.0.1:{nobody}/0")
    drive_task(actor.id)
    assert actor.state.completed == ["0", "1", "2"]
