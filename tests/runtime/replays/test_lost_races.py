"""`replay_from()` and races: what stands in a winner, in a loser, before and after the race."""

from __future__ import annotations

from typing import Any

import pytest

from django_rivet import Queue, workflow
from django_rivet.models import Message
from django_rivet.testing import advance, drive

pytestmark = pytest.mark.django_db


@pytest.fixture
def regatta(trips: Any) -> Any:
    """A race that ``fast`` wins after 10 seconds; ``slow`` has taken a letter by then, and has a step behind it."""

    class Regatta(trips):
        class State:
            count: int = 0
            read: list[str] = []

        letters = Queue(str)
        rollback_losers = False

        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            ctx.step("start", self.do, "start", rollback=self.undo)
            winner, _ = ctx.race("race", {"slow": self.slow, "fast": self.fast}, rollback_losers=self.rollback_losers)
            ctx.step("finish", self.do, f"finish {winner}", rollback=self.undo)
            ctx.step("read", self.read, ctx.queue.next("letter").body)
            return winner

        def slow(self, branch):
            branch.step("cast off", self.do, "slow casts off", rollback=self.undo)
            branch.step("read", self.read, f"slow {branch.queue.next('letter').body}")
            branch.step("tack", self.do, "slow tacks", rollback=self.undo)
            branch.sleep("calm", 20)

        def fast(self, branch):
            branch.step("cast off", self.do, "fast casts off", rollback=self.undo)
            branch.sleep("calm", 10)
            branch.step("arrive", self.do, "fast arrives", rollback=self.undo)

        def read(self, body):
            self.state.read.append(body)

    return Regatta


def sailed(regatta: Any, outside: list[str]) -> Any:
    handle = regatta.create("one")
    handle.send("letters", "a")
    assert drive(handle) == "sleeping"
    advance(11)
    assert drive(handle) == "completed"
    assert handle.output == "fast"
    assert handle.state.read == ["slow a", "a"]
    outside.clear()
    return handle


def letters(handle: Any) -> list[str]:
    return list(Message.objects.filter(actor_id=handle.id).order_by("id").values_list("status", flat=True))


def test_behind_the_race_its_winner_stays(regatta: Any, outside: list[str]) -> None:
    """No branch is run again, and the letter that the loser gave back is taken again by who had it last."""
    handle = sailed(regatta, outside)

    handle.replay_from("finish")

    assert letters(handle) == ["queued"]
    assert drive(handle) == "completed"
    assert (handle.output, outside) == ("fast", ["finish fast"])
    assert handle.state.read == ["slow a", "a", "a"]
    assert letters(handle) == ["handled"]


def test_a_step_of_the_winner_opens_the_race_again(regatta: Any, outside: list[str]) -> None:
    """What was cancelled is run again, and what was done with the letter that went back; the rest stays done."""
    handle = sailed(regatta, outside)

    handle.replay_from("race/fast/arrive")

    assert letters(handle) == ["queued"]
    assert drive(handle) == "completed"
    assert outside == ["slow tacks", "fast arrives", "finish fast"]
    assert handle.state.read == ["slow a", "a"] * 2
    assert letters(handle) == ["handled"]


def test_a_step_of_the_loser_opens_the_race_again_and_another_may_win(regatta: Any, outside: list[str]) -> None:
    """The race begins anew from there, with the letter back in its place."""
    handle = sailed(regatta, outside)
    regatta.fast = lambda self, branch: (branch.step("cast off", self.do, "fast"), branch.sleep("calm", 3600))

    handle.replay_from("race/slow/tack")
    assert drive(handle) == "sleeping"
    assert outside == ["slow tacks", "fast"]
    advance(21)
    assert drive(handle) == "sleeping"
    handle.send("letters", "b")

    assert drive(handle) == "completed"
    assert handle.output == "slow"
    assert outside == ["slow tacks", "fast", "finish slow"]


def test_in_front_of_the_race_all_of_it_is_run_again(regatta: Any, outside: list[str]) -> None:
    """As if nothing of it had happened."""
    handle = sailed(regatta, outside)

    handle.replay_from("start")

    assert letters(handle) == ["queued"]
    drive(handle)
    advance(11)
    assert drive(handle) == "completed"
    assert outside == ["start", "slow casts off", "slow tacks", "fast casts off", "fast arrives", "finish fast"]
    assert handle.state.read == ["slow a", "a"] * 2


@pytest.mark.parametrize("entry", ["finish", "race/fast/arrive", "race/slow/tack", "start", None])
def test_a_rollback_afterwards_undoes_each_step_once(
    regatta: Any, outside: list[str], broken: set[str], entry: str | None
) -> None:
    """Whatever is set aside: what counts at the end is undone newest first, and nothing else."""
    handle = sailed(regatta, outside)
    broken.add("finish fast")

    handle.replay_from(entry)
    drive(handle)
    advance(11)

    assert drive(handle) == "failed"
    undone = [each for each in outside if each.startswith("undo")]
    assert sorted(undone) == [
        "undo fast arrives",
        "undo fast casts off",
        "undo slow casts off",
        "undo slow tacks",
        "undo start",
    ]
    assert undone[-1] == "undo start"


