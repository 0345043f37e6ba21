"""RACE: the first branch that returns wins, and is the winner for ever."""

import pytest

from django_rivet import Actor, CriticalError, RaceError, workflow
from django_rivet.testing import advance, drive
from tests.conformance.racers import IN_BOTH_MODES, statuses


@IN_BOTH_MODES
def test_race_01_the_first_to_finish_wins(mode):
    """The name and the value of the branch that needs to wait for nothing."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("offer", {"slow": self.slow, "fast": self.fast})

        def slow(self, branch):
            branch.sleep("nap", 60)
            return branch.step("ask", lambda: 100)

        def fast(self, branch):
            return branch.step("ask", lambda: 90)

    offer = Offer.create("one")

    assert drive(offer) == "completed"

    assert offer.output == ["fast", 90]


@IN_BOTH_MODES
def test_race_03_where_all_fail_each_is_listed(mode):
    """Name and text of what failed each branch, on the first run as on a replay."""
    seen = []

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            try:
                ctx.race("offer", {"north": self.north, "south": self.south})
            except RaceError as error:
                seen.append((str(error), {name: str(each) for name, each in error.errors.items()}))
            ctx.sleep("nap", 60)

        def north(self, branch):
            branch.step("ask", self.fail, "sold out", max_retries=0)

        def south(self, branch):
            raise LookupError("no such place")

        def fail(self, message):
            raise CriticalError(message)

    offer = Offer.create("one")
    assert drive(offer) == "sleeping"
    advance(61)

    assert drive(offer) == "completed"

    assert len(seen) == 2
    assert seen[0] == seen[1]
    message, errors = seen[0]
    assert message.startswith("race 'offer' failed in every branch")
    assert list(errors) == ["north", "south"]
    assert "sold out" in errors["north"]
    assert "no such place" in errors["south"]
    assert statuses(offer)["offer"] == "failed"


@IN_BOTH_MODES
def test_race_03_no_branches_is_an_error_as_well(mode):
    """Nobody can win."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            ctx.race("offer", {})

    offer = Offer.create("one")

    assert drive(offer) == "failed"

    assert str(offer.error) == "RaceError: race 'offer' has no branches"


@IN_BOTH_MODES
def test_race_04_a_replay_returns_the_winner_and_runs_no_branch(mode, outside):
    """Neither the code of the winner nor that of the losers is entered again."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            won = ctx.race("offer", {"north": self.north, "south": self.south})
            ctx.sleep("nap", 60)
            return won

        def north(self, branch):
            branch.step("ask", outside.append, "north asked")
            outside.append("north entered")
            return {"price": 7}

        def south(self, branch):
            branch.sleep("long", 3600)

    offer = Offer.create("one")
    assert drive(offer) == "sleeping"
    advance(61)

    assert drive(offer) == "completed"

    assert offer.output == ["north", {"price": 7}]
    assert outside == ["north asked", "north entered"]


@IN_BOTH_MODES
def test_race_05_a_join_in_the_winning_branch(mode):
    """The value of the branch is made of what its own branches return."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("offer", {"late": lambda branch: branch.sleep("nap", 60), "both": self.both})

        def both(self, branch):
            return branch.join("parts", {n: lambda part, n=n: part.step("do", lambda: n) for n in ("a", "b")})

    offer = Offer.create("one")

    assert drive(offer) == "completed"

    assert offer.output == ["both", {"a": "a", "b": "b"}]
    assert statuses(offer)["offer/both/parts/b/do"] == "completed"


@IN_BOTH_MODES
def test_race_06_a_race_in_the_winning_branch(mode):
    """The inner winner's value is handed up, and the inner loser stays one."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("offer", {"late": self.late, "inner": self.inner})

        def late(self, branch):
            branch.sleep("nap", 60)

        def inner(self, branch):
            return branch.race("quick", {"late": self.late, "now": lambda part: part.step("do", lambda: 1)})

    offer = Offer.create("one")

    assert drive(offer) == "completed"

    assert offer.output == ["inner", ["now", 1]]
    assert statuses(offer) == {
        "offer": "completed",
        "offer/late": "cancelled",
        "offer/late/nap": "cancelled",
        "offer/inner": "completed",
        "offer/inner/quick": "completed",
        "offer/inner/quick/late": "cancelled",
        "offer/inner/quick/late/nap": "cancelled",
        "offer/inner/quick/now": "completed",
        "offer/inner/quick/now/do": "completed",
    }


@IN_BOTH_MODES
def test_race_07_a_branch_that_is_tried_again_has_not_lost(mode, outside):
    """The actor waits until the earliest of all that its branches wait for, and that branch may win then."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("offer", {"ask": self.ask, "late": lambda branch: branch.sleep("nap", 3600)})

        def ask(self, branch):
            return branch.step("ask", self.answer, retry_backoff_base=10, retry_jitter=0)

        def answer(self):
            outside.append("asked")
            if len(outside) == 1:
                raise OSError("no answer")
            return "answer"

    offer = Offer.create("one")
    assert drive(offer) == "sleeping"
    assert outside == ["asked"]
    advance(60)

    assert drive(offer) == "completed"

    assert offer.output == ["ask", "answer"]


