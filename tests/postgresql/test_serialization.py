"""Projects whose transactions are REPEATABLE READ or SERIALIZABLE: a conflict is nobody's failure."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction
from django.db.models import F
from psycopg import IsolationLevel

from django_rivet import Actor, CriticalError, action, workflow
from django_rivet.models import WorkflowRun
from django_rivet.runtime.performer import MAX_RERUNS
from django_rivet.testing import advance, drive, isolated_actors
from tests.postgresql.server import Server
from tests.runtime.faults import FENCE
from tests.runtime.test_turns import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(
    autouse=True, params=[IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE], ids=lambda p: p.name
)
def isolation(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[IsolationLevel]:
    """As in the project's OPTIONS, for all sessions of this process."""
    with pytest.MonkeyPatch.context() as patch, isolated_actors():
        patch.setitem(connection.settings_dict, "OPTIONS", {"isolation_level": request.param})
        connection.close()
        yield request.param
        connection.close()


def somebody_else(work: Callable[[], Any]) -> None:
    """In a session of their own; it has committed when this returns."""

    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def rename(before: str, after: str) -> None:
    Group.objects.filter(name__startswith=before).update(name=after)


def test_the_level_is_the_projects(isolation: IsolationLevel) -> None:
    """Else these tests would show nothing."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone()[0] == isolation.name.replace("_", " ").lower()


def test_a_step_that_could_not_be_serialized_is_run_again_uncharged() -> None:
    """It has no retries; its runs are on record, and its work lands once."""

    class Order(Actor):
        class State:
            count: int = 0

        @workflow
        def run(self, ctx):
            ctx.step("rename", self.rename, max_retries=0)

        def rename(self):
            runs.append("rename")
            self.state.count += 1
            assert Group.objects.count() == 1
            if len(runs) < 3:
                somebody_else(lambda: rename("desk", f"desk {len(runs)}"))
            rename("desk", "the order's desk")

    Group.objects.create(name="desk")
    runs: list[str] = []
    order = Order.create("one")

    assert drive(order) == "completed"

    entry = order.history()["rename"]
    assert (len(runs), entry.attempts, entry.error) == (3, 3, None)
    assert order.state.count == 1
    assert Group.objects.get().name == "the order's desk"


def test_a_step_that_can_never_be_serialized_comes_to_an_end() -> None:
    """Runs that met a conflict are bounded; then they count as one attempt, and as all of its runs on record."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.try_step("rename", self.rename, max_retries=0).failure.kind

        def rename(self):
            runs.append("rename")
            assert Group.objects.count() == 1
            somebody_else(lambda: rename("desk", f"desk {len(runs)}"))
            rename("desk", "the order's desk")

    Group.objects.create(name="desk")
    runs: list[str] = []
    order = Order.create("one")

    assert drive(order) == "completed"

    assert order.output == "exhausted"
    assert len(runs) == order.history()["rename"].attempts == MAX_RERUNS + 1


