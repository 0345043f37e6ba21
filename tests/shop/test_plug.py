"""Pulling the plug: only staff may, only by POST from our own page, and only while the order is being charged."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from example_project.demo import plug, views
from example_project.demo.plug import Plug
from example_project.demo.processes import Supervised
from example_project.shop.models import GatewayOrder, Invoice

ADDRESS = "/demo/plug/"

# Both sides look at the database from where they are: nothing of a test's own transaction would do.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.shop.plug_urls")]


@pytest.fixture
def folder(settings, tmp_path):
    settings.PLUG_FOLDER = str(tmp_path / "plug")
    return tmp_path / "plug"


@pytest.fixture
def worker(tmp_path):
    """Something to kill."""
    worker = Supervised([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log")
    worker.look()
    yield worker
    worker.kill()


@pytest.fixture
def supervisor(folder, worker):
    return Plug(folder, worker)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(views, "GIVES_UP", 0.2)


def staff(**options):
    client = Client(**options)
    client.force_login(User.objects.create_user("staff", is_staff=True))
    return client


def charging(order_id, ago=0.0):
    order = GatewayOrder.objects.create(order_id=order_id)
    asked_at = timezone.now() - timedelta(seconds=ago)
    order.requests.create(kind="charge", idempotency_key="key", answer="charged", asked_at=asked_at)


def wanted(folder):
    return list(folder.glob("*.wanted"))


def test_the_worker_is_killed_while_it_charges_the_order(supervisor, worker, folder):
    """Not before the gateway has been asked; and who asked is told which process it was."""
    answer = plug.ask(folder, "order-1")
    supervisor.look()
    assert worker.is_running
    assert plug.read_answer(answer) is None

    pid = worker.pid
    charging("order-1")
    supervisor.look()

    assert not worker.is_running
    assert plug.read_answer(answer) == {"killed": pid}
    assert wanted(folder) == []


@pytest.mark.parametrize("what", ["confirmed", "another order", "long ago"])
def test_no_worker_is_killed_for_an_order_that_is_not_being_charged(supervisor, worker, folder, what):
    """Confirmed orders are answered at once, others wait for their charge."""
    charging("another" if what == "another order" else "order-1", ago=60 if what == "long ago" else 0)
    if what == "confirmed":
        Invoice.objects.create(order_id="order-1")
    answer = plug.ask(folder, "order-1")

    supervisor.look()

    assert worker.is_running
    assert plug.read_answer(answer) == ({"killed": None} if what == "confirmed" else None)


def test_nobody_waits_for_ever(supervisor, worker, folder, monkeypatch):
    """An order that never gets to the gateway is given up."""
    monkeypatch.setattr(plug, "PATIENCE", -1)
    answer = plug.ask(folder, "order-1")

    supervisor.look()

    assert worker.is_running
    assert plug.read_answer(answer) == {"killed": None}
    assert wanted(folder) == []


def test_staff_is_told_what_became_of_it(supervisor, folder, monkeypatch):
    """The view answers when the supervisor has."""
    monkeypatch.setattr(plug, "ask", answered)

    answer = staff().post(ADDRESS, {"order": "order-1"})

    assert (answer.status_code, answer.json()) == (200, {"killed": 4711})


@pytest.mark.usefixtures("supervisor", "impatient")
def test_staff_is_told_where_nobody_answers():
    """A demo that is busy, or gone, is no reason to hang."""
    answer = staff().post(ADDRESS, {"order": "order-1"})

    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


@pytest.mark.usefixtures("supervisor", "impatient")
def test_nobody_else_gets_as_far_as_asking(folder):
    """Not anonymous, not a customer, not by GET, not from another site's form, not without an order."""
    customer = Client()
    customer.force_login(User.objects.create_user("customer"))
    careful = staff(enforce_csrf_checks=True)

    assert Client().post(ADDRESS, {"order": "order-1"}).status_code == 403
    assert customer.post(ADDRESS, {"order": "order-1"}).status_code == 403
    assert careful.get(ADDRESS).status_code == 405
    assert careful.post(ADDRESS, {"order": "order-1"}).status_code == 403
    relaxed = Client()
    relaxed.force_login(User.objects.get(username="staff"))
    assert relaxed.post(ADDRESS, {}).status_code == 400
    assert relaxed.post(ADDRESS, {"order": "x" * 201}).status_code == 400
    assert list(folder.iterdir()) == []


def answered(folder, order_id):
    answer = folder / "answer.done"
    answer.write_text('{"killed": 4711}')
    return answer
