"""In a worker's thread a body that hangs is left behind: the step ends in time, and nothing of the body lands."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction

from django_rivet import Actor, CriticalError, Event, Queue, workflow
from django_rivet.models import Event as EventRow
from django_rivet.models import Message
from django_rivet.runtime import bodies
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import this_worker
from django_rivet.testing import isolated_actors
from tests.conformance.racers import threads_but

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT = 0.3


class Gate:
    """Holds up a body until the test lets it go on; tells what became of it then."""

    def __init__(self) -> None:
        self._others = threads_but((), "rivet-left-behind")
        """An earlier test's, which may live on."""
        self.opened = threading.Event()
        self.entered = 0
        self.refused: list[BaseException] = []

    def hold_up(self) -> None:
        self.entered += 1
        assert self.opened.wait(60)

    def hold_up_and_then(self, act: Callable[[], object]) -> None:
        self.hold_up()
        try:
            act()
        except BaseException as error:
            self.refused.append(error)
            raise

    def open(self) -> None:
        """And wait until whatever was held up has ended."""
        self.opened.set()
        for thread in threads_but(self._others, "rivet-left-behind"):
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    with isolated_actors():
        yield gate
    gate.open()


def drive_in_a_thread(actor: Any) -> str:
    """As a worker with threads does it; returns the actor's status, and fails where the thread hangs."""

    def run() -> None:
        try:
            while drive_once(uuid.UUID(actor.id), this_worker()):
                pass
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, name="driver")
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "the drive hangs with its body"
    return actor.status


def test_the_step_ends_in_time_while_its_body_hangs(gate: Gate) -> None:
    """The failure is the same as in a pool that can stop bodies."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            failure = ctx.try_step("charge", gate.hold_up, timeout=LIMIT).failure
            return [failure.kind, failure.error.name, failure.error.message]

    order = Order.create("one")

    assert drive_in_a_thread(order) == "completed"

    assert not gate.opened.is_set()
    assert order.output == ["timeout", "StepTimeoutError", "step 'charge' ran longer than 0.3 s"]


def test_a_late_result_is_dropped(gate: Gate) -> None:
    """Never two results of one step."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge, timeout=LIMIT, retry_on_timeout=True, retry_backoff_base=0.01)

        def charge(self):
            if not gate.entered:
                gate.hold_up()
                return "late"
            return "in time"

    order = Order.create("one")

    assert drive_in_a_thread(order) == "completed"
    gate.open()

    assert order.output == "in time"
    assert order.history()["charge"].attempts == 2


@pytest.mark.parametrize("atomic", [True, False])
def test_a_late_completion_answers_nobody(gate: Gate, atomic: bool) -> None:
    """The attempt in time is the one that counts, and is not told that another one was before it."""

    class Desk(Actor):
        letters = Queue(str, str)

        @workflow
        def run(self, ctx):
            letter = ctx.queue.next("letter", completable=True)
            options = {"timeout": LIMIT, "retry_on_timeout": True, "retry_backoff_base": 0.01, "atomic": atomic}
            ctx.step("answer", self.answer, letter, **options)
            gate.open()

        def answer(self, letter):
            if not gate.entered:
                gate.hold_up_and_then(lambda: letter.complete("late"))
            letter.complete("in time")

    desk = Desk.create("one")
    desk.send("letters", "a")

    assert drive_in_a_thread(desk) == "completed"

    message = Message.objects.get()
    assert (message.status, message.response) == ("completed", '"in time"')


@pytest.mark.parametrize("atomic", [True, False])
def test_nothing_that_a_body_does_later_lands(gate: Gate, atomic: bool) -> None:
    """No ORM write, no message, no broadcast; the body is told so at its first word to the database."""

    class Order(Actor):
        notes = Queue(str)
        late = Event(str)

        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge, atomic=atomic, timeout=LIMIT).failure.kind

        def charge(self):
            acts = [
                lambda: Group.objects.create(name="late"),
                lambda: Order.get("other").send("notes", "late"),
                lambda: self.late.broadcast("late"),
            ]
            gate.hold_up()
            for act in acts:
                try:
                    act()
                except BaseException as error:
                    gate.refused.append(error)
            return "late"

    Order.create("other")
    order = Order.create("one")

    assert drive_in_a_thread(order) == "completed"
    gate.open()

    assert order.output == "timeout"
    assert len(gate.refused) == 2, "a broadcast only waits for the record, which does not come"
    assert not Group.objects.exists()
    assert not Message.objects.exists()
    assert not EventRow.objects.exists()


