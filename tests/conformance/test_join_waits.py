"""JOIN: branches that wait, and what the actor waits for then."""

from datetime import timedelta

import pytest

from django_rivet import Actor, JoinError, Queue, QueueTimeoutError, workflow
from django_rivet.models import WorkflowRun
from django_rivet.testing import advance, drive, now
from tests.conformance.desks import desk, mail
from tests.conformance.modes import IN_BOTH_MODES

pytestmark = IN_BOTH_MODES


def office(work):
    """An actor with two queues whose workflow is ``work(self, ctx)``."""

    class Office(Actor):
        letters = Queue(str)
        parcels = Queue(str)
        memos = Queue(str)

        @workflow
        def run(self, ctx):
            return work(self, ctx)

    return Office.create("one")


def test_join_08_the_actor_waits_for_the_earliest_deadline():
    """And for the next one after that."""
    actor = desk(
        lambda self, ctx: ctx.join(
            "all",
            {
                "month": lambda b: b.sleep("nap", timedelta(days=30)),
                "minute": lambda b: b.sleep("nap", 60),
                "hour": lambda b: b.sleep("nap", 3600),
            },
        )
    )

    for seconds in (60, 3540, 30 * 86_400 - 3600):
        assert drive(actor) == "sleeping"
        assert abs((actor.wake_at - now()).total_seconds() - seconds) < 30
        advance(seconds - 30)
        assert drive(actor) == "sleeping"
        advance(31)
    assert drive(actor) == "completed"


def test_join_08_the_actor_waits_for_the_messages_of_all_branches():
    """The union of the queues, and the deadline of the one that has one."""
    actor = office(
        lambda self, ctx: ctx.join(
            "all",
            {
                "letter": lambda b: b.queue.next("wait", ["letters"]).body,
                "parcel": lambda b: b.queue.next("wait", ["parcels", "letters"], timeout=60).body,
                "nap": lambda b: b.sleep("nap", 3600),
            },
        )
    )

    assert drive(actor) == "sleeping"

    assert set(actor.waiting_for) == {"letters", "parcels"}
    assert (actor.wake_at - now()).total_seconds() < 61
    actor.send("memos", "nobody waits for this")
    assert WorkflowRun.objects.filter(pk=actor.id, due_at__gt=now() + timedelta(seconds=30)).exists()
    actor.send("letters", "a letter")
    assert drive(actor) == "sleeping"
    assert actor.history()["all/letter"].output == "a letter"


def test_join_08_a_branch_that_takes_any_message_makes_the_actor_wait_for_any():
    """However narrow the others are."""
    actor = office(
        lambda self, ctx: ctx.join(
            "all",
            {
                "narrow": lambda b: b.queue.next("wait", ["letters"]).body,
                "any": lambda b: b.queue.next("wait").body,
            },
        )
    )
    drive(actor)
    actor.send("memos", "for whoever")

    assert drive(actor) == "sleeping"
    assert actor.history()["all/any"].output == "for whoever"


def test_join_08_two_branches_that_ask_at_once_get_different_messages():
    """Each message is taken once, in the order of sending, and the branch that is named first asks first."""

    def take(branch):
        return [branch.queue.next(f"wait {n}", ["letters"]).body for n in range(3)]

    actor = office(lambda self, ctx: ctx.join("all", {"a": take, "b": take, "c": take}))
    for n in range(9):
        actor.send("letters", str(n))

    assert drive(actor) == "completed"

    taken = actor.output
    assert sorted(letter for letters in taken.values() for letter in letters) == [str(n) for n in range(9)]
    assert all(letters == sorted(letters) for letters in taken.values())
    assert mail(actor) == [("handled", None)] * 9


def test_join_08_a_message_for_two_waiting_branches_goes_to_one_of_them():
    """The other one goes on waiting."""
    actor = office(
        lambda self, ctx: ctx.join("all", {n: lambda b: b.queue.next("wait", ["letters"]).body for n in "ab"})
    )

    assert drive(actor) == "sleeping"
    actor.send("letters", "first")
    assert drive(actor) == "sleeping"
    assert [e.output for e in actor.history() if e.kind == "branch"] == ["first"]
    actor.send("letters", "second")
    assert drive(actor) == "completed"
    assert sorted(actor.output.values()) == ["first", "second"]


def test_join_08_a_time_out_of_a_receive_fails_its_branch_alone():
    """A batch gives an empty list, and its branch goes on."""

    def work(self, ctx):
        try:
            ctx.join(
                "all",
                {
                    "one": lambda b: b.queue.next("wait", ["letters"], timeout=60),
                    "many": lambda b: len(b.queue.next_batch("wait", ["parcels"], timeout=30)),
                    "late": lambda b: b.queue.next("wait", ["memos"]).body,
                },
            )
        except JoinError as error:
            return {name: each.name for name, each in error.errors.items()}

    actor = office(work)
    drive(actor)
    advance(61)
    assert drive(actor) == "sleeping"
    assert actor.history()["all/many"].output == 0
    actor.send("letters", "too late")
    actor.send("memos", "ok")

    assert drive(actor) == "completed"
    assert actor.output == {"one": QueueTimeoutError.__name__}


