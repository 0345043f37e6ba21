"""RACE-09, QUEUE-28: what a loser took and did not complete goes back to its place, where others take it once."""

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import advance, drive
from tests.conformance.racers import IN_BOTH_MODES, statuses


def mail(actor):
    """Body, status and response of each message, in the order of sending."""
    found = Message.objects.filter(actor_id=actor.id).order_by("id")
    return list(found.values_list("body", "status", "response"))


class Desk(Actor):
    """What it reads is in its state."""

    class Meta:
        abstract = True

    class State:
        read: list[str] = []

    letters = Queue(str, str)

    def note(self, what):
        self.state.read.append(what)

    def read_and_wait(self, branch):
        letter = branch.queue.next("letter")
        branch.step("note", self.note, f"loser {letter.body}")
        branch.sleep("think", 3600)

    def read_later(self, ctx):
        for name in ("first", "second"):
            ctx.step(f"note {name}", self.note, ctx.queue.next(name).body)


@IN_BOTH_MODES
def test_race_09_what_a_loser_took_goes_back_to_its_place(mode):
    """Differs on purpose: in front of what was sent later, and the losers' records stay, cancelled."""

    class Office(Desk):
        @workflow
        def run(self, ctx):
            ctx.race("race", {"reads": self.read_and_wait, "waits": lambda branch: branch.sleep("nap", 60)})
            self.read_later(ctx)

    office = Office.create("one")
    office.send("letters", "a")
    office.send("letters", "b")
    assert drive(office) == "sleeping"
    assert [status for _, status, _ in mail(office)] == ["handled", "queued"]
    advance(61)

    assert drive(office) == "completed"

    assert office.state.read == ["loser a", "a", "b"]
    assert [status for _, status, _ in mail(office)] == ["handled", "handled"]
    assert statuses(office) == {
        "race": "completed",
        "race/reads": "cancelled",
        "race/reads/letter": "cancelled",
        "race/reads/note": "completed",
        "race/reads/think": "cancelled",
        "race/waits": "completed",
        "race/waits/nap": "completed",
        "first": "completed",
        "note first": "completed",
        "second": "completed",
        "note second": "completed",
    }


@IN_BOTH_MODES
def test_race_09_what_a_loser_took_and_lost_at_once_goes_back(mode):
    """Taken and given back between two commits of the driving worker."""

    class Office(Desk):
        @workflow
        def run(self, ctx):
            winner, _ = ctx.race("race", {"reads": self.read, "returns": lambda branch: "at once"})
            self.read_later(ctx)
            return winner

        def read(self, branch):
            branch.queue.next("letter", completable=True)
            branch.sleep("think", 3600)

    office = Office.create("one")
    office.send("letters", "a")
    office.send("letters", "b")

    assert drive(office) == "completed"

    assert office.output == "returns"
    assert office.state.read == ["a", "b"]


@IN_BOTH_MODES
def test_race_09_what_a_loser_completed_is_not_given_back(mode):
    """Of a batch, only the messages without a response go back."""

    class Office(Desk):
        @workflow
        def run(self, ctx):
            ctx.race("race", {"answers": self.answer, "waits": lambda branch: branch.sleep("nap", 60)})
            return [message.body for message in ctx.queue.next_batch("rest", count=10)]

        def answer(self, branch):
            first, _, third = branch.queue.next_batch("letters", count=3, completable=True)
            first.complete("in workflow code")
            branch.step("answer", lambda: third.complete("in a body"))
            branch.sleep("think", 3600)

    office = Office.create("one")
    for body in "abcd":
        office.send("letters", body)
    assert drive(office) == "sleeping"
    advance(61)

    assert drive(office) == "completed"

    assert office.output == ["b", "d"]
    assert mail(office) == [
        ('"a"', "completed", '"in workflow code"'),
        ('"b"', "handled", None),
        ('"c"', "completed", '"in a body"'),
        ('"d"', "handled", None),
    ]


