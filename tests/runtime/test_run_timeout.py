"""``Meta.run_timeout``: how long a workflow may take, by the database's clock, from its first drive on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_rivet import StepTimeoutError, signals
from django_rivet.runtime.run_limits import RunLimit
from django_rivet.testing import advance, drive, isolated_actors, now
from tests.runtime.limited import Hourglass, error_of, limited, sleeps_a_day

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own_actors() -> Iterator[None]:
    with isolated_actors():
        yield


@pytest.fixture
def hourglass(monkeypatch: pytest.MonkeyPatch) -> Hourglass:
    return Hourglass(monkeypatch)


# The end of the time -----------------------------------------------------------------------------


def test_a_run_that_takes_too_long_fails_and_is_rolled_back() -> None:
    """The sleeping actor is woken for it, and what it owes is undone."""
    actor = limited(sleeps_a_day).create("main")
    drive(actor)

    advance(61)
    drive(actor)

    assert actor.status == "failed"
    assert error_of(actor) == (
        "RunTimeoutError",
        "the workflow took longer than its run_timeout of 60 s; it stood at 'night'",
    )
    assert actor.state.log == ["book", "undo book"]


def test_until_then_nothing_is_different() -> None:
    """A run that ends in time ends well."""
    actor = limited(sleeps_a_day, timedelta(days=2)).create("main")
    drive(actor)
    advance(86_401)

    assert drive(actor) == "completed"
    assert (actor.output, actor.state.told) == ("left", [])


def test_the_actor_wakes_at_the_end_of_its_time_and_says_so() -> None:
    """``wake_at`` is when it goes on, not when its sleep would be over."""
    sleeper = limited(sleeps_a_day).create("main")
    before = now()
    drive(sleeper)

    assert before + timedelta(seconds=60) <= sleeper.wake_at <= now() + timedelta(seconds=60)


def test_a_wait_for_a_message_that_never_comes_ends_too() -> None:
    """Even one that has no time-out of its own has a time when it is looked at."""
    actor = limited(lambda self, ctx: ctx.queue.next("order", names=["orders"])).create("main")
    drive(actor)
    assert actor.wake_at is not None
    advance(60)
    drive(actor)

    assert error_of(actor)[1].endswith("it stood at 'order'")


def test_a_message_that_comes_too_late_is_not_taken() -> None:
    """It stays in its queue, for the run that ``recover()`` begins."""
    actor = limited(lambda self, ctx: ctx.queue.next("order", names=["orders"]).body).create("main")
    drive(actor)
    advance(60)
    actor.send("orders", "late")

    assert drive(actor) == "failed"
    actor.recover()
    assert drive(actor) == "completed"
    assert actor.output == "late"


def test_it_counts_from_the_first_drive() -> None:
    """How long nobody came for the actor is not the workflow's time."""
    actor = limited(sleeps_a_day).create("main")
    advance(1000)

    assert drive(actor) == "sleeping"


def test_a_run_that_stood_between_two_entries_says_behind_which(hourglass: Hourglass) -> None:
    """The time was over when the last body returned."""
    actor = limited(lambda self, ctx: [ctx.step("slow", hourglass.empty), ctx.step("next", int)]).create("main")

    assert drive(actor) == "failed"
    assert error_of(actor)[1].endswith("it stood behind 'slow'")


def test_one_event_and_one_signal_tell_of_it() -> None:
    """Of kind ``workflow``; the step it stood at did not fail."""
    heard: list[Any] = []

    def hear(sender: Any, **values: Any) -> None:
        heard.append((values["actor"].key, values["error"].name))

    actor = limited(sleeps_a_day).create("main")
    drive(actor)
    advance(60)
    signals.workflow_failed.connect(hear)
    try:
        drive(actor)
    finally:
        signals.workflow_failed.disconnect(hear)

    assert actor.state.told == ["workflow RunTimeoutError"]
    assert heard == [("main", "RunTimeoutError")]


# Nothing catches it ------------------------------------------------------------------------------


def test_no_workflow_code_catches_it() -> None:
    """Neither blocks nor ``except``, nor a value returned in answer to it."""

    def run(self: Any, ctx: Any) -> str:
        ctx.rollback_checkpoint("all")
        with suppress(BaseException):
            ctx.try_block("saga", lambda block: guarded(self, block), rollback=True)
        return "got away"

    def guarded(self: Any, block: Any) -> None:
        block.rollback_checkpoint("saga")
        block.step("in it", self.do, "in it", rollback=self.undo)
        block.sleep("night", 86_400)

    actor = limited(run).create("main")
    drive(actor)
    advance(60)

    assert drive(actor) == "failed"
    assert actor.output is None
    assert actor.state.log == ["in it", "undo in it"]


def test_a_workflow_that_has_nothing_left_to_do_ends_well(hourglass: Hourglass) -> None:
    """It asks for no further entry, so there is nothing to refuse."""
    actor = limited(lambda self, ctx: ctx.step("slow", hourglass.empty)).create("main")

    assert drive(actor) == "completed"


