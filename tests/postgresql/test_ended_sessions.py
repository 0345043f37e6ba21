"""The server ends the session of a drive: no step is to blame, nothing happens twice, and the actor goes on."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import Error, connection, transaction

from django_rivet import Actor, CriticalError, Queue, current_step, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.drive import DatabaseFailedError
from django_rivet.store.transactions import observers
from django_rivet.testing import advance, drive, isolated_actors
from tests.postgresql.server import EndingSession, Server, answer_of_commit_lost

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def actors() -> Iterator[None]:
    with isolated_actors():
        yield


@pytest.fixture
def before_commit(server: Server) -> Iterator[Callable[[int], EndingSession]]:
    """``before_commit(n)`` ends the session before the n-th commit from now on."""
    added: list[EndingSession] = []

    def arm(n: int) -> EndingSession:
        added.append(EndingSession(server, n))
        observers.append(added[-1])
        return added[-1]

    yield arm
    for each in added:
        observers.remove(each)


def names() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


def assert_given_back(actor: Any) -> None:
    """The drive has let the actor go in order: nobody has to wait for its lease, and no takeover will be counted."""
    run = WorkflowRun.objects.get(actor_id=uuid.UUID(actor.id))
    assert (run.holder, run.takeovers) == (None, 0)


def ask_again(server: Server) -> None:
    server.end_session()
    names()


def ask_in_a_block(server: Server) -> None:
    with transaction.atomic():
        names()
        server.end_session()
        names()


def answer_with_an_error_of_its_own(server: Server) -> None:
    server.end_session()
    try:
        names()
    except Error as error:
        raise LookupError("no groups today") from error


def swallow(server: Server) -> None:
    server.end_session()
    with suppress(Error):
        names()


def wait_in_a_query(server: Server) -> None:
    server.end_session_during("SELECT pg_sleep(60)")


def say_nothing(server: Server) -> None:
    server.end_session()


LOSSES = [ask_again, ask_in_a_block, answer_with_an_error_of_its_own, swallow, wait_in_a_query, say_nothing]


@pytest.mark.parametrize("lose", LOSSES)
def test_an_atomic_step_whose_session_ends_is_run_again_uncharged(server: Server, lose: Any) -> None:
    """Whatever its body makes of the error: its transaction is gone, and it has no retries that this could cost."""

    class Order(Actor):
        class State:
            count: int = 0
            told: int = 0

        @workflow
        def run(self, ctx):
            ctx.step("first", lambda: runs.append("first"))
            ctx.step("take", self.take, max_retries=0)

        @run.on_error
        def note(self, event):
            self.state.told += 1

        def take(self):
            runs.append("take")
            self.state.count += 1
            Group.objects.create(name="taken")
            if runs.count("take") == 1:
                lose(server)

    runs: list[str] = []
    order = Order.create("one")

    # Given a session that ends in the middle of the body
    with pytest.raises(DatabaseFailedError):
        drive(order)
    assert_given_back(order)
    assert names() == []

    # When the actor is driven again
    advance(60)
    assert drive(order) == "completed"

    # Then all came out once, and nothing is on record of a failure
    assert runs == ["first", "take", "take"]
    assert names() == ["taken"]
    assert (order.state.count, order.state.told) == (1, 0)
    assert (order.history()["take"].attempts, order.history()["take"].error) == (1, None)


@pytest.mark.parametrize("lose", [ask_again, ask_in_a_block, answer_with_an_error_of_its_own, wait_in_a_query])
def test_a_step_outside_whose_query_loses_its_session_is_run_again_under_its_key(server: Server, lose: Any) -> None:
    """What its body raised was the database's doing: no attempt is charged, and the outside sees one key."""

    class Order(Actor):
        class State:
            told: int = 0

        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, atomic=False, max_retries=0)

        @run.on_error
        def note(self, event):
            self.state.told += 1

        def charge(self):
            keys.append(current_step().idempotency_key)
            if len(keys) == 1:
                lose(server)

    keys: list[str] = []
    order = Order.create("one")

    with pytest.raises(DatabaseFailedError):
        drive(order)
    assert_given_back(order)
    advance(60)

    assert drive(order) == "completed"
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert order.state.told == 0
    assert order.history()["charge"].status == "completed"