@pytest.mark.parametrize("entry", ["race/fast/arrive", "race/slow/tack", "race/fast/cast off"])
def test_what_losers_had_undone_runs_again_when_the_race_does(
    regatta: Any, outside: list[str], broken: set[str], entry: str
) -> None:
    """With ``rollback_losers``: nothing may build on what was undone; it is undone again when it loses."""
    regatta.rollback_losers = True
    handle = sailed(regatta, outside)

    handle.replay_from(entry)
    drive(handle)
    advance(11)
    drive(handle)

    assert handle.status == "completed"
    assert handle.output == "fast"
    for each in ("slow casts off", "slow tacks"):
        assert outside.count(each) == outside.count(f"undo {each}") <= 1
    assert outside.count("slow casts off") == 1
    assert letters(handle) == ["handled"]
    broken.add("finish fast")
    outside.clear()

    handle.replay_from("finish")
    assert drive(handle) == "failed"
    assert outside == ["undo fast arrives", "undo fast casts off", "undo start"]


def test_a_message_that_another_wait_has_taken_since_stays_with_it(trips: Any, outside: list[str]) -> None:
    """The wait of the winner began before that of the inner loser, which gave its letter back to it."""

    class Post(trips):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            won = ctx.race("outer", {"reads": self.read, "races": self.race})
            ctx.step("end", self.do, "end")
            return [*won, [message.body for message in ctx.queue.next_batch("late", timeout=5)]]

        def race(self, branch):
            branch.race("inner", {"reads": self.take, "waits": lambda part: part.sleep("nap", 10)})
            branch.sleep("on and on", 3600)

        def take(self, branch):
            branch.queue.next("letter", names=["letters"])
            branch.step("look", self.do, "look")
            branch.sleep("think", 3600)

        def read(self, branch):
            # Nobody waits for this letter before the inner race is decided.
            letter = branch.queue.next("letter", timeout=3600)
            return letter.body

    handle = Post.create("one")
    assert drive(handle) == "sleeping"
    handle.send("letters", "a", delay=1)
    advance(5)
    drive(handle)
    advance(10)
    drive(handle)
    advance(10)
    assert drive(handle) == "completed"
    assert handle.output == ["reads", "a", []]


def test_loops_and_joins_that_were_cut_off_go_on_where_they_were(
    trips: Any, outside: list[str], broken: set[str]
) -> None:
    """What had ended in them is not run again; the state of the loop is that of its last turn."""

    class Regatta(trips):
        @workflow
        def run(self, ctx):
            return ctx.race("race", {"slow": self.slow, "both": self.both, "fast": self.fast})

        def slow(self, branch):
            for turn in branch.loop("laps", state=10):
                turn.step("lap", self.do, f"lap {turn.state}")
                turn.state += 1
                turn.sleep("calm", 20 ** min(turn.iteration, 2) - 1)

        def both(self, branch):
            branch.join("crew", {"left": self.pull("left", 0), "right": self.pull("right", 20)})

        def pull(self, name, seconds):
            def pulls(branch):
                branch.step("pull", self.do, name)
                branch.sleep("calm", seconds)

            return pulls

        def fast(self, branch):
            branch.sleep("calm", 10)
            branch.step("arrive", self.do, "fast")
            return "fast"

    handle = Regatta.create("one")
    assert drive(handle) == "sleeping"
    advance(11)
    assert drive(handle) == "completed"
    assert outside == ["lap 10", "lap 11", "left", "right", "fast"]
    outside.clear()
    broken.add("fast")

    handle.replay_from("race/fast/arrive")
    assert drive(handle) == "sleeping"
    assert outside == []
    advance(21)

    assert drive(handle) == "completed"
    assert handle.output == ["both", None]
    assert outside == ["lap 12"]


def test_what_an_inner_race_has_cancelled_stays_cancelled(trips: Any, outside: list[str]) -> None:
    """Only races that are not decided any more are run again; the inner one of a loser was decided before."""

    class Regatta(trips):
        letters = Queue(str)

        @workflow
        def run(self, ctx):
            won, _ = ctx.race("outer", {"slow": self.slow, "fast": self.fast})
            return [won, ctx.queue.next("letter").body]

        def slow(self, branch):
            branch.race("inner", {"reads": self.read, "goes": lambda part: part.step("go", self.do, "go")})
            branch.step("on", self.do, "on")
            branch.sleep("calm", 20)

        def read(self, branch):
            branch.queue.next("letter")
            branch.step("look", self.do, "look")
            branch.sleep("think", 3600)

        def fast(self, branch):
            branch.sleep("calm", 10)
            branch.step("arrive", self.do, "fast")

    handle = Regatta.create("one")
    handle.send("letters", "a")
    drive(handle)
    advance(11)
    assert drive(handle) == "completed"
    assert handle.output == ["fast", "a"]
    assert outside == ["look", "go", "on", "fast"]
    outside.clear()

    handle.replay_from("outer/fast/arrive")

    assert drive(handle) == "completed"
    assert handle.output == ["fast", "a"]
    assert outside == ["fast"]
    assert handle.history()["outer/slow/inner/reads/letter"].status == "cancelled"
