"""RECOVER-04, TRY-13: a race that failed, caught or not, and what `recover()` makes of it."""

import pytest

from django_rivet import Queue, workflow
from django_rivet.testing import advance, drive
from tests.conformance.racers import IN_BOTH_MODES, statuses, undone
from tests.conformance.undoable import undoable


@pytest.fixture
def broken():
    return set()


def shops(outside, broken):
    class Shop(undoable(outside)):
        class Meta:
            abstract = True

        letters = Queue(str)

        def ask(self, name):
            if name in broken:
                self.fail(f"no {name}")
            return self.do(name)

    return Shop


@IN_BOTH_MODES
def test_recover_04_branches_of_a_race_that_failed_get_fresh_attempts(mode, outside, broken):
    """Differs on purpose: the error passed through them; what they had completed is not done again."""

    class Shop(shops(outside, broken)):
        @workflow
        def run(self, ctx):
            return ctx.race("race", {name: self.branch(name) for name in ("left", "right")})

        def branch(self, name):
            def asks(branch):
                branch.step("before", self.do, f"before {name}")
                return branch.step("ask", self.ask, name)

            return asks

    broken |= {"left", "right"}
    shop = Shop.create("one")
    assert drive(shop) == "failed"
    assert shop.error.name == "RaceError"
    assert sorted(outside) == ["do before left", "do before right"]
    outside.clear()
    broken.remove("right")

    shop.recover()
    assert drive(shop) == "completed"

    assert shop.output == ["right", "right"]
    assert outside == ["do right"]
    seen = statuses(shop)
    assert (seen["race"], seen["race/right"]) == ("completed", "completed")
    assert seen["race/left"] in ("failed", "cancelled")


@IN_BOTH_MODES
def test_recover_04_a_branch_that_failed_by_itself_is_run_again(mode, outside, broken):
    """Also where the error came out of no step, and again where that was no use."""

    class Shop(shops(outside, broken)):
        @workflow
        def run(self, ctx):
            return ctx.race("race", {"only": self.only})

        def only(self, branch):
            outside.append("entered")
            if "only" in broken:
                raise LookupError("nothing there")
            return "found"

    broken.add("only")
    shop = Shop.create("one")
    assert drive(shop) == "failed"
    shop.recover()
    assert drive(shop) == "failed"
    broken.clear()
    shop.recover()

    assert drive(shop) == "completed"
    assert shop.output == ["only", "found"]
    assert outside == ["entered"] * 3


