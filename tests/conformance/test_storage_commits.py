"""STORAGE: what one commit holds, and what becomes of one that fails."""

import re
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from django_rivet import Actor, Event, OutputNotSerializableError, Queue, workflow
from django_rivet.engine.entries import Entry, EntryStatus, Kind
from django_rivet.engine.history import History
from django_rivet.models import Compensation as CompensationRow
from django_rivet.models import Event as EventRow
from django_rivet.models import Message
from django_rivet.runtime.drive import DatabaseFailedError
from django_rivet.testing import SimulatedCrash

pytestmark = pytest.mark.django_db(transaction=True)

STATEMENTS = {
    "state": r"UPDATE django_rivet_actor SET state",
    "event": r"INSERT INTO django_rivet_event",
    "entries": r"INSERT INTO django_rivet_entry",
    "compensation": r"INSERT INTO django_rivet_compensation",
    "message": r"UPDATE django_rivet_message SET status",
    "fence": r"UPDATE django_rivet_workflowrun SET\s+lease_until",
}
RELEASE = r"UPDATE django_rivet_workflowrun SET\s+holder = NULL"
GONE = "the server closed the connection"
LOCKED = "database is locked"


@contextmanager
def failing(statement, message=GONE, after=False):
    """The first such statement is answered with an error, before or after the database has carried it out."""
    pattern = re.compile(r"\s*" + statement)
    left = [OperationalError(message)]

    def fail(execute, sql, params, many, context):
        if not left or not pattern.match(sql):
            return execute(sql, params, many, context)
        if after:
            execute(sql, params, many, context)
        raise left.pop()

    with connection.execute_wrapper(fail):
        yield
    assert not left, "the statement was never sent"


@pytest.fixture
def shop(outside):
    """One whose step changes everything that a commit can hold."""

    class Shop(Actor):
        class State:
            sold: list[str] = []

        orders = Queue(str)
        sold = Event(str)

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("shop")
            order = ctx.queue.next("order").body
            ctx.step("sell", self.sell, order, rollback=self.take_back)
            ctx.sleep("night", 60)

        def sell(self, order):
            outside.append(order)
            self.state.sold.append(order)
            self.sold.broadcast(order)

        def take_back(self, rollback, output):
            outside.append("take back")

    shop = Shop.create("one")
    shop.send("orders", "o-1")
    return shop


def stored(shop):
    return {
        "state": shop.state.sold,
        "events": EventRow.objects.count(),
        "entries": [entry.path for entry in shop.history()],
        "compensations": CompensationRow.objects.count(),
        "handled": Message.objects.filter(status="handled").count(),
    }


NOTHING = {"state": [], "events": 0, "entries": [], "compensations": 0, "handled": 0}
ALL = {"state": ["o-1"], "events": 1, "entries": ["shop", "order", "sell"], "compensations": 1, "handled": 1}


def without_the_night(found):
    return {**found, "entries": [path for path in found["entries"] if path != "night"]}


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_storage_04_each_flush_is_one_transaction(rivet, shop, outside, statement, after):
    """Whichever of its statements fails, nothing of the commit is there; the next pass writes all of it, once."""
    with failing(STATEMENTS[statement], after=after), pytest.raises(DatabaseFailedError):
        rivet.drive(shop)
    assert stored(shop) == NOTHING

    rivet.advance(1)
    assert rivet.drive(shop) == "sleeping"

    assert without_the_night(stored(shop)) == ALL
    assert outside == ["o-1", "o-1"]


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("statement", [*STATEMENTS, "release"])
def test_storage_06_a_flush_that_meets_a_conflict_leaves_everything_to_the_next_try(
    rivet, shop, outside, statement, after
):
    """Nothing that was noted is forgotten with the failed commit: the same drive writes all of it, once."""
    with failing({**STATEMENTS, "release": RELEASE}[statement], LOCKED, after=after):
        assert rivet.drive(shop) == "sleeping"

    found = stored(shop)
    assert "night" in found["entries"]
    assert without_the_night(found) == ALL
    assert shop.wake_at == shop.history()["night"].due_at


def test_storage_06_notes_are_forgotten_only_after_the_commit():
    """Asking for what is unwritten takes nothing away, however often a commit fails."""
    history = History()
    entry = Entry("a", Kind.VALUE, EntryStatus.COMPLETED, 1)
    history.note(entry)

    assert history.unwritten() == history.unwritten()
    assert history.unwritten().entries == (entry,)
    history.confirm()
    assert not history.unwritten()
    assert history.entries == {"a": entry}


def test_storage_06_a_drive_that_the_database_failed_takes_its_notes_along(rivet, outside):
    """What was noted and not written did not happen: a next drive may go another way without it."""

    class Clock(Actor):
        @workflow
        def run(self, ctx):
            outside.append(ctx.random("number"))
            ctx.sleep("night", 60)

    clock = Clock.create("one")

    with failing(RELEASE), pytest.raises(DatabaseFailedError):
        rivet.drive(clock)
    assert list(clock.history()) == []
    rivet.advance(1)
    assert rivet.drive(clock) == "sleeping"

    assert clock.history()["number"].output == outside[1] != outside[0]


def test_storage_13_a_step_s_result_and_the_state_are_one_commit(rivet, shop, outside):
    """A commit that does not happen leaves neither; after one whose answer was lost nothing is done twice."""
    with rivet.crash_at(2), pytest.raises(SimulatedCrash):
        rivet.drive(shop)
    assert stored(shop) == NOTHING

    with rivet.crash_at(2, after=True), pytest.raises(SimulatedCrash):
        rivet.drive(shop)
    assert stored(shop) == ALL

    assert rivet.drive(shop) == "sleeping"
    assert without_the_night(stored(shop)) == ALL
    assert outside == ["o-1", "o-1"]


def test_storage_13_what_is_too_large_is_refused_with_all_that_belongs_to_it(rivet, settings, outside):
    """A state over the limit takes the step's result, its event and its message to another actor with it."""
    settings.RIVET = {"MAX_OUTPUT_BYTES": 1000}

    class Letter(Actor):
        class State:
            text: str = ""

        written = Event(str)
        notes = Queue(str)

        @workflow
        def run(self, ctx):
            result = ctx.try_step("write", self.write, catch=["critical", "exhausted"])
            outside.append(result.failure.error.name)

        def write(self):
            self.written.broadcast("soon")
            Letter.get("other").send("notes", "soon")
            self.state.text = "x" * 1000
            return "written"

    Letter.create("other")
    letter = Letter.create("one")

    rivet.drive(letter)

    assert outside == [OutputNotSerializableError.__name__]
    assert letter.state.text == ""
    assert letter.history()["write"].output is None
    assert (EventRow.objects.count(), Message.objects.count()) == (0, 0)