@IN_BOTH_MODES
def test_race_09_what_an_inner_loser_gave_back_is_not_given_back_again(mode):
    """Another branch has taken it meanwhile, which wins the race around: nobody takes it twice."""

    class Office(Desk):
        @workflow
        def run(self, ctx):
            winner, body = ctx.race("outer", {"races": self.race, "reads": self.read})
            late = ctx.queue.next_batch("late", timeout=60)
            return [winner, body, [message.body for message in late]]

        def race(self, branch):
            branch.race("inner", {"reads": self.read_and_wait, "waits": lambda part: part.sleep("nap", 10)})
            branch.sleep("on and on", 3600)

        def read(self, branch):
            branch.sleep("patience", 20)
            return branch.queue.next("letter").body

    office = Office.create("one")
    office.send("letters", "a")
    drive(office)
    advance(15)
    drive(office)
    assert [status for _, status, _ in mail(office)] == ["queued"], "the inner race is decided"
    advance(15)
    assert drive(office) == "sleeping"
    assert statuses(office)["outer"] == "completed"
    advance(61)

    assert drive(office) == "completed"

    assert office.output == ["reads", "a", []]


@IN_BOTH_MODES
def test_race_09_what_was_taken_behind_the_race_is_not_given_back_by_recover(mode):
    """Differs on purpose: the race is run again by its winner alone, and its losers have nothing to give back."""

    class Office(Desk):
        is_mended = False

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            ctx.race("race", {"reads": self.read_and_wait, "does": self.do})
            first = ctx.queue.next("first").body
            ctx.step("end", self.end, max_retries=0)
            late = ctx.queue.next_batch("late", timeout=60)
            return [first, [message.body for message in late]]

        def do(self, branch):
            branch.sleep("nap", 10)
            branch.step("do", self.note, "do", rollback=self.undo)

        def undo(self, rollback, output):
            self.note("undo")

        def end(self):
            if not Office.is_mended:
                raise OSError("no")

    office = Office.create("one")
    office.send("letters", "a")
    drive(office)
    advance(11)
    assert drive(office) == "failed"
    Office.is_mended = True
    office.recover()
    assert drive(office) == "sleeping"
    advance(61)

    assert drive(office) == "completed"

    assert office.output == ["a", []]
    assert office.state.read == ["loser a", "do", "undo", "do"]


@IN_BOTH_MODES
def test_race_09_a_completion_cut_off_with_its_body_is_none(mode):
    """The branch that failed its body after ``complete`` and lost then gives the message back."""

    class Office(Desk):
        @workflow
        def run(self, ctx):
            ctx.race("race", {"answers": self.answer, "waits": lambda branch: branch.sleep("nap", 60)})
            return ctx.queue.next("next").body

        def answer(self, branch):
            letter = branch.queue.next("letter", completable=True)
            branch.step("answer", self.fail_after, letter, retry_backoff_base=600, retry_backoff_max=600)

        def fail_after(self, letter):
            letter.complete("never")
            raise OSError("no")

    office = Office.create("one")
    office.send("letters", "a")
    assert drive(office) == "sleeping"
    advance(61)

    assert drive(office) == "completed"

    assert office.output == "a"
    assert mail(office) == [('"a"', "handled", None)]


@IN_BOTH_MODES
def test_queue_28_two_branches_that_wait_for_one_queue_take_one_message_each(mode):
    """Differs on purpose: delivery is exclusive, also of messages that are to be completed."""

    class Office(Desk):
        @workflow
        def run(self, ctx):
            return ctx.join("both", {"left": self.take, "right": self.take})

        def take(self, branch):
            letter = branch.queue.next("letter", completable=True)
            branch.sleep("think", 10)
            letter.complete(letter.body.upper())
            return letter.body

    office = Office.create("one")
    assert drive(office) == "sleeping"
    office.send("letters", "a")
    assert drive(office) == "sleeping"
    assert [status for _, status, _ in mail(office)] == ["open"]
    office.send("letters", "b")
    drive(office)
    advance(11)

    assert drive(office) == "completed"

    assert sorted(office.output.values()) == ["a", "b"]
    assert mail(office) == [('"a"', "completed", '"A"'), ('"b"', "completed", '"B"')]


@IN_BOTH_MODES
def test_queue_28_in_a_race_the_second_message_goes_back(mode):
    """Each of two branches has one; that of the loser is the next to be taken."""

    class Office(Desk):
        @workflow
        def run(self, ctx):
            won = ctx.race("both", {"left": self.take(20), "right": self.take(10)})
            return [*won, ctx.queue.next("next").body]

        def take(self, seconds):
            def branch_function(branch):
                letter = branch.queue.next("letter")
                branch.sleep("think", seconds)
                return letter.body

            return branch_function

    office = Office.create("one")
    office.send("letters", "a")
    office.send("letters", "b")
    assert drive(office) == "sleeping"
    advance(15)

    assert drive(office) == "completed"

    winner, *bodies = office.output
    assert winner == "right"
    assert bodies == ["b", "a"]
