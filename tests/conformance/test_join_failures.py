"""JOIN: branches that fail, and what the workflow gets of it."""

from contextlib import suppress
from decimal import Decimal

import pytest

from django_rivet import (
    Actor,
    CriticalError,
    JoinError,
    RollbackError,
    WorkflowUsageError,
    workflow,
)
from django_rivet.testing import advance, drive
from tests.conformance.desks import desk
from tests.conformance.modes import IN_BOTH_MODES

pytestmark = IN_BOTH_MODES


def fails(message="no", error=CriticalError):
    def body():
        raise error(message)

    return body


def test_join_02_every_branch_settles_even_where_one_fails(outside):
    """The first one fails at once; the others run to their ends, over waits, and are on record as completed."""

    def other(branch):
        branch.step("one", outside.append, "one")
        branch.sleep("nap", 60)
        branch.step("two", outside.append, "two")

    actor = desk(lambda self, ctx: ctx.join("all", {"bad": lambda b: b.step("do", fails()), "a": other, "b": other}))

    assert drive(actor) == "sleeping"
    assert actor.history()["all/bad"].status == "failed"
    advance(61)
    assert drive(actor) == "failed"

    assert sorted(outside) == ["one", "one", "two", "two"]
    assert [actor.history()[f"all/{name}"].status for name in ("bad", "a", "b")] == ["failed", "completed", "completed"]
    assert actor.history()["all"].status == "failed"


def test_join_03_the_error_holds_the_branches_that_failed_and_only_those(outside):
    """Type name and message of each; more of a step's failure. The original is the cause on the first run only."""
    outside.append({})

    def work(self, ctx):
        try:
            ctx.join(
                "all",
                {
                    "good": lambda b: b.step("do", lambda: 1),
                    "step": lambda b: b.step("do", fails("declined")),
                    "tired": lambda b: b.step("do", fails("busy", OSError), max_retries=0),
                    "code": lambda b: outside[0]["missing"],
                },
            )
        except JoinError as error:
            outside.append({name: str(each) for name, each in error.errors.items()})
            outside.append({name: (f.kind, f.step_name, f.attempts, f.source) for name, f in error.failures.items()})
            outside.append(type(error.__cause__) in (CriticalError, OSError, KeyError))
            outside.append(str(error))
        ctx.sleep("after", 60)

    actor = desk(work)

    assert drive(actor) == "sleeping"
    first = outside[1:]
    outside[:] = [{}]
    advance(61)
    assert drive(actor) == "completed"

    exhausted = "StepExhaustedError: step 'do' failed after 1 attempt: OSError: busy"
    assert first[0] == {
        "step": "CriticalError: declined",
        "tired": first[0]["tired"],
        "code": "KeyError: 'missing'",
    }
    assert "OSError: busy" in first[0]["tired"], exhausted
    assert first[1] == {
        "step": ("critical", "do", 1, "step"),
        "tired": ("exhausted", "do", 1, "step"),
        "code": (None, None, 0, "branch"),
    }
    assert first[2]
    assert "step: CriticalError: declined" in first[3]
    assert outside[1:] == [*first[:2], False, first[3]]


def test_join_03_the_next_run_raises_it_again_without_running_the_branches(outside):
    """Nor is the failed step told to the error hook a second time."""

    class Desk(Actor):
        class State:
            told: list[str] = []

        @workflow
        def run(self, ctx):
            with suppress(JoinError):
                ctx.join("all", {"bad": self.bad, "good": lambda b: b.step("do", outside.append, "good")})
            ctx.sleep("after", 60)
            outside.append("end")

        @run.on_error
        def note(self, event):
            self.state.told.append(f"{event.kind} {event.step_name}")

        def bad(self, branch):
            outside.append("code of bad")
            branch.step("do", fails())

    actor = Desk.create("one")
    drive(actor)
    del outside[:]
    advance(61)

    assert drive(actor) == "completed"

    assert outside == ["end"]
    assert actor.state.told == ["step do"]


def test_join_03_an_uncaught_one_fails_the_workflow_under_its_own_name():
    """The workflow's error names the join and what failed each branch."""
    actor = desk(lambda self, ctx: ctx.join("all", {"a": lambda b: b.step("do", fails("x")), "b": lambda b: None}))

    assert drive(actor) == "failed"

    assert actor.error.name == "JoinError"
    assert actor.error.message == "join 'all' failed in a branch: a: CriticalError: x"


