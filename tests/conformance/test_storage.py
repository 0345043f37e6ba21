"""STORAGE: what is stored of a workflow, and that it reads back the same."""

import uuid
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_rivet import Actor, MessageTooLargeError, Queue, UserError, action, workflow
from django_rivet.engine.entries import (
    Compensation,
    Entry,
    EntryStatus,
    ErrorInfo,
    FailureKind,
    Kind,
    UndoStatus,
)
from django_rivet.engine.notes import Changes
from django_rivet.models import Compensation as CompensationRow
from django_rivet.store.journal import Lease, load_history, write_changes

pytestmark = pytest.mark.django_db

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ERROR = ErrorInfo("OSError", 'nö "quotes", \N{SNOWMAN} and \\', "Traceback\n  line", {"code": [1, None]})


def test_storage_01_output_and_state_are_stored(rivet):
    """They are there for whoever looks next, in another process too: a handle holds nothing of its own."""

    class Order(Actor):
        class State:
            charged: list[str] = []

        @workflow
        def run(self, ctx):
            ctx.step("charge", lambda: self.state.charged.append("ch-1"))
            return {"order": ctx.actor.key}

    rivet.drive(Order.create("one"))

    order = Order.get("one")
    assert order.output == {"order": "one"}
    assert order.state.charged == ["ch-1"]
    assert order.status == "completed"


def test_storage_02_a_failure_is_stored_whole(rivet):
    """Status, and the error's name, message, stack and metadata: of the workflow, and of the step that failed it."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", self.charge, max_retries=0)

        def charge(self):
            raise UserError("card declined", code="declined", status=402)

    rivet.drive(Order.create("one"))

    order = Order.get("one")
    assert order.status == "failed"
    assert (order.error.name, order.error.message) == (
        "StepExhaustedError",
        "step 'charge' failed after 1 attempt: UserError: card declined",
    )
    failed = order.history()["charge"].error
    assert (failed.name, failed.message) == ("UserError", "card declined")
    assert "in charge" in order.error.stack
    assert "in charge" in failed.stack
    assert (order.error.metadata["step_name"], order.error.metadata["attempts"]) == ("charge", 1)
    assert failed.metadata == {"code": "declined", "metadata": None, "status": 402}


def test_storage_03_an_entry_is_stored_with_name_and_metadata(rivet):
    """One attempt, completed, with what it gave and from when to when it took."""

    class Order(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("charge", lambda: "ch-1")

    before = rivet.now()
    order = Order.create("one")
    rivet.drive(order)

    [entry] = order.history()
    assert (entry.path, entry.name, entry.kind) == ("charge", "charge", "step")
    assert (entry.status, entry.attempts, entry.output, entry.error) == ("completed", 1, "ch-1", None)
    assert before <= entry.started_at <= entry.ended_at <= rivet.now()


@override_settings(RIVET={"MAX_OUTPUT_BYTES": 100})
@pytest.mark.parametrize("size", [100, 101])
def test_storage_05_a_value_may_be_as_large_as_the_limit_and_no_larger(rivet, size):
    """Not in chunks, as in the reference: a value is stored whole, or refused at once with both sizes."""

    class Order(Actor):
        class Meta:
            max_message_size = 100

        class State:
            text: str = ""

        letters = Queue(str)

        @workflow
        def run(self, ctx):
            ctx.step("write", lambda: text)

        @action
        def keep(self, text: str) -> None:
            self.state.text = text

    text = "x" * (size - len('""'))
    stateful = "x" * (size - len('{"text":""}'))
    order = Order.create("one")

    def refusal(act):
        try:
            act()
        except (ValueError, MessageTooLargeError) as error:
            return str(error)
        return None

    said = [refusal(lambda: order.keep(stateful)), refusal(lambda: order.send("letters", text))]
    rivet.drive(order)
    said.append(order.error and str(order.error))

    if size == 100:
        assert said == [None, None, None]
        assert (order.state.text, order.history()["write"].output) == (stateful, text)
    else:
        assert all("101 bytes" in each and "allows 100" in each for each in said), said
        assert (order.state.text, order.history()["write"].output) == ("", None)
        assert order.history()["write"].attempts == 1


def everything():
    """An entry and a compensation with a value of its own in every column."""
    entry = Entry(
        path="a/7/b",
        kind=Kind.STEP,
        status=EntryStatus.FAILED,
        seq=2**40,
        attempts=3,
        interruptions=1,
        run=2,
        atomic=False,
        binds=False,
        output='["\\u0000 is text", 1.5e300, "ä \N{SNOWMAN}"]',
        error=ERROR,
        failure_kind=FailureKind.EXHAUSTED,
        due_at=MOMENT,
        started_at=MOMENT.replace(microsecond=0),
        ended_at=MOMENT.replace(year=9998),
    )
    compensation = Compensation(
        path="a/7/b",
        run=2,
        scope="a/7",
        seq=2**40 + 1,
        handler="self:refund",
        args='[["o-1"],{"k":null}]',
        status=UndoStatus.FAILED,
        output='"ch-1"',
        outcome="unknown",
        on_failure="continue",
        atomic=False,
        max_retries=7,
        backoff_base=0.125,
        backoff_max=1e6,
        jitter=0.0,
        timeout=0.25,
        attempts=8,
        error=ERROR,
        due_at=MOMENT,
        started_at=MOMENT,
        ended_at=None,
    )
    return entry, compensation


def lease_of(actor):
    return Lease(uuid.UUID(actor.id), 0, 10)


def stored_actor():
    class Order(Actor):
        @workflow
        def run(self, ctx):
            pass

    return Order.create("one")


def test_storage_07_what_was_written_reads_back_the_same():
    """Every column, on both databases: numbers, texts of any kind, moments to the microsecond, and nothing at all."""
    actor = stored_actor()
    entry, compensation = everything()
    plain = Entry("plain", Kind.VALUE, EntryStatus.COMPLETED, 1)

    write_changes(lease_of(actor), Changes(entries=(entry, plain), compensations=(compensation,)))

    history = load_history(uuid.UUID(actor.id))
    assert history.entries == {"a/7/b": entry, "plain": plain}
    assert history.compensations == {"a/7/b": compensation}
    assert history.next_seq() == 2**40 + 2


def at(path, seq, **values):
    return Entry(path, Kind.VALUE, EntryStatus.COMPLETED, seq, **values)


def test_storage_08_nothing_stored_reads_as_an_empty_history():
    """The reference's key-value contract is replaced by tables; a missing record is no error."""
    actor = stored_actor()

    assert load_history(uuid.UUID(actor.id)).entries == {}
    assert list(actor.history()) == []