@IN_BOTH_MODES
def test_race_08_a_branch_that_failed_is_ignored_while_another_can_win(mode):
    """It is on record as failed, and not tried again; the other one wins."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("offer", {"wrong": self.wrong, "right": self.right})

        def wrong(self, branch):
            branch.step("ask", self.fail)

        def right(self, branch):
            branch.sleep("nap", 60)
            return "right"

        def fail(self):
            raise CriticalError("no")

    offer = Offer.create("one")
    assert drive(offer) == "sleeping"
    advance(61)

    assert drive(offer) == "completed"

    assert offer.output == ["right", "right"]
    assert statuses(offer) == {
        "offer": "completed",
        "offer/wrong": "failed",
        "offer/wrong/ask": "failed",
        "offer/right": "completed",
        "offer/right/nap": "completed",
    }
    assert offer.history()["offer/wrong/ask"].attempts == 1


@pytest.mark.django_db
def test_race_10_a_usage_error_in_a_branch_is_nothing_to_a_race_that_another_one_wins(caplog):
    """It is logged with its text, and on record the branch has been cancelled."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("offer", {"bad": self.bad, "good": lambda branch: "good"})

        def bad(self, branch):
            branch.step("ask", lambda: 1, rollback=self.undo)

        def undo(self, rollback, output):
            pass

    offer = Offer.create("one")

    assert drive(offer) == "completed"

    assert offer.output == ["good", "good"]
    assert "a branch that lost against 'offer/good' failed: step 'ask' has a rollback handler" in caplog.text
    assert statuses(offer) == {"offer": "completed", "offer/bad": "cancelled", "offer/good": "completed"}


@IN_BOTH_MODES
def test_race_15_a_tie_goes_to_the_branch_that_stands_first(mode, outside):
    """Branches begin in the order of the code; of those that wait for nothing the first one wins."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("offer", {name: lambda branch, name=name: name.upper() for name in ("b", "a", "c")})

    offer = Offer.create("one")

    assert drive(offer) == "completed"

    assert offer.output == ["b", "B"]


@IN_BOTH_MODES
def test_race_15_of_those_that_are_due_at_once_the_first_wins(mode):
    """However much later than their due times the actor is driven."""

    class Offer(Actor):
        @workflow
        def run(self, ctx):
            return ctx.race("offer", {"first": self.wait(20), "second": self.wait(10)})

        def wait(self, seconds):
            return lambda branch: branch.sleep("nap", seconds)

    offer = Offer.create("one")
    assert drive(offer) == "sleeping"
    advance(3600)

    assert drive(offer) == "completed"

    assert offer.output == ["first", None]


@IN_BOTH_MODES
def test_join_06_a_race_in_a_branch_of_a_join(mode):
    """Each has its own branches, and a replay runs neither again."""
    asked = []

    class Offers(Actor):
        @workflow
        def run(self, ctx):
            offers = ctx.join("offers", {"north": self.cheapest, "south": self.cheapest})
            ctx.sleep("think", 60)
            return offers

        def cheapest(self, branch):
            return branch.race("cheapest", {"asked": self.ask, "late": lambda late: late.sleep("nap", 600)})

        def ask(self, branch):
            return branch.step("ask", self.answer)

        def answer(self):
            asked.append("asked")
            return 90

    offers = Offers.create("one")
    assert drive(offers) == "sleeping"
    advance(60)

    assert drive(offers) == "completed"

    assert offers.output == {"north": ["asked", 90], "south": ["asked", 90]}
    assert asked == ["asked", "asked"]
