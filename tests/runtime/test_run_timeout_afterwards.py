"""``Meta.run_timeout`` and all that may come after it or on top of it: recover, cancel, deploys, crashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from django_rivet import StepTimeoutError
from django_rivet.models import WorkflowRun
from django_rivet.runtime.sweeping import Sweeper
from django_rivet.testing import SimulatedCrash, advance, count_commits, crash_at, drive, isolated_actors, now
from tests.runtime.limited import Hourglass, error_of, limited, sleeps_a_day, type_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own_actors() -> Iterator[None]:
    with isolated_actors():
        yield


@pytest.fixture
def hourglass(monkeypatch: pytest.MonkeyPatch) -> Hourglass:
    return Hourglass(monkeypatch)


# What else may happen to the actor ---------------------------------------------------------------


def test_recover_begins_a_run_of_its_own(hourglass: Hourglass) -> None:
    """With fresh attempts of the step that was cut off, though it had none left."""
    bodies: list[Callable[[], Any]] = [hourglass.endless, int]

    def run(self: Any, ctx: Any) -> None:
        hourglass.nearly_empty()
        ctx.step("nap", bodies.pop(0), max_retries=0)

    actor = limited(run).create("main")
    assert drive(actor) == "failed"
    hourglass.turn()

    actor.recover()

    assert drive(actor) == "completed"


def test_recover_gives_all_of_the_time_again() -> None:
    """It counts from the first drive after it."""
    actor = limited(sleeps_a_day).create("main")
    drive(actor)
    advance(60)
    assert drive(actor) == "failed"
    actor.recover()
    advance(1000)

    assert drive(actor) == "sleeping"
    assert actor.wake_at > now() + timedelta(seconds=30)


def test_recover_gives_a_step_that_waited_for_its_retry_fresh_attempts() -> None:
    """As after any failure that passed through it."""
    fails = [OSError("busy"), OSError("busy"), None]

    def attempt() -> None:
        error = fails.pop(0)
        if error is not None:
            raise error

    options = {"max_retries": 1, "retry_backoff_base": 300, "retry_backoff_max": 300}
    actor = limited(lambda self, ctx: ctx.step("call", attempt, **options)).create("main")
    drive(actor)
    advance(60)
    assert drive(actor) == "failed"
    actor.recover()
    drive(actor)
    assert actor.status == "sleeping", "its second first attempt failed, and one retry is left"
    assert next(iter(actor.history())).attempts == 1


def test_recover_goes_on_inside_the_loop_it_stood_in() -> None:
    """What was undone is done again, and the iterations before stay as they are."""

    def run(self: Any, ctx: Any) -> None:
        for turn in ctx.loop("orders"):
            turn.rollback_checkpoint("taken")
            turn.step("take", self.do, f"take {turn.iteration}", rollback=self.undo)
            order = turn.queue.next("order", names=["orders"]).body
            turn.step("do", self.do, order)
            if order == "last":
                break

    actor = limited(run).create("main")
    actor.send("orders", "a")
    drive(actor)
    advance(60)
    assert drive(actor) == "failed"
    assert error_of(actor)[1].endswith("it stood at 'orders/1/order'")
    actor.recover()
    actor.send("orders", "last")

    assert drive(actor) == "completed"
    assert actor.state.log == ["take 0", "a", "take 1", "undo take 1", "take 1", "last"]


def test_a_cancellation_goes_before() -> None:
    """Whoever cancelled was told that it would be."""
    actor = limited(sleeps_a_day).create("main")
    drive(actor)
    actor.cancel(rollback=True)
    advance(60)

    assert drive(actor) == "cancelled"
    assert (actor.state.log, actor.state.told) == (["book", "undo book"], [])


def test_a_rollback_that_was_given_up_goes_on_after_recover() -> None:
    """And ends as what it began with."""

    def run(self: Any, ctx: Any) -> None:
        ctx.rollback_checkpoint("all")
        ctx.step("book", self.do, "book", rollback=self.undo_later, rollback_max_retries=0)
        ctx.sleep("night", 86_400)

    cls = limited(run)
    stubborn = [True]

    def undo_later(self: Any, rollback: Any, thing: str) -> None:
        if stubborn:
            raise OSError("busy")
        self.state.log.append(f"undo {thing}")

    cls.undo_later = undo_later
    actor = cls.create("main")
    drive(actor)
    advance(60)
    assert drive(actor) == "rollback_failed"
    stubborn.clear()
    actor.recover()

    assert drive(actor) == "failed"
    assert error_of(actor)[0] == "RunTimeoutError"


def test_code_that_does_not_fit_is_found_out_and_nothing_undone() -> None:
    """A diverged workflow is never rolled back, also when its time is over: with the old code back, it is."""
    actor = limited(sleeps_a_day).create("main")
    drive(actor)
    advance(60)
    limited(lambda self, ctx: ctx.step("other", self.do, "other"))

    assert drive(type_of(actor).get("main")) == "diverged"
    assert actor.state.log == ["book"]
    limited(sleeps_a_day)
    advance(400)
    assert drive(type_of(actor).get("main")) == "failed"
    assert actor.state.log == ["book", "undo book"]


# Deploys -----------------------------------------------------------------------------------------


def test_a_longer_limit_of_a_deploy_holds_for_running_actors() -> None:
    """It wakes when the old one is over, sees that there is time left, and sleeps on."""
    actor = limited(sleeps_a_day, 60).create("main")
    drive(actor)
    limited(sleeps_a_day, 600)
    advance(60)

    assert drive(actor) == "sleeping"
    assert actor.wake_at > now() + timedelta(seconds=500)
    advance(540)
    assert drive(actor) == "failed"


@pytest.mark.parametrize("before", [None, 86_000])
def test_a_limit_that_a_deploy_brings_or_shortens_wakes_who_sleeps_past_it(before: float | None) -> None:
    """The sweeper of the new code finds them; others of that type sleep on."""
    old = limited(sleeps_a_day, before).create("old")
    drive(old)
    advance(100)
    young = type_of(old).create("young")
    drive(young)
    limited(sleeps_a_day, 60)
    hints: list[Any] = []
    sweeper = Sweeper(lambda actor_id, *_: hints.append(str(actor_id)), 1.0)
    wakes = young.wake_at

    sweeper.mind_deploys()
    sweeper.sweep()

    assert hints == [old.id]
    assert young.wake_at == wakes
    assert drive(old) == "failed"


def test_a_type_without_a_limit_is_not_looked_for() -> None:
    """It costs no statement, and no column but the start."""
    actor = limited(sleeps_a_day, None).create("main")
    drive(actor)
    advance(10**6)

    assert drive(actor) == "completed"
    assert WorkflowRun.objects.get(pk=actor.id).started_at is not None


def test_a_step_that_began_and_may_run_only_once_may_run_again_after_recover() -> None:
    """Its worker died in it, and when it is looked at the time is over: the run has failed, not the step."""
    paid: list[int] = []
    actor = limited(lambda self, ctx: ctx.step("pay", paid.append, 1, at_most_once=True)).create("main")
    with crash_at(2, after=True), suppress(SimulatedCrash):
        drive(actor)
    advance(60)
    assert drive(actor) == "failed"
    assert actor.state.told == ["workflow RunTimeoutError"]
    assert error_of(actor)[1].endswith("it stood at 'pay'")

    actor.recover()

    assert drive(actor) == "completed"
    assert paid == [1]


# Crashes -----------------------------------------------------------------------------------------


def times_out(self: Any, ctx: Any) -> str:
    """Stands at a sleep in a loop, and owes what two scopes did."""
    ctx.rollback_checkpoint("all")
    ctx.step("book", self.do, "book", rollback=self.undo)
    for turn in ctx.loop("days"):
        turn.step("room", self.do, f"room {turn.iteration}", rollback=self.undo)
        turn.sleep("night", 40)
    return "never"


def outcome(actor: Any) -> SimpleNamespace:
    return SimpleNamespace(status=actor.status, error=actor.error.name, log=actor.state.log, told=actor.state.told)


def to_the_end(actor: Any) -> None:
    for _ in range(10):
        if drive(actor) == "failed":
            return
        advance(40)
    raise AssertionError(f"{actor!r} does not end:\n{actor.history()}")


def dies_at_every_commit(cls: Any, after: bool, begin: Callable[[], None] = lambda: None) -> None:
    """Compare each with a run that nothing disturbed."""
    begin()
    undisturbed = cls.create("undisturbed")
    with count_commits() as commits:
        to_the_end(undisturbed)
    for n in range(1, commits.count + 1):
        begin()
        actor = cls.create(f"crash {n}")
        with crash_at(n, after) as point, suppress(SimulatedCrash):
            to_the_end(actor)
        assert point.crashed, n
        to_the_end(actor)

        assert outcome(actor) == outcome(undisturbed), n


before_or_after = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


@before_or_after
def test_a_crash_at_any_commit_around_a_wait_changes_nothing(after: bool) -> None:
    """Whoever takes the actor over ends the run in the same way, undoes all once, and tells of it once."""
    dies_at_every_commit(limited(times_out), after)


@before_or_after
def test_a_crash_at_any_commit_around_a_body_that_is_cut_off_changes_nothing(after: bool, hourglass: Hourglass) -> None:
    """Its start was on record, and the workflow would catch its time-out."""

    def run(self: Any, ctx: Any) -> str:
        ctx.rollback_checkpoint("all")
        ctx.step("book", self.do, "book", rollback=self.undo)
        hourglass.nearly_empty()
        options = {"rollback": self.undo, "rollback_when": "attempted", "rollback_atomic": True}
        with suppress(StepTimeoutError):
            ctx.step("pay", hourglass.endless, atomic=False, **options)
        return "got away"

    dies_at_every_commit(limited(run), after, hourglass.turn)
