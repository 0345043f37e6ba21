"""Exceptions that hid the failure elsewhere: each is on record as a name and a text, and the rollback runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import override_settings

from django_rivet import Actor, CriticalError, Queue, workflow
from django_rivet.testing import SimulatedCrash, advance, drive, isolated_actors

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


class TwoArgumentsError(Exception):
    def __init__(self, message: str, extra: int) -> None:
        super().__init__(message)
        self.extra = extra


class WithoutTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OddTextError(Exception):
    def __str__(self) -> str:
        number: Any = 5
        return number


class WithoutReprError(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class UnpicklableError(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("not to be pickled")


class OddNotesError(Exception):
    __notes__ = 5  # type: ignore[assignment]


class NumberedError(Exception):
    """Its attributes do not all have names."""

    def __init__(self) -> None:
        vars(self).update({1: 2})  # type: ignore[dict-item]


class SecretiveError(Exception):
    """Nobody may look at its attributes."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no attributes")


def local_error() -> Exception:
    class LocalError(Exception):
        pass

    return LocalError("inside a function")


def circle() -> Exception:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def deep_group() -> Exception:
    group: Exception = ValueError("innermost")
    for _ in range(500):
        group = ExceptionGroup("around", [group])
    return group


def long_chain() -> Exception:
    error = ValueError("first")
    for _ in range(2000):
        following = ValueError("next")
        following.__cause__, error = error, following
    return error


