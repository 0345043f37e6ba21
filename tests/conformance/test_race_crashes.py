"""RACE-01, 09, 14: wherever a worker dies there is one winner, and nothing is done, or undone, twice."""

from contextlib import suppress
from itertools import count

import pytest
from django.contrib.auth.models import Group

from django_rivet import Actor, Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import SimulatedCrash, advance, crash_at, drive
from tests.conformance.racers import IN_BOTH_MODES, undone

BEFORE_AND_AFTER = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


class Race(Actor):
    """Three branches, of which ``sleeps`` wins after 10 seconds; fails at the end where it is told to."""

    class Meta:
        abstract = True

    class State:
        log: list[str] = []

    letters = Queue(str, str)
    rollback_losers = False
    fails = True

    @workflow
    def run(self, ctx):
        ctx.rollback_checkpoint("all")
        ctx.step("begin", self.do, "begin", rollback=self.undo)
        branches = {"works": self.works, "reads": self.reads, "sleeps": self.sleeps}
        winner, _ = ctx.race("race", branches, rollback_losers=self.rollback_losers)
        ctx.step("won", self.note, f"won by {winner}")
        letter = ctx.queue.next("letter")
        ctx.step("read", self.note, f"read {letter.body}")
        if self.fails:
            raise LookupError("at the end")

    def works(self, branch):
        branch.step("work", self.do, "work", rollback=self.undo)
        branch.sleep("long", 3600)

    def reads(self, branch):
        letter = branch.queue.next("first", completable=True)
        branch.step("answer", lambda: self.answer(letter), rollback=self.undo)
        other = branch.queue.next("second", completable=True)
        branch.step("look", self.note, f"look at {other.body}")
        branch.sleep("long", 3600)

    def sleeps(self, branch):
        branch.sleep("short", 10)
        branch.step("arrive", self.do, "arrive", rollback=self.undo)
        return "there"

    def do(self, what):
        self.note(f"do {what}")

    def answer(self, letter):
        letter.complete(f"answer to {letter.body}")
        self.note("do answer")

    def undo(self, rollback, output):
        self.note(f"undo {rollback.args[0] if rollback.args else 'answer'}")

    def note(self, what):
        self.state.log.append(what)
        Group.objects.create(name=f"{self.key} {what}")


def drive_on(race):
    """Until it ends, however often its time has to come."""
    for _ in range(5):
        if drive(race) in ("completed", "failed"):
            break
        advance(11)


def drive_with_a_crash(race, n, after):
    with crash_at(n, after) as point, suppress(SimulatedCrash):
        drive_on(race)
    drive_on(race)
    return point.crashed


@IN_BOTH_MODES
@BEFORE_AND_AFTER
@pytest.mark.parametrize("rollback_losers", [True, False], ids=["losers undone", "losers kept"])
@pytest.mark.parametrize("fails", [True, False], ids=["fails", "ends well"])
def test_race_01_one_winner_wherever_the_worker_dies(mode, after, rollback_losers, fails):
    """RACE-09, RACE-14: steps once, handlers once, and the letter that went back is the next to be taken."""
    options = {"rollback_losers": rollback_losers, "fails": fails}

    class Crashing(Race):
        rollback_losers = options["rollback_losers"]
        fails = options["fails"]

    for n in count(1):
        race = Crashing.create(f"{n}")
        for body in "abc":
            race.send("letters", body)

        crashed = drive_with_a_crash(race, n, after)

        assert race.status == ("failed" if fails else "completed"), (n, str(race.error))
        log = race.state.log
        assert not fails or str(race.error) == "LookupError: at the end", n
        assert len(log) == len(set(log)), (n, log)
        assert [each for each in log if each.startswith("won")] == ["won by sleeps"], n
        assert [each for each in log if each.startswith("read")] == ["read b"], n
        ends = ["begin", "arrive"] if fails else []
        undoes = [*ends, *(("work", "answer") if fails or rollback_losers else ())]
        assert sorted(each for each in log if each.startswith("undo")) == sorted(f"undo {u}" for u in undoes), n
        if rollback_losers:
            assert log.index("undo work") < log.index("won by sleeps"), n
        elif fails:
            assert log[-1] == "undo begin", n
            assert log.index("undo work") > log.index("read b"), n
        assert sorted(Group.objects.values_list("name", flat=True)) == sorted(f"{n} {each}" for each in log), n
        assert list(
            Message.objects.filter(actor_id=race.id).order_by("id").values_list("body", "status", "response")
        ) == [
            ('"a"', "completed", '"answer to a"'),
            ('"b"', "handled", None),
            ('"c"', "queued", None),
        ], n
        assert set(undone(race).values()) <= {"completed", "settled"}, n
        Group.objects.all().delete()
        if not crashed:
            assert n > 10
            return


@IN_BOTH_MODES
@BEFORE_AND_AFTER
def test_race_01_of_equals_one_wins_for_ever_wherever_the_worker_dies(mode, after):
    """Whoever won before the crash, as far as anybody was told, has won after it; all others are undone, once."""

    class Equals(Race):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            names = ("left", "middle", "right")
            winner, value = ctx.race("race", {name: self.branch(name) for name in names}, rollback_losers=True)
            ctx.step("won", self.note, f"won by {winner}")
            return [winner, value]

        def branch(self, name):
            def works(branch):
                branch.step("work", self.do, name, rollback=self.undo)
                return branch.step("more", str, name, atomic=False)

            return works

    for n in count(1):
        race = Equals.create(f"{n}")

        crashed = drive_with_a_crash(race, n, after)

        assert race.status == "completed", (n, str(race.error))
        winner, value = race.output
        assert value == winner
        log = race.state.log
        assert len(log) == len(set(log)), (n, log)
        assert [each for each in log if each.startswith("won")] == [f"won by {winner}"], n
        done = {each.removeprefix("do ") for each in log if each.startswith("do ")}
        assert {each.removeprefix("undo ") for each in log if each.startswith("undo ")} == done - {winner}, (n, log)
        if not crashed:
            assert n > 4
            return