def test_the_locks_of_a_body_that_was_left_behind_are_gone(gate: Gate) -> None:
    """What it did is undone, and others go on at once: the turn, and rows of the ORM."""
    Group.objects.create(name="stock")

    class Order(Actor):
        class State:
            tries: int = 0
            errors: int = 0

        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge, timeout=LIMIT).failure.kind

        @run.on_error
        def note(self, event):
            self.state.errors += 1
            Group.objects.update(name="seen by the hook")

        def charge(self):
            self.state.tries += 1
            Group.objects.update(name="taken")
            gate.hold_up()

    order = Order.create("one")

    assert drive_in_a_thread(order) == "completed"

    assert not gate.opened.is_set()
    assert (order.state.tries, order.state.errors) == (0, 1)
    assert [group.name for group in Group.objects.all()] == ["seen by the hook"]


def test_a_transaction_that_a_body_holds_open_does_not_commit_later(gate: Gate) -> None:
    """Nor do its on_commit hooks run, as if it had."""
    hooks = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge, atomic=False, timeout=LIMIT).failure.kind

        def charge(self):
            with transaction.atomic():
                Group.objects.create(name="late")
                transaction.on_commit(lambda: hooks.append("committed"))
                gate.hold_up()

    order = Order.create("one")

    assert drive_in_a_thread(order) == "completed"
    gate.open()

    assert order.output == "timeout"
    assert hooks == []
    assert not Group.objects.exists()


def test_a_hook_that_hangs_is_left_out_and_the_failure_recorded(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writes are gone, and it is not called again for the same failure."""
    monkeypatch.setattr(bodies, "HOOK_SECONDS", LIMIT)

    class Order(Actor):
        class State:
            errors: int = 0

        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge).failure.kind

        @run.on_error
        def note(self, event):
            self.state.errors += 1
            gate.hold_up()

        def charge(self):
            raise CriticalError("declined")

    order = Order.create("one")

    assert drive_in_a_thread(order) == "completed"
    gate.open()

    assert order.output == "critical"
    assert order.state.errors == 0
    assert gate.entered == 1


def test_a_rollback_handler_that_hangs_has_failed(gate: Gate) -> None:
    """It has attempts of its own; when they are used up the rollback waits for a person."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", str, rollback=self.release, rollback_timeout=LIMIT, rollback_max_retries=0)
            ctx.step("charge", self.charge)

        def release(self, rollback, reservation):
            gate.hold_up_and_then(lambda: Group.objects.create(name="late"))

        def charge(self):
            raise CriticalError("declined")

    order = Order.create("one")

    assert drive_in_a_thread(order) == "rollback_failed"
    gate.open()

    assert order.history()["reserve"].rollback.error.name == "StepTimeoutError"
    assert len(gate.refused) == 1
    assert not Group.objects.exists()


def test_a_query_that_hangs_is_ended(gate: Gate) -> None:
    """The server does not go on with it."""
    if connection.vendor == "sqlite":
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    else:
        endless = "SELECT pg_sleep(60)"

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("count", self.count, timeout=LIMIT).failure.kind

        def count(self):
            with connection.cursor() as cursor:
                cursor.execute(endless)

    order = Order.create("one")
    began = time.monotonic()

    assert drive_in_a_thread(order) == "completed"
    gate.open()

    assert order.output == "timeout"
    assert time.monotonic() - began < 30


def test_bodies_that_are_in_time_share_one_thread_and_the_drive_s_connection(gate: Gate) -> None:
    """A step costs no new thread and no second connection."""
    seen = set()

    class Order(Actor):
        @workflow
        def run(self, ctx):
            for n in range(5):
                ctx.step(f"step {n}", self.look, atomic=n % 2 == 0)

        def look(self):
            Group.objects.count()
            seen.add((threading.get_ident(), id(connections["default"].connection)))

    order = Order.create("one")

    assert drive_in_a_thread(order) == "completed"

    assert len(seen) == 1


def test_the_end_of_the_process_in_a_body_reaches_the_drive(gate: Gate) -> None:
    """What a body raises outside of Exception goes on as it does in every pool."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("leave", self.leave)

        def leave(self):
            raise SystemExit

    order = Order.create("one")
    raised = []

    def run() -> None:
        try:
            drive_once(uuid.UUID(order.id), this_worker())
        except SystemExit as error:
            raised.append(type(error))
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)

    assert raised == [SystemExit]