def test_join_07_a_step_that_will_be_retried_does_not_fail_the_join(outside):
    """The join waits for the retry; siblings that are done stay done."""
    attempts = []

    def flaky():
        attempts.append(len(attempts) + 1)
        if len(attempts) < 3:
            raise OSError("busy")
        return "third time lucky"

    actor = desk(
        lambda self, ctx: ctx.join(
            "all",
            {
                "flaky": lambda b: b.step("do", flaky, retry_backoff_base=10, retry_jitter=0),
                "good": lambda b: b.step("do", outside.append, "good"),
            },
        )
    )

    for _ in range(2):
        assert drive(actor) == "sleeping"
        assert actor.history()["all"].status == "running"
        advance(31)
    assert drive(actor) == "completed"

    assert outside == ["good"]
    assert attempts == [1, 2, 3]
    assert actor.output == {"flaky": "third time lucky", "good": None}


def test_join_09_one_failed_and_one_waiting_yields_first_and_fails_when_all_are_settled(outside):
    """The failed branch is not tried again meanwhile."""
    actor = desk(
        lambda self, ctx: ctx.join(
            "all",
            {
                "bad": lambda b: b.step("do", lambda: outside.append("bad") or fails()()),
                "waiting": lambda b: b.queue.next("letter").body,
            },
        )
    )

    assert drive(actor) == "sleeping"
    assert actor.waiting_for is not None
    assert drive(actor) == "sleeping"
    actor.send("letters", "come")
    assert drive(actor) == "failed"

    assert outside == ["bad"]
    assert actor.history()["all/waiting"].output == "come"


@pytest.mark.parametrize("raised_by", ["step", "branch", "inner join"])
def test_join_11_a_rollback_error_in_a_branch_needs_rollback_in_catch(raised_by):
    """Differs on purpose from the reference, where a plain block's default catches it as a failed join."""

    def branch(b):
        if raised_by == "branch":
            raise RollbackError("undo all")
        if raised_by == "step":
            b.step("do", fails("undo all", RollbackError))
        b.join("inner", {"deep": lambda deep: deep.step("do", fails("undo all", RollbackError))})

    def work(catch):
        def run(self, ctx):
            result = ctx.try_block(
                "block", lambda block: block.join("all", {"a": branch, "b": lambda b: None}), **catch
            )
            return [result.ok, result.failure.source, result.failure.name, result.failure.kind]

        return run

    passes = desk(work({}))
    assert drive(passes) == "failed"
    assert passes.error.name == "JoinError"
    passes.destroy()

    caught = desk(work({"catch": ["rollback"]}))
    assert drive(caught) == "completed"
    assert caught.output == [False, "join", "all", "rollback"]


@pytest.mark.parametrize(("catch", "status"), [(["join"], "completed"), (["step"], "failed"), (["queue"], "failed")])
def test_join_03_a_plain_block_catches_a_join_by_its_name(catch, status):
    """A step's failure inside a branch is the join's failure, not the step's."""

    def work(self, ctx):
        result = ctx.try_block(
            "block", lambda block: block.join("all", {"a": lambda b: b.step("do", fails("x"))}), catch=catch
        )
        return [result.failure.source, result.failure.name, result.failure.error.name, result.failure.step]

    actor = desk(work)

    assert drive(actor) == status
    assert actor.output == (["join", "all", "JoinError", None] if status == "completed" else None)


def test_join_03_failures_inside_a_branch_can_be_caught_there(outside):
    """``try_step`` and ``try_block`` in a branch keep it from failing."""

    def work(self, ctx):
        return ctx.join(
            "all",
            {
                "step": lambda b: b.try_step("do", fails("x")).failure.kind,
                "block": lambda b: b.try_block("try", lambda block: block.step("do", fails("y"))).failure.error.message,
                "except": caught,
            },
        )

    def caught(branch):
        with pytest.raises(CriticalError, match="z") as raised:
            branch.step("do", fails("z"))
        return str(raised.value)

    actor = desk(work)

    assert drive(actor) == "completed"
    assert actor.output == {"step": "critical", "block": "y", "except": "z"}


def test_join_03_a_value_that_cannot_be_stored_fails_its_branch():
    """The error names the path inside the value; its siblings are not concerned."""

    def work(self, ctx):
        try:
            ctx.join("all", {"bad": lambda b: {"price": [1, object()]}, "good": lambda b: Decimal("1.10")})
        except JoinError as error:
            return {name: (each.name, each.message) for name, each in error.errors.items()}

    actor = desk(work)

    assert drive(actor) == "completed"
    name, message = actor.output["bad"]
    assert name == "OutputNotSerializableError"
    assert "price" in message
    assert actor.history()["all/good"].output == Decimal("1.10")


def test_join_error_is_no_usage_error():
    """A workflow may catch it, and go on."""
    assert not issubclass(JoinError, WorkflowUsageError)