# Bodies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"timeout": 0}, {"retry_on_timeout": True}, {"atomic": False}], ids=str)
def test_a_body_is_cut_off_when_the_time_of_its_run_is_over(options: dict[str, Any], hourglass: Hourglass) -> None:
    """It is a time-out on record, and the end of the run instead of an error of the step."""

    def run(self: Any, ctx: Any) -> str:
        ctx.rollback_checkpoint("all")
        ctx.step("book", self.do, "book", rollback=self.undo)
        hourglass.nearly_empty()
        with suppress(StepTimeoutError):
            ctx.step("endless", hourglass.endless, **options)
        return "got away"

    actor = limited(run).create("main")

    assert drive(actor) == "failed"
    assert error_of(actor)[1].endswith("it stood behind 'endless'")
    assert actor.state.log == ["book", "undo book"]
    assert actor.state.told == ["workflow RunTimeoutError"]
    endless = next(entry for entry in actor.history() if entry.path == "endless")
    assert (endless.status, endless.attempts, endless.error.name) == ("failed", 1, "StepTimeoutError")
    assert "the time of its run is over" in endless.error.message


def test_a_body_with_a_shorter_limit_of_its_own_keeps_that() -> None:
    """Its time-out is the step's, and can be caught."""

    def run(self: Any, ctx: Any) -> str:
        with suppress(StepTimeoutError):
            ctx.step("long", time.sleep, 40, timeout=0.2)
        return "went on"

    actor = limited(run).create("main")

    assert drive(actor) == "completed"
    assert actor.state.told == ["step StepTimeoutError"]


START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("run_timeout", "passed", "timeout", "limit"),
    [
        (None, 1000, 30, (30, False)),
        (None, 1000, 0, (0, False)),  # neither has one
        (60, 0, 30, (30, False)),
        (60, 30, 30, (30, False)),  # 30 are left
        (60, 31, 30, (29, True)),
        (60, 20, 0, (40, True)),
        (60, 59.9, 30, (0.5, True)),  # with 0.1 it could only be cut off
        (60, 59.9, 0.3, (0.3, False)),
    ],
)
def test_the_limit_of_a_body(
    run_timeout: float | None, passed: float, timeout: float, limit: tuple[float, bool]
) -> None:
    """Its own, or what is left of the run, but half a second at least; and whose it is."""
    found = RunLimit(run_timeout, START).of_body(timeout, START + timedelta(seconds=passed))

    assert found[0] == pytest.approx(limit[0])
    assert found[1] is limit[1]


def test_a_body_that_ends_behind_the_end_of_its_run_is_on_record_and_undone(hourglass: Hourglass) -> None:
    """It began before, and had a moment."""

    def run(self: Any, ctx: Any) -> None:
        ctx.rollback_checkpoint("all")
        ctx.step("book", self.book_slowly, rollback=self.undo)
        ctx.step("next", int)

    def book_slowly(self: Any) -> Any:
        hourglass.empty()
        return self.do("book")

    cls = limited(run)
    cls.book_slowly = book_slowly
    actor = cls.create("main")

    assert drive(actor) == "failed"
    assert actor.state.log == ["book", "undo book"]


def test_compensation_has_all_the_time_it_needs() -> None:
    """A handler that is tried again long after the end of the run is not stopped by it."""

    def run(self: Any, ctx: Any) -> None:
        ctx.rollback_checkpoint("all")
        options = {"rollback_backoff_base": 500, "rollback_backoff_max": 500}
        ctx.step("book", self.do, "book", rollback=self.undo_later, **options)
        ctx.sleep("night", 86_400)

    actor = limited(run).create("main")
    drive(actor)
    advance(60)

    assert drive(actor) == "rolling_back"
    assert actor.wake_at > now() + timedelta(seconds=300)
    advance(600)
    assert drive(actor) == "failed"
    assert error_of(actor)[0] == "RunTimeoutError"
    assert actor.state.log == ["book", "undo book"]


def test_a_block_that_is_being_undone_is_undone_before_the_run_ends() -> None:
    """Its handler waits beyond the end of the run; only then the run fails, and the rest is undone."""

    def run(self: Any, ctx: Any) -> None:
        ctx.rollback_checkpoint("all")
        ctx.step("first", self.do, "first", rollback=self.undo)
        ctx.try_block("saga", lambda block: fail(self, block), rollback=True)
        ctx.step("never", self.do, "never")

    def fail(self: Any, block: Any) -> None:
        block.rollback_checkpoint("saga")
        options = {"rollback_backoff_base": 500, "rollback_backoff_max": 500}
        block.step("in it", self.do, "in it", rollback=self.undo_later, **options)
        raise LookupError("no address")

    actor = limited(run).create("main")
    assert drive(actor) == "rolling_back"
    assert actor.wake_at > now() + timedelta(seconds=300)
    advance(600)

    assert drive(actor) == "failed"
    assert error_of(actor)[0] == "RunTimeoutError"
    assert actor.state.log == ["first", "in it", "undo in it", "undo first"]
