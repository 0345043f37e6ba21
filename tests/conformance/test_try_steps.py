"""TRY-01 to 09, 19: `try_step` gives a final failure back as data."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from django_rivet import (
    Actor,
    CriticalError,
    RollbackError,
    StepExhaustedError,
    StepTimeoutError,
    workflow,
)
from django_rivet.runtime.drive import drive as drive_once
from django_rivet.runtime.worker import in_process_worker
from django_rivet.testing import SimulatedCrash, advance, drive

pytestmark = pytest.mark.django_db


def trying(run):
    """An actor whose workflow is `run(ctx)`."""

    class Trying(Actor):
        @workflow
        def run(self, ctx):
            return run(ctx)

    return Trying.create("one")


def summary(result):
    """What the contract says a failure tells."""
    failure = result.failure
    return [failure.kind, failure.step_name, failure.attempts, failure.error.name, failure.error.message]


def fail(error):
    raise error


def drive_through_retries(actor):
    while drive(actor) == "sleeping":
        advance(60)
    return actor.status


def test_try_01_a_success_is_ok_and_has_the_value():
    """There is no failure then, on the first run as on a replay."""
    seen = []

    def run(ctx):
        seen.append(ctx.try_step("add", lambda a, b: {"sum": a + b}, 1, kwargs={"b": 2}))
        ctx.sleep("rest", 60)

    actor = trying(run)

    assert drive_through_retries(actor) == "completed"
    assert [(r.ok, r.value, r.failure) for r in seen] == [(True, {"sum": 3}, None)] * 2


def test_try_02_a_critical_error_is_a_failure_and_the_workflow_goes_on(outside):
    """It tells the kind, the step, the attempts, and the error's own name and message."""

    def run(ctx):
        result = ctx.try_step("pay", fail, CriticalError("card declined"))
        ctx.step("note", outside.append, summary(result))
        return [result.ok, result.value]

    actor = trying(run)

    assert drive(actor) == "completed"
    assert actor.output == [False, None]
    assert outside == [["critical", "pay", 1, "CriticalError", "card declined"]]


def test_try_03_retries_come_first_and_then_the_last_error(outside):
    """The actor waits between the attempts; only when they are used up is the failure given back."""

    def pay():
        outside.append("attempt")
        raise OSError(f"no answer to {len(outside)}")

    actor = trying(lambda ctx: summary(ctx.try_step("pay", pay, max_retries=1)))

    assert drive(actor) == "sleeping"
    assert outside == ["attempt"]
    advance(1)

    assert drive(actor) == "completed"
    assert actor.output == ["exhausted", "pay", 2, "OSError", "no answer to 2"]


def test_try_04_a_rollback_error_passes_by_default():
    """A body that raises it wants the workflow undone."""
    actor = trying(lambda ctx: ctx.try_step("pay", fail, RollbackError("undo all")))

    assert drive(actor) == "failed"
    assert (actor.error.name, actor.error.message) == ("RollbackError", "undo all")


def test_try_05_a_rollback_error_is_caught_where_it_is_named():
    """`catch=["rollback"]` gives it back with that kind."""
    actor = trying(lambda ctx: summary(ctx.try_step("pay", fail, RollbackError("undo all"), catch=["rollback"])))

    assert drive(actor) == "completed"
    assert actor.output == ["rollback", "pay", 1, "RollbackError", "undo all"]


@pytest.mark.parametrize(
    ("catch", "error", "passes_as"),
    [
        (["rollback"], CriticalError("no"), "CriticalError"),
        (["critical"], StepTimeoutError("slow"), "StepTimeoutError"),
        (["critical"], OSError("no"), "StepExhaustedError"),
        (["timeout", "exhausted"], CriticalError("no"), "CriticalError"),
        ([], CriticalError("no"), "CriticalError"),
    ],
    ids=str,
)
def test_try_06_catch_replaces_the_default_kinds(catch, error, passes_as):
    """A kind that is not listed is raised."""
    actor = trying(lambda ctx: ctx.try_step("pay", fail, error, catch=catch, max_retries=0))

    assert drive(actor) == "failed"
    assert actor.error.name == passes_as


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("critical", CriticalError("no")),
        ("timeout", StepTimeoutError("slow")),
        ("exhausted", OSError("no")),
        ("rollback", RollbackError("no")),
    ],
)
def test_try_06_each_kind_can_be_named_alone(kind, error):
    """What is listed is caught, and its kind is told."""
    actor = trying(lambda ctx: ctx.try_step("pay", fail, error, catch=[kind], max_retries=0).failure.kind)

    assert drive(actor) == "completed"
    assert actor.output == kind


def test_try_06_an_interrupted_step_is_caught_by_default(outside):
    """A step that may run only once, and died with its worker, is a failure of that kind."""
    deaths = ["one"]

    def pay():
        outside.append("paid?")
        if deaths:
            deaths.pop()
            raise SimulatedCrash

    actor = trying(lambda ctx: summary(ctx.try_step("pay", pay, at_most_once=True))[:2])
    with pytest.raises(SimulatedCrash):
        drive(actor)

    assert drive(actor) == "completed"
    assert actor.output == ["interrupted", "pay"]
    assert outside == ["paid?"]