def test_storage_08_a_record_written_twice_is_there_once_as_it_was_written_last():
    """Also in one commit with new ones."""
    actor = stored_actor()
    write_changes(lease_of(actor), Changes(entries=(at("a", 1, output="1"), at("b", 2, output="1"))))

    write_changes(lease_of(actor), Changes(entries=(at("a", 1, output="2"), at("c", 3, output="1"))))

    outputs = {path: entry.output for path, entry in load_history(uuid.UUID(actor.id)).entries.items()}
    assert outputs == {"a": "2", "b": "1", "c": "1"}


def test_storage_08_entries_are_listed_in_the_order_they_happened():
    """Whatever the order of their paths, of their rows and of the commits that wrote them."""
    actor = stored_actor()
    write_changes(lease_of(actor), Changes(entries=(at("m", 3), at("z/10", 1))))
    write_changes(lease_of(actor), Changes(entries=(at("z/9", 2), at("a", 4))))

    assert list(load_history(uuid.UUID(actor.id)).entries) == ["z/10", "z/9", "m", "a"]
    assert [entry.path for entry in actor.history()] == ["z/10", "z/9", "m", "a"]


def test_storage_08_forgetting_an_iteration_takes_all_below_it_and_nothing_beside_it():
    """Its children and handlers go; an iteration whose number begins alike, other loops and other actors stay."""

    class Plain(Actor):
        pass

    actor, other = Plain.create("one"), Plain.create("other")
    _, owed = everything()
    paths = ["loop", "loop/1", "loop/1/a", "loop/1/a/b", "loop/10", "loop/10/a", "loop/2", "loop2/1/a"]
    entries = tuple(at(path, n) for n, path in enumerate(paths, 1))
    undo = (Compensation(**{**vars_of(owed), "path": "loop/1/a", "run": 0}),)
    for each in actor, other:
        write_changes(lease_of(each), Changes(entries=entries, compensations=undo))
    history = load_history(uuid.UUID(actor.id))

    history.note_pruned("loop/1")
    write_changes(lease_of(actor), history.unwritten())

    left = load_history(uuid.UUID(actor.id))
    assert list(left.entries) == list(history.entries) == ["loop", "loop/10", "loop/10/a", "loop/2", "loop2/1/a"]
    assert left.compensations == {}
    assert not CompensationRow.objects.filter(actor_id=actor.id).exists()
    assert list(load_history(uuid.UUID(other.id)).entries) == paths
    assert list(load_history(uuid.UUID(other.id)).compensations) == ["loop/1/a"]


def vars_of(record):
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}


def test_storage_14_what_is_forgotten_at_once_is_deleted_in_parts():
    """The reference splits by rows and bytes; here no statement has more parameters than a database takes."""
    actor = stored_actor()
    count = 1201
    write_changes(lease_of(actor), Changes(entries=tuple(at(f"loop/0/{n}", n + 1) for n in range(count))))
    history = load_history(uuid.UUID(actor.id))
    assert len(history.entries) == count

    history.note_pruned("loop/0")
    with CaptureQueriesContext(connection) as queries:
        write_changes(lease_of(actor), history.unwritten())

    deletions = [q for q in queries.captured_queries if q["sql"].startswith("DELETE FROM django_rivet_entry")]
    assert len(deletions) == 3, "500 at a time"
    assert load_history(uuid.UUID(actor.id)).entries == {}