ERRORS: dict[str, tuple[Callable[[], Exception], str]] = {
    "two arguments": (lambda: TwoArgumentsError("declined", 5), "TwoArgumentsError: declined"),
    "a lock inside": (lambda: ValueError(threading.Lock()), "ValueError: <unlocked _thread.lock"),
    "no text": (WithoutTextError, "WithoutTextError: <WithoutTextError has no readable message>"),
    "odd text": (OddTextError, "OddTextError: <OddTextError has no readable message>"),
    "no repr": (WithoutReprError, "WithoutReprError"),
    "no pickle": (UnpicklableError, "UnpicklableError"),
    "odd notes": (OddNotesError, "OddNotesError"),
    "no names": (NumberedError, "NumberedError"),
    "no attributes": (SecretiveError, "SecretiveError"),
    "a local class": (local_error, "LocalError: inside a function"),
    "a circle": (circle, "ValueError: one"),
    "a group": (lambda: ExceptionGroup("both", [ValueError("a"), KeyError("b")]), "ExceptionGroup: both"),
    "a deep group": (deep_group, "ExceptionGroup: around"),
    "a long chain": (long_chain, "ValueError: next"),
    "2 MB": (lambda: ValueError("x" * 2_000_000), "ValueError: xxx"),
    "unstorable text": (lambda: ValueError("\0\ud800"), "ValueError: \ufffd?"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_whatever_a_step_raises_is_on_record_and_what_was_done_is_undone(kind: str) -> None:
    """All its retries, the hook, the rollback; the class is not needed to read the record."""
    make, text = ERRORS[kind]
    log = []

    class Order(Actor):
        class State:
            told: list[dict] = []

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", log.append, "reserve", rollback=self.release)
            ctx.step("charge", self.charge, max_retries=1, retry_backoff_base=0)

        @run.on_error
        def note(self, event):
            self.state.told.append(event.as_dict())

        def charge(self):
            log.append("charge")
            raise make()

        def release(self, rollback, output):
            log.append("release")

    order = Order.create("one")

    while drive(order) == "sleeping":
        advance(1)

    assert (order.status, log) == ("failed", ["reserve", "charge", "charge", "release"])
    recorded = order.history()["charge"].error
    assert str(recorded).startswith(text)
    assert text in order.error.message
    assert [told["error"]["name"] for told in order.state.told] == [recorded.name] * 2
    assert len(recorded.message) < 11_000
    assert len(recorded.stack) <= 20_000


@pytest.mark.parametrize("kind", ERRORS)
def test_whatever_a_rollback_handler_raises_is_on_record_and_it_is_tried_again(kind: str) -> None:
    """The second attempt gets through."""
    make, text = ERRORS[kind]
    errors = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", int, rollback=self.release, retry_backoff_base=0)
            ctx.step("charge", self.charge)

        @run.on_error
        def note(self, event):
            errors.append(str(event.error))

        def charge(self):
            raise CriticalError("declined")

        def release(self, rollback, output):
            if rollback.attempt == 1:
                raise make()

    order = Order.create("one")

    while drive(order) in ("sleeping", "rolling_back"):
        advance(1)

    assert (order.status, order.history()["reserve"].rollback.status) == ("failed", "completed")
    assert errors[1].startswith(text)


def test_the_parts_of_a_group_are_in_the_stack() -> None:
    """Its own text says only how many there are."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=0)

        def charge(self):
            raise ExceptionGroup("both", [ValueError("card"), KeyError("bank")])

    order = Order.create("one")
    drive(order)

    stack = order.history()["charge"].error.stack
    assert "ValueError: card" in stack
    assert "KeyError: 'bank'" in stack


@pytest.mark.parametrize("raised", [MemoryError, RecursionError])
def test_a_body_that_runs_out_of_memory_or_stack_is_tried_again_as_often_as_allowed(raised: type[Exception]) -> None:
    """They are errors like others, and counted."""
    attempts = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=2, retry_backoff_base=0)

        def charge(self):
            attempts.append(1)
            raise raised

    order = Order.create("one")
    while drive(order) == "sleeping":
        advance(1)

    assert (order.status, len(attempts)) == ("failed", 3)
    assert raised.__name__ in order.error.message


@pytest.mark.parametrize("deadly", [SystemExit, KeyboardInterrupt, SimulatedCrash])
def test_a_message_that_kills_its_workers_is_given_up_and_the_others_are_handled_in_order(
    deadly: type[BaseException],
) -> None:
    """A body that calls ``sys.exit()`` counts as a worker that died; no other actor waits for it."""
    log = []

    class Shop(Actor):
        orders = Queue(str)

        @workflow
        def run(self, ctx):
            for turn in ctx.loop("orders"):
                order = turn.queue.next("order", names=["orders"]).body
                turn.step("sold", log.append, turn.try_step("sell", self.sell, order).ok)

        def sell(self, order):
            log.append(order)
            if order == "deadly":
                raise deadly

    shop, other = Shop.create("one"), Shop.create("other")
    for order in ["a", "deadly", "b", "c"]:
        shop.send("orders", order)

    with override_settings(RIVET={"MAX_TAKEOVERS": 3}):
        for _ in range(3):
            with pytest.raises(deadly):
                drive(shop)
        other.send("orders", "meanwhile")
        drive(other)
        drive(shop)

    assert log == ["a", True, *["deadly"] * 3, "meanwhile", True, False, "b", True, "c", True]
    assert shop.history()["orders/1/sell"].error.name == "StepInterruptedError"


def test_a_body_that_is_too_slow_each_time_has_all_its_attempts_and_then_the_rollback_begins() -> None:
    """Time-outs count as attempts where they are retried: three, with their reason on record, and no fourth."""
    log = []

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("reserve", log.append, "reserve", rollback=self.release)
            ctx.step("charge", self.charge, max_retries=2, timeout=0.1, retry_on_timeout=True, retry_backoff_base=0)

        def charge(self):
            log.append("charge")
            time.sleep(60)

        def release(self, rollback, output):
            log.append("release")

    order = Order.create("one")

    for _ in range(5):
        drive(order)
        advance(60)

    assert log == ["reserve", "charge", "charge", "charge", "release"]
    charge = order.history()["charge"]
    assert (order.status, charge.attempts, charge.error.name) == ("failed", 3, "StepTimeoutError")
