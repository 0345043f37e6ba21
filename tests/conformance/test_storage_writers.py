"""STORAGE: an actor has one writer, and that it runs is known from the claim on."""

import threading
import uuid

import pytest
from django.db import connections

from django_rivet import Actor, workflow
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import in_process_worker, this_worker
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive

pytestmark = pytest.mark.django_db(transaction=True)


def in_another_connection(work):
    """What ``work()`` gives when somebody else does it at this moment."""
    found = []

    def run():
        try:
            found.append(work())
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_storage_11_while_one_worker_drives_no_other_one_can_write(outside):
    """Differs on purpose from the reference, whose flushes may meet: a second drive gets no claim, and does nothing."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, atomic=False)
            ctx.step("ship", outside.append, "ship")

        def charge(self):
            outside.append("charge")
            outside.append(in_another_connection(lambda: drive_once(uuid.UUID(self.id), in_process_worker("second"))))
            return "ch-1"

    order = Order.create("one")

    assert drive_once(uuid.UUID(order.id), in_process_worker("first"))

    assert outside == ["charge", False, "ship"]
    assert [(entry.path, entry.output) for entry in order.history()] == [("charge", "ch-1"), ("ship", None)]
    assert order.status == "completed"


@pytest.mark.parametrize("commits_of_the_second", [2, 3], ids=["it is at work", "it is done"])
def test_storage_11_a_writer_that_was_overtaken_writes_nothing(outside, commits_of_the_second):
    """Its commit is void as a whole, however far the other one is; what that one wrote stays as it is."""

    class Order(Actor):
        class State:
            written_by: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, outside_of_it)

        def charge(self, work):
            outside.append("charge")
            name = "first" if len(outside) == 1 else "second"
            if name == "first":
                work()
            self.state.written_by.append(name)
            return name

    def outside_of_it():
        advance(60)
        in_another_connection(overtake)

    def overtake():
        try:
            with crash_at(commits_of_the_second, after=True):
                drive(order)
        except SimulatedCrash:
            pass

    order = Order.create("one")

    drive_once(uuid.UUID(order.id), this_worker())

    assert order.history()["charge"].output == "second"
    assert order.state.written_by == ["second"]
    assert drive(order) == "completed"
    assert outside == ["charge", "charge"]


def test_storage_15_a_workflow_is_running_from_the_claim_on(outside):
    """Differs on purpose from the reference, which says ``pending`` until its first flush: others see it at once."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            outside.append(in_another_connection(lambda: order.status))
            ctx.step("charge", lambda: outside.append(in_another_connection(lambda: order.status)))
            ctx.sleep("night", 60)
            outside.append(in_another_connection(lambda: order.status))

    order = Order.create("one")
    outside.append(order.status)

    drive(order)
    outside.append(order.status)
    advance(60)
    drive(order)

    assert outside == ["pending", "running", "running", "sleeping", "running", "running"]
