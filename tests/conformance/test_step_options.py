"""STEP: arguments and options of a step, and which of them are refused."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import override_settings

from django_rivet import Actor, workflow
from django_rivet.engine.options import StepOptions

pytestmark = pytest.mark.django_db

DEFAULTS = {
    "kwargs": None,
    "max_retries": 3,
    "retry_backoff_base": 0.1,
    "retry_backoff_max": 30,
    "retry_jitter": 0.1,
    "retry_if": None,
    "timeout": 30,
    "retry_on_timeout": False,
    "ephemeral": False,
    "atomic": True,
    "at_most_once": False,
    "rollback": None,
    "rollback_when": "completed",
    "rollback_atomic": None,
    "rollback_max_retries": None,
    "rollback_backoff_base": None,
    "rollback_backoff_max": None,
    "rollback_timeout": None,
}
"""As the contract promises them."""


def test_step_05_the_short_form_is_the_full_form_with_every_default(rivet, outside):
    """``step(name, fn)`` runs, retries, waits and is recorded as with every option spelled out."""
    events = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            for form, options in ("short", {}), ("full", DEFAULTS):
                ctx.step(f"good, {form}", lambda: 1, **options)
                ctx.try_step(f"bad, {form}", self.bad, form, **options)

        @run.on_error
        def note(self, event):
            events.append(event)

        def bad(self, form):
            outside.append(form)
            raise ValueError("no")

    order = Order.create("one")
    while rivet.drive(order) != "completed":
        rivet.advance(1)

    assert outside == ["short"] * 4 + ["full"] * 4
    records = [(e.kind, e.status, e.attempts, e.output, str(e.error), e.rollback) for e in order.history().tree()]
    assert records[:2] == records[2:]
    told = [(e.attempt, e.max_retries, e.remaining_retries, e.will_retry) for e in events]
    assert told[:4] == told[4:] == [(1, 3, 3, True), (2, 3, 2, True), (3, 3, 1, True), (4, 3, 0, False)]
    assert StepOptions() == replace(StepOptions(), **{k: v for k, v in DEFAULTS.items() if k != "kwargs"})


def test_step_05_arguments_go_by_place_and_those_by_name_go_into_kwargs(rivet):
    """What stands behind the function is handed to it; ``kwargs`` is for arguments by name, options' names too."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge, "order-1", 5, kwargs={"currency": "EUR", "timeout": "never"})

        def charge(self, *args, **kwargs):
            return [args, kwargs]

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert order.output == [["order-1", 5], {"currency": "EUR", "timeout": "never"}]


@pytest.mark.parametrize("options", [{"currency": "EUR"}, {"max_retry": 3}])
def test_step_05_an_unknown_option_fails_the_workflow_before_the_body(rivet, outside, options):
    """A misspelt option, or an argument by name outside ``kwargs``, is named together with the way out."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", outside.append, "charged", **options)

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == []
    assert order.error.name == "InvalidStepError"
    [unknown] = options
    assert unknown in order.error.message
    assert "kwargs={...}" in order.error.message or "did you mean 'max_retries'" in order.error.message


@pytest.mark.parametrize(
    "options",
    [
        {"max_retries": -1},
        {"max_retries": 1.5},
        {"max_retries": True},
        {"max_retries": None},
        {"timeout": "5"},
        {"timeout": None},
        {"timeout": float("inf")},
        {"retry_backoff_base": -0.1},
        {"retry_backoff_base": float("nan")},
        {"retry_backoff_max": -1},
        {"retry_jitter": -0.1},
        {"retry_jitter": "10%"},
        {"retry_if": "ValueError"},
        {"retry_if": ("ValueError",)},
        {"retry_if": int},
        {"retry_on_timeout": "no"},
        {"ephemeral": "no"},
        {"atomic": "no"},
        {"at_most_once": "no"},
        {"at_most_once": True, "max_retries": 2},
        {"at_most_once": True, "atomic": True},
        {"rollback_when": "sometimes"},
        {"rollback_max_retries": -1},
        {"rollback_timeout": "5"},
        {"rollback_backoff_base": -1},
        {"kwargs": ["order-1"]},
        {"kwargs": {1: "order-1"}},
    ],
    ids=str,
)
def test_step_05_an_option_of_a_wrong_type_fails_the_workflow_before_the_body(rivet, outside, options):
    """A value that an option cannot have is a usage error at the call: no attempt is made, none is charged."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, **options)

        def charge(self, *args, **kwargs):
            outside.append("charged")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == []
    assert order.error.name == "InvalidStepError"
    assert "'charge'" in order.error.message
    assert len(order.history()) == 0


def test_step_05_what_cannot_be_called_is_no_body(rivet):
    """A value in place of the function, usually a call that was meant as a reference, is refused as such."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.try_step("charge", "charged")

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert str(order.error) == "InvalidStepError: step 'charge': 'charged' cannot be called"


def test_step_05_durations_may_be_timedeltas(rivet):
    """Each option that is a duration takes seconds or a ``timedelta``."""
    events = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step(
                "charge",
                self.charge,
                timeout=timedelta(minutes=1),
                retry_backoff_base=timedelta(minutes=1),
                retry_backoff_max=timedelta(minutes=3),
                retry_jitter=0,
            )

        @run.on_error
        def note(self, event):
            events.append(event.retry_delay)

        def charge(self):
            raise ValueError("no")

    order = Order.create("one")
    while rivet.drive(order) != "failed":
        rivet.advance(180)

    assert events == [120, 180, 180, None]


@override_settings(RIVET={"STEP_DEFAULTS": {"max_retries": 1, "retry_jitter": 0}})
def test_step_05_a_project_s_defaults_hold_where_a_step_says_nothing(rivet, outside):
    """STEP_DEFAULTS takes the place of a built-in default, and an option at the step takes the place of both."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.try_step("project", self.fail, "project")
            ctx.try_step("own", self.fail, "own", max_retries=2)

        def fail(self, what):
            outside.append(what)
            raise ValueError("no")

    order = Order.create("one")
    while rivet.drive(order) != "completed":
        rivet.advance(1)

    assert outside == ["project"] * 2 + ["own"] * 3