def test_join_07_deadlines_are_those_of_the_first_encounter_however_often_a_branch_is_run_again():
    """Wake-ups for other branches move nothing."""
    actor = office(
        lambda self, ctx: ctx.join(
            "all",
            {
                "nap": lambda b: b.sleep("nap", 100),
                "letters": lambda b: [b.queue.next(f"wait {n}", ["letters"]).body for n in range(3)],
            },
        )
    )
    drive(actor)
    due = actor.history()["all/nap/nap"].due_at

    for n in range(3):
        advance(20)
        actor.send("letters", str(n))
        assert drive(actor) == "sleeping"

    assert actor.history()["all/nap/nap"].due_at == due
    assert actor.wake_at == due
    advance(41)
    assert drive(actor) == "completed"


@pytest.mark.parametrize("verb", ["now", "uuid", "random"])
def test_join_04_recorded_values_of_branches_are_their_own_and_stay(verb):
    """Over replays and waits."""

    def branch(b):
        value = getattr(b, verb)("value")
        b.sleep("nap", 10)
        return [value, getattr(b, verb)("again")]

    actor = desk(lambda self, ctx: ctx.join("all", {"a": branch, "b": branch}))
    drive(actor)
    before = {n: actor.history()[f"all/{n}/value"].output for n in "ab"}
    advance(11)

    assert drive(actor) == "completed"
    assert {n: actor.output[n][0] for n in "ab"} == before
    assert len({str(v) for values in actor.output.values() for v in values}) == 4


# Completable messages ----------------------------------------------------------------------------


def test_queue_22_a_message_that_one_branch_has_open_does_not_stop_another():
    """Only its own branch may not ask for the next one before it is completed."""

    def slow(branch):
        message = branch.queue.next("first", ["letters"], completable=True)
        branch.sleep("think", 60)
        message.complete(1)
        return [message.body, branch.queue.next("second", ["letters"]).body]

    def quick(branch):
        branch.sleep("behind", 10)
        return [branch.queue.next(f"wait {n}", ["letters"]).body for n in range(2)]

    actor = desk(lambda self, ctx: ctx.join("all", {"slow": slow, "quick": quick}))
    actor.send("letters", "a")
    assert drive(actor) == "sleeping"
    for letter in "bcd":
        actor.send("letters", letter)
    advance(11)
    assert drive(actor) == "sleeping"
    assert actor.history()["all/quick"].output == ["b", "c"]
    assert mail(actor)[0] == ("open", None)

    advance(61)
    assert drive(actor) == "completed"
    assert actor.output == {"slow": ["a", "d"], "quick": ["b", "c"]}
    assert mail(actor)[0] == ("completed", "1")


def test_queue_22_a_message_open_around_the_join_stops_all_of_its_branches():
    """It was received before, so it is completed before."""

    def work(self, ctx):
        ctx.queue.next("first", ["letters"], completable=True)
        ctx.join("all", {"a": lambda b: b.queue.next("wait", ["letters"]), "b": lambda b: None})

    actor = desk(work)
    for letter in "ab":
        actor.send("letters", letter)

    assert drive(actor) == "failed"
    assert actor.error.name == "MessageNotCompletedError"
    assert [status for status, _ in mail(actor)] == ["open", "queued"]


@pytest.mark.parametrize("where", ["code", "body", "body that is not atomic", "code of an inner branch"])
def test_queue_24_a_message_received_around_the_join_may_be_completed_by_a_branch(where):
    """Once, with that branch's record; a replay does nothing."""

    def work(self, ctx):
        message = ctx.queue.next("first", ["letters"], completable=True)
        ctx.join("all", {"a": lambda b: complete(b, message), "b": lambda b: b.sleep("nap", 60)})
        return ctx.queue.next("second", ["letters"], timeout=0).body

    def complete(branch, message):
        if where == "code":
            message.complete(5)
        elif where == "code of an inner branch":
            branch.join("inner", {"deep": lambda deep: message.complete(5)})
        else:
            branch.step("do", message.complete, 5, atomic=where == "body")
        branch.sleep("nap", 30)

    actor = desk(work)
    for letter in "ab":
        actor.send("letters", letter)

    assert drive(actor) == "sleeping"
    assert mail(actor) == [("completed", "5"), ("queued", None)]
    advance(31)
    assert drive(actor) == "sleeping"
    advance(31)
    assert drive(actor) == "completed"
    assert actor.output == "b"


@pytest.mark.parametrize("where", ["code", "body"])
def test_queue_24_two_branches_complete_two_messages_of_one_batch(where):
    """Both answers stay, and the workflow may ask for the next message."""

    def work(self, ctx):
        batch = ctx.queue.next_batch("batch", ["letters"], count=2, completable=True)
        ctx.join("all", {str(n): lambda b, n=n, m=m: complete(b, n, m) for n, m in enumerate(batch)})
        return ctx.queue.next("next", ["letters"]).body

    def complete(branch, n, message):
        if where == "code":
            message.complete(n)
        else:
            branch.step("do", message.complete, n)
        branch.step("after", int)

    actor = desk(work)
    for letter in "abc":
        actor.send("letters", letter)

    assert drive(actor) == "completed"
    assert actor.output == "c"
    assert mail(actor)[:2] == [("completed", "0"), ("completed", "1")]
    assert actor.history()["batch"].status == "completed"