@pytest.mark.parametrize("lose", [say_nothing, swallow])
@pytest.mark.parametrize("options", [{"atomic": False}, {"at_most_once": True}], ids=str)
def test_what_happened_outside_is_recorded_though_the_session_ended(
    server: Server, lose: Any, options: dict[str, Any]
) -> None:
    """The charge was made: its record lands on a new connection, in the same drive, and nothing is made twice."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge, **options)

        def charge(self):
            charges.append("charged")
            lose(server)
            return f"ch-{len(charges)}"

    charges: list[str] = []
    order = Order.create("one")

    assert drive(order) == "completed"

    assert charges == ["charged"]
    assert order.output == "ch-1"
    assert order.history()["charge"].attempts == 1


@pytest.mark.parametrize("lose", [say_nothing, swallow])
def test_a_failure_outside_stays_the_steps_own_though_the_session_ended(server: Server, lose: Any) -> None:
    """The provider declined, and the database went away besides: the first is on record, and told once."""

    class Order(Actor):
        class State:
            told: list[str] = []

        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge, atomic=False).failure.error.message

        @run.on_error
        def note(self, event):
            self.state.told.append(event.error.message)

        def charge(self):
            lose(server)
            raise CriticalError("declined")

    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output == "declined"
    assert order.state.told == ["declined"]


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_a_session_that_ends_right_before_the_commit_costs_nothing(
    before_commit: Callable[[int], EndingSession], atomic: bool
) -> None:
    """An atomic step is run again; what a step has done outside is recorded in another transaction."""

    class Order(Actor):
        class State:
            count: int = 0

        @workflow
        def run(self, ctx):
            ctx.step("take", self.take, max_retries=0, atomic=atomic)

        def take(self):
            runs.append("take")
            if atomic:
                self.state.count += 1
            if len(runs) == 1:
                before_commit(1)

    runs: list[str] = []
    order = Order.create("one")

    with suppress(DatabaseFailedError):
        drive(order)
    advance(60)

    assert drive(order) == "completed"
    assert order.history()["take"].error is None
    if atomic:
        assert order.state.count == 1
    assert 1 <= len(runs) <= 2


@pytest.mark.parametrize("options", [{}, {"atomic": False}, {"at_most_once": True}], ids=str)
def test_a_commit_whose_answer_was_lost_is_not_made_twice(server: Server, options: dict[str, Any]) -> None:
    """It may have happened, so it is looked up: the body, the broadcast and the message all came once."""

    class Order(Actor):
        parcels = Queue(str)

        class State:
            told: int = 0

        @workflow
        def run(self, ctx):
            parcel = ctx.queue.next("wait", names=["parcels"]).body
            return ctx.step("ship", self.ship, parcel, max_retries=0, **options)

        def ship(self, parcel):
            runs.append(parcel)
            return f"shipped {parcel}"

    runs: list[str] = []
    order = Order.create("one")
    order.send("parcels", "a parcel")

    with answer_of_commit_lost(server, lambda: runs), pytest.raises(DatabaseFailedError):
        drive(order)
    assert_given_back(order)
    advance(60)

    assert drive(order) == "completed"
    assert runs == ["a parcel"]
    assert order.output == "shipped a parcel"


def test_a_hook_is_not_told_twice_where_the_answer_of_its_commit_was_lost(server: Server) -> None:
    """The record of a failure, and what the hook made of it, are one commit: done, or to be done, never both."""

    class Order(Actor):
        class State:
            told: int = 0

        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge).ok

        @run.on_error
        def note(self, event):
            tellings.append(event.step_name)
            self.state.told += 1

        def charge(self):
            raise CriticalError("declined")

    tellings: list[str] = []
    order = Order.create("one")

    with answer_of_commit_lost(server, lambda: tellings), pytest.raises(DatabaseFailedError):
        drive(order)
    advance(60)

    assert drive(order) == "completed"
    assert order.output is False
    assert order.state.told == 1


def test_a_session_that_ends_while_the_hook_runs_tells_it_once(server: Server) -> None:
    """The failure is on record, with what the hook does when it is told on a new connection."""

    class Order(Actor):
        class State:
            told: int = 0

        @workflow
        def run(self, ctx):
            return ctx.try_step("charge", self.charge, max_retries=0).failure.kind

        @run.on_error
        def note(self, event):
            tellings.append(event.step_name)
            self.state.told += 1
            if len(tellings) == 1:
                server.end_session()
                names()
            Group.objects.create(name="told")

        def charge(self):
            raise OSError("away")

    tellings: list[str] = []
    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output == "exhausted"
    assert len(tellings) == 2
    assert order.state.told == 1
    assert names() == ["told"]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
@pytest.mark.parametrize("where", ["workflow", "block"])
def test_a_handler_whose_session_ends_is_not_charged(server: Server, lose: Any, atomic: bool, where: str) -> None:
    """It has no retries, and yet the rollback comes to its end; the older handler runs once and after it."""

    class Order(Actor):
        class State:
            undone: list[str] = []

        @workflow
        def run(self, ctx):
            def take(scope):
                scope.rollback_checkpoint("order")
                scope.step("first", str, "first", rollback=self.undo)
                scope.step("second", str, "second", rollback=self.undo_second, rollback_atomic=atomic)
                scope.step("fails", self.fail)

            if where == "block":
                return ctx.try_block("order", take, rollback=True).ok
            return take(ctx)

        def fail(self):
            raise CriticalError("no")

        def undo(self, rollback, output):
            undone.append(output)
            self.state.undone.append(output)

        def undo_second(self, rollback, output):
            undone.append(output)
            keys.add(rollback.idempotency_key)
            if undone.count(output) == 1:
                lose(server)

    undone: list[str] = []
    keys: set[str] = set()
    order = Order.create("one")

    with suppress(DatabaseFailedError):
        drive(order)
    assert_given_back(order)
    advance(60)

    assert drive(order) == ("completed" if where == "block" else "failed")
    recorded = not atomic and lose in (say_nothing, swallow)
    assert undone == ["second"] * (1 if recorded else 2) + ["first"]
    assert len(keys) == 1
    assert order.state.undone == ["first"]
    assert order.history()["order/second" if where == "block" else "second"].rollback.attempts == 1


def test_a_drive_whose_session_ended_while_it_was_idle_begins_on_a_new_one(server: Server) -> None:
    """A worker that had nothing to do does not stumble over the connection that it kept."""

    class Order(Actor):
        parcels = Queue(str)

        @workflow
        def run(self, ctx):
            return ctx.queue.next("wait", names=["parcels"]).body

    order = Order.create("one")
    assert drive(order) == "sleeping"
    order.send("parcels", "a parcel")
    server.end_session()

    with suppress(DatabaseFailedError):
        drive(order)
    advance(60)

    assert drive(order) == "completed"
    assert order.output == "a parcel"


def test_a_session_that_ends_at_a_receive_gives_the_actor_back(server: Server) -> None:
    """The message stays where it is, and nobody has to wait for the lease."""

    class Order(Actor):
        parcels = Queue(str)

        @workflow
        def run(self, ctx):
            if not ended:
                ended.append(True)
                server.end_session()
            return ctx.queue.next("wait", names=["parcels"]).body

    ended: list[bool] = []
    order = Order.create("one")
    order.send("parcels", "a parcel")

    with pytest.raises(DatabaseFailedError):
        drive(order)
    assert_given_back(order)
    advance(60)

    assert drive(order) == "completed"
    assert order.output == "a parcel"


def test_a_session_that_ends_at_the_release_leaves_the_actor_asleep(server: Server) -> None:
    """Nobody has to wait for the lease: how the drive leaves the actor is said on a new connection."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("first", runs.append, "first")
            ctx.sleep("night", 3600)

    runs: list[str] = []
    order = Order.create("one")
    ending = EndingSession(server, 3)  # the claim, the step, the release
    observers.append(ending)
    try:
        with suppress(DatabaseFailedError):
            drive(order)
    finally:
        observers.remove(ending)

    assert ending.has_ended
    assert_given_back(order)
    advance(60)
    assert drive(order) == "sleeping"
    advance(3601)
    assert drive(order) == "completed"
    assert runs == ["first"]


def test_no_drive_begins_on_a_session_that_ends_at_the_claim(
    before_commit: Callable[[int], EndingSession],
) -> None:
    """The claim did not happen: nobody holds the actor, and the next look finds it as it was."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("first", runs.append, "first")

    runs: list[str] = []
    order = Order.create("one")
    ending = before_commit(1)

    with suppress(DatabaseFailedError):
        drive(order)
    assert ending.has_ended
    assert_given_back(order)

    assert drive(order) == "completed"
    assert runs == ["first"]
    assert connection.connection is not None
