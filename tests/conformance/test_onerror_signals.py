"""ONERROR: the signals for calls to the outside, sent robustly after the commit that records what they tell."""

import logging
from collections.abc import Iterator

import pytest
from django.db import connection

from django_rivet import CriticalError, workflow
from django_rivet.signals import rollback_failed, step_failed, workflow_completed, workflow_failed
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive
from tests.conformance.undoable import undoable

SIGNALS = {
    "step_failed": step_failed,
    "rollback_failed": rollback_failed,
    "workflow_failed": workflow_failed,
    "workflow_completed": workflow_completed,
}


@pytest.fixture
def sent() -> Iterator[list]:
    """What was sent, as the signal's name and its values, with what was committed by then."""
    heard: list = []

    def listen(name):
        def hear(sender, actor, signal, **values):
            committed = (actor.status, str(actor.history()), connection.in_atomic_block)
            heard.append((name, sender, actor, values, committed))

        return hear

    receivers = {name: listen(name) for name in SIGNALS}
    for name, signal in SIGNALS.items():
        signal.connect(receivers[name], weak=False)
    yield heard
    for name, signal in SIGNALS.items():
        signal.disconnect(receivers[name])


def names(sent):
    return [name for name, *_ in sent]


@pytest.mark.django_db(transaction=True)
def test_onerror_11_signals_are_sent_after_the_commit(outside, sent):
    """Differs on purpose from the reference: a receiver finds what it is told of committed, and no transaction open."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.step("flight", self.fail, "full")

    trip = Trip.create("one")

    assert drive(trip) == "failed"

    assert sorted(names(sent)) == ["step_failed", "workflow_failed"]
    for name, sender, actor, _, (status, history, in_transaction) in sent:
        assert (sender, actor) == (Trip, trip)
        assert history == "flight  step  failed  1 attempt  CriticalError: full"
        assert not in_transaction
        if name == "workflow_failed":
            assert status == "failed"


@pytest.mark.django_db
def test_onerror_11_signals_come_in_the_order_of_what_they_tell(outside, sent):
    """Differs on purpose: a step's failure is heard of before that of the workflow which it caused."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.refuse)
            ctx.try_step("seat", self.fail)
            ctx.step("hotel", self.fail)

        def refuse(self, rollback, thing):
            raise CriticalError("the ticket is used")

    trip = Trip.create("one")

    assert drive(trip) == "rollback_failed"

    assert names(sent) == ["step_failed", "step_failed", "rollback_failed", "workflow_failed"]
    assert [values["event"].step_name for name, _, _, values, *_ in sent if name == "step_failed"] == ["seat", "hotel"]


@pytest.mark.django_db
def test_onerror_11_signals_carry_the_event_the_error_or_the_output(outside, sent):
    """Differs on purpose: what the hook is told, and for the end of the workflow its error or its value."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo_at_the_second_try)
            if self.key == "bad":
                ctx.step("hotel", self.fail, "full")
            return "home"

        def undo_at_the_second_try(self, rollback, thing):
            if rollback.attempt == 1:
                raise OSError("busy")

    bad, good = Trip.create("bad"), Trip.create("good")

    drive(bad)
    advance(5)
    assert (drive(bad), drive(good)) == ("failed", "completed")

    told = {name: values for name, _, _, values, *_ in sent}
    assert str(told["step_failed"]["event"].error) == "CriticalError: full"
    assert str(told["rollback_failed"]["event"].error) == "OSError: busy"
    assert told["rollback_failed"]["event"].will_retry
    assert str(told["workflow_failed"]["error"]) == "CriticalError: full"
    assert told["workflow_completed"]["output"] == "home"
    assert names(sent).count("workflow_failed") == names(sent).count("workflow_completed") == 1


@pytest.mark.django_db
def test_onerror_11_a_failure_that_was_not_recorded_sends_no_signal(outside, sent):
    """Differs on purpose: a worker that dies before the commit has told nobody; the attempt that counts does."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail)

    trip = Trip.create("one")

    with pytest.raises(SimulatedCrash), crash_at(2):
        drive(trip)
    assert names(sent) == []
    drive(trip)

    assert sorted(names(sent)) == ["step_failed", "workflow_completed"]


@pytest.mark.django_db
def test_onerror_11_a_receiver_that_raises_hurts_nobody(outside, sent, caplog):
    """Differs on purpose: signals are robust, so the workflow and the other receivers go on."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.try_step("flight", self.fail)
            ctx.step("train", self.do, "T-1")

    def explode(sender, **values):
        raise OSError("no network")

    trip = Trip.create("one")
    step_failed.connect(explode, sender=Trip)

    try:
        with caplog.at_level(logging.ERROR):
            assert drive(trip) == "completed"
    finally:
        step_failed.disconnect(explode, sender=Trip)

    assert sorted(names(sent)) == ["step_failed", "workflow_completed"]
    assert outside == ["do T-1"]


@pytest.mark.django_db
def test_onerror_15_the_end_of_a_workflow_is_signalled_when_its_rollback_has_ended(outside, sent):
    """Differs on purpose from the reference: `workflow_failed` comes once, after the last handler."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo_at_the_second_try)
            raise KeyError("price")

        def undo_at_the_second_try(self, rollback, thing):
            if rollback.attempt == 1:
                raise OSError("busy")

    trip = Trip.create("one")

    assert drive(trip) == "rolling_back"
    assert names(sent) == ["rollback_failed"]
    advance(5)
    assert drive(trip) == "failed"

    assert names(sent) == ["rollback_failed", "workflow_failed"]
    assert str(sent[-1][3]["error"]) == "KeyError: 'price'"


@pytest.mark.django_db
def test_onerror_13_a_cancellation_sends_no_signal(outside, sent):
    """Cancelled, with or without a rollback, is neither failed nor completed."""

    class Trip(undoable(outside)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("trip")
            ctx.step("flight", self.do, "F-1", rollback=self.undo)
            ctx.sleep("night", 60)

    for rollback in (False, True):
        trip = Trip.create(f"{rollback}")
        drive(trip)
        trip.cancel(rollback=rollback)
        assert drive(trip) == "cancelled"

    assert names(sent) == []
