"""RETRY: what ends a step for good, and how that is replayed."""

import pytest

from django_rivet import Actor, CriticalError, RollbackError, StepExhaustedError, UserError, workflow

pytestmark = pytest.mark.django_db


class CardDeclinedError(CriticalError):
    pass


class OutOfStockError(RollbackError):
    pass


@pytest.mark.parametrize(
    ("raised", "kind", "arrives"),
    [
        (CriticalError("no"), "critical", "CriticalError: no"),
        (CardDeclinedError("no"), "critical", "CriticalError: CardDeclinedError: no"),
    ],
)
def test_retry_10_a_critical_error_is_not_retried_and_reaches_the_workflow(rivet, outside, raised, kind, arrives):
    """One attempt, and the workflow gets that error; of a subclass its nearest engine class, on a replay too."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            try:
                ctx.step("charge", self.charge)
            except CriticalError as error:
                outside.append(f"{type(error).__name__}: {error}")
            result = ctx.try_step("charge again", self.charge)
            outside.append((result.failure.kind, result.failure.attempts, str(result.failure.error)))
            ctx.sleep("a while", 60)

        def charge(self):
            outside.append("charged")
            raise raised

    order = Order.create("one")

    assert rivet.drive(order) == "sleeping"

    failure = (kind, 1, f"{type(raised).__name__}: no")
    assert outside == ["charged", arrives, "charged", failure]
    assert [entry.status for entry in order.history()][:2] == ["failed", "failed"]
    rivet.advance(60)
    assert rivet.drive(order) == "completed"
    assert outside[4:] == [arrives, failure]


@pytest.mark.parametrize("raised", [RollbackError("no"), OutOfStockError("no")])
def test_retry_11_a_rollback_error_is_not_retried_and_passes_everything_that_catches(rivet, outside, raised):
    """One attempt; neither ``try_step`` nor a plain ``try_block`` holds it up, and it fails the workflow."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            try:
                ctx.try_block("order", lambda block: block.try_step("reserve", self.reserve))
            except RollbackError as error:
                outside.append(str(error))
                raise
            outside.append("went on")

        def reserve(self):
            outside.append("reserved")
            raise raised

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    said = "no" if type(raised) is RollbackError else "OutOfStockError: no"
    assert outside == ["reserved", said]
    assert order.error.name == "RollbackError"
    assert str(order.history()["order/reserve"].error) == f"{type(raised).__name__}: no"


def test_retry_11_a_rollback_error_is_caught_where_it_is_named(rivet):
    """``try_step(catch=["rollback"])`` asks for it by name, and gets its kind."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("reserve", self.reserve, catch=["rollback"]).failure.kind

        def reserve(self):
            raise OutOfStockError("no")

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert order.output == "rollback"


class UnspeakableError(Exception):
    """An error that cannot even be printed."""

    def __str__(self):
        raise ValueError("no words")


@pytest.mark.parametrize(
    "raised",
    [
        Exception("no"),
        KeyError("no"),
        AssertionError(),
        TimeoutError("no"),
        StopIteration("no"),
        UserError("no"),
        StepExhaustedError("other", 1, "no"),
        ExceptionGroup("many", [CriticalError("no")]),
        UnspeakableError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_retry_12_every_other_error_is_retried(rivet, outside, raised):
    """Nothing but critical errors, rollback errors and time-outs bypasses the retries."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=1, retry_backoff_base=0)

        def charge(self):
            outside.append("charged")
            raise raised

    order = Order.create("one")

    assert rivet.drive(order) == "failed"

    assert outside == ["charged", "charged"]
    assert order.error.name == "StepExhaustedError"
    assert order.history()["charge"].error.name == type(raised).__name__


@pytest.mark.parametrize(
    "retry_if",
    [ConnectionError, (ConnectionError, KeyError), lambda error: "later" in str(error)],
    ids=["class", "classes", "predicate"],
)
def test_retry_12_retry_if_says_which_errors_are_worth_another_try(rivet, outside, retry_if):
    """An error that it does not name ends the step at once, as a critical one."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            for raised in ConnectionResetError("later"), ValueError("never"):
                name = type(raised).__name__
                result = ctx.try_step(name, self.charge, raised, retry_if=retry_if, max_retries=2, retry_backoff_base=0)
                outside.append((result.failure.kind, result.failure.attempts, result.failure.error.name))

        def charge(self, raised):
            raise raised

    order = Order.create("one")

    assert rivet.drive(order) == "completed"

    assert outside[-2:] == [("exhausted", 3, "ConnectionResetError"), ("critical", 1, "ValueError")]


def test_retry_12_a_predicate_that_raises_does_not_hide_the_failure(rivet, outside):
    """Whatever ``retry_if`` does, the body's own error is recorded and reported as the step's."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.try_step("charge", self.charge, retry_if=lambda error: error.status == 503)

        @run.on_error
        def note(self, event):
            outside.append((event.kind, str(event.error)))

        def charge(self):
            raise ValueError("no")

    order = Order.create("one")

    rivet.drive(order)

    assert set(outside) == {("step", "ValueError: no")}
    assert str(order.history()["charge"].error) == "ValueError: no"


@pytest.mark.parametrize(
    ("raised", "options"),
    [
        (CriticalError("no"), {}),
        (RollbackError("no"), {"catch": ["rollback"]}),
        (ValueError("no"), {"max_retries": 0}),
        (ValueError("no"), {"retry_if": KeyError}),
    ],
)
def test_retry_16_a_final_failure_is_replayed_as_recorded(rivet, outside, raised, options):
    """Differs on purpose from the reference, which runs such a body again: kind, error and attempts stay."""
    seen = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            result = ctx.try_step("charge", self.charge, **options)
            seen.append(result)
            ctx.sleep("a while", 60)

        def charge(self):
            outside.append("charged")
            raise raised

    order = Order.create("one")

    rivet.drive(order)
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    assert outside == ["charged"]
    assert seen[0] == seen[1]
    assert seen[0].failure.error.name == type(raised).__name__


def test_retry_16_raising_the_limit_does_not_revive_a_step_that_failed_for_good(rivet, outside):
    """Limits are the current code's only while a step is under way: what the workflow has seen fail stays failed."""
    limits = [5, 0]

    class Order(Actor):
        @workflow
        def run(self, ctx):
            outside.append(ctx.try_step("charge", self.charge, max_retries=limits.pop()).failure.kind)
            ctx.sleep("a while", 60)

        def charge(self):
            outside.append("charged")
            raise ValueError("no")

    order = Order.create("one")

    rivet.drive(order)
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    assert outside == ["charged", "exhausted", "exhausted"]


def test_retry_17_an_exhausted_step_raises_again_without_a_body_and_without_an_event(rivet, outside):
    """On a later pass the workflow gets the same StepExhaustedError; the hook was told once."""
    errors = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            try:
                ctx.step("charge", self.charge, max_retries=1, retry_backoff_base=0)
            except StepExhaustedError as error:
                errors.append((str(error), error.step_name, error.attempts, error.last_error))
            ctx.sleep("a while", 60)

        @run.on_error
        def note(self, event):
            outside.append(event.will_retry)

        def charge(self):
            outside.append("charged")
            raise ValueError("no")

    order = Order.create("one")

    rivet.drive(order)
    rivet.advance(60)
    assert rivet.drive(order) == "completed"

    assert outside == ["charged", True, "charged", False]
    assert len(errors) == 2
    assert errors[0] == errors[1]
