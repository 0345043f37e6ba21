"""Time limits of bodies in branches: they run in threads, so no signal stops them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from django_rivet import Actor, JoinError, workflow
from django_rivet.models import Message
from django_rivet.testing import drive, isolated_actors

pytestmark = pytest.mark.django_db(transaction=True)

HANGS = 60


@pytest.fixture
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


@pytest.mark.usefixtures("actors")
def test_a_body_that_hangs_in_a_branch_is_left_behind_and_cut_off(caplog):
    """Also where the drive is in the main thread of its process; the other branch is not held up, and what the body
    does afterwards does not land.
    """
    may_go_on, has_ended = threading.Event(), threading.Event()
    what_came: list[str] = []

    class Trip(Actor):
        @workflow
        def run(self, ctx):
            try:
                ctx.join("book", {"hangs": self.hangs, "works": lambda branch: branch.step("book", str, "flight")})
            except JoinError as error:
                return [error.errors["hangs"].name, error.failures["hangs"].kind, list(error.errors)]

        def hangs(self, branch):
            branch.step("wait", self.wait, atomic=False, timeout=0.2)

        def wait(self):
            try:
                may_go_on.wait(HANGS)
                Message.objects.all().delete()
                what_came.append("it was let into the database")
            except BaseException as error:
                what_came.append(type(error).__name__)
                raise
            finally:
                has_ended.set()

    trip = Trip.create("ada")

    assert drive(trip) == "completed"
    assert trip.output == ["StepTimeoutError", "timeout", ["hangs"]]
    assert "step 'wait' is left behind" in caplog.text
    assert trip.history()["book/works"].status == "completed"

    may_go_on.set()
    assert has_ended.wait(HANGS)
    assert what_came == ["CutOff"]