@IN_BOTH_MODES
def test_recover_04_after_a_rollback_the_winner_alone_runs_again(mode, outside, broken):
    """Differs on purpose: a race that was decided stays so; the losers were undone, and are not done again."""

    class Shop(shops(outside, broken)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            won, _ = ctx.race("race", {"slow": self.slow, "fast": self.fast})
            ctx.step("end", self.ask, "end")
            return won

        def slow(self, branch):
            branch.step("do", self.do, "slow", rollback=self.undo)
            branch.sleep("nap", 20)

        def fast(self, branch):
            branch.sleep("nap", 10)
            branch.step("do", self.do, "fast", rollback=self.undo)

    broken.add("end")
    shop = Shop.create("one")
    drive(shop)
    advance(11)
    assert drive(shop) == "failed"
    assert outside == ["do slow", "do fast", "undo fast", "undo slow"]
    outside.clear()
    broken.clear()

    shop.recover()
    for _ in range(3):
        drive(shop)
        advance(30)

    assert shop.status == "completed"
    assert shop.output == "fast"
    assert outside == ["do fast", "do end"]
    assert statuses(shop)["race/slow"] == "cancelled"


@IN_BOTH_MODES
def test_recover_04_and_a_second_rollback_undoes_what_was_done_again(mode, outside, broken):
    """The winner's second run owes its own compensation; those of the losers were done."""

    class Shop(shops(outside, broken)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            ctx.race("race", {"fast": self.fast, "slow": self.slow})
            ctx.step("end", self.ask, "end")

        def slow(self, branch):
            branch.step("do", self.do, "slow", rollback=self.undo)
            branch.sleep("nap", 20)

        def fast(self, branch):
            branch.sleep("nap", 10)
            branch.step("do", self.do, "fast", rollback=self.undo)

    broken.add("end")
    shop = Shop.create("one")
    drive(shop)
    advance(11)
    assert drive(shop) == "failed"
    outside.clear()

    shop.recover()

    assert drive(shop) == "failed"
    assert outside == ["do fast", "undo fast"]
    assert undone(shop)["race/fast/do"] == "completed"


@IN_BOTH_MODES
def test_recover_04_a_winner_that_fails_when_it_is_run_again_fails_the_race(mode, outside, broken):
    """Nobody else takes its place: the others were undone."""

    class Shop(shops(outside, broken)):
        @workflow
        def run(self, ctx):
            ctx.rollback_checkpoint("all")
            ctx.race("race", {"fast": self.fast, "slow": lambda branch: branch.sleep("nap", 20)})
            ctx.step("end", self.ask, "end")

        def fast(self, branch):
            branch.step("do", self.ask, "fast", rollback=self.undo)

    broken.add("end")
    shop = Shop.create("one")
    assert drive(shop) == "failed"
    broken.add("fast")
    shop.recover()
    assert drive(shop) == "failed"
    assert shop.error.name == "RaceError"
    broken.clear()

    shop.recover()

    assert drive(shop) == "completed"
    assert outside == ["do fast", "undo fast", "do fast", "do end"]


@IN_BOTH_MODES
def test_recover_04_a_step_behind_the_race_leaves_it_alone(mode, outside, broken):
    """Nothing of the race is run again where it was not undone."""

    class Shop(shops(outside, broken)):
        @workflow
        def run(self, ctx):
            ctx.race("race", {"fast": self.fast, "slow": lambda branch: branch.sleep("nap", 20)})
            ctx.step("end", self.ask, "end")

        def fast(self, branch):
            branch.step("do", self.ask, "fast")

    broken.add("end")
    shop = Shop.create("one")
    assert drive(shop) == "failed"
    broken.clear()

    shop.recover()

    assert drive(shop) == "completed"
    assert outside == ["do fast", "do end"]


@IN_BOTH_MODES
@pytest.mark.parametrize("rollback", [True, False])
def test_try_12_a_join_that_fails_in_a_block_is_data(mode, outside, rollback):
    """Source, name and error are those of the join, on a replay as well."""
    seen = []

    class Shop(undoable(outside)):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("block", self.block, rollback=rollback)
            seen.append((result.ok, result.failure.source, result.failure.name, result.failure.error.name))
            ctx.sleep("nap", 10)

        def block(self, block):
            block.join("both", {"good": lambda branch: 1, "bad": lambda branch: branch.step("fail", self.fail)})

    shop = Shop.create("one")
    drive(shop)
    advance(11)

    assert drive(shop) == "completed", str(shop.error)

    assert seen == [(False, "join", "both", "JoinError")] * 2


@IN_BOTH_MODES
@pytest.mark.parametrize("rollback", [True, False])
def test_try_13_a_race_that_fails_in_a_block_is_data(mode, outside, rollback):
    """Source, name and error are those of the race; what its branches did is undone in a scoped block."""
    seen = []

    class Shop(undoable(outside)):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("block", self.block, rollback=rollback)
            seen.append((result.ok, result.failure.source, result.failure.name, result.failure.error.name))
            ctx.sleep("nap", 10)

        def block(self, block):
            block.rollback_checkpoint("block")
            block.race("both", {"one": self.branch, "two": lambda branch: branch.step("fail", self.fail)})

        def branch(self, branch):
            branch.step("do", self.do, "one", rollback=self.undo)
            branch.step("fail", self.fail)

    shop = Shop.create("one")
    drive(shop)
    advance(11)

    assert drive(shop) == "completed", str(shop.error)

    assert seen == [(False, "race", "both", "RaceError")] * 2
    assert outside == ["do one", "undo one"] if rollback else ["do one"]
    assert statuses(shop)["block/both"] == "failed"


@IN_BOTH_MODES
def test_recover_04_a_race_whose_failure_was_caught_stays_as_recorded(mode, outside, broken):
    """It is not run again by `recover()`; what failed the workflow is."""

    class Shop(shops(outside, broken)):
        @workflow
        def run(self, ctx):
            result = ctx.try_block("block", lambda block: block.race("race", {"only": self.only}))
            ctx.step("end", self.ask, "end")
            return result.ok

        def only(self, branch):
            branch.step("ask", self.ask, "only")

    broken |= {"only", "end"}
    shop = Shop.create("one")
    assert drive(shop) == "failed"
    broken.clear()

    shop.recover()

    assert drive(shop) == "completed"
    assert shop.output is False
    assert outside == ["do end"]