def test_what_is_refused_at_the_commit_is_run_again(isolation: IsolationLevel) -> None:
    """Two that each read what the other writes: under SERIALIZABLE one of them starts over, and sees the other."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("count", self.count, max_retries=0)

        def count(self):
            runs.append("count")
            names = [group.name for group in Group.objects.all()]
            if len(runs) == 1:
                somebody_else(lambda: count_and_write("somebody else's"))
            Group.objects.create(name="the order's")
            return names

    def count_and_write(name: str) -> None:
        with transaction.atomic():
            assert not list(Group.objects.all())
            Group.objects.create(name=name)

    runs: list[str] = []
    order = Order.create("one")

    assert drive(order) == "completed"

    is_serializable = isolation is IsolationLevel.SERIALIZABLE
    assert len(runs) == (2 if is_serializable else 1)
    assert order.output == (["somebody else's"] if is_serializable else [])
    assert Group.objects.count() == 2


@pytest.mark.parametrize("options", [{}, {"atomic": False}, {"at_most_once": True}], ids=str)
def test_a_record_that_meets_a_change_of_its_row_is_written_all_the_same(options: dict[str, Any]) -> None:
    """A heartbeat, or a cancellation, in the middle of the record: what happened outside does not happen again."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            return ctx.step("charge", self.charge, max_retries=0, **options)

        def charge(self):
            charges.append("charged")
            return "ch"

    charges: list[str] = []
    met: list[bool] = []
    order = Order.create("one")

    def meet(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if charges and not met and FENCE.match(sql):
            met.append(True)
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM django_rivet_workflowrun")  # the transaction's view begins here at last
            runs = WorkflowRun.objects.filter(actor_id=uuid.UUID(order.id))
            somebody_else(lambda: runs.update(updated_at=F("updated_at")))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(meet):
        assert drive(order) == "completed"

    assert met
    assert order.output == "ch"
    assert charges == ["charged"] * (1 if options else 2)
    assert order.history()["charge"].error is None


def test_a_handler_that_could_not_be_serialized_is_run_again_uncharged() -> None:
    """It has no retries, and the rollback comes to its end."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("order")
            ctx.step("take", int, rollback=self.give_back, rollback_max_retries=0)
            ctx.step("fails", self.fail)

        def fail(self):
            raise CriticalError("no")

        def give_back(self, rollback, output):
            runs.append("give back")
            assert Group.objects.count() == 1
            if len(runs) == 1:
                somebody_else(lambda: rename("desk", "desk 1"))
            rename("desk", "given back")

    Group.objects.create(name="desk")
    runs: list[str] = []
    order = Order.create("one")

    assert drive(order) == "failed"

    assert len(runs) == 2
    assert order.history()["take"].rollback.status == "completed"
    assert Group.objects.get().name == "given back"


def test_a_hook_that_could_not_be_serialized_is_told_again() -> None:
    """Its work lands once, with the record of the failure."""

    class Order(Actor):
        class State:
            told: int = 0

        @workflow
        def run(self, ctx):
            return ctx.try_step("fails", self.fail).failure.kind

        @run.on_error
        def note(self, event):
            tellings.append(event.step_name)
            self.state.told += 1
            assert Group.objects.count() == 1
            if len(tellings) == 1:
                somebody_else(lambda: rename("desk", "desk 1"))
            rename("desk", "told")

        def fail(self):
            raise CriticalError("no")

    Group.objects.create(name="desk")
    tellings: list[str] = []
    order = Order.create("one")

    assert drive(order) == "completed"

    assert tellings == ["fails", "fails"]
    assert order.state.told == 1
    assert Group.objects.get().name == "told"


def test_a_claim_that_meets_a_change_of_its_row_is_made_again(server: Server) -> None:
    """Whoever changed it has not taken the actor: it is driven at once."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("first", runs.append, "first")

    runs: list[str] = []
    order = Order.create("one")
    holds = threading.Event()

    def hold() -> None:
        with transaction.atomic():
            WorkflowRun.objects.update(updated_at=F("updated_at"))
            holds.set()
            server.wait_for_blocked("%UPDATE django_rivet_workflowrun%")

    other = threading.Thread(target=somebody_else, args=(hold,))
    other.start()
    assert holds.wait(30)

    assert drive(order) == "completed"

    other.join()
    assert runs == ["first"]


def test_actions_of_one_actor_at_once_wait_for_each_other() -> None:
    """Nobody is told that the actor is busy because somebody else was a little earlier; nothing is lost."""

    class Account(Actor):
        class State:
            balance: int = 0

        @action
        def deposit(self) -> None:
            self.state.balance += 1

    account = Account.create("one")

    at_once(4, lambda n: [account.deposit() for _ in range(10)])

    assert account.state.balance == 40


def test_sagas_that_meet_at_another_actor_all_end(isolation: IsolationLevel) -> None:
    """Four drives at once call the actions of one actor, over and over; each call happens once."""

    class Stock(Actor):
        class State:
            reserved: list[str] = []

        @action
        def reserve(self, order: str) -> None:
            self.state.reserved.append(order)

    class Order(Actor):
        @workflow
        def run(self, ctx):
            for n in range(3):
                ctx.step(f"reserve {n}", self.reserve, n)

        def reserve(self, n):
            Group.objects.create(name=f"{self.key}-{n}")
            Stock.get("main").reserve(f"{self.key}-{n}")

    stock = Stock.create("main")
    orders = [Order.create(str(n)) for n in range(4)]
    lock = threading.Lock()

    def work(n: int) -> None:
        for _ in range(100):
            if drive(orders[n]) == "completed":
                return
            with lock:
                advance(1)

    at_once(4, work)

    wanted = sorted(f"{n}-{k}" for n in range(4) for k in range(3))
    assert sorted(stock.state.reserved) == wanted
    assert sorted(Group.objects.values_list("name", flat=True)) == wanted