@pytest.mark.parametrize("catch", ["critical", ["critical", "unheard-of"], [None]], ids=str)
def test_try_06_a_catch_that_names_no_kind_is_refused_before_the_body(outside, catch):
    """A misspelled kind would otherwise be noticed when the failure that it was meant for passes."""
    actor = trying(lambda ctx: ctx.try_step("pay", outside.append, "paid", catch=catch))

    assert drive(actor) == "failed"
    assert actor.error.name == "InvalidStepError"
    assert outside == []


def test_try_07_eviction_is_never_caught(outside):
    """The worker hands over before the body, and the next one runs it."""
    actor = trying(lambda ctx: ctx.try_step("pay", outside.append, "paid").ok)

    assert drive_once(uuid.UUID(actor.id), replace(in_process_worker("leaving"), evicted=lambda: True))
    assert (actor.status, outside) == ("sleeping", [])

    assert drive(actor) == "completed"
    assert (actor.output, outside) == (True, ["paid"])


@pytest.mark.parametrize(
    ("misuse", "error", "status"),
    [
        (lambda ctx: ctx.try_step("used", int), "HistoryDivergedError", "diverged"),
        (lambda ctx: ctx.try_step("pay", lambda: ctx.step("inner", int)), "EntryInProgressError", "failed"),
        (lambda ctx: ctx.try_step("pay", int, rollback=undo), "RollbackCheckpointError", "failed"),
        (lambda ctx: ctx.try_step("", int), "InvalidStepError", "failed"),
        (lambda ctx: ctx.try_step("pay", int, max_retires=1), "InvalidStepError", "failed"),
    ],
    ids=["divergence", "entry in progress", "missing checkpoint", "name", "option"],
)
def test_try_07_mistakes_in_the_code_are_never_caught(misuse, error, status):
    """They are no failures of the step, whatever `catch` says."""

    def run(ctx):
        ctx.step("used", int)
        misuse(ctx)

    actor = trying(run)

    assert drive(actor) == status
    assert actor.error.name == error


def undo(rollback, output):
    """Never called."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [(CriticalError("no"), "critical"), (StepTimeoutError("slow"), "timeout"), (OSError("no"), "exhausted")],
)
def test_try_08_a_caught_failure_is_not_run_again(outside, error, kind):
    """However many passes follow, the body ran once, and its kind and attempts stay what they were.

    Differs on purpose from the reference, where a critical failure runs again until it counts as exhausted.
    """
    seen = []

    def pay():
        outside.append("attempt")
        raise error

    def run(ctx):
        seen.append(summary(ctx.try_step("pay", pay, max_retries=0)))
        for turn in ctx.loop("passes"):
            turn.sleep("rest", 60)
            if turn.iteration == 6:
                return

    actor = trying(run)

    assert drive_through_retries(actor) == "completed"
    assert outside == ["attempt"]
    assert len(seen) == 8
    assert all(each == [kind, "pay", 1, type(error).__name__, str(error)] for each in seen)


def test_try_09_a_replayed_failure_tells_the_same():
    """Name and message are there on every pass; a workflow cannot tell a replay from the first run."""
    seen = []

    def run(ctx):
        seen.append(ctx.try_step("pay", fail, CriticalError("declined")).failure)
        ctx.sleep("rest", 60)

    actor = trying(run)

    assert drive_through_retries(actor) == "completed"
    first, replayed = seen
    assert (replayed.error.name, replayed.error.message) == ("CriticalError", "declined")
    assert replayed == first


def test_try_09_a_raised_failure_is_the_same_error_on_replay():
    """A step's error that the workflow catches itself has its type and text on every pass."""
    seen = []

    def run(ctx):
        try:
            ctx.step("pay", fail, OSError("no answer"), max_retries=0)
        except StepExhaustedError as error:
            seen.append((type(error), str(error), error.step_name, error.attempts, error.last_error))
        ctx.sleep("rest", 60)

    actor = trying(run)

    assert drive_through_retries(actor) == "completed"
    assert seen[0] == seen[1]
    assert seen[0][2:] == ("pay", 1, "OSError: no answer")


def test_try_19_a_caught_failure_is_reported_as_a_step_event():
    """The hook is told once of each failed attempt, and of nothing else."""

    class Paying(Actor):
        class State:
            events: list[list[Any]] = []

        @workflow
        def run(self, ctx):
            ctx.try_step("pay", fail, CriticalError("declined"))
            ctx.try_block("block", lambda block: block.step("ship", fail, OSError("closed"), max_retries=1))
            ctx.sleep("rest", 60)

        @run.on_error
        def note(self, event):
            self.state.events.append([event.kind, event.step_name, event.will_retry, event.error.message])

    paying = Paying.create("one")

    assert drive_through_retries(paying) == "completed"
    assert paying.state.events == [
        ["step", "pay", False, "declined"],
        ["step", "ship", True, "closed"],
        ["step", "ship", False, "closed"],
    ]
